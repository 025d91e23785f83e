"""Soak: kills of a sender and a receiver, and losses counted (V7).

    python scripts/soak.py [KILLS] [--seed N] [--messages N]     10,000 kills and a random seed by default

It goes on past the kills until so many messages were accepted (a hundred for each kill, by default). Rounds of a
hundred kills each have databases of their own, so that a failure is found near its seed. A seed decides which adapters
a round uses, its troubles and its moments: `python -m tests.killing DIRECTORY 100 SEED` repeats it.

The troubles (`tests/troubles.py`): kills at any moment, in the opening, in the close; orderly restarts; a
copy that is put back, of the sender's database or the receiver's; another database of the receiver beside its own, or
instead; a new disk.

By the lists that sender and receiver keep themselves, and else the exit status is 1:

1. Each message for which `send` returned is handled (`lost` is 0). After a copy was put back that holds for all but the
   messages of the time between: sent after the copy was made, and only in the file that is gone.
2. Nothing is handled that was never sent (`unexpected`), nor is anything new taken for something old after a copy was
   put back, though the receiver of a third of the rounds knows every id since (T-40, T-48).
3. First copies come in the order in which they were stored (`overtaken`), through all of it (T-46, T-51, T-61).
4. Once the receiver was known, each `send` had a recipient (`nobody`): a list that lacks something holds it (T-61).
5. At the end the outbox drains: nothing is held, parked or waited for that the receiver would take (T-09).
6. Commits that a copy lacks are told at the next opening, unless it was said that a copy was put back; SIGTERM ends an
   instance in order (`wrong`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts.proving.graph import Graph  # noqa: E402  # the line above comes first

ROUND = 100
FIGURES = ("kills", "messages", "lost", "unexpected", "overtaken", "nobody", "duplicates", "not_in_copies", "drained")
BAD = ("lost", "unexpected", "overtaken", "nobody", "wrong")


def one_round(seed: int, kills: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.killing", directory, str(kills), str(seed)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        nothing = {**dict.fromkeys(FIGURES, 0), "troubles": {}, "recoveries": [], "draining": 0.0}
        return {**nothing, "kills": kills, "error": done.stderr}
    result: dict[str, Any] = json.loads(done.stdout)
    bad = any(result[name] for name in BAD) or not result["drained"]
    return {**result, "error": done.stderr} if bad else result


def shown(seconds: list[float]) -> str:
    return f"median {median(seconds):.2f} s, max {max(seconds):.2f} s" if seconds else "none seen"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--messages", type=int, help="accepted ones, at least: 100 for each kill by default")
    options = parser.parse_args()
    wanted = 100 * options.kills if options.messages is None else options.messages
    total: Counter[str] = Counter()
    troubles: Counter[str] = Counter()
    recoveries: list[float] = []
    drains: list[float] = []
    pace: list[float] = []
    seeds = count(options.seed)
    began = time.monotonic()

    def rounds() -> None:
        while (total["started"] < options.kills or total["messages"] < wanted) and not total["failed"]:
            seed, kills = next(seeds), min(ROUND, max(10, options.kills - total["started"]))
            total["started"] += kills
            result = one_round(seed, kills)
            total.update({name: result[name] for name in FIGURES})
            troubles.update(result["troubles"])
            total["rounds"] += 1
            total["failed"] += "error" in result
            recoveries.extend(result["recoveries"])
            drains.append(result["draining"])
            pace.append(total["kills"])
            print(
                f"seed {seed}: { {name: value for name, value in result.items() if name != 'recoveries'} }", flush=True
            )

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        for running in [pool.submit(rounds) for _ in range(workers)]:
            running.result()
    print(f"{total['rounds']} rounds in {time.monotonic() - began:.0f} s")
    print(f"from a receiver's start to its first message: {shown(recoveries)}; to drain at the end: {shown(drains)}")
    print(Graph("kills, as each round ends", pace).said())
    others = ", ".join(f"{number:,} {name}" for name, number in sorted(troubles.items()))
    print(
        f"result: V7 | {total['kills']:,} kills, {others} | "
        f"{total['messages']:,} messages, {total['lost']} lost, {total['unexpected']} unexpected, "
        f"{total['overtaken']} overtaken, {total['duplicates']:,} duplicates, {total['not_in_copies']:,} in no file "
        f"but one that a copy has replaced, first message after {shown(recoveries)}"
    )
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
