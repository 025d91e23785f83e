"""Histories of the real asyncio adapter under a seeded loop.

    python -m scripts.prove.loop [COUNT] [--first SEED] [--trace]

Each history runs in a forked process, so that it depends on its seed alone, on all cores. Most of the time goes into
SQLite's fsync: with TMPDIR on a file system in memory, 20,000 of them take half as long. Exit status 1 if a seed breaks
a promise; `--trace` prints each history.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

from tests.seeded.world import patch_clock_and_entropy, patch_the_rest, world


def started(run: Callable[[], str]) -> tuple[int, int]:
    """A forked process that calls `run`, and the end of a pipe to read the text from."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            with open(writing, "w") as file:
                file.write(run())
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading


def ended(child: int, reading: int) -> str:
    """The text of that process, which is over then."""
    with open(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


def in_children(run: Callable[[int], str], seeds: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Each seed, in order, with the text that `run` returns for it, called in a process of its own."""
    at_work: deque[tuple[int, int, int]] = deque()
    for seed in seeds:
        at_work.append((seed, *started(partial(run, seed))))
        if len(at_work) > (os.cpu_count() or 1):
            first, *process = at_work.popleft()
            yield first, ended(*process)
    for first, *process in at_work:
        yield first, ended(*process)


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
        importlib.import_module("anyio._backends._asyncio")  # once, and not in each process
        gc.freeze()

        def run(seed: int) -> str:
            """The trace, and behind it what is broken."""
            try:
                story.run(seed, Path(name) / str(seed))
            except BaseException:
                world.tell(BROKEN, traceback.format_exc())
            return "\n".join(world.trace)

        broken, events, digest = list[int](), 0, sha256()
        for seed, trace in in_children(run, range(given.first, given.first + given.count)):
            events += trace.count("\n") + 1
            digest.update(trace.encode())
            if BROKEN in trace:
                broken.append(seed)
                print(f"seed {seed} is broken:{trace.partition(BROKEN)[2]}", flush=True)
            if given.trace:
                print(trace)
    which = f": seeds {', '.join(map(str, broken))}" if broken else ""
    said = f"{len(broken)} broken{which} | traces {digest.hexdigest()[:16]}"
    print(f"result: loop | {given.count:,} histories, {events:,} events | {said}")
    return 1 if broken else 0


BROKEN = "broken:"

if __name__ == "__main__":
    sys.exit(main())
