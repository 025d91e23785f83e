"""A disk that is full drains (D-13, V10): the reserve, `min_free`, opening and closing. On a real one of 4 MiB."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tolliver._store.sqlite import SQLiteStore

from tests.disks import SIZE, eat, small_disk
from tolliver_proto import NoticeKind, Subscription
from tolliver_proto.errors import DiskFull
from tolliver_proto.store import PinPeer, RemoveDeliveries, RemoveMessages, ReplacePeerSubscriptions

from .given import OTHER, PEER, everything, open_store, seqs, start, storing

BODY = bytes(500)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk") as place:
        yield place


def fill(store: SQLiteStore, count: int = 10) -> list[int]:
    """Store so many messages at a time until that fails; returns those that are stored."""
    stored: list[int] = []
    for first in range(1, 100_000, count):
        try:
            store.commit([storing(range(first, first + count), body=BODY)])
        except DiskFull:
            return stored
        stored += range(first, first + count)
    raise AssertionError("it is never full")


def remove(store: SQLiteStore, numbers: list[int], count: int = 30) -> None:
    """As acknowledgements come: so many at a time."""
    for at in range(0, len(numbers), count):
        span = (numbers[at], numbers[min(at + count, len(numbers)) - 1])
        store.commit([RemoveDeliveries(PEER, [span]), RemoveMessages([span])])


def told(store: SQLiteStore) -> list[NoticeKind]:
    return [kind for kind, _ in store.news()]


def reserve_of(disk: Path) -> int:
    reserve = disk / "node.db.reserve"
    return reserve.stat().st_blocks * 512 if reserve.exists() else 0


def test_the_reserve_grows_with_its_database(tmp_path: Path) -> None:
    """An empty one takes little, and what it has taken is there at the next opening."""
    with closing(open_store(tmp_path / "node.db")) as store:
        assert reserve_of(tmp_path) == 2**19
        for first in range(1, 10_001, 100):  # it looks from time to time, while the disk has plenty
            store.commit([storing(range(first, first + 100), body=bytes(20_000))])
            if reserve_of(tmp_path) > 2**19:
                break
            time.sleep(0.05)
        assert 2**19 < (grown := reserve_of(tmp_path)) <= 2**23
    with closing(open_store(tmp_path / "node.db")):
        assert reserve_of(tmp_path) == grown


@pytest.mark.parametrize("count", [1, 10, 200])
def test_what_the_outbox_has_filled_drains_and_the_reserve_is_there_again(disk: Path, count: int) -> None:
    with closing(open_store(disk / "node.db")) as store:
        assert reserve_of(disk) == SIZE // 8
        stored = fill(store, count)
        assert len(stored) > 1000
        assert reserve_of(disk) == SIZE // 8
        with pytest.raises(DiskFull, match="; free some"):
            store.commit([storing(range(100_000, 101_000), body=BODY), RemoveDeliveries(PEER, [(1, 3)])])
        assert seqs(everything(store)) == stored
        remove(store, stored)
        assert everything(store) == []
        assert told(store) == [NoticeKind.RESERVE_USED, NoticeKind.RESERVE_RESTORED]
        assert reserve_of(disk) == SIZE // 8
        again = fill(store, count)
        assert len(again) > 0.9 * len(stored)
        assert store.check() == []
    with closing(open_store(disk / "node.db")) as store:
        assert seqs(everything(store)) == again


def test_removals_that_take_more_room_than_there_is_go_one_after_the_other(disk: Path) -> None:
    with closing(open_store(disk / "node.db")) as store:
        stored = fill(store, 1)
        eat(disk)
        removals = [RemoveDeliveries(PEER, [(seq, seq)]) for seq in stored[::2]]
        removals.append(RemoveDeliveries(PEER, [(seq, seq) for seq in stored[1::2]]))
        store.commit([*removals, RemoveMessages([(stored[0], stored[-1])]), PinPeer(OTHER, bytes(32))])
        assert everything(store) == []
        assert store.load().peers[OTHER].spki_sha256 == bytes(32)
        assert store.load().live_ids == []
        assert told(store) == [NoticeKind.RESERVE_USED, NoticeKind.RESERVE_RESTORED]


def test_a_list_and_a_pin_are_stored_when_no_message_is(disk: Path) -> None:
    with closing(open_store(disk / "node.db")) as store:
        fill(store)
        eat(disk)
        store.commit([ReplacePeerSubscriptions(OTHER, [Subscription("c", "k")]), PinPeer(OTHER, bytes(32))])
        assert store.load().peers[OTHER].spki_sha256 == bytes(32)


def test_a_reader_that_holds_up_the_log_costs_no_room_that_the_database_needs_then(disk: Path) -> None:
    """The check of a large database is one, or a copy: the log cannot begin anew meanwhile."""
    news = [Subscription("c", f"{number:0200}") for number in range(30)]
    with closing(open_store(disk / "node.db")) as store:
        stored = fill(store)
        eat(disk)
        with closing(sqlite3.connect(disk / "node.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM batch").fetchall()
            store.commit([ReplacePeerSubscriptions(OTHER, news)])
            with pytest.raises(DiskFull):
                remove(store, stored, 1)
        with closing(sqlite3.connect(disk / "node.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM batch").fetchall()
            with pytest.raises(DiskFull):
                remove(store, seqs(everything(store)), 1)
        remove(store, seqs(everything(store)))
        assert everything(store) == []
        assert told(store) == [NoticeKind.RESERVE_USED, NoticeKind.RESERVE_RESTORED]
        assert reserve_of(disk) == SIZE // 8
        assert store.check() == []


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_a_full_database_opens_and_drains(disk: Path, closed: bool) -> None:
    with start("filler", disk / "node.db") as filler:
        assert filler.stdout is not None
        stored = list(range(1, int(filler.stdout.readline()) + 1))
        ballast = eat(disk)
        if not closed:
            filler.kill()
        filler.communicate(timeout=10)
    eat(disk, "more")  # the log's room, too
    with closing(open_store(disk / "node.db")) as store:
        assert seqs(everything(store)) == stored
        remove(store, stored)
        ballast.unlink()
        store.commit([])
        assert told(store) == [NoticeKind.RESERVE_USED, NoticeKind.RESERVE_RESTORED]
    assert reserve_of(disk) == SIZE // 8


def test_below_min_free_new_messages_are_refused_and_removals_go_on(disk: Path) -> None:
    with closing(SQLiteStore(disk / "node.db", instance_id=OTHER, first_id=1, min_free=2**20)) as store:
        stored = fill(store)
        assert shutil.disk_usage(disk).free > 2**20 - 2**16
        for _ in range(3):
            with pytest.raises(DiskFull, match="less than min_free=1048576; free some"):
                store.commit([storing([100_000])])
        assert told(store) == [NoticeKind.DISK_LOW]  # once
        remove(store, stored)
        store.commit([storing([100_000])])
        assert told(store) == []
        assert seqs(everything(store)) == [100_000]


def test_a_commit_that_would_not_fit_twice_is_refused_before_it_blocks_the_log(disk: Path) -> None:
    """In the log, and then in the database."""
    with closing(open_store(disk / "node.db")) as store:
        with pytest.raises(DiskFull, match="need twice as many"):
            store.commit([storing([1], body=bytes(2 * 2**20))])
        store.commit([storing([1], body=bytes(2**20))])
        stored = [1]
        try:
            for seq in range(2, 9):
                store.commit([storing([seq], body=bytes(2**20 // 2))])
                stored.append(seq)
        except DiskFull:
            pass
        eat(disk)
        remove(store, stored, 1)
        assert everything(store) == []


def test_a_disk_that_is_too_small_for_a_reserve_works_without(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=400k", disk], check=True)
    with closing(open_store(disk / "node.db")) as store:
        assert fill(store)
        assert reserve_of(disk) == 0
        assert told(store) == []
