"""Sentences of the drafts, as docs/protocol.md and docs/reactive.md list them: each has its ruling and its test."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from scripts.pages import CITED
from scripts.rooms import ROOT
from tests.test_rulings import defined

PAGES = {"protocol.md": "The drafts, sentence by sentence", "reactive.md": "The draft, sentence by sentence"}
ROW = re.compile(r"^\| (?P<said>.+?) \| (?P<here>.+?) \| (?P<rulings>.+?) \| `(?P<test>.+?)` \|$", re.MULTILINE)
RULING = re.compile(rf'^\| <a id="[\w-]+"></a>({CITED.pattern}) \|.*\|$', re.MULTILINE)


def text(page: str) -> str:
    return (ROOT / "docs" / page).read_text("utf-8")


def rows(page: str) -> list[re.Match[str]]:
    return list(ROW.finditer(text(page).split(f"## {PAGES[page]}")[1].split("\n## ")[0]))


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")}


def missing(test: str) -> bool:
    path, _, name = test.partition("::")
    return not (ROOT / path).is_file() or not (name in names_in(path) if name else names_in(path))


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_has_a_ruling_and_a_test_that_there_are(page: str) -> None:
    found = rows(page)
    assert len(found) >= 20
    known = defined()
    assert {row["rulings"] for row in found if not {*CITED.findall(row["rulings"])} <= known} == set()
    assert {row["test"] for row in found if missing(row["test"])} == set()
    assert {row["said"] for row in found if not row["here"].startswith(("kept", "**changed**"))} == set()


@pytest.mark.parametrize("page", PAGES)
def test_what_is_changed_is_a_deviation_and_the_other_way_round(page: str) -> None:
    """A ruling that is said to change a sentence carries the word, and the draft's words behind it."""
    rulings = {match[1]: match[0] for match in RULING.finditer(text(page))}
    deviating = {name for name, row in rulings.items() if "**Deviation**" in row}
    for row in rows(page):
        if "**changed**" in row["here"]:
            assert deviating & {*CITED.findall(row["rulings"])}, row["said"]
    wordless = {name for name in deviating if not re.search(r"\*\*Deviation\*\*[^|]*\"[^\"]{10,}\"", rulings[name])}
    assert wordless == set()


def test_what_is_not_there_is_found() -> None:
    assert missing("tests/test_sentences.py::test_nothing")
    assert missing("tests/test_nothing.py::test_nothing")
    assert not missing("tests/test_sentences.py::test_what_is_not_there_is_found")
