"""Planted bugs: the list fits the source, and two are caught (V4).

All of them: `python -m scripts.planted`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.planted.__main__ import by_tests, seen
from scripts.planted.bug import Bug
from scripts.planted.bugs import BUGS
from scripts.planted.place import planted
from scripts.planted.traced import BUGS as TRACED

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parent.parent


def test_names_are_told_apart() -> None:
    names = [bug.name for bug in (*BUGS, *TRACED)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("bug", [*BUGS, *TRACED], ids=lambda bug: bug.name)
def test_every_place_is_there_once_and_what_is_planted_is_another_program(bug: Bug) -> None:
    path, text = planted(bug, ROOT)
    assert text != ast.unparse(ast.parse(path.read_text("utf-8")))


def test_every_test_that_is_named_is_there() -> None:
    sources: dict[str, str] = {}
    for bug in BUGS:
        assert bug.tests, f"{bug.name} has no test"
        for test in bug.tests:
            file, _, name = test.partition("[")[0].partition("::")
            text = sources.setdefault(file, (ROOT / file).read_text("utf-8"))
            assert not name or re.search(rf"^(async def|def|class) {name}\b|^{name} = ", text, re.MULTILINE), test


def test_every_case_that_is_named_is_there() -> None:
    cases = {test for bug in BUGS for test in bug.tests if "[" in test}
    files = sorted({case.partition("::")[0] for case in cases})
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(collect, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert cases - {*done.stdout.splitlines()} == set()


def find(name: str) -> Bug:
    return next(bug for bug in BUGS if bug.name == name)


@pytest.mark.parametrize("name", ["ack before handler", "streams: Drained missing"])
def test_a_planted_bug_is_caught(name: str) -> None:
    bug = find(name)
    assert (seen(by_tests, bug) or "").startswith(bug.tests), "it is named with the test that caught it"


def test_what_changes_nothing_is_not_caught() -> None:
    bug = find("ack before handler")
    assert seen(by_tests, bug._replace(bad=bug.good)) is None


def project(directory: Path, **sources: str) -> Path:
    package = directory / "tolliver_proto"
    package.mkdir()
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source)
    return directory


BUG = Bug("early", "tolliver_proto/old.py", "run", "if self.late():\n    return", "", ("tests",))
RUN = "class Node:\n    def run(self):\n        {}\n        self.go()\n"


def test_formatting_and_comments_do_not_matter(tmp_path: Path) -> None:
    there = RUN.format("if (self  # as it may be\n            .late()):\n\n            return  # at once")
    path, text = planted(BUG, project(tmp_path, old=there))
    assert (path.name, text) == ("old.py", "class Node:\n\n    def run(self):\n        self.go()")


def test_a_function_that_moved_is_found_in_its_package_whatever_its_class_is_called(tmp_path: Path) -> None:
    there = RUN.format("if self.late(): return")
    path, _ = planted(
        BUG, project(tmp_path, old="", new=there.replace("Node", "Hub"), other=there.replace("run", "go"))
    )
    assert path.name == "new.py"


def test_an_expression_of_a_module_and_all_that_stood_in_a_body(tmp_path: Path) -> None:
    where = project(tmp_path, old="LAST = 2**31 - 2\ndef last():\n    return LAST == 2**31 - 2\n")
    whole = BUG._replace(function="", good="2**31 - 2", bad="2**31")
    assert planted(whole, where)[1].startswith("LAST = 2 ** 31\n")
    assert planted(whole._replace(function="last", good="return LAST == 2**31 - 2", bad=""), where)[1].endswith("pass")


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        (
            {"old": RUN.format("if self.late(2):\n            return")},
            r"0 times in run of .*near it:\n    if self.late",
        ),
        ({"old": RUN.format("if self.late(): return").replace("run", "go")}, r"near it:\n    .*old\.py: Node"),
        ({"new": RUN.format("pass")}, r"near it:\n    .*new\.py: Node\.run"),
        ({"old": RUN.format("if self.late(): return\n        if self.late(): return")}, "2 times"),
        ({name: RUN.format("if self.late(): return") for name in ("new", "other")}, "2 times"),
    ],
    ids=["it changed", "its function has another name", "it is gone", "twice", "in two files"],
)
def test_a_place_that_is_not_there_once_is_told(tmp_path: Path, sources: dict[str, str], told: str) -> None:
    with pytest.raises(SystemExit, match=r"(?s)early: its place is .*adapt scripts/planted") as error:
        planted(BUG, project(tmp_path, **sources))
    assert re.search(told, str(error.value))


@pytest.mark.parametrize(("good", "bad"), [("if it", ""), ("self.late()", "return")])
def test_what_cannot_be_planted_is_told(tmp_path: Path, good: str, bad: str) -> None:
    with pytest.raises(SystemExit, match="adapt scripts/planted"):
        planted(BUG._replace(good=good, bad=bad), project(tmp_path, old=RUN.format("if self.late(): return")))
