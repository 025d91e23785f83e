"""Opening of database files: locks, foreign files (D-13, T-40, T-62, T-79)."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._store import file as store_file
from tolliver._store import lock as store_lock
from tolliver._store.layout import LAYOUT
from tolliver._store.sqlite import SQLiteStore

from tests.opening import Opening, written_into
from tolliver_proto import StoreError
from tolliver_proto.store import AddDeliveries, RemoveDeliveries, RemoveMessages, StoreMessages

from .children import small_files
from .given import OTHER, OURS, PEER, everything, message, open_store, seqs, start, storing

FILES = ["node.db", "node.db-shm", "node.db-wal", "node.db.lock", "node.db.mark", "node.db.reserve"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes and fork are POSIX")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.db"


def test_a_new_database_has_the_identity_that_was_given(path: Path) -> None:
    store = open_store(path)
    assert store.instance_id == OURS
    assert not store.unclean
    assert store.load().id_spans == []
    assert store.load().peers == {}
    assert store.check() == []
    store.close()


def test_an_old_database_keeps_its_own(path: Path) -> None:
    open_store(path).close()
    for given in (None, OTHER):
        store = SQLiteStore(path, instance_id=given)
        assert store.instance_id == OURS
        store.close()


@pytest.mark.parametrize("empty", [False, True], ids=["missing", "empty"])
def test_without_an_identity_no_database_is_made(path: Path, empty: bool) -> None:
    if empty:
        path.touch()
    with pytest.raises(StoreError, match="no database"):
        open_store(path, instance_id=None)
    assert path.exists() is empty


@posix
def test_every_file_is_its_owners_alone(path: Path) -> None:
    path.touch(0o644)
    store = open_store(path)
    store.commit([storing(range(1, 10))])
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == dict.fromkeys(FILES, 0o600)
    store.close()


@posix
def test_a_creation_that_fails_leaves_no_file(path: Path) -> None:
    with small_files(10_000), pytest.raises(StoreError, match="cannot open"):
        open_store(path)
    assert [file.name for file in path.parent.iterdir()] == ["node.db.lock"]
    open_store(path).close()


def test_a_library_that_is_too_old_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 31, 1))
    with pytest.raises(StoreError, match=r"use a build with 3\.32 or later"):
        open_store(path)
    assert not path.exists()


# One instance at a time.


@pytest.mark.parametrize("flock", [True, False], ids=["flock", "no-flock"])
def test_a_second_opening_is_refused_and_the_first_goes_on(
    path: Path, flock: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_lock, "FLOCK", flock)
    monkeypatch.setattr(store_file, "_BUSY_TIMEOUT", 0.01)
    store = open_store(path)
    store.commit([storing(range(1, 4))])
    with pytest.raises(StoreError, match="in use by another instance" if flock else "another program holds a lock"):
        open_store(path)
    store.commit([storing(range(4, 6))])
    assert store.check() == []
    store.close()
    store = open_store(path)
    assert seqs(everything(store)) == [1, 2, 3, 4, 5]
    store.close()


def test_an_opening_waits_for_another_program_that_writes(path: Path) -> None:
    open_store(path).close()
    opening = Opening(path)
    with written_into(path) as writer, ThreadPoolExecutor(1) as pool:
        opened = pool.submit(open_store, path)
        while not opening.begun():
            time.sleep(0.001)
        time.sleep(0.1)  # until it comes to the lock
        writer.let_go()
        opened.result(30).close()


def test_another_name_of_the_file_is_the_same_lock(path: Path) -> None:
    store = open_store(path)
    alias = path.with_name("alias.db")
    alias.symlink_to(path)
    with pytest.raises(StoreError, match=r"node\.db is in use"):
        open_store(alias)
    store.close()


def test_the_lock_is_one_of_processes_and_ends_with_them(path: Path) -> None:
    with start("holder", path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match="in use by another instance: stop that one"):
            open_store(path)
        holder.kill()
        holder.wait(10)
        store = open_store(path)
        assert store.unclean
    with start("opener", path) as opener:
        output, _ = opener.communicate(timeout=30)
        assert "in use by another instance" in output
    store.close()
    with start("opener", path) as opener:
        assert opener.communicate(timeout=30)[0] == "open\n"


@posix
def test_a_forked_child_may_not_use_the_store_and_does_not_keep_the_lock(path: Path) -> None:
    with start("forker", path) as forker:
        assert forker.stdout is not None
        answers = [forker.stdout.readline() for _ in range(4)]
        assert ["belongs to the parent process" in answer for answer in answers] == [True, True, True, False]
        assert answers[3] == "None\n"
        assert forker.wait(10) == 0
        store = open_store(path)  # the child is alive
        assert seqs(everything(store)) == [1, 2, 3]
        assert store.unclean
        store.close()
        forker.communicate(timeout=10)


# Ends.


def test_a_closed_store_says_so(path: Path) -> None:
    store = open_store(path)
    store.close()
    store.close()
    for call in (store.load, store.check, lambda: store.commit([]), lambda: everything(store)):
        with pytest.raises(StoreError, match="is closed: open it again"):
            call()


def test_an_end_without_close_is_seen_once(path: Path, tmp_path: Path) -> None:
    store = open_store(path)
    store.commit([storing(range(1, 10))])
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    shutil.copy(f"{path}-wal", f"{copy}-wal")
    store.close()
    for unclean in (True, False):
        store = open_store(copy)
        assert store.unclean is unclean
        assert len(everything(store)) == 9
        store.close()


def delivering(peer: UUID, seqs: Iterable[int]) -> AddDeliveries:
    return AddDeliveries(peer, [(seq, message(seq).wire_id, message(seq).size) for seq in seqs])


def test_what_is_held_and_owed_to_nobody_is_gone_after_a_restart(path: Path) -> None:
    store = open_store(path)
    messages = [message(seq) for seq in range(3, 7)]
    store.commit([storing([1, 2]), StoreMessages(messages, [[], [], [PEER], [PEER]], held=[5, 6])])
    store.commit([delivering(PEER, [4])])  # the peer came
    store.commit([RemoveDeliveries(PEER, [(6, 6)])])  # and this one needs no more, but who knows of the next
    store.close()
    store = open_store(path)
    assert everything(store) == [message(seq) for seq in (1, 2, 4, 5)]
    assert store.load().live_ids == [(message(1).wire_id, message(2).wire_id), (message(4).wire_id, message(5).wire_id)]
    store.close()
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT COUNT(*) FROM owed WHERE peer = 0").fetchall() == [(0,)]


def test_the_number_of_what_was_held_may_be_used_again(path: Path) -> None:
    for _ in range(3):
        store = open_store(path)
        seq = store.load().next_seq
        store.commit([storing([seq])])
        store.commit([storing([seq + 1], peers=())])
        store.close()
    store = open_store(path)
    assert everything(store) == [message(1), message(2), message(3)]
    store.close()


def test_what_was_held_and_removed_leaves_nothing_behind(path: Path) -> None:
    store = open_store(path)
    store.commit([storing(range(1, 50), peers=())])
    store.commit([RemoveMessages([(1, 49)])])
    with closing(sqlite3.connect(path)) as reader:
        rows = [reader.execute(f"SELECT COUNT(*) FROM {table}").fetchone() for table in ("batch", "owed")]
    assert rows == [(0,), (0,)]
    store.close()


# Files that are not ours.


def refused(path: Path, match: str) -> None:
    """The file is named, and not a byte of it or beside it is changed."""
    before = {file: file.read_bytes() for file in path.parent.iterdir()}
    with pytest.raises(StoreError, match=match) as caught:
        open_store(path)
    assert str(path) in str(caught.value)
    after = {file: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".lock"}
    assert after == before


def test_garbage_is_not_a_database(path: Path) -> None:
    path.write_bytes(b"these are no pages at all" * 1000)
    refused(path, "it is not a database; choose another path")


def test_a_missing_directory_is_named(path: Path) -> None:
    with pytest.raises(StoreError, match=r"missing.node\.db: it cannot be opened; check that its directory exists"):
        open_store(path.parent / "missing" / "node.db")


@pytest.mark.parametrize("wal", [False, True])
def test_a_database_of_another_application_is_left_alone(path: Path, tmp_path: Path, wal: bool) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    if wal:
        other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE accounts(name, amount)")
    other.execute("INSERT INTO accounts VALUES ('a', 1)")
    other.commit()
    for file in tmp_path.glob("other.db*"):  # as its owner left it, killed: with its log
        if not file.name.endswith("-shm"):
            shutil.copy(file, file.with_name(file.name.replace("other", "node")))
    other.close()
    refused(path, "is not the database of an instance: choose another path")


def test_a_newer_layout_is_left_to_the_version_that_wrote_it(path: Path) -> None:
    open_store(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    connection.close()
    os.remove(f"{path}.lock")
    refused(path, f"has layout {LAYOUT + 1}, and this version of tolliver knows {LAYOUT}: use the version that")


def test_a_creation_that_was_cut_off_is_done_again(path: Path) -> None:
    for leftover in (f"{path}.new", f"{path}.new-journal"):
        Path(leftover).write_bytes(bytes(5000))
    store = open_store(path)
    store.commit([storing([1])])
    assert everything(store) == [message(1)]
    assert sorted(file.name for file in path.parent.iterdir()) == FILES
    store.close()
