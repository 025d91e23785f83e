"""Page of the Tolliver protocol: its rulings and its vectors."""

from __future__ import annotations

import re
from pathlib import Path

from tolliver_proto import Revision, decode

from .vectors import D1, D2, VECTORS

ROOT = Path(__file__).parents[2]
PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
RULINGS = [
    *(f"C{number}" for number in range(1, 7)),
    *(f"T-{number:02}" for number in [*range(1, 13), *range(19, 35), *range(40, 58), *range(60, 81)]),
    "T-72a",
]


def test_every_ruling_has_a_row() -> None:
    rows = re.findall(r"^\| <a id=\S+></a>(C\d|T-\d\da?) \|", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted(RULINGS)


def test_the_tests_that_the_page_of_other_programs_names_are_there() -> None:
    page = (ROOT / "docs" / "foreign.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for path, test in named:
        assert not test or f"\ndef {test}(" in (ROOT / path).read_text("utf-8"), (path, test)
        assert (ROOT / path).exists()


def test_the_vectors_are_those_that_are_tested() -> None:
    rows = re.findall(r"^\| .+ \| ([12, ]+|[A-Z0-9_, ]+) \| `([0-9a-f]+)` \|$", PAGE, re.MULTILINE)
    names = {"1": D1, "2": D2} | {revision.name: revision for revision in Revision}
    on_page = [(names[layout], bytes.fromhex(text)) for layouts, text in rows for layout in layouts.split(", ")]
    assert {*on_page} <= {(vector.revision, vector.data) for vector in VECTORS}
    assert {layout for layout, _ in on_page} == {*Revision}
    for revision, data in on_page:
        assert len(decode(data, revision)) == 1
