"""Line and branch coverage of the core, which must be whole (V4).

    python scripts/coverage_core.py [options of pytest, such as -n 2]

Searches are left out (the simulator's seeds, proofs by number, fuzzing, tests that are marked `search`): what they
happen to reach must not decide, and they are many times slower when they are watched. So are the tests that count
memory and calls, and those of pages and wheels. All of these run in `make test` beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("wire", "node", "patterns", "reactive")
LEFT_OUT = {
    *("node/proofs", "node/simulator", "node/worlds", "reactive/proofs", "reactive/streamnet"),
    *("wire/fuzz_bodies", "wire/roundtrip", "reactive/fuzz_bodies", "reactive/roundtrip"),
    *("wire/linear", "wire/two_connections", "reactive/memory", "reactive/two_connections"),
    *("wire/protocol_page", "wire/recordings_page", "wire/states_page", "reactive/reactive_page", "reactive/rulings"),
    *("wire/purity", "wire/released", "wire/wheel"),
}
TESTS = sorted(
    str(path.relative_to(ROOT))
    for part in PARTS
    for path in (ROOT / "tests" / part).rglob("test_*.py")
    if str(path.relative_to(ROOT / "tests")).removesuffix(".py").replace("test_", "") not in LEFT_OUT
)


def main() -> int:
    watched = [
        "--hypothesis-profile=watched",
        "--cov=tolliver_proto",
        "--cov-branch",
        "--cov-report=term-missing:skip-covered",
        "--cov-fail-under=100",
    ]
    status = pytest.main([*TESTS, "-q", "-m", "core and not thorough", *sys.argv[1:], *watched])
    if status == 0:
        print(f"result: V4 coverage | tolliver_proto by {len(TESTS)} files of tests | 100 % statement and branch")
    return status


if __name__ == "__main__":
    sys.exit(main())
