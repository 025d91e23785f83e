"""Memory and time that messages for later take: a million of them, each with a time of its own.

    python -m scripts.prove.later [number of messages]

Says how much the memory of the process grows while they are stored, and with an opening that finds them, and how long
the first look for what is due takes. Exit status 1 if the memory grows by more than 64 MiB.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from tolliver.sqlite import SQLiteStore

from tolliver_proto import Commit, Fetch, Node
from tolliver_proto.node import PATTERNS, ForLater
from tolliver_proto.store import Find

ME = UUID("01890000-0000-7000-8000-00000000000a")
_AT_ONCE = 1000  # sends that one commit stores
_MOST = 86_400.0  # seconds until the last is due
_AIM = 64.0  # MiB


def memory() -> float:
    """MiB of memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 2**20


def run(node: Node, store: SQLiteStore) -> None:
    """Does what the node asks for, until it asks for nothing."""
    while (action := node.next_action()) is not None:
        if isinstance(action, Commit):
            store.commit(action.operations)
            node.committed(action.batch_id)
        elif isinstance(action, Find):
            node.found(action.search_id, action.ask(store))
        elif isinstance(action, Fetch):
            node.fetched(action.peer, store.fetch(action.peer, action.after_seq, action.max_count, action.max_bytes))


def opened(store: SQLiteStore) -> Node:
    return Node(instance_id=ME, rng=random.Random(1), loaded=store.load(), patterns=PATTERNS, now=0.0)


def main(count: int) -> int:
    dice = random.Random(1)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "node.db"
        with closing(SQLiteStore(path, instance_id=ME)) as store:
            node = opened(store)
            before, began = memory(), time.monotonic()
            for _ in range(count // _AT_ONCE):
                for _ in range(_AT_ONCE):
                    node.use(ForLater).send_later([("c", "", bytes(100))], after=60 + dice.random() * _MOST)
                run(node, store)
            stored, took = memory() - before, time.monotonic() - began
        with closing(SQLiteStore(path, instance_id=ME)) as store:
            before, began = memory(), time.monotonic()
            node = opened(store)
            again, opening = memory() - before, time.monotonic() - began
            waiting, began = node.stats().later, time.monotonic()
            first = store.later(1)[0].expires_in
            looking = time.monotonic() - began
    print(f"stored in {took:.0f} s; the first is due in {first:.1f} s, found in {1000 * looking:.1f} ms")
    print(
        f"result: later | {waiting:,} messages that wait | {stored:.1f} MiB more while they are stored, "
        f"{again:.1f} MiB with an opening of {opening:.1f} s"
    )
    return int(waiting != count or max(stored, again) > _AIM)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
