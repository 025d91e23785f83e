"""Database in memory, for trials and tests.

Nothing of it is on a disk, and it goes with its instance. It has the same tables and statements as a file. There is no
lock, no mark and no reserve, as nobody else can open it and nothing of it survives.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from tolliver_proto import NoticeKind, StoreError

from .checks import make_known, row_check
from .clock import StoreClock
from .file import Failing, failing
from .health import StoreHealth
from .layout import APPLICATION_ID, LAYOUT, TABLES
from .room import Growth

IN_MEMORY = ":memory:"
"""Path of such a database."""


def is_in_memory(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) == IN_MEMORY


class MemoryDatabase:
    """The part of a `DatabaseFile` that a store asks for, without a file."""

    path = IN_MEMORY
    unclean = False
    missing = 0
    sync_seconds = 0.0
    reserved = 0

    def __init__(self, instance_id: UUID | None) -> None:
        if instance_id is None:
            raise StoreError("a database in memory is always new: give an instance_id")
        self.instance_id = instance_id
        self.peers: dict[UUID, int] = {}
        self.news: deque[tuple[NoticeKind, str]] = deque()
        self.next_commit = 1
        self._connection: sqlite3.Connection | None = sqlite3.connect(
            IN_MEMORY, isolation_level=None, check_same_thread=False, cached_statements=128
        )
        self.connection.text_factory = bytes
        make_known(self.connection)
        for statement in TABLES.values():
            self.connection.execute(statement)
        row = (instance_id.bytes, None)
        self.connection.execute("INSERT INTO instance VALUES (1, ?, ?, ?, 0)", (*row, row_check(*row)))
        self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self.connection.execute(f"PRAGMA user_version = {LAYOUT}")

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError("the database in memory is closed, and what was in it is gone")
        return self._connection

    def failing(self, doing: str, *malformed: type[Exception]) -> Failing:
        _ = self.connection
        return failing(doing, self.path, *malformed)

    @contextmanager
    def reader(self) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """This connection: there is no other."""
        yield self.connection, False

    def transact(self, work: Callable[[], bool | None]) -> None:
        """All or nothing."""
        connection = self.connection
        try:
            connection.execute("BEGIN")
            work()
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            raise
        self.next_commit += 1

    def write(self, job: Callable[[], object], growth: Growth | None = None) -> None:
        """Do the job, which commits."""
        job()

    def health(self) -> StoreHealth:
        """No file, no fault."""
        return StoreHealth()

    def keep_time(self, clock: StoreClock) -> None:
        """There is no next life."""

    def tell_damage(self, text: str) -> None:
        self.news.append((NoticeKind.STORE_ERROR, f"a look at the database in memory found damage: {text}"))

    def clear_missing(self) -> None:
        """Nothing is ever missing."""

    def check(self) -> list[str]:
        """Nothing is looked through."""
        return []

    def end_check(self) -> None:
        """There is none."""

    def close(self) -> None:
        """It goes. A second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
