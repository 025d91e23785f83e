"""Thorough tests: those that `make test` leaves out (V4).

They are tests of tests, every planted place, the long way to Spark, and each property with 500 examples.

    python -m scripts.prove.thorough [options of pytest, such as -n 2]

They are marked `thorough`, and hold what changes seldom, or what another run shows in the large.
"""

from __future__ import annotations

import sys

import pytest

CHOSEN = "thorough or (hypothesis and not loops and not tck)"


class Passed:
    """Number of tests that passed. A plugin of pytest."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.count += report.when == "call" and report.passed


def main() -> int:
    passed = Passed()
    status = pytest.main(
        ["-q", "-m", CHOSEN, "--hypothesis-profile=thorough", *sys.argv[1:], "tests"], plugins=[passed]
    )
    if status == 0:
        print(f"result: V4 | {passed.count} properties, tests of tests, of lists and of ways to Spark | all passed")
    return status


if __name__ == "__main__":
    sys.exit(main())
