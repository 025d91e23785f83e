"""Histories of the real asyncio adapter under a seeded loop.

    python -m scripts.prove.loop [COUNT] [--first SEED] [--trace]

Each history runs in a forked process, so that it depends on its seed alone. Exit status 1 if a seed breaks a promise;
`--trace` prints each history.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from tests.seeded.world import patch_clock_and_entropy, patch_the_rest, world


def in_child(run: Callable[[], str]) -> str:
    """The text that `run` returns, called in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with open(writing, "w") as file:
                file.write(run())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--trace", action="store_true")
    given = parser.parse_args()
    logging.getLogger("tolliver").addHandler(logging.NullHandler())  # notices are part of the history, not news
    with tempfile.TemporaryDirectory() as name:  # made with true entropy
        patch_clock_and_entropy()
        from tests.seeded import story

        patch_the_rest()

        def run() -> str:
            """The trace, and behind it what is broken."""
            try:
                story.run(seed, Path(name) / str(seed))
            except BaseException:
                world.tell(BROKEN, traceback.format_exc())
            return "\n".join(world.trace)

        broken, events, digest = 0, 0, sha256()
        for seed in range(given.first, given.first + given.count):
            trace = in_child(run)
            events += trace.count("\n") + 1
            digest.update(trace.encode())
            if BROKEN in trace:
                broken += 1
                print(f"seed {seed} is broken:{trace.partition(BROKEN)[2]}", flush=True)
            if given.trace:
                print(trace)
    said = f"{given.count:,} histories, {events:,} events | {broken} broken | traces {digest.hexdigest()[:16]}"
    print(f"result: loop | {said}")
    return 1 if broken else 0


BROKEN = "broken:"

if __name__ == "__main__":
    sys.exit(main())
