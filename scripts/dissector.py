"""Hostile inputs for the Wireshark dissector, in every layout, on all cores.

    python scripts/dissector.py [INPUTS] [--seed N]

An input is both directions of a connection, made of golden vectors that are cut, spliced and spoilt, or of anything.
tshark reads each twice. Exit status 1 if the script fails on one, or if there is no tshark.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path[:0] = [str(Path(__file__).parent.parent)]  # the captures are beside the tests that use them

from tests.wireshark import captures, hostile  # noqa: E402  # the line above comes first

INPUTS = 100_000


def attempt(seed: int, job: tuple[str, int, int]) -> tuple[str, int, str]:
    kind, number, count = job
    with TemporaryDirectory() as folder:
        said = [
            hostile.complaints(path, kind)
            for path in hostile.captures(Path(folder), kind, count, seed * 1_000_000 + number)
        ]
    return kind, number, "".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", type=int, nargs="?", default=INPUTS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if captures.TSHARK is None:
        print("no tshark reads captures: on Debian, apt-get install tshark")
        return 1
    kinds = (*hostile.LAYOUTS, hostile.STREAMS)
    share = -(-options.inputs // len(kinds))
    jobs = [
        (kind, start, min(hostile.AT_ONCE, share - start))
        for kind in kinds
        for start in range(0, share, hostile.AT_ONCE)
    ]
    began, failed = time.monotonic(), 0
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for kind, number, said in pool.map(partial(attempt, options.seed), jobs):
            lines = said.splitlines()
            failed += len(lines)
            for line in lines[:3]:
                print(f"{kind}, seed {options.seed * 1_000_000 + number}: {line}")
    inputs = sum(count for *_, count in jobs)
    print(f"{inputs:,} inputs in {time.monotonic() - began:.0f} s")
    print(f"result: dissector | {inputs:,} hostile inputs in {len(kinds)} forms | {failed} errors of the script")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
