"""Drawing of the pictures of docs/.

    python scripts/draw_pictures.py [NAME ...]    draws all, or these: docs/NAME.svg
    python scripts/draw_pictures.py --check       fails if one is out of date
    python scripts/draw_pictures.py --report FILE a picture of a report, by a browser: docs/audit.png

There is no time and no chance in them: a run of two nodes in virtual time, tables and imports. The session of a
terminal is drawn from its recording, which `--play` makes anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "transports")]

from scripts.pictures import house, message, report, states, terminal  # noqa: E402  # the line above comes first

DOCS = ROOT / "docs"
PICTURES: dict[str, Callable[[], str]] = {
    "message": message.life,
    "kills": message.kills,
    "connection": states.connection,
    "delivery": states.delivery,
    "streams": states.streams,
    "ids": states.ids,
    "house": house.drawn,
    "demo": terminal.drawn,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--into", type=Path, default=DOCS)
    parser.add_argument("--play", action="store_true", help="play the demo, and record it anew")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="a report of an audit: its picture is docs/audit.png"
    )
    options = parser.parse_args(arguments)
    if options.report:
        report.shoot(options.report, options.into / "audit.png")
        return 0
    if options.play:
        with TemporaryDirectory() as made:
            terminal.record(Path(made))
    stale = []
    for name in options.names or PICTURES:
        path = options.into / f"{name}.svg"
        drawn = PICTURES[name]()
        if options.check:
            stale += [] if path.exists() and path.read_text("utf-8") == drawn else [path.name]
        else:
            path.write_text(drawn, "utf-8")
    if stale:
        print(f"{', '.join(stale)} out of date: run python scripts/draw_pictures.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
