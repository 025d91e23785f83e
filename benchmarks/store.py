"""Costs of the durable store: `commit`, and opening a long backlog.

The bare loop is one `executemany` into one plain table in a transaction, with the same pragmas. Both run alone, beside
a thread that does what an event loop does (a little work, a system call, over and over), and beside one that never
gives up the interpreter's lock by itself: SQLite gives it up at each step, and then has to get it back.

    python benchmarks/store.py [--seconds 1.0] [--backlog 1000000] [--directory DIR]
"""

from __future__ import annotations

import argparse
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

from tolliver_transports.sqlite import SQLiteStore

from tolliver_proto import RemoveDeliveries, RemoveMessages, StoredMessage, StoreMessages

OURS = UUID("01890000-0000-7000-8000-000000000001")
PEER = UUID("01890000-0000-7000-8000-000000000002")
BODY = bytes(100)
BATCHES = (1, 10, 100, 1000)
TURNS = 20


Commit = Callable[[], object]
Prepare = Callable[[int, int], Commit]
"""From the first number and the count of new rows to the commit that is timed."""


def run_of(first: int, count: int) -> StoreMessages:
    messages = [StoredMessage(seq, seq, "channel", "key", BODY, 127) for seq in range(first, first + count)]
    return StoreMessages(messages, [(PEER,)] * count)


@contextmanager
def bare(directory: Path) -> Iterator[Prepare]:
    with closing(sqlite3.connect(directory / "bare.db", isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE row(id INTEGER PRIMARY KEY, body BLOB)")

        def commit(rows: list[tuple[int, bytes]]) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO row VALUES (?, ?)", rows)
            connection.execute("COMMIT")

        yield lambda first, count: partial(commit, [(number, BODY) for number in range(first, first + count)])


@contextmanager
def stored(directory: Path) -> Iterator[Prepare]:
    with closing(SQLiteStore(directory / "store.db", instance_id=OURS)) as store:
        yield lambda first, count: partial(store.commit, [run_of(first, count)])


@contextmanager
def stored_and_removed(directory: Path) -> Iterator[Prepare]:
    """As it goes on for ever: each commit also removes what the one before it stored."""
    with closing(SQLiteStore(directory / "store.db", instance_id=OURS)) as store:

        def prepare(first: int, count: int) -> Commit:
            gone = [(max(1, first - count), first - 1)]
            return partial(store.commit, [run_of(first, count), RemoveDeliveries(PEER, gone), RemoveMessages(gone)])

        yield prepare


def nothing(stop: threading.Event) -> None:
    stop.wait()


def event_loop(stop: threading.Event) -> None:
    one, other = socket.socketpair()
    with one, other:
        while not stop.is_set():
            one.send(BODY)
            sum(range(500))
            other.recv(100)


def spinning(stop: threading.Event) -> None:
    count = 0
    while not stop.is_set():
        for _ in range(1000):
            count += 1


def rates(
    subjects: Sequence[Prepare], count: int, beside: Callable[[threading.Event], None], seconds: float
) -> list[float]:
    """Rows a second of each. They take turns, so that what else the machine does meets all of them."""
    stop = threading.Event()
    other = threading.Thread(target=beside, args=(stop,))
    other.start()
    spent, firsts = [0.0] * len(subjects), [1] * len(subjects)
    try:
        while min(spent) < seconds:
            turn = spent.index(min(spent))
            until = spent[turn] + seconds / TURNS
            while spent[turn] < until:
                commit = subjects[turn](firsts[turn], count)
                firsts[turn] += count
                start = time.perf_counter()
                commit()
                spent[turn] += time.perf_counter() - start
    finally:
        stop.set()
        other.join()
    return [(first - 1) / total for first, total in zip(firsts, spent, strict=True)]


def commits(directory: Path, seconds: float) -> None:
    print(f"{'beside':12}{'rows':>6}{'bare rows/s':>14}{'store':>12}{'ratio':>8}{'and removed':>14}{'ratio':>8}")
    for beside in (nothing, event_loop, spinning):
        for count in BATCHES:
            with ExitStack() as stack:
                subjects = []
                for subject in (bare, stored, stored_and_removed):
                    scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=directory))
                    subjects.append(stack.enter_context(subject(Path(scratch))))
                base, plain, removing = rates(subjects, count, beside, seconds)
            print(
                f"{beside.__name__:12}{count:6}{base:14,.0f}{plain:12,.0f}{plain / base:8.2f}"
                f"{removing:14,.0f}{removing / base:8.2f}"
            )


def fill(path: Path, backlog: int) -> None:
    with closing(SQLiteStore(path, instance_id=OURS)) as store:
        for first in range(1, backlog + 1, 50_000):
            store.commit([run_of(first, min(50_000, backlog + 1 - first))])


def resident() -> float:
    """MiB, where /proc says it."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20 if statm.exists() else float("nan")


def open_backlog(path: Path) -> None:
    before, start = resident(), time.perf_counter()
    with closing(SQLiteStore(path, instance_id=None)) as store:
        loaded = store.load()
        spent = time.perf_counter() - start
        grown = resident() - before
        tracemalloc.start()
        store.load()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        start = time.perf_counter()
        rows = store.fetch(PEER, 0, 256, 8 * 2**20)
        fetching = time.perf_counter() - start
    pending = loaded.peers[PEER].pending
    print(f"opening {pending:,} deliveries: {spent:.2f} s, {grown:.0f} MiB resident, {peak:.2f} MiB of Python objects")
    print(f"the first fetch, {len(rows)} rows: {fetching * 1000:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="for each figure")
    parser.add_argument("--backlog", type=int, default=1_000_000, help="deliveries; 0 to leave it out")
    parser.add_argument("--directory", type=Path, default=None, help="on the disk to be measured")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        open_backlog(options.open)
        return
    commits(options.directory, options.seconds)
    if options.backlog:
        with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
            path = Path(scratch) / "backlog.db"
            fill(path, options.backlog)
            subprocess.run([sys.executable, __file__, "--open", path], check=True)  # a process that has seen none of it


if __name__ == "__main__":
    main()
