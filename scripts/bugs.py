"""Our own bugs, shown: the test of a mend, on the product as it was before that mend.

    python -m scripts.bugs NAME ...    these rows of docs/bugs.md; `red`: all that are said to be red, in half an hour

In a work tree of the mend's commit the test is run twice: it passes, and it fails once the product alone is that of the
commit before, for another reason than a name that it lacks. A test that does not end in two minutes has failed. Exit
status 1 if a row was not shown. Libraries are those that are installed, which the older commit may not know.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "bugs.md"
PRODUCT = ("tolliver_proto", "transports", "pyspark_tolliver")
_PATIENCE = 120.0  # seconds for one run of a test
_ROW = re.compile(
    r'^\| <a id="(?P<name>[\w-]+)"></a>.+ \| \S+ `(?P<since>\w{8})`'
    r" → \S+ `(?P<mend>\w{8})` \| .+ \| (?P<red>\*\*red\*\* )?(?:`(?P<test>test_\w+)`)?[^`|]* \|$",
    re.MULTILINE,
)
_LACKS = re.compile(r"^(ImportError|ModuleNotFoundError)|unexpected keyword argument|module .+ has no attribute")


class Bug(NamedTuple):
    """Row of the page: commits of eight digits, and the test that shows the bug, if there is one."""

    name: str
    since: str
    mend: str
    test: str | None
    red: str | None


def bugs(page: str) -> dict[str, Bug]:
    """Rows of the page, by their names."""
    rows = (Bug(**row.groupdict()) for row in _ROW.finditer(page))
    return {row.name: row for row in rows}


def git(*arguments: str, at: Path) -> str:
    """Raises CalledProcessError."""
    return subprocess.run(["git", *arguments], cwd=at, capture_output=True, text=True, check=True).stdout


def _age(tree: Path, commit: str) -> None:
    """The product as it was at a commit, and nothing of it that came later."""
    for folder in PRODUCT:
        shutil.rmtree(tree / folder, ignore_errors=True)
        if git("ls-tree", commit, folder, at=tree):
            git("checkout", "--quiet", commit, "--", folder, at=tree)


def _failure(tree: Path, test: str) -> str | None:
    """In words how the test failed, or None. Raises SystemExit where it did not run at all."""
    command = [sys.executable, "-m", "pytest", "-qx", "--tb=short", "-n0", "-p", "no:cacheprovider", "-m", "", test]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tree, tree / "transports")))}
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            said, _ = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"it does not end within {_PATIENCE:g} s"
    if process.returncode not in (0, 1):
        raise SystemExit(f"{test} did not run:\n{said[-1500:]}")
    found = re.search(r"^E  +(.+)$", said, re.MULTILINE)
    return None if process.returncode == 0 else found[1] if found else "it fails"


def show(bug: Bug, repository: Path = ROOT) -> str:
    """In words what came out, which begins with "red" if it was shown."""
    if bug.test is None:
        return "has no test"
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree), bug.mend, at=repository)
        try:
            return _shown(bug.test, bug.mend, tree)
        finally:
            git("worktree", "remove", "--force", str(tree), at=repository)


def _shown(name: str, mend: str, tree: Path) -> str:
    [file, *_] = git("grep", "-lE", rf"def {name}\b", mend, "--", "tests", at=tree).splitlines()
    test = f"{file.partition(':')[2]}::{name}"
    if failure := _failure(tree, test):
        return f"not shown: {test} fails at {mend}, too: {failure}"
    _age(tree, f"{mend}~1")
    failure = _failure(tree, test)
    if failure is None or _LACKS.search(failure):
        return f"not shown: {test} {f'asks for what the mend has: {failure}' if failure else 'passes before'}"
    return f"red before {mend}: {test}: {failure}"


def main() -> int:
    known = bugs(PAGE.read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", metavar="NAME", help="rows of the page; `red`: all that are said to be red")
    names = parser.parse_args().names
    for name in {*names} - {*known, "red"}:
        near = ", ".join(get_close_matches(name, known)) or "none: look into docs/bugs.md"
        parser.error(f"the page has no row {name!r}. Rows with a like name: {near}")
    said = []
    for bug in (bug for bug in known.values() if bug.name in names or (bug.red and "red" in names)):
        said.append(show(bug))
        print(f"{bug.name}: {said[-1]}", flush=True)
    return 0 if all(one.startswith("red") for one in said) else 1


if __name__ == "__main__":
    sys.exit(main())
