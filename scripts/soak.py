"""Soak: kills of a sender and a receiver, and losses counted (V7).

    python scripts/soak.py [KILLS] [--seed N] [--messages N]     10,000 kills and a random seed by default

It goes on past the kills until so many messages were accepted (a hundred for each kill, by default), and ends with exit
status 1 if one was lost, or came that was never sent, or if the sender could not drain its outbox at the end.

Rounds of a hundred kills each have databases of their own, so that a failure is found near its seed. A seed decides
which adapters a round uses, and its moments: `python -m tests.killing DIRECTORY 100 SEED` repeats it.
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

ROOT = Path(__file__).parent.parent
ROUND = 100
FIGURES = ("kills", "messages", "lost", "unexpected", "duplicates", "drained")


def one_round(seed: int, kills: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.killing", directory, str(kills), str(seed)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return {**dict.fromkeys(FIGURES, 0), "kills": kills, "recoveries": [], "draining": 0.0, "error": done.stderr}
    result: dict[str, Any] = json.loads(done.stdout)
    bad = result["lost"] or result["unexpected"] or not result["drained"]
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
    recoveries: list[float] = []
    drains: list[float] = []
    seeds = count(options.seed)
    began = time.monotonic()

    def rounds() -> None:
        while (total["started"] < options.kills or total["messages"] < wanted) and not total["failed"]:
            seed, kills = next(seeds), min(ROUND, max(10, options.kills - total["started"]))
            total["started"] += kills
            result = one_round(seed, kills)
            total.update({name: result[name] for name in FIGURES})
            total["rounds"] += 1
            total["failed"] += "error" in result
            recoveries.extend(result["recoveries"])
            drains.append(result["draining"])
            print(
                f"seed {seed}: { {name: value for name, value in result.items() if name != 'recoveries'} }", flush=True
            )

    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as pool:
        for running in [pool.submit(rounds) for _ in range(workers)]:
            running.result()
    print(f"{total['rounds']} rounds in {time.monotonic() - began:.0f} s")
    print(f"from a receiver's start to its first message: {shown(recoveries)}; to drain at the end: {shown(drains)}")
    print(
        f"result: V7 | {total['kills']:,} kills | {total['messages']:,} messages, {total['lost']} lost, "
        f"{total['unexpected']} unexpected, {total['duplicates']:,} duplicates, first message after {shown(recoveries)}"
    )
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
