"""Programs that tests of the store run as processes.

`python -m tests.store.children NAME PATH`
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tolliver_proto import StoreError
from tolliver_proto.store import RemoveDeliveries, RemoveMessages

from .given import PEER, everything, open_store, seqs, storing


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def holder(path: Path) -> None:
    """Keeps the database open until its input ends."""
    store = open_store(path)
    say("open")
    sys.stdin.read()
    store.close()


def stayer(path: Path) -> None:
    """Makes as many commits as it is told to, and stays until it is killed."""
    store = open_store(path)
    for seq in range(1, int(sys.stdin.readline()) + 1):
        store.commit([storing([seq])])
    say(seq)
    sys.stdin.read()


def filler(path: Path) -> None:
    """Stores until that fails, says how many messages it stored, and stays until its input ends."""
    store = open_store(path)
    stored = 0
    with contextlib.suppress(StoreError):
        while True:
            store.commit([storing([stored + 1], body=bytes(500))])
            stored += 1
    say(stored)
    sys.stdin.read()
    store.close()


def opener(path: Path) -> None:
    """Tries to open the database."""
    try:
        open_store(path).close()
        say("open")
    except StoreError as error:
        say(error)


def unsynced(path: Path) -> None:
    """Its disk syncs no log from some time on; says what it was told, and stays until it is killed."""
    store = open_store(path)
    store.commit([storing([1])])
    Path(os.environ["TOLLIVER_DISK_FAILS"]).touch()
    try:
        store.commit([storing(range(2, 27))])
    except StoreError as error:
        say(f"{type(error).__name__}: {error}")
    sys.stdin.read()


def forker(path: Path) -> None:
    """Dies and leaves a forked child behind, which says what the store tells it and lives until its input ends."""
    store = open_store(path)
    store.commit([storing(range(1, 4))])
    if os.fork():
        os._exit(0)
    for attempt in (store.load, lambda: store.commit([storing([4])]), store.check, store.close):
        try:
            say(attempt())
        except StoreError as error:
            say(error)
    sys.stdin.read()


def writer(path: Path) -> None:
    """Commits until it is killed, and says the last seq of each commit after it."""
    store = open_store(path)
    for count in range(100_000):
        first = store.load().next_seq
        last = first + count % 7
        store.commit([storing(range(first, last + 1))])
        say(last)


@contextlib.contextmanager
def small_files(size: int) -> Iterator[None]:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limited(path: Path) -> None:
    """Goes on past an input/output error: the files may not grow for a while."""
    store = open_store(path)
    store.commit([storing(range(1, 11))])
    with small_files(100_000):
        try:
            store.commit([RemoveDeliveries(PEER, [(1, 5)]), RemoveMessages([(1, 5)]), storing([11], body=bytes(10**6))])
        except StoreError as error:
            say(error)
        say(seqs(everything(store)))
    store.commit([storing([11], body=bytes(10**6))])
    say(seqs(everything(store)))
    store.close()


if __name__ == "__main__":
    {program.__name__: program for program in (holder, stayer, filler, opener, forker, writer, limited, unsynced)}[
        sys.argv[1]
    ](Path(sys.argv[2]))
