"""Simulated networks on all cores: `simulate.py SCHEDULES [FIRST_SEED]`, or one with `--seed N [--trace]`.

The idea: a seed is a whole story (`tolliver_proto.testing.SimNet`), so a search is a range of seeds and a failure is
one number. The first failures are printed with the end of their trace; `--seed N --trace` prints the whole of one.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tolliver_proto.testing import SimFailure, SimNet

_RUN = 50  # seeds that a process takes at a time
_SHOWN = 3  # failures that are printed


def run(first: int, last: int) -> tuple[Counter[str], dict[int, str]]:
    """Seeds from first to last: totals, and the failures by seed."""
    totals: Counter[str] = Counter()
    failures = {}
    for seed in range(first, last + 1):
        try:
            report = SimNet(seed).run()
        except SimFailure as failure:
            failures[seed] = str(failure)
        else:
            totals.update(report.counts, steps=report.steps, virtual_seconds=int(report.virtual_seconds))
        totals["schedules"] += 1
    return totals, failures


def runs(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, _RUN):
        yield start, min(start + _RUN, first + count) - 1


def search(first: int, count: int) -> int:
    totals: Counter[str] = Counter()
    failures: dict[int, str] = {}
    began = time.monotonic()
    with ProcessPoolExecutor() as pool:
        for future in as_completed([pool.submit(run, *seeds) for seeds in runs(first, count)]):
            more, failed = future.result()
            totals += more
            failures |= failed
            rate = totals["schedules"] / (time.monotonic() - began)
            line = f"{totals['schedules']} of {count} schedules, {rate:.0f}/s, {len(failures)} failed"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{os.cpu_count()} cores, {time.monotonic() - began:.1f} s:", ", ".join(f"{totals[k]} {k}" for k in totals))
    for seed in sorted(failures)[:_SHOWN]:
        print(f"\n{failures[seed]}")
    if failures:
        print(f"\nfailed seeds: {', '.join(map(str, sorted(failures)))}")
    return 1 if failures else 0


def show(seed: int, trace: bool) -> int:
    net = SimNet(seed, trace=trace)
    try:
        outcome = str(net.run())
    except SimFailure as failure:
        outcome = str(failure).splitlines()[0] if trace else str(failure)
    if trace:
        print("\n".join(net.lines))
    print(outcome)
    return int(not outcome.startswith("Report"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", type=int, nargs="?", default=1000, help="how many seeds to run")
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every line")
    options = parser.parse_args()
    if options.seed is not None:
        return show(options.seed, options.trace)
    return search(options.first, options.schedules)


if __name__ == "__main__":
    sys.exit(main())
