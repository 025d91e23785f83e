"""Drawing of all that is drawn from the code, or of these parts.

    python -m scripts.draw [NAME ...]    writes the files
    python -m scripts.draw --check       fails if one is out of date

    facades    the calls of Twisted and of threads, from those of asyncio
    conversations  whole connections in bytes, in docs/protocol.md and docs/reactive.md
    drafts     sentences of the drafts, their code and tests, in docs/drafts.md
    rooms      rooms, kernel and the ways of a message, in docs/architecture.md
    wireshark  the layouts in the Wireshark dissector
    pictures   docs/*.svg; `python -m scripts.draw.pictures.terminal` records the demo's session anew
    pages      links of all pages to the rulings that they cite

The tables of options, numbers and states are drawn as the site is built (`scripts/release/docs.py`). There is no time
and no chance in what is drawn: a run of two nodes in virtual time, tables, imports and recordings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts import pages
from scripts.draw import conversations, drafts, facades, pictures, rooms, wireshark

ROOT = Path(__file__).resolve().parents[2]
Files = Iterable[tuple[Path, str]]
"""Each drawn file, and its text as it is to be."""
DRAWN: dict[str, Callable[[], Files]] = {
    "facades": facades.files,
    "conversations": conversations.files,
    "drafts": drafts.files,
    "rooms": rooms.files,
    "wireshark": wireshark.files,
    "pictures": pictures.files,
    "pages": pages.files,
}
"""The pages come last: they link what the others draw."""


def stale(name: str) -> dict[Path, str]:
    """Files that are not as they are to be, and their texts."""
    return {path: text for path, text in DRAWN[name]() if not path.exists() or path.read_text("utf-8") != text}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(DRAWN))
    parser.add_argument("--check", action="store_true", help="fail if a file is out of date")
    chosen = parser.parse_args(arguments)
    status = 0
    for name in chosen.names or DRAWN:
        for path, text in stale(name).items():
            where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            if chosen.check:
                print(f"{where} is out of date: run python -m scripts.draw {name}", file=sys.stderr)
                status = 1
            else:
                path.write_text(text, "utf-8")
                print(f"{where} is drawn")
    return status


if __name__ == "__main__":
    sys.exit(main())
