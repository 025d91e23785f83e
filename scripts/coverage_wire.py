"""Every line and every branch of the wire half is run by its tests, or this fails (V4).

    python scripts/coverage_wire.py [options of pytest, such as -n 2]
    python scripts/coverage_wire.py --files     only names the test files that it runs

Random tests are left out: what they happen to reach must not decide. So are those that count memory and calls.
"""

from __future__ import annotations

import sys

import pytest

MODULES = ["_errors", "_limits", "_allowance", "_events", "_buffer", "_layouts", "_frames", "_state", "_connection"]
TESTS = [
    f"tests/wire/test_{name}.py"
    for name in ("vectors", "decoding", "limits", "transitions", "versions", "connection", "third_layout")
]


def main() -> int:
    if sys.argv[1:] == ["--files"]:
        print(*TESTS)
        return 0
    return pytest.main(
        [
            *TESTS,
            "-q",
            *sys.argv[1:],
            "--cov-branch",
            *(f"--cov=tolliver_proto.{module}" for module in MODULES),
            "--cov-report=term-missing:skip-covered",
            "--cov-fail-under=100",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
