"""Openings that are held up in their midst, by a real lock, and systems without threads."""

from __future__ import annotations

import fcntl
import os
import resource
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path


class Writer:
    """Another program that writes into a database: who wants to do so, too, waits for it, for a second at most."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("BEGIN IMMEDIATE")

    def let_go(self) -> None:
        self._connection.rollback()


@contextmanager
def written_into(database: Path) -> Iterator[Writer]:
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as connection:
        yield Writer(connection)


class Opening:
    """The next opening of a database that is closed. Whoever has made the file beside it has our lock (T-79), or will
    have it whatever becomes of who asked for that."""

    def __init__(self, database: Path) -> None:
        self._lock_file = database.with_name(f"{database.name}.lock")
        self._lock_file.unlink()

    def begun(self) -> bool:
        return self._lock_file.exists()


def is_free(database: Path) -> bool:
    """Nobody has it open."""
    with database.with_name(f"{database.name}.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Meanwhile the system has no room for another thread."""
    size = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(size)


@contextmanager
def few_descriptors(free: int) -> Iterator[None]:
    """Meanwhile this process may have so many more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd"))) + 1
    with ExitStack() as ending:
        ending.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, limits[1]))
        with suppress(OSError):
            while True:
                ending.enter_context(open(os.devnull))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + free, limits[1]))
        yield
