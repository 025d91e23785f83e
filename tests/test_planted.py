"""The list of planted bugs fits the source that it is to be planted in; two of them are planted here (V4).

All of them: `python -m scripts.planted_bugs`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.planted.bug import Bug
from scripts.planted.bugs import BUGS
from scripts.planted_bugs import by_tests, seen

ROOT = Path(__file__).parent.parent


def test_names_are_told_apart() -> None:
    names = [bug.name for bug in BUGS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("file", sorted({bug.file for bug in BUGS}))
def test_every_place_is_there_once_and_what_is_planted_is_a_program(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    for bug in BUGS:
        if bug.file == file:
            assert text.count(bug.good) == 1, f"{bug.name}: its place is {text.count(bug.good)} times in {file}"
            assert bug.bad != bug.good, bug.name
            compile(text.replace(bug.good, bug.bad), file, "exec")


def test_every_test_that_is_named_is_there() -> None:
    sources: dict[str, str] = {}
    for bug in BUGS:
        assert bug.tests, f"{bug.name} has no test"
        for test in bug.tests:
            file, _, name = test.partition("[")[0].partition("::")
            text = sources.setdefault(file, (ROOT / file).read_text("utf-8"))
            assert not name or re.search(rf"^(async def|def|class) {name}\b|^{name} = ", text, re.MULTILINE), test


def find(name: str) -> Bug:
    return next(bug for bug in BUGS if bug.name == name)


@pytest.mark.parametrize("name", ["ack before handler", "streams: Drained missing"])
def test_a_planted_bug_is_caught(name: str) -> None:
    bug = find(name)
    assert (seen(by_tests, bug) or "").startswith(bug.tests), "it is named with the test that caught it"


def test_what_changes_nothing_is_not_caught() -> None:
    bug = find("ack before handler")
    assert seen(by_tests, bug._replace(bad=bug.good)) is None


def test_a_place_that_moved_is_told() -> None:
    with pytest.raises(SystemExit, match=r"has its place 0 times; .* adapt scripts/planted"):
        seen(by_tests, find("ack before handler")._replace(good="what is not there"))
