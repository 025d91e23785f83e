"""Rulings: every one that is cited is explained, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from tolliver._cli.config import KEYS

from scripts.pages import (
    CITED,
    CITING,
    DEFINED,
    HOMES,
    LEADS,
    bracketed,
    linked,
    pages,
    rulings,
    shortened,
    without_rulings,
)
from scripts.rooms import ROOT, files, outside, packages
from tolliver_proto import Limits, Policy

# No page here explains an A: such a citation is of a page outside this repository, and fails.
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
    texts = {page: (ROOT / "docs" / page).read_text("utf-8") for page in {*HOMES.values()}}
    return {ruling for kind, page in HOMES.items() for ruling in DEFINED.findall(texts[page]) if ruling[0] == kind}


def cited(text: str) -> set[str]:
    return set(CITED.findall(text))


def test_every_ruling_that_is_cited_is_explained() -> None:
    known = defined()
    unknown = {str(path): sorted(missing) for path, text in texts() if (missing := cited(text) - known)}
    assert unknown == {}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_every_citation_of_a_page_is_a_link(page: Path) -> None:
    """`python -m scripts.draw pages` makes it so."""
    text = page.read_text("utf-8")
    assert text == linked(text, page.name, pages()[page])
    for ruling, target in LEADS.findall(text):
        name, _, anchor = target.partition("#")
        home = (page.parent / name).read_text("utf-8")
        assert f'| <a id="{anchor}"></a>{ruling} |' in home, f"{ruling} is not explained there"


@pytest.mark.parametrize("page", [one for one in pages() if one.name not in CITING], ids=lambda page: page.name)
def test_a_page_for_users_cites_no_ruling(page: Path) -> None:
    assert sorted(cited(page.read_text("utf-8")) & defined()) == []


def test_the_help_of_an_option_cites_no_ruling() -> None:
    told = [field.metadata["help"] for kind in (Policy, Limits) for field in fields(kind)]
    told += [entry.help for entry in KEYS.values()]
    known = defined()
    assert [text for text in told if cited(text) & known] == []


def test_citations_in_parentheses_are_left_out() -> None:
    text = "It waits (T-54), as said (T-05 to T-07, D-9), or not (C#, T-54)."
    assert without_rulings(text) == "It waits, as said, or not (C#, T-54)."


def test_every_ruling_has_a_tooltip() -> None:
    assert {*rulings()} >= defined()
    assert {ruling for ruling, where in rulings().items() if not where.question} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It waits (T-54).", "It waits ([T-54])."),
        ("It waits ([T-54]).", "It waits ([T-54])."),
        ("`T-54` and [T-54](x.md)", "`T-54` and [T-54](x.md)"),
        ("```\nT-54\n```\n## T-54\n| T-54 | T-53 |", "```\nT-54\n```\n## T-54\n| T-54 | [T-53] |"),
        ("T-05 to T-07: T-99", "[T-05] to [T-07]: T-99"),
    ],
)
def test_citations_become_links(text: str, expected: str) -> None:
    assert bracketed(text) == expected
    assert bracketed(expected) == expected


def test_a_tooltip_is_short_and_plain() -> None:
    assert shortened('the `channel` [of](x.md) **all** "') == "the channel of all"
    assert len(shortened("word " * 60)) < 120


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
