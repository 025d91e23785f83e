"""Copies of a database that is in use, and of one that is not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path
from random import Random

import pytest
from tolliver._store import copying, file
from tolliver._store.copying import back_up
from tolliver._store.sqlite import SQLiteStore

from tolliver_proto import NoticeKind, StoreError
from tolliver_proto.store import RememberHandled, ReserveIds
from tolliver_proto.testing import BeginAt

from .given import PEER, everything, open_store, seqs, start, storing

posix = pytest.mark.skipif(sys.platform == "win32", reason="file modes, links and other processes are POSIX")
MIB = bytes(2**20)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def contents(path: Path) -> list[int]:
    with closing(open_store(path, None)) as store:
        assert not store.unclean, "sealed as by an orderly close"
        assert store.check() == []
        return seqs(everything(store))


def test_a_copy_is_what_is_stored_at_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits go on meanwhile, and are not in it."""
    monkeypatch.setattr(copying, "_STEP", 16)
    (tmp_path / "copies").mkdir()
    copy = tmp_path / "copies" / "copy.db"
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing(range(1, 4), body=MIB)])
        committed = iter(range(4, 2000))
        monkeypatch.setattr(store, "_look", lambda: store.commit([storing([next(committed)])]))
        store.backup(copy)
        assert next(committed) > 20, "there were many steps"
        assert len(everything(store)) > 20
    assert names(copy.parent) == ["copy.db"]
    assert contents(copy) == [1, 2, 3]


def test_a_copy_knows_what_was_handled(tmp_path: Path) -> None:
    """By id and checksum (T-48)."""
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([RememberHandled([(PEER, 1, 2**32 - 1), (PEER, 1, 7), (PEER, 2, None)], 10)])
        store.backup(tmp_path / "copy.db")
        known = store.load().handled
    assert contents(tmp_path / "copy.db") == []
    with closing(open_store(tmp_path / "copy.db")) as copy:
        assert copy.load().handled == known
        assert len(list(known)) == 3


@posix
def test_a_copy_is_its_owners_alone(tmp_path: Path) -> None:
    """D-13."""
    mask = os.umask(0)
    try:
        with closing(open_store(tmp_path / "node.db")) as store:
            store.backup(tmp_path / "copy.db")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600


@posix
def test_a_copy_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its name is, before the call returns."""
    done: list[str] = []
    sync, link = os.fsync, os.link

    def syncing(number: int) -> None:
        done.append(f"sync {'names' if stat.S_ISDIR(os.fstat(number).st_mode) else 'file'}")
        sync(number)

    def linking(source: str, target: str) -> None:
        done.append("name")
        link(source, target)

    with closing(open_store(tmp_path / "node.db")) as store:
        monkeypatch.setattr(os, "fsync", syncing)
        monkeypatch.setattr(os, "link", linking)
        store.backup(tmp_path / "copy.db")
    assert done == ["sync file", "name", "sync names"]


@posix
@pytest.mark.parametrize("late", [False, True])
def test_no_file_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    taken = tmp_path / "taken.db"

    def take() -> None:
        taken.write_text("mine")

    if not late:
        take()
    with closing(open_store(tmp_path / "node.db")) as store:
        monkeypatch.setattr(store, "_look", take)
        with pytest.raises(StoreError, match=r"there is a file .*taken.db: .* Give another name"):
            store.backup(taken)
    assert taken.read_text() == "mine"
    assert names(tmp_path) == ["node.db", "node.db.lock", "node.db.mark", "node.db.reserve", "taken.db"]


@posix
@pytest.mark.parametrize("taken", [False, True])
def test_without_hard_links_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool) -> None:
    copy = tmp_path / "copy.db"

    def refuse(_source: str, _target: str) -> None:
        if taken:
            copy.write_text("mine")
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing([1])])
        with pytest.raises(StoreError, match="there is a file") if taken else nullcontext():
            store.backup(copy)
    assert copy.read_bytes() == b"mine" if taken else contents(copy) == [1]
    assert not [name for name in names(tmp_path) if name.endswith(".new")]


def test_errors_name_the_copy_and_leave_nothing(tmp_path: Path) -> None:
    away = tmp_path / "away" / "copy.db"
    error = rf"cannot write {away}, a copy of the database {tmp_path}/node.db: "
    with closing(open_store(tmp_path / "node.db")) as store, pytest.raises(StoreError, match=error):
        store.backup(away)
    with pytest.raises(StoreError, match="is closed"):
        store.backup(tmp_path / "never.db")
    assert names(tmp_path) == ["node.db", "node.db.lock", "node.db.mark", "node.db.reserve"]


@posix
def test_a_copy_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing([1], body=MIB)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, before[1]))
        try:
            with pytest.raises(StoreError, match=r"cannot write .*copy.db, a copy of"):
                store.backup(tmp_path / "copy.db")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert not [name for name in names(tmp_path) if name.startswith("copy")]
        store.backup(tmp_path / "copy.db")
    assert contents(tmp_path / "copy.db") == [1]


def test_closing_gives_a_copy_up_and_waits_for_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way, errors = threading.Event(), list[StoreError]()
    store = open_store(tmp_path / "node.db")
    honest: Callable[[], None] = store._look

    def look() -> None:
        under_way.set()
        while not store._ending:
            pass
        honest()

    def copy() -> None:
        try:
            store.backup(tmp_path / "copy.db")
        except StoreError as error:
            errors.append(error)

    monkeypatch.setattr(store, "_look", look)
    thread = threading.Thread(target=copy)
    thread.start()
    under_way.wait()
    store.close()
    thread.join()
    assert "given up: that is being closed" in str(errors)
    assert not [name for name in names(tmp_path) if name.startswith("copy")]
    assert contents(tmp_path / "node.db") == []


def test_closing_gives_a_check_up_and_leaves_everything_in_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance is moved with that file alone (docs/backup.md). SQLite empties its log with the last connection."""
    under_way, closed, errors = threading.Event(), threading.Event(), list[StoreError]()
    honest = file.connect_beside

    def connect(path: str, options: str) -> sqlite3.Connection:
        def begin(_statement: str) -> None:
            under_way.set()
            closed.wait(0.3)  # seconds: it lasts longer than a close that does not wait for it

        beside = honest(path, options)
        beside.set_trace_callback(begin)
        return beside

    def check() -> None:
        try:
            store.check()
        except StoreError as error:
            errors.append(error)

    store = open_store(tmp_path / "node.db")
    store.commit([storing(range(1, 4), body=MIB)])
    monkeypatch.setattr(file, "connect_beside", connect)
    thread = threading.Thread(target=check)
    thread.start()
    under_way.wait()
    store.close()
    closed.set()
    thread.join()
    assert [name for name in names(tmp_path) if name.endswith(("-wal", "-shm"))] == []
    assert "interrupted" in str(errors)
    monkeypatch.undo()
    assert contents(tmp_path / "node.db") == [1, 2, 3]


# Of an instance that another process runs, or nobody.


@posix
def test_a_database_that_is_in_use_is_copied_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 4))])
    with start("holder", path) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        back_up(path, tmp_path / "copy.db")
        holder.communicate()
    assert contents(tmp_path / "copy.db") == [1, 2, 3]


def test_a_database_that_nobody_uses_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 4))])
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    back_up(path, tmp_path / "copy.db")
    after = {file: file.read_bytes() for file in tmp_path.iterdir() if file.name != "copy.db"}
    assert after == before
    assert contents(tmp_path / "copy.db") == [1, 2, 3]


def test_the_log_of_a_killed_instance_stays_for_its_next_opening(tmp_path: Path) -> None:
    """That judges whether it is whole, and it is in the copy."""
    killed = tmp_path / "killed"
    killed.mkdir()
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing(range(1, 4))])
        for suffix in ("", "-wal"):
            shutil.copy(f"{tmp_path / 'node.db'}{suffix}", killed)
    log = (killed / "node.db-wal").read_bytes()
    back_up(killed / "node.db", tmp_path / "copy.db")
    assert (killed / "node.db-wal").read_bytes() == log
    assert contents(tmp_path / "copy.db") == [1, 2, 3]


def test_only_databases_of_instances_are_copied(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no database"):
        back_up(tmp_path / "none.db", tmp_path / "copy.db")
    (tmp_path / "text").write_text("no database at all, but long enough to have the look of one" * 100)
    with pytest.raises(StoreError, match=r"cannot read the database .*text: it is not a database"):
        back_up(tmp_path / "text", tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t(x)")
    with pytest.raises(StoreError, match="not the database of an instance"):
        back_up(tmp_path / "other.db", tmp_path / "copy.db")
    assert names(tmp_path) == ["other.db", "text"]


# Put back.


def test_a_copy_lacks_nothing_until_it_takes_the_place_of_the_original(tmp_path: Path) -> None:
    """D-13: of what came after it was made. That ends with `restored`."""
    database, copy = tmp_path / "node.db", tmp_path / "copy.db"
    with closing(open_store(database)) as store:
        store.commit([storing([1])])
        store.backup(copy)
        store.commit([storing([2])])
    other = tmp_path / "other.db"
    shutil.copyfile(copy, other)
    with closing(open_store(other)) as store:
        assert (store.missing, store.news()) == (0, [])
    copy.replace(database)
    with closing(open_store(database)) as store:
        assert [kind for kind, _ in store.news()] == [NoticeKind.COMMITS_MISSING]
        store.restored(Random(1))
        assert store.missing == 0
    with closing(open_store(database)) as store:
        assert (store.missing, store.news()) == (0, [])


def test_a_store_that_was_restored_begins_its_ids_elsewhere(tmp_path: Path) -> None:
    """T-40."""
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([ReserveIds(5000, 4096, 10)])
        store.restored(BeginAt(Random(1), 800_000_000))
    with closing(SQLiteStore(tmp_path / "node.db", instance_id=None)) as store:
        assert store.load().id_spans == [(5000, 4096 + 2**24), (800_000_000, 0)]
