"""Score of mutations: does a test of the core see a small change of the source?

    python -m scripts.mutation [COUNT]    so many mutants of the sample that have no outcome yet, on all cores; 0: none

Cosmic Ray (dependency group `mutation`) makes the mutants, this module chooses them and runs the tests. All that its
operators can do to the wire, the patterns, the node and the codec of the store are the mutants; those that change
annotations alone are none. The sample is the `SAMPLE` with the least hash of a mutant's own text and place, so it stays
the same as other lines change, and outcomes in docs/mutation.json stay from run to run.

Coverage with contexts says which tests reach the changed lines: first those that reach least of the source. They run in
a forked process that loads the mutant in place of the file, until the first fails; without the change that test must
pass. A mutant that does not end, or takes all memory, is killed, too. One that outlives `TESTS` of them survives, and
somebody says why in docs/mutation.json, or writes a test and removes its entry there, so that it is run again.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import gc
import hashlib
import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

from scripts.coverage_core import ROOT
from scripts.coverage_core import TESTS as CORE

SAMPLE = 1500
TESTS, NEAR = 300, 100  # for one mutant, and of these the nearest
SECONDS = 120  # of CPU, for all tests of one mutant
MEMORY = 4 * 2**30
FOLDERS = ("tolliver_proto/_wire", "tolliver_proto/_node", "tolliver_proto/_patterns")
FILES = ("transports/tolliver/_store/batches.py", "transports/tolliver/_store/checks.py")
RECORD = ROOT / "docs" / "mutation.json"
COVERAGE = ROOT / "build" / "mutation" / "coverage"
NAMES = ("killed", "survived")
LIBRARIES = ("hypothesis", "hypothesis.stateful", "cryptography.x509", "attrs")
"""Of the tests: loaded once, and not in each forked process."""


class Mutant(NamedTuple):
    """A change of a file: where, by which operator, and the number of its place among those of the operator."""

    key: str
    file: str
    line: int
    operator: str
    occurrence: int


def files() -> Iterator[str]:
    yield from FILES
    for folder in FOLDERS:
        yield from (str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).rglob("*.py")))


def mutants() -> list[Mutant]:
    """All of them, in the order of the sample."""
    operators = [(name, get_operator(name)) for name in operator_names()]
    plain = [(name, operator()) for name, operator in operators if not operator.arguments()]
    found = []
    for file in files():
        source = (ROOT / file).read_text("utf-8")
        lines, nodes = source.splitlines(), list(ast_nodes(get_ast(source)))
        for name, operator in plain:
            places = (start for node in nodes for start, _ in operator.mutation_positions(node))
            same = Counter[str]()
            for occurrence, (line, column) in enumerate(places):
                text = f"{file} {name} {lines[line - 1].strip()} {column - len(lines[line - 1])}"
                same[text] += 1
                key = hashlib.sha256(f"{text} {same[text]}".encode()).hexdigest()[:12]
                found.append(Mutant(key, file, line, name, occurrence))
    return sorted(found)


def mutated(mutant: Mutant) -> str | None:
    """The source with the change, or None if it is no other program."""
    source = (ROOT / mutant.file).read_text("utf-8")
    text: str = mutate_code(source, get_operator(mutant.operator)(), mutant.occurrence)
    try:
        return None if _program(text) == _program(source) else text
    except SyntaxError:  # Cosmic Ray takes the star of keyword-only arguments for an operator
        return None


@lru_cache(maxsize=100)
def _program(source: str) -> str:
    """The syntax tree without annotations, which nothing evaluates here."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if hasattr(node, name):
                setattr(node, name, None)
    return ast.dump(tree)


def sample(every: Iterable[Mutant], known: Container[str], count: int) -> Iterator[tuple[Mutant, str]]:
    """So many of the sample that are not known, with their texts."""
    real = ((one, None if one.key in known else mutated(one)) for one in every)
    some = islice((one for one in real if one[1] is not None or one[0].key in known), SAMPLE)
    return islice(((mutant, text) for mutant, text in some if text is not None), count)


# Tests.


def watch() -> None:
    """Coverage of each test, once for the sources as they are."""
    COVERAGE.parent.mkdir(parents=True, exist_ok=True)
    packages = ["--cov=tolliver_proto", "--cov=transports/tolliver/_store", "--cov-context=test", "--cov-report="]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(os.cpu_count()), *packages]
    command += ["-m", "not thorough and not search", "--hypothesis-profile=watched", *CORE, "tests/store"]
    environment = {**os.environ, "COVERAGE_FILE": str(COVERAGE), "COVERAGE_CORE": "ctrace"}
    subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)


class Reach:
    """Tests that reach a line: the nearest ones, which reach least of the source, then some of each file in turn."""

    def __init__(self) -> None:
        data = CoverageData(str(COVERAGE))
        data.read()
        self._tests: dict[str, dict[int, list[str]]] = {}
        self._size: Counter[str] = Counter()
        for path in data.measured_files():
            lines = {
                line: [context.rpartition("|")[0] for context in contexts if context]
                for line, contexts in data.contexts_by_lineno(path).items()
            }
            self._tests[os.path.relpath(path, ROOT)] = lines
            self._size.update(chain.from_iterable(lines.values()))

    def tests(self, mutant: Mutant) -> list[str]:
        """For the head of a function those that reach its body; for another line that only runs when its module is
        loaded those that reach any line of the file.
        """
        lines = self._tests[mutant.file]
        found = lines.get(mutant.line) or self._of_body(mutant) or [*chain.from_iterable(lines.values())]
        tests = sorted({*found}, key=lambda test: (self._size[test], test))
        turns, places = list[tuple[int, str]](), Counter[str]()
        for test in tests[NEAR:]:
            places[file := test.partition("::")[0]] += 1
            turns.append((places[file], test))
        return tests[:NEAR] + [test for _, test in sorted(turns)][: TESTS - NEAR]

    def _of_body(self, mutant: Mutant) -> list[str]:
        for node in ast.walk(ast.parse((ROOT / mutant.file).read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line < node.body[0].lineno:
                body = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
                return [*chain.from_iterable(self._tests[mutant.file].get(line, ()) for line in body)]
        return []


# One mutant.


class Run(NamedTuple):
    """Forked process with a mutant, or without one, and where its words go."""

    mutant: Mutant
    text: str
    tests: list[str]
    said: IO[str]

    def outcome(self, status: int) -> str | None:
        """The first test that failed, or in words what ended the process; None if all passed."""
        self.said.seek(0)
        failed = re.search(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", self.said.read(), re.MULTILINE)
        self.said.close()
        code = os.waitstatus_to_exitcode(status)
        return None if code == 0 else failed[1] if failed else f"status {code}"


def begun(mutant: Mutant, text: str, tests: list[str]) -> tuple[int, Run]:
    """The process, and what it runs."""
    run = Run(mutant, text, tests, tempfile.TemporaryFile("w+"))  # noqa: SIM115
    gc.freeze()  # else the first search for garbage copies the memory of this process, which has all of the coverage
    pid = os.fork()
    if not pid:
        status = 70
        try:
            status = _tested(text, ROOT / mutant.file, tests, run.said.fileno())
        finally:
            os._exit(status)
    return pid, run


def _tested(text: str, path: Path, tests: list[str], said: int) -> int:
    """In the forked process: exit status of pytest."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for fd, to in ((null, 0), (said, 1), (null, 2)):
        os.dup2(fd, to)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.alarm(5 * SECONDS)  # of one that waits
    code = compile(text, str(path), "exec", dont_inherit=True)
    real = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        return code if self.path == str(path) else real(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=planted", "--tb=no", "-m", ""]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of the libraries
    for some in filter(None, (tests[:NEAR], tests[NEAR:])):
        if status := pytest.main([*options, *some]):
            return int(status)
    return 0


def outcomes(wanted: Iterable[tuple[Mutant, str]], reach: Reach, jobs: int) -> Iterator[tuple[Run, str | None]]:
    """As they end, so many at a time."""
    left, running = iter(wanted), dict[int, Run]()
    while True:
        for mutant, text in islice(left, jobs - len(running)):
            running |= [begun(mutant, text, reach.tests(mutant))]
        if not running:
            return
        pid, status = os.wait()
        run = running.pop(pid)
        yield run, run.outcome(status)


def is_sound(run: Run) -> bool:
    """True if the same tests pass on the source as it is."""
    pid, unchanged = begun(run.mutant, (ROOT / run.mutant.file).read_text("utf-8"), run.tests)
    return unchanged.outcome(os.waitpid(pid, 0)[1]) is None


def change(mutant: Mutant, text: str) -> dict[str, str]:
    """The file, and the changed lines before and after."""
    lines = [*difflib.ndiff((ROOT / mutant.file).read_text("utf-8").splitlines(), text.splitlines())]
    before, after = (" ".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return {"file": mutant.file, "before": before, "after": after}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    for library in LIBRARIES:
        importlib.import_module(library)
    record: dict[str, Any] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {name: {} for name in NAMES}
    newest = max((ROOT / file).stat().st_mtime for file in (*files(), *CORE))
    if options.count and (not COVERAGE.exists() or COVERAGE.stat().st_mtime < newest):
        watch()
    every, known, sound = mutants(), record["killed"] | record["survived"], set[str]()
    for run, test in outcomes(sample(every, known, options.count), Reach(), options.jobs) if options.count else ():
        where = change(run.mutant, run.text)
        if test is None:
            record["survived"][run.mutant.key] = {**where, "said": ""}
        elif test in sound or is_sound(run._replace(tests=[test] if "::" in test else run.tests)):
            sound |= {test} if "::" in test else set()
            record["killed"][run.mutant.key] = test
        else:
            print(f"{test} fails without the change, too", file=sys.stderr)
            continue
        print(*where.values(), test or "SURVIVES", sep=": ", flush=True)
        RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    killed, alive = ([mutant.key for mutant in every if mutant.key in record[name]] for name in NAMES)
    silent = sum(not record["survived"][key]["said"] for key in alive)
    score = 100 * len(killed) / max(1, len(killed) + len(alive))
    print(
        f"result: mutation | {len(killed) + len(alive):,} of {SAMPLE:,} mutants | {len(killed):,} killed, score "
        f"{score:.1f} %, {len(alive)} survive, {silent} of them not explained"
    )
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
