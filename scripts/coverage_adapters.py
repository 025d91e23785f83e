"""Line coverage of the adapters, with listed exceptions.

    python scripts/coverage_adapters.py [options of pytest, such as -n 2]
    python scripts/coverage_adapters.py --other-loops ...   the tests on uvloop, trio, Twisted on asyncio

A line that no test runs is named by its function and its text, so that the list neither goes stale when lines move nor
hides a second one like it: a line that is listed and run, or listed and gone, is an error too. Processes that tests
start are watched as well: forks, what ends by itself, and what is interrupted. To be watched costs a test half as much
again, so `make test` does without, and three loops that run the same lines as three others are not watched here.
"""

from __future__ import annotations

import ast
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import coverage
import pytest
from coverage.exceptions import CoverageWarning

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "transports" / "tolliver"
FOLDERS = [f"tests/{name}" for name in ("adapters", "anyio", "blocking", "twisted", "tls")]
OTHER_LOOPS = "loops or turns"
"""The same lines on other loops: what `make loops` runs. An expression of `pytest -m`.

The tests of `tests/anyio` on trio are watched, too: on asyncio 3.11 does not trace on where a scope was cancelled."""
ELSEWHERE = ("certs.py", "cli.py", "sqlite.py", "_cli/", "_store/", "spark/", "staging/")
"""Files that `tests/cli`, `tests/store`, `tests/spark` and `tests/staging` run."""
CONFIG = """
[run]
source = {package}
data_file = {data}
concurrency = thread
patch = subprocess, fork, _exit
disable_warnings = no-data-collected, module-not-imported
"""
KILLED = ".* isn't a coverage data file: .*no such table: coverage_schema|Couldn't use data file .* is malformed"
"""Warning of coverage about the file of a process that a test killed before or while it wrote: nothing is missing."""


class Tolerant:
    """Plugin of pytest, whose own filter makes errors of warnings: not of those."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        warnings.filterwarnings("ignore", KILLED, CoverageWarning)
        return (yield)


Line = tuple[str, str, str]
"""Module, function, text."""

SPURIOUS = "the system may say that a socket is ready and then have nothing: no test can have it do so"
SEALING = "OpenSSL fails to seal where it has no memory left"
CTRL_C = "an exception from outside comes there, on trio: its test tries it on every line, and takes the tracer's place"
UNREACHED: dict[Line, str] = {
    ("anyio/endpoint.py", "open", "except BaseException:"): CTRL_C,
    ("anyio/endpoint.py", "open", "await self._end_tasks()"): CTRL_C,
    ("anyio/endpoint.py", "open", "raise"): CTRL_C,
    ("anyio/dialing.py", "accept", "continue"): SPURIOUS,
    ("blocking/dialing.py", "accept", "return"): SPURIOUS,
    ("_driver/session.py", "next_output", "except TolliverError:"): SEALING,
    ("_driver/session.py", "next_output", "break  # the reading side will say why"): SEALING,
    ("_tls/pump.py", "write", "except ssl.SSLError as error:"): SEALING,
    ("_tls/pump.py", "write", "self._fail(error)"): SEALING,
    ("_tls/pump.py", "write", "self._raise_failure()"): SEALING,
    ("_tls/pump.py", "close_notify", "except ssl.SSLError as error:"): SEALING,
    ("_tls/pump.py", "close_notify", "self._fail(error)"): SEALING,
}
"""Why no test runs it here."""


def missed(data: str) -> dict[Line, int]:
    """The lines that were not run, with their numbers."""
    measured = coverage.Coverage(data_file=data, config_file=False)
    measured.load()
    lines = {}
    for module in sorted(PACKAGE.rglob("*.py")):
        room = module.relative_to(PACKAGE).as_posix()
        if not room.startswith(ELSEWHERE):
            text = module.read_text()
            names, written = functions(text), text.splitlines()
            _, _, _, missing, _ = measured.analysis2(str(module))
            lines.update({(room, names[at], written[at - 1].strip()): at for at in missing})
    return lines


def functions(text: str) -> defaultdict[int, str]:
    """The innermost function around each line."""
    names: defaultdict[int, str] = defaultdict(str)
    for node in ast.walk(ast.parse(text)):  # the outer ones come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name))
    return names


def complaints(lines: dict[Line, int]) -> list[str]:
    new = [f"{one[0]}:{lines[one]} is never run: {one[2]}" for one in lines.keys() - UNREACHED.keys()]
    old = [
        f"{name} has no such line in {where}, or it is run: {line}"
        for name, where, line in UNREACHED.keys() - lines.keys()
    ]
    return sorted(new) + sorted(old)


def main() -> int:
    if sys.argv[1:2] == ["--other-loops"]:
        return int(pytest.main([*FOLDERS, "-q", "-m", OTHER_LOOPS, *sys.argv[2:]]))
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "coverage.ini"
        data = Path(directory) / "data"
        config.write_text(CONFIG.format(package=PACKAGE, data=data))
        watched = [f"--cov={PACKAGE}", f"--cov-config={config}", "--cov-report="]
        tests = [*FOLDERS, "-q", "-m", "not loops"]
        status = pytest.main([*tests, *sys.argv[1:], *watched], plugins=[Tolerant()])
        if status:
            return int(status)
        wrong = complaints(missed(str(data)))
    print(*wrong, f"{len(UNREACHED)} lines of the adapters are not run, each with its reason", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
