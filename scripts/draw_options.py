"""Drawing of the table of keys in docs/run.md, from the table that `tolliver` checks against.

python scripts/draw_options.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts.pages import bracketed  # noqa: E402  # the line above comes first

PAGE = ROOT / "docs" / "run.md"
_DRAWN = re.compile(r"(<!-- drawn: keys -->\n).*?(<!-- end -->)", re.DOTALL)


def table(keys: str) -> Iterator[str]:
    """Lines of the table, of what `tolliver config keys --json` prints."""
    yield "| key | takes | default | |"
    yield "|---|---|---|---|"
    for one in map(json.loads, keys.splitlines()):
        kind = one["takes"].replace("|", "\\|") or "true, false"
        whole = "a table, " if "=" in kind or "HABIT" in kind else "a list, " if one["repeatable"] else ""
        default = f"`{one['default']}`" if one["default"] else ""
        yield f"| `{one['key']}` | {whole}{kind} | {default} | {bracketed(one['help'])} |"


def page(text: str, keys: str) -> str:
    """The page with the table as it is to be."""
    drawn = "\n".join(table(keys))
    return _DRAWN.sub(lambda found: f"{found[1]}\n{drawn}\n\n{found[2]}", text)


def main() -> None:
    command = [sys.executable, "-m", "tolliver.cli", "config", "keys", "--json"]
    keys = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    PAGE.write_text(page(PAGE.read_text("utf-8"), keys), "utf-8")


if __name__ == "__main__":
    main()
