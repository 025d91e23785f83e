"""Kills of an instance and of doubles of other programs that it speaks with, and messages that are lost counted.

    python scripts/foreign_kills.py [KILLS] [--seed N]     600 kills and a random seed by default

Rounds of a few kills go through all of Go of 2026, as it is and mended, and Rust of 2026, each on asyncio, trio,
Twisted and threads, dialling and dialled; `python -m tests.foreign_kills DIRECTORY KILLS SEED` repeats one. The exit
status is 1 if a message for which acks exist was lost, if one came that was never sent, if one of Rust's came twice, if
anybody died of himself but as Go does, or if a recording cannot be read in the layout that it names.
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
ROUND = 12
LAST = 2000  # characters of what was said where something is wrong
FIGURES = ("messages", "lost", "unexpected", "recorded")


def one_round(seed: int, kills: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "tests.foreign_kills", directory, str(kills), str(seed)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return {"good": False, "counts": {}, "error": done.stderr[-LAST:]}
    result: dict[str, Any] = json.loads(done.stdout)
    return result if result["good"] else {**result, "error": done.stderr[-LAST:]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=600)
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    args = parser.parse_args()
    totals, bad, rigs = Counter[str](), 0, set[str]()
    for number, left in enumerate(range(args.kills, 0, -ROUND)):
        result = one_round(args.seed + number, min(left, ROUND))
        rigs.add(result.get("rig", ""))
        totals.update({name: result.get(name, 0) for name in FIGURES})
        totals.update(result["counts"])
        if not result["good"]:
            bad += 1
            print(f"seed {args.seed + number}: {result}", file=sys.stderr)
    print(
        f"result: foreign | {totals['kills of ours']} kills of ours and {totals['kills of theirs']} of theirs in "
        f"{len(rigs)} settings | {totals['messages']:,} messages, {totals['lost']} lost, {totals['unexpected']} "
        f"unexpected, {totals['recorded']:,} frames read from recordings, {bad} rounds bad"
    )
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
