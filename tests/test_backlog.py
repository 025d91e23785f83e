"""Backlog of an absent peer: on disk, and hardly in memory.

The full size, and the time, are the business of `scripts/prove/backlog.py`.
"""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tolliver._store.sqlite import SQLiteStore

from scripts.prove import backlog
from tolliver_proto import Commit, Node, Subscription
from tolliver_proto.store import Loaded, ReplacePeerSubscriptions

OURS, AWAY = UUID(int=1), UUID(int=2)
MESSAGES, RUN, BODY = 20_000, 500, 1000
SCRIPT = backlog.__file__


@contextmanager
def traced() -> Iterator[list[int]]:
    """[kept, at most] bytes of Python objects, once it is over."""
    figures: list[int] = []
    tracemalloc.start()
    try:
        yield figures
        figures += tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def opened(path: Path) -> SQLiteStore:
    return SQLiteStore(path, instance_id=OURS)


def node_of(loaded: Loaded) -> Node:
    return Node(instance_id=OURS, rng=Random(0), loaded=loaded)


def queue(node: Node, store: SQLiteStore, messages: int) -> None:
    for first in range(0, messages, RUN):
        bodies = [number.to_bytes(4, "big") * (BODY // 4) for number in range(first, first + RUN)]
        node.send_many([("readings", "cpu0", body) for body in bodies])
        while (action := node.next_action()) is not None:
            if isinstance(action, Commit):
                store.commit(action.operations)
                node.committed(action.batch_id)


def test_a_queued_message_costs_no_memory(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "node.db")) as store:
        store.commit([ReplacePeerSubscriptions(AWAY, [Subscription("readings", "")])])
        node = node_of(store.load())
        queue(node, store, RUN)  # the caches of names and statements are filled
        with traced() as figures:
            queue(node, store, MESSAGES)
    kept, peak = figures
    assert node.peers()[0].pending == MESSAGES + RUN
    assert kept / MESSAGES < 4, "bytes a queued message"
    assert peak < 8 * RUN * BODY, "no more than a few copies of the run that is being stored"

    with closing(opened(tmp_path / "node.db")) as store, traced() as figures:
        node = node_of(store.load())
    assert node.peers()[0].pending == MESSAGES + RUN
    assert figures[1] / MESSAGES < 4, "bytes a queued message, while starting"


def test_a_hole_in_the_backlog_costs_a_few_numbers() -> None:
    """Every other message was for somebody who has acknowledged it."""

    def started() -> Node:
        places = range(1, 2 * MESSAGES, 2)
        live_ids, owed = [(at, at) for at in places], [(at, at, 1) for at in places]
        return node_of(Loaded(live_ids=live_ids, owed=owed, next_seq=2 * MESSAGES))

    with traced() as figures:
        node = started()
    assert node.idle
    assert figures[0] / MESSAGES < 200, "bytes a hole: five numbers in lists"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux tells it")
def test_a_reconnect_reads_no_body_of_what_is_held(tmp_path: Path) -> None:
    """T-61. In processes of their own: what memory was needed at most says nothing where other tests ran before."""
    for step in ("--fill", "--reconnect"):
        command = [sys.executable, SCRIPT, "10000", step, tmp_path / "node.db"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
