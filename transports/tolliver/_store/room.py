"""Disk space: refusing messages when little is left, and the reserve (D-13).

A commit that stores messages is refused while less than `min_free` bytes are left. A commit that stores none, such as
the removal of acknowledged messages, may use the reserve, which is twice as large as the database, up to a limit. When
the outbox has drained, the database file is shrunk, and the reserve is created again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic

from tolliver_proto import NoticeKind
from tolliver_proto.errors import DiskFull

from .causes import primary_code
from .health import StoreHealth
from .reserve import Reserve

Growth = Callable[[], int]
"""Returns the number of bytes of messages that a commit stores."""
Tell = Callable[[NoticeKind, str], object]

_PLENTY = 2**30  # bytes of free disk, more than any commit needs
_LOOK_AGAIN = 0.25  # seconds until the next check, if there was plenty
_SHRINK_AGAIN = 10.0  # seconds until the next try to shrink, after a failure


class Room:
    """Watch on the free disk of the database `path`, with its reserve. `tell` is called when its state changes."""

    def __init__(self, path: str, min_free: int, tell: Tell) -> None:
        self._path = path
        self._min_free = min_free
        self._tell = tell
        self._reserve = Reserve(path)
        self._low = False
        self._look_after = self._shrink_after = 0.0
        self._checkpoint: int | None = None

    def opened(self, connection: sqlite3.Connection) -> None:
        """Called when the database's connection was opened: limits the log's length if there is little space."""
        self._look_after, self._checkpoint = 0.0, None
        self.has_plenty(connection)

    def has_plenty(self, connection: sqlite3.Connection) -> bool:
        """True if there is plenty of space. Otherwise the log's length is limited, so that the reserve is enough for it
        and its copy."""
        now = monotonic()
        if now < self._look_after:
            return True
        plenty = self._reserve.free() >= self._min_free + _PLENTY
        grown = self._reserve.grow(2 * (_size(self._path) + _size(f"{self._path}-wal")))
        if plenty:
            self._look_after = now + _LOOK_AGAIN
        if plenty == (self._checkpoint is None) and (plenty or not grown):
            return plenty
        pages = usual = self._checkpoint or _pragma(connection, "wal_autocheckpoint")
        if not plenty and self._reserve.size:
            pages = min(usual, self._reserve.size // 2 // _pragma(connection, "page_size"))
        self._checkpoint = None if plenty else usual
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        return plenty

    def require(self, connection: sqlite3.Connection, growth: Growth) -> None:
        """Check for enough space for the messages, in the log and then in the database. Raises DiskFull."""
        if self.has_plenty(connection):
            self._low = False
            return
        free = self._reserve.free()
        free += _pragma(connection, "freelist_count") * _pragma(connection, "page_size")
        was_low, self._low = self._low, free < self._min_free
        if self._low:
            text = f"only {free} bytes are free, less than min_free={self._min_free}"
            if not was_low:
                self._tell(
                    NoticeKind.DISK_LOW,
                    f"the disk of the database {self._path} is nearly full, {text}: new messages are refused until "
                    "there are more, and what peers acknowledge is removed",
                )
            raise self._refusal(f"{text}; free some, or lower min_free, and try again")
        size = growth()
        if size > self._reserve.size // 2 and free + _size(f"{self._path}-wal") < 2 * size:
            raise self._refusal(
                f"only {free} bytes are free, and {size} bytes of messages need twice as many for a while; free some, "
                "or send less at once"
            )

    def _refusal(self, why: str) -> DiskFull:
        return DiskFull(f"cannot commit to the database {self._path}: {why} (D-13)")

    def make(self, error: sqlite3.Error, connection: sqlite3.Connection | None) -> Iterator[None]:
        """Give up the reserve in steps, yielding after each for another try; its last part only for copying the log.
        Yields nothing if `error` was not caused by a full disk."""
        code = primary_code(error)
        is_perhaps = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)  # a file could not be created or mapped
        if code != sqlite3.SQLITE_FULL and not (is_perhaps and self._reserve.free() < self._reserve.size):
            return
        if self._reserve.give_up_half():
            self._tell(
                NoticeKind.RESERVE_USED,
                f"the disk of the database {self._path} is full: its reserve of {self._reserve.size} bytes was given "
                "up, so that what peers acknowledge can be removed. Free some space: there is no second one",
            )
            _copy_log(connection)  # at once, before another program takes the space
            yield
        if not _copy_log(connection):
            return
        yield
        if self._reserve.give_up() and _copy_log(connection):
            yield

    def health(self, faults: list[str]) -> StoreHealth:
        """State of the store, with further `faults`. May be called from any thread. Raises OSError if the disk does not
        respond."""
        free = self._reserve.free()
        if not self._reserve.there:
            faults.append(
                f"the disk of the database {self._path} was full, and its reserve is given up: free "
                f"{self._reserve.size} bytes and more"
            )
        if free < self._min_free:
            faults.append(
                f"the disk of the database {self._path} has {free} bytes left, less than min_free={self._min_free}: "
                "free some, as new messages are refused"
            )
        reserve = self._reserve.size if self._reserve.there else 0
        return StoreHealth(
            tuple(faults), _size(self._path), _size(f"{self._path}-wal"), reserve, free, not self._reserve.there
        )

    @property
    def reserved(self) -> int:
        """Size of the reserve in bytes, present or not."""
        return self._reserve.size

    def closed(self) -> None:
        """Restore the reserve after the database is closed, from space that SQLite has freed."""
        self._reserve.make()

    def restore(self, connection: sqlite3.Connection, is_news: bool = True) -> None:
        """Create the reserve again if there is space for it; with `is_news` the operator is told. Never raises."""
        if self._reserve.there:
            return
        if not self._reserve.make():
            with suppress(OSError, sqlite3.Error):
                self._shrink(connection)
            if not self._reserve.make():
                return
        if is_news:
            self._tell(
                NoticeKind.RESERVE_RESTORED,
                f"the disk of the database {self._path} has room again: the reserve of {self._reserve.size} bytes is "
                "back in its place",
            )

    def _shrink(self, connection: sqlite3.Connection) -> None:
        """Shrink a database that consists mostly of free pages, as its messages are gone."""
        page, pages, free = (_pragma(connection, name) for name in ("page_size", "page_count", "freelist_count"))
        if (pages - free) * page > self._reserve.size or free * page < self._reserve.size // 2:
            return
        if monotonic() < self._shrink_after:
            return
        self._shrink_after = monotonic() + _SHRINK_AGAIN
        self._reserve.give_up()  # all of it: almost nothing is left to be removed
        for statement in (
            "PRAGMA wal_checkpoint(PASSIVE)",  # so that the log starts again and needs no space
            "PRAGMA temp_store = MEMORY",
            "VACUUM",
            "PRAGMA wal_checkpoint(TRUNCATE)",
        ):
            connection.execute(statement).fetchall()
        self._shrink_after = 0.0


def _copy_log(connection: sqlite3.Connection | None) -> bool:
    """Copy SQLite's log into the database, so that the log starts again. False if a reader prevents it."""
    if connection is not None:
        with suppress(sqlite3.Error):  # not enough space for that either
            [(busy, _frames, _copied)] = connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            return not busy
    return True


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _size(path: str) -> int:
    with suppress(OSError):
        return os.path.getsize(path)
    return 0
