"""Drawn parts of pages: links from cited rulings to where they are explained.

A citation such as `T-54` becomes `[T-54]`, and the end of the page says where that leads. Code, headings and links stay
as they are, and so does the row of a table that explains a ruling: it gets an anchor. Pages for those who check the
rules cite rulings; pages for users cite none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.prove.rows import ROWS

ROOT = Path(__file__).resolve().parent.parent
HOMES = {
    "C": "protocol.md",
    "T": "protocol.md",
    "G": "protocol.md",
    "R": "reactive.md",
    "D": "security.md",
    "V": "proof.md",
    "I": "architecture.md",
    "P": "protocol.md",
}
"""Pages of docs/ that explain rulings, by the first letter of an id."""
CITING = {*HOMES.values(), "conform.md", "drafts.md", "guarantees.md", "CONTRIBUTING.md"}
"""Pages for those who check the rules, or change them. All other pages are for users, and cite no ruling."""
CITED = re.compile(r"(?<![\w-])(?:[ACIVG][1-9]\d?|[TRDP]-\d{1,2}[a-z]?)(?![\w-])")
DEFINED = re.compile(rf'^(?:\| (?:<a id="[\w-]+"></a>)?|#+ )({CITED.pattern})(?= \||$|:)', re.MULTILINE)
LEADS = re.compile(rf"^\[({CITED.pattern})\]: (\S+)\n", re.MULTILINE)
"""Lines at the end of a page that say where a citation leads."""
LONGEST = 110  # characters of a tooltip
_ROW = re.compile(rf'^\| (?:<a id="[\w-]+"></a>)?({CITED.pattern}) \| ([^|\n]+) \|', re.MULTILINE)
_KEPT = re.compile(
    r"^```.*?^```|^<summary>.*?$|^    .*?$|^#+ .*?$"  # blocks, headings
    r"|^\| (?:<a id=[^>]*></a>)?[A-Z]-?\d+[a-z]?(?= \|)"  # explanations
    r"|`[^`\n]+`|!?\[[^]\n]*\]\([^)\n]*\)|<[^>\n]*>",  # code, links, tags
    re.MULTILINE | re.DOTALL,
)
_BRACKETED = re.compile(rf"\[({CITED.pattern})\](?![(\[])")
_DRAWN = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PARENTHESES = re.compile(rf" \({CITED.pattern}(?:(?:, |; | to | and ){CITED.pattern})*\)")
_MARKS = re.compile(r"\*\*|[`*\"\\]|\[([^]]*)\](?:\([^)]*\))?")


class Ruling(NamedTuple):
    """Place where a ruling is explained, and its question."""

    page: str
    question: str


@cache
def rulings() -> dict[str, Ruling]:
    """All that the tables of the pages explain; the list of proofs is in `scripts/prove/rows.py`."""
    found = {row.name: Ruling(HOMES["V"], shortened(row.what)) for row in ROWS}
    for page in sorted({*HOMES.values()} - {HOMES["V"]}):
        for ruling, question in _ROW.findall((ROOT / "docs" / page).read_text("utf-8")):
            if HOMES.get(ruling[0]) == page:
                found.setdefault(ruling, Ruling(page, shortened(question)))
    return found


def shortened(question: str) -> str:
    """Plain words of a cell, no longer than a tooltip."""
    plain = " ".join(_MARKS.sub(lambda mark: mark[1] or "", question).split())
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST].rsplit(' ', 1)[0]} ..."


def bracketed(text: str) -> str:
    """The text with each citation that is explained somewhere in brackets."""

    def around(part: str) -> str:
        return CITED.sub(lambda cited: f"[{cited[0]}]" if cited[0] in rulings() else cited[0], part)

    plain, pieces, end = _BRACKETED.sub(r"\1", text), [], 0
    for kept in _KEPT.finditer(plain):
        pieces += [around(plain[end : kept.start()]), kept[0]]
        end = kept.end()
    return "".join([*pieces, around(plain[end:])])


def without_rulings(text: str) -> str:
    """The text for a page that cites none: citations in parentheses are left out."""
    return _PARENTHESES.sub("", text)


def anchored(text: str, page: str) -> str:
    """The text of a page of docs/, with an anchor in each row that explains a ruling."""
    seen = set()

    def row(found: re.Match[str]) -> str:
        ruling = found[1]
        if HOMES.get(ruling[0]) != page or ruling in seen:
            return found[0]
        seen.add(ruling)
        return f'| <a id="{ruling.lower()}"></a>{ruling} | {found[2]} |'

    return _ROW.sub(row, text)


def linked(text: str, page: str, beside: str = "") -> str:
    """A page as it is to be; `beside` leads from its folder to docs/."""
    body = bracketed(anchored(LEADS.sub("", text).rstrip("\n"), page)) + "\n"
    cited = sorted({*_BRACKETED.findall(body)}, key=_order)
    leads = (f"[{ruling}]: {beside}{rulings()[ruling].page}#{ruling.lower()}\n" for ruling in cited)
    return f"{body}\n{''.join(leads)}" if cited else body


def _order(ruling: str) -> tuple[str, int, str]:
    letter, rest = ruling[0], ruling[1:].lstrip("-")
    number = re.match(r"\d+", rest)
    return letter, int(number[0]) if number else 0, rest


def pages() -> dict[Path, str]:
    """Every page that people read, and the way from its folder to docs/. The changelog is made of its fragments."""
    of_root = [path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"]
    return {**dict.fromkeys(sorted((ROOT / "docs").glob("*.md")), ""), **dict.fromkeys(of_root, "docs/")}


def files() -> Iterator[tuple[Path, str]]:
    for path, beside in pages().items():
        yield path, linked(path.read_text("utf-8"), path.name, beside)


def with_parts(page: Path, parts: Mapping[str, Iterable[str]]) -> str:
    """The text of a page with these drawn parts as they are to be, each with an empty line on both sides."""
    lines = {name: bracketed("\n".join(drawn)) for name, drawn in parts.items()}
    return _DRAWN.sub(lambda found: f"{found[1]}\n{lines[found[2]]}\n\n{found[3]}", page.read_text("utf-8"))
