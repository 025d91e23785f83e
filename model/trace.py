"""Traces of simulated nodes, held to the model.

python -m model.trace SEED FILE         write the trace of a seed of the simulator, a step in each line
python -m model.trace FILE              take a trace: accepted, or refused with the step and what it breaks
python -m model.trace --schedules N     make and take N of them: short ones, and every fiftieth in full

Exit status 1 if a trace is refused, or a schedule fails. The steps are those of
`tolliver_proto.testing.SimNet(seed, steps=...)`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from model.machine import Refused, Step, accept
from tolliver_proto import Policy
from tolliver_proto.testing import SimFailure, SimNet, Weather

SHORT = {"nodes": 2, "seconds": 10.0, "operations": 30}
NOTED = {**SHORT, "policy": Policy(dedupe=1000, dedupe_durable=True)}
HELD = {**SHORT, "policy": Policy(dedupe=1000, unsubscribed_hold=4.0), "seconds": 20.0, "operations": 60}
STUCK = {**SHORT, "policy": Policy(stuck_after=2.0, handling_timeout=8.0), "weather": Weather(handler_hangs=0.2)}
SCENARIOS = (SHORT, NOTED, HELD, STUCK)
IN_FULL = 50  # of so many schedules one is of the simulator's usual size
_RUN = 50  # schedules that a process takes at a time


def written(seed: int, scenario: dict[str, Any]) -> tuple[list[Step], str]:
    """Steps of a schedule, and what the simulator's own checks say against it."""
    steps: list[Step] = []
    try:
        SimNet(seed, steps=steps.append, **scenario).run()
    except SimFailure as failure:
        return steps, str(failure).splitlines()[0]
    return steps, ""


def refusal(seed: int) -> tuple[int, str, str]:
    """Of a schedule: number of its steps, why its trace is refused, and what the simulator itself says."""
    steps, said = written(seed, SCENARIOS[seed // 8 % len(SCENARIOS)] if seed % IN_FULL else {})
    try:
        return accept(steps, whole=not said), "", said
    except Refused as refused:
        return len(steps), f"seed {seed}: {refused}", said


def _refusals(first: int, last: int) -> list[tuple[int, str, str]]:
    return [refusal(seed) for seed in range(first, last)]


def schedules(first: int, count: int) -> int:
    """Make and take this many traces on all cores."""
    last, total, refused, failed = first + count, 0, list[str](), list[str]()
    with ProcessPoolExecutor() as pool:
        starts = range(first, last, _RUN)
        for part in pool.map(_refusals, starts, (min(start + _RUN, last) for start in starts)):
            total += sum(steps for steps, _, _ in part)
            refused += [why for _, why, _ in part if why]
            failed += [said for _, _, said in part if said]
    print("\n".join((*refused, *failed)), file=sys.stderr)
    own = f", {len(failed)} of them fail in the simulator's own checks" if failed else ""
    print(f"result: traces-model | {count:,} schedules, {total:,} steps | {len(refused)} refused by the model{own}")
    return 1 if refused or failed else 0


def _silence() -> None:
    """Take the simulator's own checks out, so that the traces alone must tell."""
    checks = ("check", "audit", "check_memory", "check_drops", "check_owners")
    for name, module in list(sys.modules.items()):
        if name.startswith("tolliver_proto._testing."):
            for one in checks:
                if hasattr(module, one):
                    setattr(module, one, lambda *_arguments: None)


def judge(count: int) -> int:
    """Say the first refusal of this many schedules, whose own checks are silent: for mistakes that are planted."""
    _silence()
    for seed in range(1, count + 1):
        _, why, _ = refusal(seed)
        if why:
            print(why)
            return 1
    return 0


def read(path: str) -> Iterator[Step]:
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                step = json.loads(line)
            except ValueError:
                raise Refused(f"step {number}: the line is no JSON") from None
            if not isinstance(step, dict):
                raise Refused(f"step {number}: the line is no step")
            yield step


def write(seed: int, path: str) -> int:
    steps, said = written(seed, {})
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(step)}\n" for step in steps)
    except OSError as error:
        print(f"{path} cannot be written: {error}", file=sys.stderr)
        return 2
    print(f"{path}: {len(steps)} steps of seed {seed}{f', which fails: {said}' if said else ''}")
    return 1 if said else 0


def take(path: str) -> int:
    try:
        number = accept(read(path))
    except Refused as refused:
        print(f"refused: {refused}")
        return 1
    except (OSError, UnicodeDecodeError) as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return 2
    print(f"accepted: {number} steps")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="SEED FILE", help="a seed and a file to write, or a file to take")
    parser.add_argument("--schedules", type=int, metavar="N", help="make and take this many traces")
    parser.add_argument("--first", type=int, default=0, help="the first seed of these")
    parser.add_argument("--judge", type=int, metavar="N", help=argparse.SUPPRESS)
    options = parser.parse_args()
    words: list[str] = options.words
    asked: Callable[[], int] | None = None
    if options.judge is not None:
        asked = partial(judge, options.judge)
    elif options.schedules is not None and options.schedules < 1:
        parser.error(f"{options.schedules} schedules are none: give 1 or more")
    elif options.schedules is not None:
        asked = partial(schedules, options.first, options.schedules)
    elif len(words) == 1:
        asked = partial(take, words[0])
    elif len(words) == 2 and words[0].isdecimal():
        asked = partial(write, int(words[0]), words[1])
    if asked is None:
        parser.error("give SEED FILE to write a trace, or FILE to take one")
    return asked()


if __name__ == "__main__":
    sys.exit(main())
