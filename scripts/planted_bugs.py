"""Do the tests see a bug? `python -m scripts.planted_bugs [WORD ...]`: all, or those whose name has a word.

The idea: each bug is planted in a copy of the project of its own, and the tests that are to see it are run there until
the first fails. Exit status 1 if a bug was not caught, or could not be planted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .planted.bugs import BUGS, Bug

_PROJECT = Path(__file__).resolve().parents[1]
_COPIED = ("tolliver_proto", "transports", "tests", "fuzz", "scripts", "docs", "pyproject.toml", "README.md")
_TIME = 300.0  # seconds for the tests of one bug
_PARALLEL = 2
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def caught_by(bug: Bug) -> str | None:
    """The first test that fails with this bug, or None."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        for name in _COPIED:
            if (_PROJECT / name).is_dir():
                shutil.copytree(_PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (_PROJECT / name).exists():
                shutil.copy(_PROJECT / name, copy / name)
        source = copy / bug.file
        text = source.read_text()
        if bug.good and text.count(bug.good) != 1:
            raise SystemExit(
                f"{bug.name}: its place is {text.count(bug.good)} times in {bug.file}: adapt planted/bugs.py"
            )
        source.write_text(text.replace(bug.good, bug.bad) if bug.good else text)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *bug.tests]
        environment = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{copy / 'transports'}"}
        try:
            done = subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True, timeout=_TIME, check=False
            )
        except subprocess.TimeoutExpired:
            return f"tests that do not end within {_TIME:g} s"
        if done.returncode == 0:
            return None
        found = _FAILED.search(done.stdout)
        if found is None:
            raise SystemExit(f"{bug.name}: the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return found[1]


def main(words: list[str]) -> int:
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    width = max(len(bug.name) for bug in bugs)
    began = time.monotonic()
    missed = 0
    nothing = Bug("nothing planted", "README.md", "", "", tuple({test: None for bug in bugs for test in bug.tests}))
    if (failed := caught_by(nothing)) is not None:
        raise SystemExit(f"{failed} fails with nothing planted: mend that first")
    with ThreadPoolExecutor(_PARALLEL) as pool:
        for bug, test in zip(bugs, pool.map(caught_by, bugs), strict=True):
            missed += test is None
            print(f"{bug.name:{width}}  {test or 'NOT CAUGHT'}", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs caught in {time.monotonic() - began:.0f} s")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
