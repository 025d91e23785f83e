"""Ctrl-C at random moments in each call of a program on threads, which catches it and goes on.

    python -m scripts.prove.interrupts [TRIALS] [--seed N] [--call NAME ...]     3,000 of each call by default

A trial is one SIGINT from another process while the main thread makes that call, on an instance or on streams. After
it everything must work: a message arrives and is acknowledged, a request is answered, a job is done, an element comes,
what was being opened or closed can be opened. Else the trial is broken, is told with its traceback, and the exit
status is 1. `python -m tests.interrupting CALL` interrupts a call at each line instead.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interrupting import CALLS

ROOT = Path(__file__).resolve().parents[2]

ROUND = 500  # trials in one process
LONGEST = 600.0  # seconds for a round


def one_round(call: str, trials: int, seed: int) -> dict[str, Any]:
    """Ends at the first trial that is broken."""
    command = [sys.executable, "-m", "tests.interrupting", call, "random", str(trials), str(seed)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST)
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"trials": 1, "interrupted": 0, "broken": f"it hangs: nothing has come for {LONGEST:g} s"}
    except (IndexError, json.JSONDecodeError):
        return {"trials": 1, "interrupted": 0, "broken": f"status {done.returncode}: {done.stderr[-2000:]}"}
    return result


def all_rounds(call: str, trials: int, seed: int) -> tuple[int, int, int]:
    made = interrupted = broken = 0
    while made < trials:
        result = one_round(call, min(ROUND, trials - made), seed + made)
        made += max(1, result["trials"])
        interrupted += result["interrupted"]
        if result["broken"]:
            broken += 1
            print(f"{call}, seed {seed + made}: {result['broken']}", file=sys.stderr)
    return made, interrupted, broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trials", type=int, nargs="?", default=3000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--call", nargs="*", default=list(CALLS), choices=list(CALLS))
    args = parser.parse_args()
    made = interrupted = broken = 0
    for call in args.call:
        one = all_rounds(call, args.trials, args.seed)
        print(f"{call}: {one[0]} trials, {one[1]} interrupted in the call, {one[2]} broken", flush=True)
        made, interrupted, broken = made + one[0], interrupted + one[1], broken + one[2]
    print(
        f"result: ctrl-c | {made} times Ctrl-C in {len(args.call)} calls | {interrupted} of them before the call was "
        f"over, {broken} broken"
    )
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
