"""Kills of workers and their producer, and jobs that are lost counted.

    python scripts/work_kills.py [KILLS] [--seed N]     1,000 kills and a random seed by default

Rounds of fifty kills have databases of their own, so that a failure is found near its seed: `python -m tests.work_kills
DIRECTORY 50 SEED` repeats one. By the lists that producer and workers keep themselves, and else the exit status is 1:

1. Each job for which `put` returned is done (`lost` is 0), and nothing is done that was never put (`unexpected`).
2. At the end the queue drains: no job stays with a worker that is gone.

Jobs that were done twice are counted: of what a worker was at when it was killed nobody knows whether it was done.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ROUND = 50


def one_round(seed: int, kills: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.work_kills", directory, str(kills), str(seed)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return {"kills": {}, "jobs": 0, "lost": 0, "unexpected": 0, "twice": 0, "drained": 0, "error": done.stderr}
    result: dict[str, Any] = json.loads(done.stdout)
    return {**result, "error": done.stderr}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    args = parser.parse_args()
    totals, bad = Counter[str](), 0
    for number, left in enumerate(range(args.kills, 0, -ROUND)):
        result = one_round(args.seed + number, min(left, ROUND))
        totals.update({name: result[name] for name in ("jobs", "lost", "unexpected", "twice", "drained")})
        totals.update(result["kills"])
        if result["lost"] or result["unexpected"] or not result["drained"]:
            bad += 1
            print(f"seed {args.seed + number}: {result}", file=sys.stderr)
    print(
        f"result: work | {totals['worker']} workers and {totals['producer']} producers killed | {totals['jobs']} jobs, "
        f"{totals['lost']} lost, {totals['unexpected']} unexpected, {totals['twice']} done twice, {bad} rounds bad"
    )
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
