"""Locks of a database file: one process, one instance, one name (T-79).

The first lock is on a file beside the database, which is there before the database is. The second is on the database
itself, so that another name of the same file (a bind mount) meets it too. That one must not disturb SQLite, whose locks
are POSIX locks: closing any descriptor of the file drops all that the process has on it. So it is a lock of an open
file description, which belongs to a descriptor and not to the process, on a byte that SQLite never uses, and its
descriptor is closed after SQLite's. A file that this process uses already is found in a list, without opening it.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from io import FileIO

from tolliver_proto import StoreError

from .._private import give_to_owner_of, open_private

try:
    import fcntl

    FLOCK = True
    """False where it is not POSIX: SQLite's own exclusive mode stands in."""
    _SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)  # Linux
    _ASK_LOCK = getattr(fcntl, "F_OFD_GETLK", None)
except ImportError:
    FLOCK = False
    _SET_LOCK = _ASK_LOCK = None

_PLACE = 2**62  # far behind the end of any database, and behind the bytes that SQLite locks
_FLOCK = struct.Struct("hhqqi0q")  # type, whence, start, length, process: the system's own layout

Identity = tuple[int, int]
"""Device and inode."""

_used: set[Identity] = set()


def is_used(path: str) -> bool:
    """True if an instance has the database now. Takes no lock where the system tells without, so that it disturbs none
    that opens it at this moment. Raises OSError."""
    found = os.stat(path)
    if (found.st_dev, found.st_ino) in _used:
        return True
    if _ASK_LOCK is not None:
        with open(path, "rb") as file, suppress(OSError):  # else a file system without such locks
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _PLACE, 1, 0)
            return bool(_FLOCK.unpack(fcntl.fcntl(file, _ASK_LOCK, asked))[0] != fcntl.F_UNLCK)
    try:
        Lock(path).close()
    except StoreError:
        return True
    return False


def check_names(path: str) -> None:
    """Raises StoreError where the file has several, and OSError."""
    count = os.stat(path).st_nlink
    if count > 1:
        raise StoreError(
            f"the database {path} has {count} names (hard links), and its log is found by one of them alone: remove "
            "the other names, and keep the one that its log (-wal) lies beside (T-79)"
        )


class Lock:
    """The database `path`, for whoever made this until `close`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self.log_size = 0
        self._file: int | None = None
        self._identity: Identity | None = None
        self._beside = self._take_beside() if FLOCK else None

    @property
    def is_sqlites(self) -> bool:
        """SQLite's own exclusive mode is all that keeps others out."""
        return self._beside is None

    def _take_beside(self) -> FileIO:
        lock = FileIO(f"{self._path}.lock", "a", opener=open_private)
        give_to_owner_of(self._path, lock.fileno())
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            if not isinstance(error, BlockingIOError):
                raise
            raise self._in_use() from error
        return lock

    def _in_use(self) -> StoreError:
        return StoreError(
            f"the database {self._path} is in use by another instance: "
            "stop that one, or give each instance a database of its own (T-79)"
        )

    def take_file(self) -> None:
        """The database is there now: nobody else may have it by another name."""
        found = os.stat(self._path)
        identity = (found.st_dev, found.st_ino)
        if self._beside is not None and identity in _used:
            raise self._in_use()
        check_names(self._path)
        if self._beside is not None and _SET_LOCK is not None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.fcntl(self._file, _SET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _PLACE, 1, 0))
            except (BlockingIOError, PermissionError) as error:
                raise self._in_use() from error
            except OSError:
                pass  # a file system without such locks: the one beside must do
        self._identity = identity
        _used.add(identity)

    def lost(self) -> str | None:
        """The name at which a file of the database, which is open, lies no more; or none. One that cannot be
        looked at is not lost."""
        for name in (self._path, self._log):
            try:
                found = os.stat(name)
            except (FileNotFoundError, NotADirectoryError):
                return name
            except OSError:
                return None
            if name == self._path and (found.st_dev, found.st_ino) != self._identity:
                return name
        self.log_size = found.st_size
        return None

    def is_cut(self) -> bool:
        """The log is shorter than `lost` saw it last."""
        with suppress(OSError):
            return os.stat(self._log).st_size < self.log_size
        return False

    def close(self) -> None:
        """After SQLite has closed the file."""
        identity, self._identity = self._identity, None
        if identity is not None:
            _used.discard(identity)
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)
        if self._beside is not None:
            self._beside.close()
