"""Locks of a database file: one process, one instance, one name (T-79).

The first lock is on a file next to the database, as that exists before the database does. The second is on the database
itself, to detect another name of the same file (a bind mount). SQLite uses POSIX locks, which a process loses when it
closes any descriptor of the file. So the second is an open file description lock, which belongs to its descriptor, on a
byte that SQLite never uses; the descriptor is closed after SQLite's. Files that this process uses already are kept in a
list, so that they need not be opened for the check.
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
    """False on systems without POSIX: SQLite's exclusive mode is used instead."""
    _SET_LOCK = getattr(fcntl, "F_OFD_SETLK", None)  # Linux
    _ASK_LOCK = getattr(fcntl, "F_OFD_GETLK", None)
except ImportError:
    FLOCK = False
    _SET_LOCK = _ASK_LOCK = None

_PLACE = 2**62  # beyond the end of any database, and the bytes that SQLite locks
_FLOCK = struct.Struct("hhqqi0q")  # struct flock of the system: type, whence, start, length, process

Identity = tuple[int, int]
"""Device and inode."""

_used: set[Identity] = set()


def is_used(path: str) -> bool:
    """True if an instance has the database open. Raises OSError.

    Takes no lock if the system can tell without, so that an instance opening it at this moment is not disturbed.
    """
    found = os.stat(path)
    if (found.st_dev, found.st_ino) in _used:
        return True
    if _ASK_LOCK is not None:
        with open(path, "rb") as file, suppress(OSError):  # file systems without such locks
            asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _PLACE, 1, 0)
            return bool(_FLOCK.unpack(fcntl.fcntl(file, _ASK_LOCK, asked))[0] != fcntl.F_UNLCK)
    try:
        Lock(path).close()
    except StoreError:
        return True
    return False


def check_names(path: str) -> None:
    """Raises StoreError if the file has several names (hard links), and OSError."""
    count = os.stat(path).st_nlink
    if count > 1:
        raise StoreError(
            f"the database {path} has {count} names (hard links), and its log is found by one of them alone: remove "
            "the other names, and keep the one that its log (-wal) lies beside (T-79)"
        )


class Lock:
    """Lock of the database `path`, which keeps other processes out until `close`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = f"{path}-wal"
        self.log_size = 0
        self._file: int | None = None
        self._identity: Identity | None = None
        self._beside = self._take_beside() if FLOCK else None

    @property
    def is_sqlites(self) -> bool:
        """True if the system has no other lock than SQLite's exclusive mode."""
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
            raise self._in_use() from None
        return lock

    def _in_use(self) -> StoreError:
        return StoreError(
            f"the database {self._path} is in use by another instance: stop that one, or give each instance, "
            "such as each worker of a web server, a database of its own (T-79)"
        )

    def take_file(self) -> None:
        """Lock the database itself, once it exists, against opening it by another name."""
        found = os.stat(self._path)
        identity = (found.st_dev, found.st_ino)
        if self._beside is not None and identity in _used:
            raise self._in_use()
        check_names(self._path)
        if self._beside is not None and _SET_LOCK is not None:
            self._file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.fcntl(self._file, _SET_LOCK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _PLACE, 1, 0))
            except (BlockingIOError, PermissionError):
                raise self._in_use() from None
            except OSError:
                pass  # file systems without such locks: the first lock must do
        self._identity = identity
        _used.add(identity)

    def lost(self) -> str | None:
        """Name of a file of the database that is no longer at its path; None if all are. A file that cannot be checked
        counts as present."""
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
        """True if SQLite's log is shorter than when `lost` last checked it."""
        with suppress(OSError):
            return os.stat(self._log).st_size < self.log_size
        return False

    def close(self) -> None:
        """Release the lock. Call it after SQLite has closed the file."""
        identity, self._identity = self._identity, None
        if identity is not None:
            _used.discard(identity)
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)
        if self._beside is not None:
            self._beside.close()
