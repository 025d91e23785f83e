"""Failures of the disk: full, limited, locked, read-only (V10, T-54).

Each is a StoreError, nothing is half-written, and it works again.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from tolliver._store.checks import make_known
from tolliver._store.file import failing
from tolliver._store.sqlite import SQLiteStore

from tests.opening import Interruption
from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import (
    AddOwnSubscription,
    Operation,
    ParkDelivery,
    RemoveDeliveries,
    RemoveMessages,
    ReplacePeerSubscriptions,
    ReserveIds,
    StoredMessage,
    StoreMessages,
)

from .given import OTHER, PEER, everything, open_store, seqs, start, storing

LARGE: list[Operation] = [
    RemoveDeliveries(PEER, [(1, 5)]),
    ParkDelivery(PEER, 6),
    AddOwnSubscription(Subscription("c", "k")),
    ReplacePeerSubscriptions(OTHER, [Subscription("c", "k")]),
    ReserveIds(77, 1, 1),
    storing(range(11, 1500), peers=(PEER, OTHER), body=bytes(2000)),
    RemoveMessages([(1, 5)]),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    store = open_store(tmp_path / "node.db")
    store.commit([storing(range(1, 11))])
    yield store
    store.close()


def pragma(store: SQLiteStore, text: str) -> int:
    """There is no other way to this connection's own limits."""
    return int(store._file.connection.execute(f"PRAGMA {text}").fetchone()[0])


@contextmanager
def full(store: SQLiteStore) -> Iterator[None]:
    before = pragma(store, "max_page_count")
    pragma(store, f"max_page_count = {pragma(store, 'page_count') + 20}")
    yield
    pragma(store, f"max_page_count = {before}")


@contextmanager
def locked(store: SQLiteStore) -> Iterator[None]:
    store._file.connection.execute("PRAGMA busy_timeout = 10")
    foreign = sqlite3.connect(store._file.path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    yield
    foreign.close()


@contextmanager
def read_only(store: SQLiteStore) -> Iterator[None]:
    store._file.connection.execute("PRAGMA query_only = 1")
    yield
    store._file.connection.execute("PRAGMA query_only = 0")


@pytest.mark.parametrize(
    ("trouble", "text"),
    [
        (full, "no space is left; free some, or raise the quota, and try again [SQLITE_FULL: "),
        (locked, "another program holds a lock on it; end that program and try again [SQLITE_BUSY: "),
        (read_only, "it cannot be written; make the file and its directory writable and try again [SQLITE_READONLY: "),
    ],
    ids=["full", "locked", "read-only"],
)
def test_nothing_is_half_written_and_it_works_again(
    store: SQLiteStore, trouble: Callable[[SQLiteStore], AbstractContextManager[None]], text: str
) -> None:
    before = store.load(), everything(store)
    with trouble(store):
        for _ in range(3):
            with pytest.raises(StoreError) as caught:
                store.commit(LARGE)
            assert str(caught.value).startswith(f"cannot commit to the database {store._file.path}: {text}")
            assert isinstance(caught.value.__cause__, sqlite3.Error)
            assert (store.load(), everything(store)) == before
    store.commit(LARGE)
    assert seqs(everything(store)) == list(range(7, 1500))
    assert store.load().peers[OTHER].pending == 1489
    assert store.check() == []


def test_nothing_stays_of_a_commit_whose_last_operation_fails(store: SQLiteStore) -> None:
    store.commit([storing([3000])])
    before = store.load(), everything(store)
    with pytest.raises(StoreError):
        store.commit([storing([4000]), storing([3000])])
    assert (store.load(), everything(store)) == before
    store.commit([storing([4000])])
    assert seqs(everything(store))[-2:] == [3000, 4000]


def stored_until_full(store: SQLiteStore) -> Iterator[int]:
    """Stores 500 bytes at a time until that fails."""
    for seq in range(1, 10_000):
        try:
            store.commit([storing([seq], body=bytes(500))])
        except StoreError:
            return
        yield seq


def test_a_full_disk(tmp_path: Path) -> None:
    """A real one, of a megabyte, where this user may mount it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if mount is None or sys.platform != "linux":
        pytest.skip("there is no mount command for a tmpfs here")
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"this user may not mount a tmpfs: {mounted.stderr.strip()}")
    try:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(300_000))
        store = open_store(disk / "node.db")
        stored = list(stored_until_full(store))
        assert 10 < len(stored) < 2000
        assert seqs(everything(store)) == stored
        with pytest.raises(StoreError, match=r"no space is left.*SQLITE_FULL"):
            store.commit([storing(range(9000, 9100))])
        ballast.unlink()
        store.commit([RemoveDeliveries(PEER, [(1, 3)]), RemoveMessages([(1, 3)])])
        store.commit([storing([9000])])
        store.close()
        store = open_store(disk / "node.db")
        assert seqs(everything(store)) == [*stored[3:], 9000]
        assert store.check() == []
        store.close()
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
def test_an_input_output_error(tmp_path: Path) -> None:
    with start("limited", tmp_path / "node.db") as limited:
        output, _ = limited.communicate(timeout=30)
    error, before, after = output.splitlines()
    assert "the system reports an input/output error; look at the disk" in error
    assert "SQLITE_IOERR_WRITE" in error
    assert before == str(list(range(1, 11)))
    assert after == str(list(range(1, 12)))


@pytest.mark.parametrize(
    "unstorable",
    [
        StoredMessage(11, 11, "\ud800", "lone surrogate", b"", 20),
        StoredMessage(11, 2**64, "an id", "out of range", b"", 20),
        StoredMessage(2**64, 11, "a seq", "out of range", b"", 20),
    ],
    ids=lambda message: message.key,
)
def test_what_sqlite_cannot_hold_is_refused_whole(store: SQLiteStore, unstorable: StoredMessage) -> None:
    before = store.load()
    with pytest.raises(StoreError, match="a value cannot be stored"):
        store.commit([storing([12]), StoreMessages([unstorable], [[PEER]])])
    with pytest.raises(StoreError, match="a value cannot be stored"):
        store.commit([storing([12]), AddOwnSubscription(Subscription("\udfff", ""))])
    assert store.load() == before


def test_a_bug_of_the_caller_is_shown_as_it_is_and_nothing_is_stored(store: SQLiteStore) -> None:
    before = store.load()
    with pytest.raises(TypeError):
        store.commit([storing([11]), RemoveMessages(None)])  # type: ignore[arg-type]  # the bug
    assert store.load() == before
    store.commit([storing([11])])


def test_reading_is_refused_in_words_too(store: SQLiteStore) -> None:
    with sqlite3.connect(store._file.path) as foreign:
        foreign.execute("DROP TABLE owed")
    foreign.close()
    for call, doing in ((store.load, "load"), (lambda: everything(store), "read")):
        with pytest.raises(StoreError, match=f"cannot {doing} the database .*: the file is damaged; stop the instance"):
            call()


def test_any_thread_may_commit_and_another_may_check_meanwhile(store: SQLiteStore) -> None:
    complaints: list[str] = []

    def check() -> None:
        for _ in range(10):
            complaints.extend(store.check())

    checks = threading.Thread(target=check)
    checks.start()
    for first in range(11, 411, 10):
        commits = threading.Thread(target=store.commit, args=([storing(range(first, first + 10))],))
        commits.start()
        commits.join(30)
    checks.join(30)
    assert complaints == []
    assert seqs(everything(store)) == list(range(1, 411))


def test_an_opening_that_is_interrupted_is_no_damage() -> None:
    """Ctrl-C while SQLite calls one of our checks: it passes no exception on."""
    with closing(sqlite3.connect(":memory:")) as connection:
        make_known(connection)
        with (
            pytest.raises(StoreError, match="a signal interrupted it; nothing was written: try again"),
            failing("open", "node.db"),
            Interruption(1, ["_store/checks.py"]),
        ):
            connection.execute("SELECT row_check(1)").fetchall()
