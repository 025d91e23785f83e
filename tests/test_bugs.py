"""docs/bugs.md names commits and tests that are there, and what it says was shown can be shown."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.bugs import PAGE, ROOT, Bug, bugs, git, show

BUGS = bugs(PAGE.read_text("utf-8"))


def test_every_row_of_the_page_is_read() -> None:
    anchors = re.findall(r'^\| <a id="([\w-]+)">', PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(anchors) >= 60
    assert [*BUGS] == anchors


def test_every_test_that_is_named_is_there() -> None:
    there = {
        name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert {bug.test for bug in BUGS.values() if bug.test} - there == set()


def test_what_was_shown_has_a_test() -> None:
    shown = [bug for bug in BUGS.values() if bug.red]
    assert len(shown) >= 15
    assert [bug.name for bug in shown if bug.test is None] == []


def test_every_commit_that_is_named_is_there_and_was_born_before_it_was_mended() -> None:
    try:
        known = git("rev-list", "--abbrev-commit", "--abbrev=8", "HEAD", at=ROOT).split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no history")
    if git("rev-parse", "--is-shallow-repository", at=ROOT).strip() == "true":
        pytest.skip("the history is not whole")
    age = {commit[:8]: number for number, commit in enumerate(known)}
    assert [bug.name for bug in BUGS.values() if not age[bug.since] > age[bug.mend]] == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of a product: the second one mends it, and has a test that sees that, and one that does not."""
    git("init", "--quiet", at=tmp_path)
    for number, text in enumerate(("broken", "whole")):
        for path, source in {
            "tolliver_proto/__init__.py": f"STATE = {text!r}\n",
            "tests/test_state.py": "import tolliver_proto\n\n\n"
            "def test_state():\n    assert tolliver_proto.STATE == 'whole'\n\n\n"
            "def test_anything():\n    pass\n\n\ndef test_broken():\n    assert False\n",
        }.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(source)
        git("add", ".", at=tmp_path)
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        git(*who, "commit", "--quiet", "--message", str(number), at=tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("test_state", "red before"),
        ("test_anything", "not shown: tests/test_state.py::test_anything passes before"),
        ("test_broken", "not shown: tests/test_state.py::test_broken fails at"),
        (None, "has no test"),
    ],
)
def test_a_bug_is_shown_by_the_product_before_its_mend(repository: Path, test: str | None, said: str) -> None:
    since, mend = git("rev-list", "--reverse", "--abbrev-commit", "--abbrev=8", "HEAD", at=repository).split()
    assert show(Bug("state", since, mend, test, red=None), repository).startswith(said)
    assert git("worktree", "list", at=repository).count("\n") == 1, "nothing is left behind"
