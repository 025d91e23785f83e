"""Simulated networks, on all cores.

    python -m scripts.prove.simulate SCHEDULES [FIRST_SEED]
    python -m scripts.prove.simulate --seed N [--trace]      one

With `--reactive` they are networks of the Reactive Streams protocol (`tolliver_proto.reactive.testing.StreamNet`), with
`--revision GO_2026` and the like instances that speak as another program does. A seed is a whole story
(`tolliver_proto.testing.SimNet`), so a search is a range of seeds and a failure is one number. The first failure is
made as short as it gets (fewer nodes, operations, seconds and faults, as long as it fails the same way) and printed
whole; `--seed N --trace` prints the long story of any. At the end some seeds are run again, here and not in the process
that ran them first: their traces must be the same. Exit status 1 if one failed.

A search from FIRST_SEED on ends with the first failure. Without it a search takes seeds that none has taken before, and
adds them to docs/schedules.json. It notes there those that failed: the next search runs these again, until they hold.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tolliver_proto import Revision, testing
from tolliver_proto.layouts import LAYOUTS
from tolliver_proto.reactive import testing as reactive_testing
from tolliver_proto.testing import Shrunk, SimFailure, SimNet

SO_FAR = Path(__file__).resolve().parents[2] / "docs" / "schedules.json"  # schedules that held, by kind

_RUN = 25  # seeds that a process takes at a time
_MOST = 20  # failures; one more ends a search, which adds nothing then
_LIVES = 400  # the most that making a failure short may cost
_TWICE = 20  # seeds that are run again, from the first one on
_ROWS = {"node": "V5", "reactive": "V5 reactive"}  # of docs/proof.md; the others are foreign


class Kind(NamedTuple):
    """Kind of network that is simulated."""

    net: Callable[..., SimNet | reactive_testing.StreamNet]
    shrink: Callable[[int, int], Shrunk | None]


def speaking(revision: Revision) -> Kind:
    """Networks of this layout."""
    return Kind(partial(SimNet, revision=revision), partial(testing.shrink, revision=revision))


LAYOUTS_SIMULATED = [revision.name for revision in Revision if LAYOUTS[revision].has_acks]
KINDS = {
    "node": Kind(SimNet, testing.shrink),
    "reactive": Kind(reactive_testing.StreamNet, reactive_testing.shrink),
    **{name: speaking(Revision[name]) for name in LAYOUTS_SIMULATED},
}


class Outcome(NamedTuple):
    """Of some seeds: totals, the failures by seed, the hashes of the others' traces."""

    totals: Counter[str]
    failures: dict[int, str]
    traces: dict[int, int]


def run(kind: str, first: int, last: int) -> Outcome:
    """Seeds from first to last."""
    totals: Counter[str] = Counter()
    failures = {}
    traces = {}
    for seed in range(first, last + 1):
        try:
            report = KINDS[kind].net(seed).run()
        except SimFailure as failure:
            failures[seed] = str(failure)
        else:
            totals.update(report.counts, steps=report.steps, virtual_seconds=int(report.virtual_seconds))
            traces[seed] = report.trace_hash
        totals["schedules"] += 1
    return Outcome(totals, failures, traces)


def runs(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, _RUN):
        yield start, min(start + _RUN, first + count) - 1


def changed(kind: str, traces: dict[int, int]) -> list[int]:
    """The seeds whose second trace is another one."""
    return [seed for seed, trace in traces.items() if KINDS[kind].net(seed).run().trace_hash != trace]


def search(kind: str, given: int | None, count: int, shorten: bool) -> int:
    so_far = json.loads(SO_FAR.read_text("utf-8"))
    failed = f"{kind} failed"
    first, again, most = (given, [], 0) if given is not None else (so_far.get(kind, 0), so_far.get(failed, []), _MOST)
    totals: Counter[str] = Counter()
    failures: dict[int, str] = {}
    traces: dict[int, int] = {}
    began = time.monotonic()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with ProcessPoolExecutor() as pool, Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("", total=len(again) + count)
        seeds = [*zip(again, again, strict=True), *runs(first, count)]
        for future in as_completed([pool.submit(run, kind, *some) for some in seeds]):
            more = future.result()
            totals += more.totals
            failures |= more.failures
            traces |= {seed: trace for seed, trace in more.traces.items() if seed < first + _TWICE}
            rate = totals["schedules"] / (time.monotonic() - began)
            progress.update(bar, completed=totals["schedules"], description=f"{rate:.0f}/s, {len(failures)} failed")
            if len(failures) > most:
                pool.shutdown(cancel_futures=True)
                break
    seconds = time.monotonic() - began
    done, cores = totals.pop("schedules"), os.cpu_count()
    print(f"{done} schedules in {seconds:.1f} s on {cores} cores")
    print(", ".join(f"{number} {name}" for name, number in sorted(totals.items())))
    for seed in sorted(failures):
        tell(kind, seed, failures[seed], shorten and seed == min(failures))
    other = changed(kind, traces)
    if other:
        print(f"not all of a story is in its seed: the traces of {other} were others the second time")
    row, rate, sum_of_all = _ROWS.get(kind, "foreign"), done / seconds, ""
    if given is None and len(failures) <= _MOST and not other:
        so_far |= {kind: first + count, failed: sorted(failures)}
        SO_FAR.write_text(json.dumps({name: one for name, one in so_far.items() if one}, indent=1) + "\n", "utf-8")
        sum_of_all = f", {first + count - len(failures):,} held by the versions since {so_far['since']}"
    print(
        f"result: {row} | {done:,} schedules | {len(failures)} failures{sum_of_all}, {rate:.0f} schedules/s on "
        f"{cores} cores, same seed same trace: {len(traces) - len(other)} of {len(traces)} seeds"
    )
    return 1 if failures or other else 0


def tell(kind: str, seed: int, story: str, shorten: bool) -> None:
    """The failure as it was found, then short."""
    print(f"\n{story.splitlines()[0]}")
    if not shorten:
        return
    print("Looking for a shorter story that fails in the same place ...", flush=True)
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
    parser.add_argument("first", type=int, nargs="?", help="the first seed")
    parser.add_argument(
        "--reactive", action="store_const", dest="kind", const="reactive", default="node", help="streams"
    )
    parser.add_argument("--revision", choices=LAYOUTS_SIMULATED, dest="kind", help="the layout that all speak")
    parser.add_argument("--as-found", action="store_true", help="do not look for a shorter story of a failure")
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every line")
    options = parser.parse_args(arguments)
    if options.schedules < 1:
        parser.error(f"{options.schedules} schedules are none: give 1 or more")
    if options.trace and options.seed is None:
        parser.error("--trace prints the story of one seed: give --seed N, too")
    if options.seed is not None:
        return show(options.kind, options.seed, options.trace)
    return search(options.kind, options.first, options.schedules, not options.as_found)


if __name__ == "__main__":
    sys.exit(main())
