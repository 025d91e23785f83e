"""Picture of an audit's report, as a browser without a window shows it.

python -m scripts.draw.pictures.report FILE     docs/audit.png
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome", "chromium-browser")
WIDTH, HEIGHT = 1200, 1250
_LIGHT = "--blink-settings=preferredColorScheme=1"


def shoot(report: Path, into: Path) -> None:
    """The top of the report as PNG. Raises SystemExit where there is no browser."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("no browser shows the report: on Debian, apt-get install chromium-headless-shell")
    with TemporaryDirectory() as home:
        options = ("--no-sandbox", "--disable-gpu", "--hide-scrollbars", _LIGHT, f"--window-size={WIDTH},{HEIGHT}")
        command = [browser, *options, f"--screenshot={into.resolve()}", report.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, env={"HOME": home, "PATH": "/usr/bin:/bin"})


if __name__ == "__main__":
    shoot(Path(sys.argv[1]), Path(__file__).resolve().parents[3] / "docs" / "audit.png")
