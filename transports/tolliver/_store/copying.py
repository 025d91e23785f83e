"""Copies of a database that is in use.

SQLite's online backup reads the state of one moment while commits go on. The copy is written under a temporary name,
sealed as by an orderly close, and synced; only then it gets its own name, so a file with that name is complete. It is a
single file without a log, and never replaces another file.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress

from tolliver_proto import StoreError

from .._private import must_be_file
from .checks import make_known, write_seal
from .file import connect_beside, failing
from .layout import LAYOUT, refuse_unknown

_STEP = 1024  # pages between two checks for cancellation: a few MiB


def back_up(database: str | os.PathLike[str], to: str | os.PathLike[str]) -> None:
    """Copy a database, in use or not, to a new file `to`. Raises StoreError."""
    path = os.path.realpath(database)
    if not os.path.isfile(path):
        raise StoreError(f"there is no database {path}: give the file that the instance uses")
    # An existing log must stay unchanged, for the next opening to check. Without one, SQLite creates and removes it,
    # which needs write access.
    options = "mode=ro" if os.path.exists(f"{path}-wal") else "mode=rw"
    with failing("read", path), closing(connect_beside(path, options)) as source:
        [(application,)] = source.execute("PRAGMA application_id").fetchall()
        [(layout,)] = source.execute("PRAGMA user_version").fetchall()
        refuse_unknown(path, application, layout)
        write_copy(source, path, to, lambda: None)


def write_copy(
    source: sqlite3.Connection, path: str, to: str | os.PathLike[str], look: Callable[[], None], beside: bool = True
) -> None:
    """Copy the present state of `source`, a connection to the database `path`. `look` is called meanwhile, and may
    raise.

    `beside`: `source` is not the connection that writes. Raises StoreError.
    """
    target = os.path.abspath(to)
    with failing(f"write {target}, a copy of", path):
        must_be_file(target)
        if os.path.lexists(target):
            raise _taken(target)
        number, draft = tempfile.mkstemp(".new", f"{os.path.basename(target)}.", os.path.dirname(target))  # mode 0600
        os.close(number)
        try:
            if beside:  # all steps see the state of this moment
                source.execute("BEGIN")
                source.execute("SELECT id FROM instance").fetchall()
            _fill(draft, source, look)
            _sync(draft)
            _name(draft, target)
            _sync(os.path.dirname(target))
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft)


def _fill(draft: str, source: sqlite3.Connection, look: Callable[[], None]) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # if it fails, the draft is removed
        copy.execute("PRAGMA synchronous = OFF")
        source.backup(copy, pages=_STEP, progress=lambda *_: look())
        copy.execute("PRAGMA journal_mode = DELETE")
        [(layout,)] = copy.execute("PRAGMA user_version").fetchall()
        if layout == LAYOUT:  # an older layout gets its checksums when it is opened
            make_known(copy)
            write_seal(copy)


def _name(draft: str, target: str) -> None:
    try:
        os.link(draft, target)
    except FileExistsError:
        raise _taken(target) from None
    except OSError:  # a file system without hard links
        if os.path.lexists(target):
            raise _taken(target) from None
        os.rename(draft, target)


def _taken(target: str) -> StoreError:
    return StoreError(f"there is a file {target}: a copy takes no other's place. Give another name, or move that away")


def _sync(path: str) -> None:
    """Write a file, or a directory's entries, to the disk. Raises OSError."""
    with suppress(PermissionError):  # systems that cannot sync a directory
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
