"""Inspection of a database that no instance uses.

Opening a database changes it: damaged rows are deleted, and the log is copied into the file. So a temporary copy is
opened, and the original is only read, and locked meanwhile.
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
from tolliver_proto.store import ANSWERED, LATER, VALUES, CorruptMessage, UnparkDeliveries, is_keeper

from .._private import open_private
from .file import failing, probe
from .lock import Lock
from .sqlite import SQLiteStore

_WITH_IT = ("", "-wal", ".mark")
"""Suffixes of the files that make up a database."""
_FINDINGS = (NoticeKind.STORE_ERROR, NoticeKind.COMMITS_MISSING)  # other notices are about the copy's disk
_THEN = {
    VALUES: "retain it again (P-36)",
    ANSWERED: "it is the answer to a call, so call with another key (P-86)",
    LATER: "it will be given up at its time, send it again",
}
_LAST = 2**63 - 1
_ROWS, _BYTES = 1024, 16 * 2**20  # of one read


def inspect(path: Path) -> list[str]:
    """Texts for all faults that opening and `SQLiteStore.check` find, and for every unreadable message. Changes
    nothing.

    Needs as much temporary disk space as the database has. Raises StoreError if it is in use or no instance's database,
    and OSError.
    """
    if not path.is_file():
        raise StoreError(f"there is no database {path}: give the file that the instance uses")
    whole = path.resolve()
    with failing("open", str(whole)):
        probe(str(whole))
    with ExitStack() as ending:
        try:
            lock = ending.enter_context(closing(Lock(str(whole))))
            lock.take_file()
        except OSError as error:
            raise StoreError(
                f"{path} cannot be kept from other programs meanwhile: {error}. Make it and its directory writable, or "
                f"copy {', '.join(f'{path.name}{one}' for one in _WITH_IT)}, as far as they are there, elsewhere and "
                "check the copy"
            ) from error
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
    """Texts about unreadable messages that are waiting or parked for the peer."""
    store.commit([UnparkDeliveries(peer, [(0, _LAST)])])
    seq, then = 0, "it will be set aside"
    if is_keeper(peer):
        then = _THEN.get(peer, "its message key is free, and may be sent again (P-65)")
    while rows := store.fetch(peer, seq, _ROWS, _BYTES):
        for row in rows:
            if isinstance(row, CorruptMessage):
                yield f"message {row.seq} for peer {peer}, with id {row.wire_id}, is damaged: {then}"
        seq = rows[-1].seq
