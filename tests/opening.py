"""Openings that are held up in their midst, by a real lock."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


class HeldUp:
    """A database that another program writes into: who opens it waits for that, for a second at most."""

    def __init__(self, database: Path, other: sqlite3.Connection) -> None:
        self._lock_file = database.with_name(f"{database.name}.lock")
        self._lock_file.unlink()
        self._other = other
        other.execute("BEGIN IMMEDIATE")

    def is_being_opened(self) -> bool:
        """From here on it has our lock (T-79), or will have it whatever happens to who asked for that."""
        return self._lock_file.exists()

    def let_go(self) -> None:
        self._other.rollback()


@contextmanager
def held_up(database: Path) -> Iterator[HeldUp]:
    """`database` is there, and nobody has it open."""
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as other:
        yield HeldUp(database, other)


@contextmanager
def no_more_threads() -> Iterator[None]:
    """Meanwhile the system has no room for another thread."""
    size = threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(size)
