"""Errors of SQLite and of the system, as StoreErrors with advice.

Every failure of a store raises a StoreError that names the file, the cause and what to do; a full disk, DiskFull.
"""

from __future__ import annotations

import sqlite3
import struct

from tolliver_proto import StoreError
from tolliver_proto.errors import DiskFull

from .._private import NotAFile

_LOCKED = ("another program holds a lock on it", "end that program and try again")
_UNWRITABLE = ("it cannot be written", "make the file and its directory writable and try again")
_UNREACHABLE = ("it cannot be opened", "check that its directory exists and may be written to")
DAMAGED = (
    "the file is damaged",
    "stop the instance and put back a copy (docs/backup.md), or save what `sqlite3 FILE .recover` reads",
)
NOT_A_DATABASE = ("it is not a database", "choose another path, or move that file away")
_INTERRUPTED = ("a signal interrupted it", "nothing was written: try again")
_INTERRUPTION = "user-defined function raised exception"  # ours raise nothing: an interruption
_CAUSES = {
    sqlite3.SQLITE_FULL: ("no space is left", "free some, or raise the quota, and try again"),
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _UNWRITABLE,
    sqlite3.SQLITE_PERM: _UNWRITABLE,
    sqlite3.SQLITE_CANTOPEN: _UNREACHABLE,
    sqlite3.SQLITE_IOERR: (
        "the system reports an input/output error",
        "look at the disk, the system log and this process's limits (ulimit -f), and try again",
    ),
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # our statements are fixed, so the tables must be wrong
    sqlite3.SQLITE_NOTADB: NOT_A_DATABASE,
    sqlite3.SQLITE_TOOBIG: ("a value is larger than SQLite takes (1,000,000,000 bytes, T-06)", "send it in parts"),
    sqlite3.SQLITE_CONSTRAINT: ("such a row is there already", "the caller broke the contract: report this"),
}
_KINDS: tuple[tuple[type[Exception], tuple[str, str]], ...] = (
    (sqlite3.IntegrityError, _CAUSES[sqlite3.SQLITE_CONSTRAINT]),
    (OSError, _UNREACHABLE),
    (MemoryError, ("memory is short", "store less at once, and try again")),
    (Exception, ("a value cannot be stored", "the caller broke the contract: report this")),
)
FAILURES = (sqlite3.Error, OSError, MemoryError, OverflowError, UnicodeError, struct.error)
"""Exceptions of a store's work that are not bugs."""
MALFORMED = (ValueError, TypeError, AttributeError)
"""Exceptions caused by values of a wrong type, read from a damaged file."""


def primary_code(error: BaseException) -> int:
    """SQLite's primary error code of an exception; 255 for exceptions that are not SQLite's."""
    return int(getattr(error, "sqlite_errorcode", -1)) & 0xFF


def store_error(error: BaseException, what: str, malformed: tuple[type[Exception], ...] = ()) -> StoreError:
    """The StoreError for a failure, by `error`, to do `what`. Exceptions of the types `malformed` mean damage."""
    if isinstance(error, NotAFile):
        return StoreError(f"cannot {what}: {error}")
    code = primary_code(error)
    kinds = (*((kind, DAMAGED) for kind in malformed), *_KINDS)
    cause, advice = _CAUSES.get(code) or next(c for kind, c in kinds if isinstance(error, kind))
    if str(error) == _INTERRUPTION:
        cause, advice = _INTERRUPTED
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    kind = DiskFull if code == sqlite3.SQLITE_FULL else StoreError
    return kind(f"cannot {what}: {cause}; {advice} [{name}: {error}]")
