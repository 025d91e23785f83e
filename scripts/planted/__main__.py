"""Planted bugs: does a test see each (V4)?

python -m scripts.planted [WORD ...]: all, or those with a word in name or file

    --jobs N          at the same time; by default as many as there are cores
    --simulate RUNS   not the tests but that many simulated networks, which also say what they see of each
    --traces RUNS     not the tests but traces of that many, without their own checks, which the model refuses or not:
                      40 of all are asked for, as bounds, order and access are not in the model

Each bug is planted in a copy of the project of its own, and the tests that are to see it are run there until the first
fails; they are few, and nothing else is loaded, so the whole list takes minutes. First the same tests are run with
nothing planted. The last line says how many were caught; exit status 1 unless all were.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from . import traced
from .bug import Bug
from .bugs import BUGS
from .place import planted

_PROJECT = Path(__file__).resolve().parents[2]
_COPIED = (
    "tolliver_proto",
    "transports",
    "tests",
    "vectors",
    "fuzz",
    "scripts",
    "model",
    "docs",
    "pyproject.toml",
    "README.md",
)
_TIME = 300.0  # seconds for the tests of one bug
_ALL = 3600.0  # seconds for those of all, one after the other
_PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
_SEEN = re.compile(r"^(seed \d+ at [\d.]+ s: .*)$", re.MULTILINE)

See = Callable[[Path, Bug], str | None]
"""Test that sees a bug which stands in this copy of the project, or None."""


def plant(bug: Bug, project: Path) -> None:
    """Raises SystemExit as `planted` does."""
    path, text = planted(bug, project)
    path.write_text(text, "utf-8")


def copied(project: Path) -> None:
    """The project, with what is compiled of it: a process then compiles only what was changed."""
    for name in _COPIED:
        if (_PROJECT / name).is_dir():
            shutil.copytree(_PROJECT / name, project / name)
        elif (_PROJECT / name).exists():
            shutil.copy2(_PROJECT / name, project / name)


def seen(see: See, bug: Bug) -> str | None:
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        copied(project)
        plant(bug, project)
        return see(project, bug)


def outcome(see: See, bug: Bug) -> tuple[bool, str]:
    """True if it was caught, and by what."""
    try:
        what = seen(see, bug)
    except subprocess.TimeoutExpired:  # an endless test is not told from a slow machine
        return False, f"NOT CAUGHT: no end within {_TIME:g} s"
    except SystemExit as error:  # the others are run all the same
        return False, f"NOT CAUGHT: {str(error).splitlines()[0]}"
    return what is not None, what or "NOT CAUGHT"


def _python(project: Path, arguments: Sequence[str], seconds: float = _TIME) -> subprocess.CompletedProcess[str]:
    """Raises TimeoutExpired."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{project}{os.pathsep}{project / 'transports'}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # loading them takes longer than most tests
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def failing_test(project: Path, tests: Sequence[str], seconds: float = _TIME) -> str | None:
    """The first test that fails there, or None. Raises SystemExit where the tests could not be run."""
    plugins = ["-p", "_hypothesis_pytestplugin", "--hypothesis-profile=planted"]
    if any(test.startswith("tests/anyio") for test in tests):
        plugins += ["-p", "anyio"]
    done = _python(project, [*_PYTEST, *plugins, *tests], seconds)
    if done.returncode == 0:
        return None
    found = _FAILED.search(done.stdout)
    if found is None:
        raise SystemExit(f"{' '.join(tests)} did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found[1]


def by_tests(project: Path, bug: Bug) -> str | None:
    return failing_test(project, bug.tests)


def by_simulation(runs: int, project: Path, bug: Bug) -> str | None:
    """The first complaint of simulated networks of the bug's protocol."""
    kind = ["--reactive"] if bug.name.startswith("streams:") else []
    done = _python(project, ["scripts/prove/simulate.py", *kind, "--as-found", str(runs), "0"])
    found = _SEEN.search(done.stdout)
    return found[1][:150] if found else None


def by_traces(runs: int, project: Path, _bug: Bug) -> str | None:
    """The first refusal by the model, of traces of networks whose own checks are silent."""
    done = _python(project, ["-m", "model.trace", "--judge", str(runs)])
    return done.stdout.strip()[:150] or None


def healthy(bugs: Sequence[Bug]) -> None:
    """Raises SystemExit if a test fails with nothing planted: then it proves nothing."""
    with tempfile.TemporaryDirectory() as directory:
        copied(Path(directory))
        tests = list(dict.fromkeys(test for bug in bugs for test in bug.tests))
        failed = failing_test(Path(directory), tests, _ALL)
    if failed is not None:
        raise SystemExit(f"{failed} fails with nothing planted: mend that first")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--simulate", type=int, metavar="RUNS")
    parser.add_argument("--traces", type=int, metavar="RUNS")
    options = parser.parse_args(arguments)
    listed = (*traced.BUGS, *(bug for bug in BUGS if bug.file.startswith(traced.FILES))) if options.traces else BUGS
    bugs = [
        bug for bug in listed if not options.words or any(word in f"{bug.name} {bug.file}" for word in options.words)
    ]
    if not bugs:
        raise SystemExit(f"no planted bug has one of these words in its name or its file: {' '.join(options.words)}")
    see: See = by_tests
    if options.simulate:
        bugs = [bug for bug in bugs if bug.file.startswith("tolliver_proto/")]
        see = partial(by_simulation, options.simulate)
    elif options.traces:
        see = partial(by_traces, options.traces)
    began = time.monotonic()
    width = max(len(bug.name) for bug in bugs)
    missed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        whole = None if see is not by_tests else pool.submit(healthy, bugs)
        for bug, (is_caught, what) in zip(bugs, pool.map(partial(outcome, see), bugs), strict=True):
            missed += [] if is_caught else [bug.name]
            print(f"{bug.name:{width}}  {what}", flush=True)
        if whole is not None:
            whole.result()
    seconds = time.monotonic() - began
    row = f"V4 by {options.simulate} simulated networks each" if options.simulate else "V4"
    row = f"V4 by traces of {options.traces} schedules each" if options.traces else row
    figures = f"{len(bugs) - len(missed)} caught, {seconds:.0f} s on {options.jobs} cores"
    print(f"result: {row} | {len(bugs)} bugs | {'; '.join((figures, *(f'not caught: {name}' for name in missed)))}")
    if options.traces and not options.words:
        return 1 if len(bugs) - len(missed) < traced.ASKED else 0
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
