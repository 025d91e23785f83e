"""Database in memory, for trials and tests.

Its content is lost when its instance is closed. It has the same tables and statements as a file, but no lock, no mark
and no reserve.
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
"""Path that selects a database in memory."""


def is_in_memory(path: str | os.PathLike[str]) -> bool:
    return os.fspath(path) == IN_MEMORY


class MemoryDatabase:
    """Replacement for `DatabaseFile` without a file: a SQLite database in memory, which ends with the process."""

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
        """The only connection, and False, as there is no second one."""
        yield self.connection, False

    def transact(self, work: Callable[[], bool | None]) -> None:
        """Run `work` in a transaction."""
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
        """Run a job that commits; there is room for any `growth`."""
        job()

    def health(self) -> StoreHealth:
        """The health of a store without files and faults."""
        return StoreHealth()

    def keep_time(self, clock: StoreClock) -> None:
        """Does nothing: the clock is not kept."""

    def note_time(self) -> None:
        """Does nothing, either."""

    def tell_damage(self, text: str) -> None:
        self.news.append((NoticeKind.STORE_ERROR, f"a look at the database in memory found damage: {text}"))

    def clear_missing(self) -> None:
        """Does nothing: no commit is ever missing."""

    def check(self) -> list[str]:
        """No findings."""
        return []

    def end_check(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Discard the database. A second call does nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
