"""Databases of older layouts: they open, with all that was in them, whenever their migration is killed."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tolliver_transports._store.checks import content_check, row_check
from tolliver_transports._store.layout import TABLES
from tolliver_transports._store.look import look

from tolliver_proto import CorruptMessage, StoreError, Subscription

from .given import OTHER, OURS, PEER, everything, message, open_store, seqs
from .layout_1 import write as write_layout_1

STEP = 5  # statements
DUMPS = Path(__file__).parent  # of databases with the same messages that the last versions with those layouts wrote


def layout_1(path: Path) -> None:
    write_layout_1(path, OURS, PEER, b"pin", [message(1), message(2)])
    with closing(sqlite3.connect(path)) as old, old:
        old.execute("UPDATE delivery SET parked = 1 WHERE seq = 2")
        old.execute("INSERT INTO peer_subscription VALUES (1, 'c', 'k')")
        old.execute("INSERT INTO own_subscription VALUES ('own', '')")
        old.execute("INSERT INTO handled VALUES (3, 1, 5)")
        letter = content_check(0, 9, b"c", b"k", b"body")
        old.execute("INSERT INTO dead_letter VALUES (4, 1, 9, 20, 1000, ?, 'c', 'k', ?)", (letter, b"body"))
        old.execute("INSERT INTO dead_letter VALUES (5, 1, 9, 20, 1000, ?, 'c', 'k', ?)", (letter + 1, b"body"))


def dumped(layout: int, path: Path, *changes: str) -> None:
    with closing(sqlite3.connect(path)) as old:
        old.executescript((DUMPS / f"layout_{layout}.sql").read_text())
        for change in changes:
            old.execute(change)
        old.commit()


layout_2, layout_3, layout_4 = (partial(dumped, layout) for layout in (2, 3, 4))


def layout_5(path: Path) -> None:
    """Layout 4 and two tables more, which have not changed since."""
    dumped(4, path, TABLES["expiry"], TABLES["retained"], "PRAGMA user_version = 5")


def layout_2_at(path: Path, next_id: int) -> None:
    """With the ids going on there."""
    crc = row_check(OURS.bytes, next_id, None)
    layout_2(path, f"UPDATE instance SET next_id = {next_id}, seal = NULL, crc = {crc}")


def test_a_database_of_the_first_layout(scratch: Path) -> None:
    path = scratch / "node.db"
    layout_1(path)
    for _ in range(2):
        with closing(open_store(path)) as store:
            loaded = store.load()
            assert (store.instance_id, loaded.id_spans) == (OURS, [(2**31 - 2 - 2**24 + 77, 2**24)])
            assert everything(store) == [message(1)]
            assert [(one.seq, one.parked) for one in store.find(PEER, 0, 10, 1e6)] == [(1, False), (2, True)]
            assert loaded.peers[PEER].spki_sha256 == b"pin"
            assert loaded.peers[PEER].subscriptions == {Subscription("c", "k")}
            assert loaded.own_subscriptions == {Subscription("own", "")}
            assert list(loaded.handled) == [(PEER, 5, None)]
            assert [letter.number for letter in store.dead_letters(0, 10)] == [4]
            assert store.check() == []


def whole(path: Path) -> None:
    """The checks that the program which wrote the dump would have passed."""
    with closing(open_store(path)) as store:
        loaded = store.load()
        assert everything(store) == [message(seq) for seq in (2, 3, *range(5, 13))]
        assert everything(store, OTHER) == [message(seq) for seq in (4, 5, 7, 8, 10, 11, 14, 16)]
        assert [one.seq for one in store.find(None, 0, 99, 1e6) if one.parked] == [4]
        assert min(one.age for one in store.find(None, 0, 99, 1e6)) == max(one.age for one in store.find(None, 0, 9, 0))
        assert loaded.id_spans == [(5000 - 2**24 - 1 + 2**31 - 2 + 1, 2**24)]
        assert loaded.peers[PEER].spki_sha256 == b"p" * 32
        assert loaded.peers[PEER].subscriptions == {Subscription("c", "k")}
        assert loaded.peers[PEER].pending_bytes == sum(message(seq).size for seq in (2, 3, *range(5, 13)))
        assert loaded.own_subscriptions == {Subscription("own", "")}
        assert list(loaded.handled) == [(OTHER, 7, None)]
        assert loaded.live_ids == [(1002, 1012), (1014, 1014), (1016, 1016)]
        assert [letter.body for letter in store.dead_letters(0, 10)] == [b"letter"]
        assert store.check() == []


@pytest.mark.parametrize("layout", [layout_2, layout_3, layout_4, layout_5])
def test_a_database_of_a_later_layout(scratch: Path, layout: Callable[[Path], None]) -> None:
    layout(scratch / "node.db")
    for _ in range(2):
        whole(scratch / "node.db")


@pytest.mark.parametrize(
    ("change", "damaged", "told"),
    [
        ("UPDATE message SET body = x'00' WHERE seq = 5", {5}, ""),
        ("DELETE FROM message WHERE seq = 5", {5}, ""),
        ("UPDATE message SET channel = 'c'", set(range(2, 13)) - {4}, ""),
        ("UPDATE delivery SET size = 1 WHERE seq = 5", set(), "2 rows of table delivery have a wrong checksum"),
        (
            "DELETE FROM delivery WHERE seq = 5",
            set(),
            "table delivery has 17 rows and had 19 ",
        ),
    ],
)
def test_what_was_damaged_stays_so(scratch: Path, change: str, damaged: set[int], told: str) -> None:
    path = scratch / "node.db"
    layout_2(path, change)
    with closing(open_store(path)) as store:
        rows = everything(store)
        assert {row.seq for row in rows if isinstance(row, CorruptMessage)} == damaged
        assert all(row.wire_id == message(row.seq).wire_id for row in rows)
        assert all(row == message(row.seq) for row in rows if row.seq not in damaged)
        assert (told in "; ".join(store.check())) if told else store.check() == []
        assert seqs(rows) == [seq for seq in (2, 3, *range(5, 13)) if not told or seq != 5]


def test_what_was_handled_and_damaged_is_left_out_and_told(scratch: Path) -> None:
    path = scratch / "node.db"
    layout_2(path, "INSERT INTO handled SELECT 2, peer, wire_id + 1, crc FROM handled")
    with closing(open_store(path)) as store:
        [told] = store.check()
        assert "1 rows of table handled have a wrong checksum" in told
        assert list(store.load().handled) == [(OTHER, 7, None)]


def test_a_migration_that_is_killed_at_any_step_begins_anew(scratch: Path) -> None:
    """The child kills itself before its n-th statement, and takes a connection with it that is in the midst of one."""
    layout_2(scratch / "old.db")
    killed = 0
    for statement in range(1, 1000, STEP):
        for suffix in ("", "-wal", "-shm", ".lock"):
            (scratch / f"node.db{suffix}").unlink(missing_ok=True)
        shutil.copy(scratch / "old.db", scratch / "node.db")
        program = ["-m", "tests.store.children", "migrator", str(scratch / "node.db"), str(statement)]
        child = subprocess.run([sys.executable, *program], cwd=Path(__file__).parents[2], check=False)
        whole(scratch / "node.db")
        if child.returncode == 0:
            break
        assert child.returncode == -signal.SIGKILL
        killed += 1
    assert killed > 5
    assert child.returncode == 0


@pytest.mark.parametrize("layout", [layout_1, layout_2, layout_3, layout_4, layout_5])
def test_a_migration_that_finds_no_room_changes_nothing(scratch: Path, layout: Callable[[Path], None]) -> None:
    path = scratch / "node.db"
    layout(path)
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("PRAGMA journal_mode = WAL")
        foreign.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program holds a lock on it; end that program and try again"):
            open_store(path)
        foreign.execute("ROLLBACK")
        [(version,)] = foreign.execute("PRAGMA user_version")
        assert version in (1, 2, 3, 4, 5)
    open_store(path).close()


@pytest.mark.parametrize("layout", [layout_1, layout_2])
def test_a_look_into_a_layout_of_rows_says_how_to_bring_it_up(scratch: Path, layout: Callable[[Path], None]) -> None:
    layout(scratch / "node.db")
    with pytest.raises(StoreError, match="start its instance first"), look(scratch / "node.db"):
        pass


@pytest.mark.parametrize("layout", [layout_3, layout_4, layout_5])
def test_a_look_into_a_layout_of_batches_reads_it_as_it_is(scratch: Path, layout: Callable[[Path], None]) -> None:
    path = scratch / "node.db"
    layout(path)
    before = path.read_bytes()
    with look(path) as old:
        found = old.waiting(), old.known(), [*old.letters(bodies=True)]
    assert path.read_bytes() == before
    open_store(path).close()
    with look(path) as new:
        assert (new.waiting(), new.known(), [*new.letters(bodies=True)]) == found
    assert found[0]
