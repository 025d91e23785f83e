"""The pure and the compiled build beside others, in one run: the table of the compiled build's aims.

    make compiled-bench                                 # builds nothing: call `make compiled` before
    python benchmarks/builds.py [--seconds 1] [--runs 3] [--only ROW ...] [--json FILE]

Run the second one in build/compiled/tree, with it and its transports on PYTHONPATH. Both builds take turns with the
contestant that a row names, as in benchmarks/peers.py, so that each ratio is of one run; the medians of the ratios are
printed. `frames` is messages read by `Connection`, of a bare loop (benchmarks/wire.py); `simulator` is schedules of
SimNet a second, compiled of pure. A row is left out, by name, if it needs what is not installed. All rows take some
eight minutes on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent)]  # its parts are beside it, as for peers.py

from benchmarks._peers.rows import ASYNCIO, BARE, ROWS, THREADS, Contestant  # noqa: E402  # the line above comes first
from benchmarks._peers.running import Bench, Table, run  # noqa: E402  # as above
from benchmarks.wire import jobs_of, seconds_for  # noqa: E402  # as above
from tolliver_proto import Revision  # noqa: E402  # as above

SWITCHES = {"pure": "TOLLIVER_PURE", "compiled": "TOLLIVER_REQUIRE_COMPILED"}
FRAMES, SCHEDULES = 50_000, 10
BARE_LOOP, READING = "bare parse loop", "Connection, reading"  # jobs of benchmarks/wire.py


@dataclass(frozen=True)
class Aim:
    """Bounds of one figure of ours, as a ratio to that of another contestant."""

    name: str
    row: str
    """Of benchmarks/peers.py; here where it is empty."""

    of: str
    """The other contestant; that one's own build where it is one of ours."""

    pure: float
    compiled: float
    ours: str = ASYNCIO
    at_most: bool = False


AIMS = (
    Aim("fire, asyncio, of pyzmq", "fire", "pyzmq", 0.40, 0.70),
    Aim("one, of SQLite and a socket", "one", "SQLite FULL and a blocking socket", 0.55, 0.70),
    Aim("tasks, of JetStream", "tasks", "nats-py JetStream", 1.05, 1.6),
    Aim("many-1000, of bare SQLite", "many-1000", "SQLite FULL, 1,000 rows a commit", 0.38, 0.55),
    Aim("round trip, asyncio, times the bare protocol", "round-trip", BARE, 1.8, 1.5, at_most=True),
    Aim("fire, threads, of asyncio's", "fire", ASYNCIO, 0.45, 0.45, ours=THREADS),
    Aim("streams of 100 B, window 16, times rsocket-py", "streams-100-16", "rsocket-py", 4, 6),
    Aim("frames read, of a bare loop", "", "frames", 0.85, 2),
    Aim("simulator, schedules, times pure", "", "simulator", 1, 3),
)


def choose(build: str) -> None:
    """Has processes that start from now on run this build, or any where it is empty."""
    for name, switch in SWITCHES.items():
        os.environ[switch] = "1" if name == build else ""


def of_builds(contestant: Contestant) -> tuple[Contestant, ...]:
    """The contestant; one of ours once for each build."""
    if not contestant.is_ours:
        return (contestant,)
    return tuple(replace(contestant, name=f"{contestant.name}, {build}") for build in SWITCHES)


def beside_others(aims: Sequence[Aim], seconds: float, runs: int) -> Table:
    wanted = {(aim.row, name) for aim in aims for name in (aim.ours, aim.of)}
    rows = [
        replace(
            row,
            contestants=tuple(
                turn for one in row.contestants if (row.name, one.name) in wanted for turn in of_builds(one)
            ),
        )
        for row in ROWS
        if any(row.name == aim.row for aim in aims)
    ]
    with Bench(seconds) as bench:

        def measure(contestant: Contestant) -> dict[str, float]:
            choose(contestant.name.rpartition(", ")[2] if contestant.is_ours else "")
            return bench.measure(contestant)

        return run(rows, measure, runs, partial(print, file=sys.stderr, flush=True))


def ratios(table: Table, aim: Aim, build: str) -> list[float]:
    """Of each run; empty where a contestant was left out."""
    row = next(one.row for one in table.results if one.row.name == aim.row)
    of = f"{aim.of}, {build}" if aim.of.startswith("tolliver") else aim.of
    ours, theirs = table.result(row, f"{aim.ours}, {build}"), table.result(row, of)
    if ours is None or theirs is None:
        return []
    return [one[row.figure] / other[row.figure] for one, other in zip(ours.runs, theirs.runs, strict=True)]


# Without sockets.


def frames() -> float:
    """Speed of reading frames, of that of a bare loop."""
    jobs = jobs_of(FRAMES, Revision.DRAFT_2)
    bare, ours = (min(seconds_for(jobs[name], FRAMES) for _ in range(5)) for name in (BARE_LOOP, READING))
    return bare / ours


def simulator() -> float:
    """Schedules a second of processor time."""
    from tolliver_proto.testing import SimNet

    began = time.process_time()
    for seed in range(SCHEDULES):
        SimNet(seed).run()
    return SCHEDULES / (time.process_time() - began)


ALONE: dict[str, Callable[[], float]] = {"frames": frames, "simulator": simulator}


def alone(kind: str, runs: int) -> dict[str, list[float]]:
    """Figures of a kind without others, by build, each in a process of its own."""
    found: dict[str, list[float]] = {build: [] for build in SWITCHES}
    for _ in range(runs):
        for build, figures in found.items():
            print(f"{kind}: {build}", file=sys.stderr, flush=True)
            choose(build)
            command = [sys.executable, str(Path(__file__).resolve()), "--one", kind]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            figures.append(float(done.stdout))
    if kind == "simulator":
        per_run = [made / pure for made, pure in zip(found["compiled"], found["pure"], strict=True)]
        return {"pure": [1.0] * runs, "compiled": per_run}
    return found


def cells(aim: Aim, build: str, figures: list[float]) -> str:
    bound = getattr(aim, build)
    if not figures:
        return "left out |"
    value = statistics.median(figures)
    is_met = value <= bound if aim.at_most else value >= bound
    return f"{value:.3g} | {bound:g}: {'yes' if is_met else 'no'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=[], metavar="ROW", help="aims whose names begin so")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the ratios of each run there, too")
    parser.add_argument("--one", choices=ALONE, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(ALONE[options.one]())
        return
    aims = [aim for aim in AIMS if not options.only or aim.name.startswith(tuple(options.only))]
    table = beside_others([aim for aim in aims if aim.row], options.seconds, options.runs)
    found: dict[str, dict[str, list[float]]] = {}
    for aim in aims:
        found[aim.name] = (
            {build: ratios(table, aim, build) for build in SWITCHES} if aim.row else alone(aim.of, options.runs)
        )
    print("| work | pure | aim | compiled | aim |\n|---|---|---|---|---|")
    for aim in aims:
        print(f"| {aim.name} | " + " | ".join(cells(aim, build, found[aim.name][build]) for build in SWITCHES) + " |")
    for one in table.left_out:
        print(f"left out: {one.row}, {one.contestant}: {one.reason}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
