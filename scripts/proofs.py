"""Proofs by number of runs, on all cores.

`proofs.py NAME [SIZE]`, or `proofs.py all` in the sizes of docs/proof.md.

    converge   V21  subscriptions converge                                100,000
    cross      V15  crossing dials leave one connection                    10,000
    wrap       V17  5,000 messages over the end of the ids, so many times      20
    clocks     V20  clocks that jump, stand still or go back               10,000
    ages       V20  ages over kills, closes, boots and clocks that are set     300
    crash      V6   a crash before or after every store call, and every pair of such crashes

A proof is a function of a number (`tests/node/proofs.py`, `tests/store/ages.py`), which a failure names. Exit status 1
if one fails.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent)]  # the proofs are beside the tests that use them

from rich.console import Console  # noqa: E402  # the line above comes first
from rich.progress import Progress  # noqa: E402  # as above

from tests.node import proofs  # noqa: E402  # as above
from tests.store.ages import ages  # noqa: E402  # as above

ROWS = {
    "converge": ("V21", "runs", "both sides know the same subscriptions"),
    "cross": ("V15", "pairs", "one connection, nothing lost"),
    "wrap": ("V17", "wraps of 5,000 messages", "nothing lost, no id reused, none 0 or above its end"),
    "clocks": ("V20", "runs", "nothing lost, whatever the clock does"),
    "ages": ("V20", "stories of 5 kills, closes, boots and clocks that are set", "every age is what passed"),
    "crash": ("V6", "crashes and pairs of crashes", "nothing lost, the outbox drains"),
}
SIZES = {"converge": 100_000, "cross": 10_000, "wrap": 20, "clocks": 10_000, "ages": 300, "crash": 1_000_000}


def subjects(name: str, size: int) -> Iterable[Any]:
    """Arguments that the proof is run with."""
    if name != "crash":
        return range(size)
    singles: list[set[proofs.Crash]] = [{point} for point in proofs.crash_points()]
    return islice([*singles, *proofs.crash_pairs()], size)


def attempt(prove: Callable[[Any], object], some: list[Any]) -> list[tuple[Any, str]]:
    failed = []
    for one in some:
        try:
            prove(one)
        except Exception as error:
            failed.append((one, f"{type(error).__name__}: {error}"))
    return failed


def portions(subjects: list[Any]) -> Iterator[list[Any]]:
    size = max(1, min(500, len(subjects) // 16))
    for start in range(0, len(subjects), size):
        yield subjects[start : start + size]


def run(name: str, size: int) -> bool:
    others: dict[str, Callable[[Any], object]] = {"crash": proofs.scenario, "ages": ages}
    prove = others.get(name) or getattr(proofs, name)
    everything = list(subjects(name, size))
    failed: list[tuple[Any, str]] = []
    began = time.monotonic()
    with ProcessPoolExecutor() as pool, Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=len(everything))
        some = list(portions(everything))
        for portion, found in zip(some, pool.map(partial(attempt, prove), some), strict=True):
            failed += found
            progress.advance(bar, len(portion))
    seconds = time.monotonic() - began
    print(f"{name}: {len(everything)} runs in {seconds:.1f} s, {len(failed)} failed")
    for one, error in failed[:3]:
        print(f"  {name} {one}: {error}")
    row, what, good = ROWS[name]
    print(f"result: {row} | {len(everything):,} {what} | {f'{len(failed):,} failed' if failed else good}", flush=True)
    return not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*SIZES, "all"])
    parser.add_argument("size", type=int, nargs="?", help="how many runs")
    options = parser.parse_args()
    names = list(SIZES) if options.name == "all" else [options.name]
    failed = [name for name in names if not run(name, options.size or SIZES[name])]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
