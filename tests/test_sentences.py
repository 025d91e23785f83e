"""Sentences of the drafts, as docs/drafts.md lists them: each has its ruling, code that cites it, and its test."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from scripts.draw.citations import Place, citations, place, scopes
from scripts.draw.drafts import PAGE, numbered, places
from scripts.draw.sentences import MESSAGES, NOTHING, OF_STREAMS, Sentence
from scripts.pages import CITED
from scripts.rooms import ROOT
from tests.test_rulings import defined

ASKING = [one for one in (*MESSAGES, *OF_STREAMS) if one.here != NOTHING]
PAGES = ("protocol.md", "reactive.md")
RULING = re.compile(rf'^\| <a id="[\w-]+"></a>({CITED.pattern}) \|.*\|$', re.MULTILINE)
LENGTHS = {1: 26, 2: 21, 3: 57}
"""Sentences of each draft, counted in its text, which is not part of this project."""


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("test_")}


def missing(test: str) -> bool:
    path, _, name = test.partition("::")
    return not (ROOT / path).is_file() or not (name in names_in(path) if name else names_in(path))


def deviations() -> dict[str, str]:
    """Rows of rulings that carry the word, by ruling."""
    texts = [(ROOT / "docs" / page).read_text("utf-8") for page in PAGES]
    rows = {match[1]: match[0] for text in texts for match in RULING.finditer(text)}
    return {ruling: row for ruling, row in rows.items() if "**Deviation**" in row}


def test_every_sentence_has_a_ruling_code_and_a_test_that_there_are() -> None:
    known = defined()
    assert {one.said for one in ASKING if not {*one.rulings.split()} <= known or not one.rulings} == set()
    assert {one.said for one in ASKING if not places(one.rulings.split())} == set()
    assert {one.test for one in ASKING if missing(one.test)} == set()
    assert {one.said for one in ASKING if not one.here.startswith(("kept", "**changed**"))} == set()
    silent = [one for one in (*MESSAGES, *OF_STREAMS) if one not in ASKING]
    assert [one.said for one in silent if one.rulings or one.test] == []


def test_no_sentence_of_a_draft_is_left_out() -> None:
    numbers = [number.split() for sentences in (MESSAGES, OF_STREAMS) for number, _ in numbered(sentences)]
    assert {draft: f"{draft}.{length}" for draft, length in LENGTHS.items()} == {
        draft: [one for row in numbers for one in row if one[0] == str(draft) and one[-1].isdigit()][-1]
        for draft in LENGTHS
    }
    text = PAGE.read_text("utf-8")
    assert [row for row in numbers if f"\n| {' '.join(row)} | " not in text] == []


def test_a_further_part_of_a_sentence_has_a_letter() -> None:
    both, first = Sentence("a"), Sentence("b", drafts=(1,))
    part = both._replace(goes_on=True)
    assert [number for number, _ in numbered([both, part, part, first, both])] == [
        "1.1 2.1",
        "1.1b 2.1b",
        "1.1c 2.1c",
        "1.2",
        "1.3 2.2",
    ]


@pytest.mark.parametrize("sentence", [one for one in ASKING if "**changed**" in one.here], ids=lambda one: one.rulings)
def test_what_is_changed_is_a_deviation(sentence: Sentence) -> None:
    assert deviations().keys() & {*sentence.rulings.split()}


def test_a_deviation_has_the_draft_s_words_behind_the_word() -> None:
    found = deviations()
    assert len(found) >= 20
    wordless = {name for name, row in found.items() if not re.search(r"\*\*Deviation\*\*[^|]*\"[^\"]{10,}\"", row)}
    assert wordless == set()


def test_what_is_not_there_is_found() -> None:
    assert missing("tests/test_sentences.py::test_nothing")
    assert missing("tests/test_nothing.py::test_nothing")
    assert not missing("tests/test_sentences.py::test_what_is_not_there_is_found")


SOURCE = '''"""T-01."""
# T-02
@decorated  # T-03
class A:
    b: int = 0  # T-04
    # T-05
    # of what comes
    def c(self) -> None:
        """T-06."""

    if b:
        def d(self) -> None: "T-07"

# T-08
'''


def test_a_citation_is_found_where_it_stands() -> None:
    lines, inside = SOURCE.splitlines(), [*scopes(ast.parse(SOURCE))]
    names = {
        cited: place("a.py", inside, number, lines).name
        for number, line in enumerate(lines, 1)
        for cited in re.findall(r"T-\d\d", line)
    }
    assert names == {
        "T-01": "",
        "T-02": "A",
        "T-03": "A",
        "T-04": "A",
        "T-05": "A.c",
        "T-06": "A.c",
        "T-07": "A.d",
        "T-08": "",
    }


def test_every_place_is_one_of_the_product() -> None:
    found = {one for cited in citations().values() for one in cited}
    assert {one.file for one in found if not (ROOT / one.file).is_file()} == set()
    assert not Place("a.py", "A").acts
    assert not Place("a.py", "A.__init__").acts
    assert Place("a.py", "A._b").acts
