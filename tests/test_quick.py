"""`make quick`: the tests that it names are there, and its types are those of what changed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM = '#!/bin/sh\necho "$(basename "$0") $*" >> ran\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with our Makefile, and programs in its environment that only write down how they were called."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", tmp_path)
    for file in ("pyproject.toml", ".venv/.ready"):
        (tmp_path / file).touch()
    for name in ("python", "mypy"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    return tmp_path


def run(checkout: Path, *command: str) -> None:
    subprocess.run(command, cwd=checkout, check=True, capture_output=True, timeout=60)


def types_read(checkout: Path) -> list[list[str]]:
    """Arguments of each call of mypy that `make quick` makes."""
    run(checkout, "make", "quick")
    called = [shlex.split(line) for line in (checkout / "ran").read_text().splitlines()]
    return [arguments for name, *arguments in called if name == "mypy"]


def committed(checkout: Path, *files: str) -> None:
    for file in files:
        (checkout / file).write_text("")
    run(checkout, "git", "init", "--quiet")
    run(checkout, "git", "add", *files)
    run(checkout, "git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "--quiet", "--message=first")


def test_each_path_that_it_tests_is_there(checkout: Path) -> None:
    run(checkout, "make", "quick")
    words = (checkout / "ran").read_text().split()
    paths = [word for word in words if word.startswith("tests/")]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_types_of_what_no_commit_has_are_checked(checkout: Path) -> None:
    committed(checkout, "same.py", "edited.py", "staged.py", "gone.py")
    for file in ("edited.py", "staged.py", "new.py", "page.md"):
        (checkout / file).write_text("changed = True\n")
    run(checkout, "git", "add", "staged.py")
    (checkout / "gone.py").unlink()
    assert types_read(checkout) == [["edited.py", "staged.py", "new.py"]]


def test_no_types_are_checked_where_nothing_changed(checkout: Path) -> None:
    committed(checkout, "same.py")
    assert types_read(checkout) == []


def test_all_types_are_checked_outside_of_git(checkout: Path) -> None:
    (checkout / "new.py").write_text("")
    assert types_read(checkout) == [[]]
