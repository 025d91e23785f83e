"""Memory and time that messages for later take: a million of them, each with a time of its own.

    python -m scripts.prove.later [number of messages]

Prints the memory of the process before and after they are stored, after an opening with them, and how long the first
look for what is due takes.
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


def main(count: int) -> None:
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
            took = time.monotonic() - began
            print(
                f"{node.stats().later:,} stored in {took:.0f} s: {before:.1f} MiB before, {memory():.1f} after",
                flush=True,
            )
        with closing(SQLiteStore(path, instance_id=ME)) as store:
            before, began = memory(), time.monotonic()
            node = opened(store)
            print(
                f"opened in {time.monotonic() - began:.1f} s: {before:.1f} MiB before, {memory():.1f} after", flush=True
            )
            began = time.monotonic()
            first = store.later(1)[0].expires_in
            print(f"the first is due in {first:.1f} s, found in {1000 * (time.monotonic() - began):.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
