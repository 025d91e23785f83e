"""Kill a sender and a receiver again and again, and count what was lost (PROOF V7).

    python scripts/soak.py [KILLS] [SEED]      1,000 kills and a random seed by default; exit status 1 if any was lost

The idea: rounds of a hundred kills, each with databases of its own, so that a failure is found near its seed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROUND = 100


def main() -> int:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(2**31)
    total: Counter[str] = Counter()
    started = time.monotonic()
    while total["kills"] < kills:
        count = min(ROUND, kills - total["kills"])
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "-m", "tests.killing", directory, str(count), str(seed)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        result = json.loads(done.stdout)
        print(f"seed {seed}: {result}", flush=True)
        total.update(result)
        total["rounds"] += 1
        if result["lost"] or result["unexpected"] or not result["drained"]:
            print(done.stderr)
            break
        seed += 1
    good = not total["lost"] and not total["unexpected"] and total["drained"] == total["rounds"]
    print(
        f"{total['kills']} kills in {time.monotonic() - started:.0f} s, {total['messages']} messages, "
        f"{total['lost']} lost, {total['unexpected']} unexpected, {total['duplicates']} duplicates"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
