"""Golden vectors in numbers: cut everywhere, put behind one another (V1).

    python -m scripts.prove.vectors

The tests are the proof and count what they do; this runs them alone and adds up. Exit status 1 if one fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = [str(ROOT / "tests" / part / "test_vectors.py") for part in ("wire", "reactive")]


class Sums:
    """Sums of the tests' counts, and of each outcome."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self.tests[report.outcome] += 1
        if report.when == "teardown":
            self.counted.update({name: value for name, value in report.user_properties if isinstance(value, int)})


def main() -> int:
    sums = Sums()
    status = pytest.main([*TESTS, "-q", "-p", "no:cacheprovider"], plugins=[sums])
    counted = {name.removeprefix("V1 "): number for name, number in sums.counted.items()}
    print(
        f"result: V1 | {counted.get('golden vectors', 0)} golden vectors of both drafts and of Reactive Streams | "
        f"{counted.get('cuts of a golden vector', 0):,} cuts in two and three and {counted.get('ordered pairs', 0):,} "
        f"ordered pairs cut everywhere, {sums.tests['failed']} of {sums.tests.total()} tests differ"
    )
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
