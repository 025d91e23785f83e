"""Inspection of a database that nobody uses.

To open a database is to change it: damaged rows are left out, the log is brought into the file. So a copy is opened,
among the temporary files, and the original is only read, and locked meanwhile.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from uuid import UUID

from tolliver_proto import NoticeKind, StoreError
from tolliver_proto.store import CorruptMessage, UnparkDeliveries, is_keeper

from .._private import open_private
from .file import failing, probe
from .lock import Lock
from .sqlite import SQLiteStore

_WITH_IT = ("", "-wal", ".mark")
"""Files that make up a database, by what their names add to its own."""
_FINDINGS = (NoticeKind.STORE_ERROR, NoticeKind.COMMITS_MISSING)  # other news are of the copy's disk
_LAST = 2**63 - 1
_ROWS, _BYTES = 1024, 16 * 2**20  # of one reading


def inspect(path: Path) -> list[str]:
    """A line for each fault that opening and `SQLiteStore.check` find, and for every message that cannot be read.

    It changes nothing.

    Takes as much room among the temporary files as the database has. Raises StoreError where it is in use, or no
    database of an instance, and OSError.
    """
    if not path.is_file():
        raise StoreError(f"there is no database {path}: give the file that the instance uses")
    whole = path.resolve()
    with failing("open", str(whole)):
        probe(str(whole))
    with ExitStack() as ending:
        lock = ending.enter_context(closing(Lock(str(whole))))
        lock.take_file()
        try:
            copy = _copied(whole, Path(ending.enter_context(TemporaryDirectory(prefix="tolliver-check-"))))
        except OSError as error:
            raise StoreError(
                f"no copy of {path} can be made in {gettempdir()}: {error}. Set TMPDIR to a directory with room for it"
            ) from error
        return [one.replace(str(copy), str(path)) for one in _findings(copy)]


def _copied(path: Path, directory: Path) -> Path:
    for name in _WITH_IT:
        if os.path.exists(f"{path}{name}"):
            with (
                open(f"{path}{name}", "rb") as source,
                open(directory / f"{path.name}{name}", "xb", opener=open_private) as copy,
            ):
                shutil.copyfileobj(source, copy)
    return directory / path.name


def _findings(path: Path) -> Iterator[str]:
    try:
        with closing(SQLiteStore(path, instance_id=None)) as store:
            yield from store.check()
            for peer in store.load().peers:
                yield from _unreadable(store, peer)
            store.dead_letters(0, _LAST)
            yield from (text for kind, text in store.news() if kind in _FINDINGS)
    except StoreError as error:
        yield str(error)


def _unreadable(store: SQLiteStore, peer: UUID) -> Iterator[str]:
    """Deliveries that it is owed, and those set aside for it."""
    store.commit([UnparkDeliveries(peer, [(0, _LAST)])])
    seq, then = 0, "retain it again (P-36)" if is_keeper(peer) else "it will be set aside"
    while rows := store.fetch(peer, seq, _ROWS, _BYTES):
        for row in rows:
            if isinstance(row, CorruptMessage):
                yield f"message {row.seq} for peer {peer}, with id {row.wire_id}, is damaged: {then}"
        seq = rows[-1].seq
