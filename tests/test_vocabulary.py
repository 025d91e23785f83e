"""Words of the pages: the field's own, none of this project's inventions, all of them spelled as others spell them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.rooms import ROOT

GENERATED = {"CHANGELOG.md", "proof.md"}  # a record of its time, and the words of commands as they were run
PAGES = [
    path for path in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))] if path.name not in GENERATED
]
PRIVATE = {
    r"com(?:es?|ing) again|came again": "redelivered",
    r"under way": "in flight, in progress",
    r"closed out|clos(?:es|ing) out": "disconnected, rejected",
    r"lets? (?:it|them) go|(?:is|are|was|were) let go": "released",
    r"asked back|asks back": "recalled",
    r"(?:comes?|came) to nothing": "failed",
    r"shut out of|shuts out": "denied",
    r"connections live\b|live on\b": "stay open",
    r"put back from a copy|copy that was put back": "restored from a backup",
    r"(?:is|was|are) told and passed by|it is told that": "reported",
    r"through with": "finished with",
    r"told (?:at|as) (?:once|a|the)": "reported",
    r"allowances?": "token bucket, limit",
    r"upkeep": "maintenance",
    r"riding": "in flight",
    r"choked": "above the high-water mark",
    r"hurried(?!`)": "rate limited",
    r"spans of ids": "interval set",
    r"duels?": "crossing dials",
    r"bells?": "wakeup",
    r"breathes?": "yields to the loop",
    r"intakes?": "inbound stream",
}
"""From words that nobody searches for to those of the field."""
WORDS = {word: re.compile(rf"\b(?:{word})\b", re.IGNORECASE) for word in PRIVATE}
CODE = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]+`|\]\([^)\s]+\)|^\[[\w-]+\]: .*?$", re.MULTILINE | re.DOTALL)


def private_words(text: str) -> list[str]:
    """Each such word of a text, as it stands there, or over the end of a line."""
    prose = " ".join(CODE.sub("", text).split())
    return [found[0] for word in WORDS.values() for found in word.finditer(prose)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_has_private_words(page: Path) -> None:
    found = private_words(page.read_text("utf-8"))
    assert {word: next(PRIVATE[one] for one in WORDS if WORDS[one].fullmatch(word)) for word in found} == {}


def test_private_words_are_found_and_code_is_left_alone() -> None:
    assert private_words("It comes\nagain, and `comes again`.\n```\nunder way\n```\nUnder way") == [
        "comes again",
        "Under way",
    ]


def test_pages_are_spelled_as_others_spell() -> None:
    command = [sys.executable, "-m", "codespell_lib", *map(str, [*PAGES, ROOT / "CHANGELOG.md"])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
