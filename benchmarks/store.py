"""Costs of the durable store: commits, reading, a long backlog, size on disk.

The bare loop is one `executemany` into one plain table in a transaction, with the same pragmas; rows are only added
there. All subjects take turns in one run, and each ratio is to the bare loop's rows a second:

- `stored`: messages for one peer; `removed`: each commit also removes what the one before it stored, as it goes on for
  ever; `read`: and what it has stored is read back once; `workers`: and each message of a commit is for another of
  three peers.

They run alone, beside a thread that does what an event loop does (a little work, a system call, over and over), and
beside one that never gives up the interpreter's lock by itself: SQLite gives it up at each step, and then has to get
it back.

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

from tolliver.sqlite import SQLiteStore

from tolliver_proto.store import Operation, RemoveDeliveries, RemoveMessages, StoredMessage, StoreMessages

OURS = UUID("01890000-0000-7000-8000-000000000001")
WORKERS = [UUID(f"01890000-0000-7000-8000-00000000000{number}") for number in (2, 3, 4)]
PEER = WORKERS[0]
ONE, EACH = (PEER,), [(worker,) for worker in WORKERS]
BODY = bytes(100)
BATCHES = (1, 10, 100, 1000, 10_000)
TURNS = 20


Commit = Callable[[], object]
Prepare = Callable[[int, int], Commit]
"""From the first number and the count of new rows to the commit that is timed."""


def run_of(first: int, count: int, body: bytes = BODY) -> StoreMessages:
    messages = [StoredMessage(seq, seq, "channel", "key", body, 27 + len(body)) for seq in range(first, first + count)]
    return StoreMessages(messages, [ONE] * count)


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


@contextmanager
def read_back(directory: Path) -> Iterator[Prepare]:
    """And all that was stored is read once, in pieces as a node asks for them."""
    with closing(SQLiteStore(directory / "store.db", instance_id=OURS)) as store:

        def run(first: int, count: int) -> Callable[[], None]:
            gone = [(max(1, first - count), first - 1)]
            operations: list[Operation] = [run_of(first, count), RemoveDeliveries(PEER, gone), RemoveMessages(gone)]

            def commit() -> None:
                store.commit(operations)
                after = first - 1
                while rows := store.fetch(PEER, after, 256, 8 * 2**20):
                    after = rows[-1].seq

            return commit

        yield run


@contextmanager
def for_workers(directory: Path) -> Iterator[Prepare]:
    with closing(SQLiteStore(directory / "store.db", instance_id=OURS)) as store:

        def prepare(first: int, count: int) -> Commit:
            gone = [(max(1, first - count), first - 1)]
            messages = run_of(first, count).messages
            stored = StoreMessages(messages, [EACH[message.seq % 3] for message in messages])
            removed = [RemoveDeliveries(worker, gone) for worker in WORKERS]
            return partial(store.commit, [stored, *removed, RemoveMessages(gone)])

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


SUBJECTS = {"stored": stored, "removed": stored_and_removed, "read": read_back, "workers": for_workers}


def commits(directory: Path, seconds: float) -> None:
    print(f"{'beside':12}{'rows':>6}{'bare rows/s':>14}" + "".join(f"{name:>20}" for name in SUBJECTS))
    for beside in (nothing, event_loop, spinning):
        for count in BATCHES:
            with ExitStack() as stack:
                subjects = []
                for subject in (bare, *SUBJECTS.values()):
                    scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=directory))
                    subjects.append(stack.enter_context(subject(Path(scratch))))
                base, *others = rates(subjects, count, beside, seconds)
            columns = "".join(f"{rate:13,.0f} {rate / base:6.2f}" for rate in others)
            print(f"{beside.__name__:12}{count:6}{base:14,.0f}{columns}", flush=True)


def fill(path: Path, backlog: int, run: int, holes: bool) -> None:
    """Messages of 1 kB, so many a commit; with holes, every second one is acknowledged."""
    with closing(SQLiteStore(path, instance_id=OURS)) as store:
        for first in range(1, backlog + 1, run):
            last = min(first + run - 1, backlog)
            store.commit([run_of(first, last + 1 - first, bytes(1000))])
            if holes:
                gone = [(seq, seq) for seq in range(first + 1, last + 1, 2)]
                store.commit([RemoveDeliveries(PEER, gone), RemoveMessages(gone)])


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
    print(f"on disk: {path.stat().st_size / pending / 1000:.2f} times the bodies")
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
    for run, holes in ((1000, False), (1000, True), (1, False)) if options.backlog else ():
        with tempfile.TemporaryDirectory(dir=options.directory) as scratch:
            path = Path(scratch) / "backlog.db"
            fill(path, options.backlog, run, holes)
            print(f"{options.backlog:,} of 1 kB, {run:,} a commit{', every second one acknowledged' if holes else ''}:")
            sys.stdout.flush()
            subprocess.run([sys.executable, __file__, "--open", path], check=True)  # a process that has seen none of it


if __name__ == "__main__":
    main()
