"""Rulings: every one that is cited is explained, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.rooms import ROOT, files, outside, packages

PAGES = {
    "C": "protocol.md",
    "T": "protocol.md",
    "G": "protocol.md",
    "R": "reactive.md",
    "D": "security.md",
    "V": "proof.md",
    "I": "architecture.md",
    "P": "patterns.md",
}
# No page here explains an A: such a citation is of a page outside this repository, and fails.
CITED = re.compile(r"(?<![\w-])(?:[ACIVG][1-9]\d?|[TRDP]-\d{1,2}[a-z]?)(?![\w-])")
DEFINED = re.compile(rf"^(?:\| |#+ )({CITED.pattern})(?= \||$|:)", re.MULTILINE)
ELSEWHERE = re.compile(r"\b(?:ARCHITECTURE|DECISIONS|HOUSE|PROOF)\b")


def texts() -> Iterator[tuple[Path, str]]:
    """Code and pages, without the one that says what is looked for."""
    code = [*packages().values(), *outside().values(), *files(ROOT, ["tests"]).values()]
    pages = [ROOT / "Makefile", *ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    for path in [*code, *pages]:
        if path != Path(__file__):
            yield path.relative_to(ROOT), path.read_text("utf-8")


def defined() -> set[str]:
    """Rulings of the first column of a table, or of a heading, on the page where their kind is explained."""
    pages = {page: (ROOT / "docs" / page).read_text("utf-8") for page in set(PAGES.values())}
    return {ruling for kind, page in PAGES.items() for ruling in DEFINED.findall(pages[page]) if ruling[0] == kind}


def cited(text: str) -> set[str]:
    return set(CITED.findall(text))


def test_every_ruling_that_is_cited_is_explained() -> None:
    known = defined()
    unknown = {str(path): sorted(missing) for path, text in texts() if (missing := cited(text) - known)}
    assert unknown == {}


def test_nothing_outside_this_repository_is_cited() -> None:
    assert {str(path): found for path, text in texts() if (found := ELSEWHERE.findall(text))} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("as T-72a and T-07 say", {"T-72a", "T-07"}),
        ("(R-10, D-3; V21). I1 to I6", {"R-10", "D-3", "V21", "I1", "I6"}),
        ("C1, G22, A5", {"C1", "G22", "A5"}),
        ("UTF-8, SHA-1, X-T-10, V0, C14N, RC2, T-10x2", set()),
    ],
)
def test_what_a_citation_is(text: str, found: set[str]) -> None:
    assert cited(text) == found


def test_what_an_explanation_is() -> None:
    page = "# T-01\n| T-02 | yes |\n| no | T-03 |\n| T-04, T-05 | no |\nT-06\n## I1: yes\n"
    assert DEFINED.findall(page) == ["T-01", "T-02", "I1"]
