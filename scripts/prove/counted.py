"""Tests that are rows of the proof by themselves, run and counted.

    python -m scripts.prove.counted ROW [options of pytest, such as -n 2]

    V1   vectors in numbers: golden ones cut everywhere and put behind one another, and whole connections
    V4   what `make test` leaves out: tests of tests, every planted place, the long way to Spark, and each property with
         500 examples
    V18  TLS that must not work
    V22  a peer that behaves as the Go program does
    pyodide  the core, and a node, in WebAssembly
    conform  all cases of `tolliver conform` against every adapter, and its finding of planted faults

Exit status 1 if a test fails.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Counts:
    """Outcomes of tests, and sums of what they count themselves. A plugin of pytest."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()
        self.counted: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            self.tests[report.outcome] += 1
        if report.when == "teardown":
            self.counted.update({name: value for name, value in report.user_properties if isinstance(value, int)})


class Row(NamedTuple):
    """Files of tests, options of pytest, and the result over outcomes and what the tests count."""

    tests: tuple[str, ...]
    options: tuple[str, ...]
    result: str


ROWS = {
    "V1": Row(
        (
            "test_vectors.py",
            *(f"{room}/{test}.py" for room in ("wire", "reactive") for test in ("test_vectors", "test_cases")),
            "node/test_cases.py",
        ),
        (),
        "{V1 cases} cases of both protocols, {V1 golden vectors} of them golden vectors of a layout | "
        "{V1 cuts of a golden vector:,} cuts in two and three and {V1 ordered pairs:,} ordered pairs, "
        "{failed} of {ran} tests differ",
    ),
    "V4": Row(
        ("",),
        (
            *("-m", "thorough or (hypothesis and not loops and not tck)", "--hypothesis-profile=thorough"),
            "--ignore=tests/interop/test_pyodide.py",  # a row of its own
            "--ignore=tests/conform/test_found.py",  # likewise
        ),
        "{passed} properties, tests of tests, of lists and of ways to Spark | {outcome}",
    ),
    "V18": Row(
        ("adapters/test_tls_matrix.py",), (), "{ran:,} cells | {share:.4g} % right error class, {skipped} skipped"
    ),
    "pyodide": Row(
        ("interop/test_pyodide.py",),
        ("-m", "thorough"),
        "{tests of the core in WebAssembly:,} tests of the core, {tests of the core left out there} left out by name, "
        "{traces equal in WebAssembly} traces | {outcome}, {skipped} skipped",
    ),
    "conform": Row(
        ("conform/test_found.py",),
        (),
        "{cases of the kit:,} cases against four adapters, {faults of a peer} faults of a peer planted, "
        "{faults found} found | {outcome}",
    ),
    "V22": Row(
        ("adapters/test_gopeer.py", "adapters/test_gopeer_double.py"),
        (),
        "{ran:,} cases | {share:.4g} % as the double of the Go peer should have it, {skipped} skipped",
    ),
}


def main() -> int:
    row, counts = ROWS[sys.argv[1]], Counts()
    tests = [str(ROOT / "tests" / name) for name in row.tests]
    options = ["-q", "--no-header", "-p", "no:cacheprovider", *row.options, *sys.argv[2:]]
    status = pytest.main([*tests, *options], plugins=[counts])
    words: defaultdict[str, Any] = defaultdict(int, counts.counted | counts.tests)
    words["ran"] = words["passed"] + words["failed"]
    words["share"] = 100 * words["passed"] / max(1, words["ran"])
    words["outcome"] = f"{words['failed']} failed" if words["failed"] else "all passed"
    print(f"result: {sys.argv[1]} | {row.result.format_map(words)}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
