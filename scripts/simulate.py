"""Simulated networks on all cores: `simulate.py SCHEDULES [FIRST_SEED]`, or one with `--seed N [--trace]`.

With `--reactive` they are networks of the Reactive Streams protocol (`tolliver_proto.reactive.testing.StreamNet`).
The idea: a seed is a whole story (`tolliver_proto.testing.SimNet`), so a search is a range of seeds and a failure is
one number. The first failure is made as short as it gets (fewer nodes, operations, seconds and faults, as long as it
fails the same way) and printed whole; `--seed N --trace` prints the long story of any. Exit status 1 if one failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tolliver_proto import testing
from tolliver_proto.reactive import testing as reactive_testing
from tolliver_proto.testing import Shrunk, SimFailure, SimNet

_RUN = 25  # seeds that a process takes at a time
_LIVES = 400  # what making a failure short may cost


class Kind(NamedTuple):
    """What is simulated."""

    net: Callable[..., SimNet | reactive_testing.StreamNet]
    shrink: Callable[[int, int], Shrunk | None]


KINDS = {
    "node": Kind(SimNet, testing.shrink),
    "reactive": Kind(reactive_testing.StreamNet, reactive_testing.shrink),
}


def run(kind: str, first: int, last: int) -> tuple[Counter[str], dict[int, str]]:
    """Seeds from first to last: totals, and the failures by seed."""
    totals: Counter[str] = Counter()
    failures = {}
    for seed in range(first, last + 1):
        try:
            report = KINDS[kind].net(seed).run()
        except SimFailure as failure:
            failures[seed] = str(failure)
        else:
            totals.update(report.counts, steps=report.steps, virtual_seconds=int(report.virtual_seconds))
        totals["schedules"] += 1
    return totals, failures


def runs(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, _RUN):
        yield start, min(start + _RUN, first + count) - 1


def search(kind: str, first: int, count: int) -> int:
    totals: Counter[str] = Counter()
    failures: dict[int, str] = {}
    began = time.monotonic()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with ProcessPoolExecutor() as pool, Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=count)
        for future in as_completed([pool.submit(run, kind, *seeds) for seeds in runs(first, count)]):
            more, failed = future.result()
            totals += more
            failures |= failed
            rate = totals["schedules"] / (time.monotonic() - began)
            progress.update(bar, completed=totals["schedules"], description=f"{rate:.0f}/s, {len(failures)} failed")
            if failures:
                pool.shutdown(cancel_futures=True)
                break
    seconds = time.monotonic() - began
    done = totals.pop("schedules")
    print(
        f"{done} schedules in {seconds:.1f} s on {os.cpu_count()} cores, {done / seconds:.0f}/s, {len(failures)} failed"
    )
    print(", ".join(f"{number} {name}" for name, number in sorted(totals.items())))
    if failures:
        tell(kind, min(failures), failures[min(failures)])
    return 1 if failures else 0


def tell(kind: str, seed: int, story: str) -> None:
    """The failure as it was found, then short."""
    print(f"\n{story.splitlines()[0]}\nLooking for a shorter story that fails in the same place ...", flush=True)
    short = KINDS[kind].shrink(seed, _LIVES)
    if short is None:
        print(f"It did not fail again: not all of it is in the seed.\n{story}")
        return
    net = KINDS[kind].net(short.seed, **short.scenario, trace=True)
    try:
        net.run()
    except SimFailure as failure:
        print("\n".join(net.lines))
        print(str(failure).splitlines()[0])
    arguments = ", ".join(f"{name}={value!r}" for name, value in short.scenario.items())
    print(f"\nThe shortest of {short.lives} tries: {type(net).__name__}({short.seed}, {arguments}).run()")


def show(kind: str, seed: int, trace: bool) -> int:
    net = KINDS[kind].net(seed, trace=trace)
    try:
        outcome, failed = str(net.run()), False
    except SimFailure as failure:
        outcome, failed = str(failure).splitlines()[0] if trace else str(failure), True
    if trace:
        print("\n".join(net.lines))
    print(outcome)
    return int(failed)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", type=int, nargs="?", default=1000, help="how many seeds to run")
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument(
        "--reactive", action="store_const", dest="kind", const="reactive", default="node", help="streams"
    )
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every line")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return show(options.kind, options.seed, options.trace)
    return search(options.kind, options.first, options.schedules)


if __name__ == "__main__":
    sys.exit(main())
