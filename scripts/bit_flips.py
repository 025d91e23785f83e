"""Bit flips in databases, on all cores: are they told (V9)?

    python scripts/bit_flips.py [FLIPS] [--first N]     10,000 by default; exit status 1 if one was silent

A flip is a function of its number (`tests/store/flips.py`); a silent one is printed with it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]  # the flips are beside the tests that use them

from tests.store.flips import Flips  # noqa: E402  # the line above comes first
from tests.store.given import MEMORY_DISK  # noqa: E402  # as above

PORTION = 100


def some(numbers: range) -> list[tuple[int, str, str]]:
    with tempfile.TemporaryDirectory(dir=MEMORY_DISK) as directory:
        flips = Flips(Path(directory))
        return [(number, *flips.attempt(number)) for number in numbers]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flips", type=int, nargs="?", default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first flip")
    options = parser.parse_args()
    last = options.first + options.flips
    portions = [range(at, min(last, at + PORTION)) for at in range(options.first, last, PORTION)]
    outcomes: Counter[str] = Counter()
    began = time.monotonic()
    with ProcessPoolExecutor() as pool:
        for results in pool.map(some, portions):
            for number, outcome, where in results:
                outcomes[outcome] += 1
                if outcome == "silent":
                    print(f"flip {number} was silent: {where}", flush=True)
    print(f"{options.flips} flips in {time.monotonic() - began:.0f} s")
    kinds = ", ".join(f"{outcomes[kind]:,} {kind}" for kind in ("harmless", "parked", "told", "refused", "silent"))
    print(f"result: V9 | {options.flips:,} flips | {kinds}")
    return 1 if outcomes["silent"] else 0


if __name__ == "__main__":
    sys.exit(main())
