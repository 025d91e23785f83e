"""Ages, damage and failed commits in the SQLite store's upkeep."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import (
    AddDeadLetter,
    AddDeliveries,
    DeadLetter,
    ForgetPeer,
    ParkDelivery,
    PinPeer,
    RememberHandled,
    RemoveMessages,
    ReplacePeerSubscriptions,
    StoreMessages,
    UnparkDeliveries,
)

from .given import OTHER, PEER, everything, message, open_store, seqs, storing


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as foreign, foreign:
        foreign.execute(statement)


def test_found_by_age_oldest_first(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    with closing(open_store(path)) as store:
        store._deliveries._now = lambda: int(time.time()) - 1000
        store.commit([storing(range(1, 5), [PEER, OTHER])])
    with closing(open_store(path)) as store:
        store.commit([storing([5, 6], [PEER, OTHER])])
    with closing(open_store(path)) as store:
        assert [one.seq for one in store.find(PEER, 0, 100, 900.0)] == [1, 2, 3, 4]
        assert [one.seq for one in store.find(None, 0, 100, 900.0)] == [1, 1, 2, 2, 3, 3, 4, 4]
        assert [one.seq for one in store.find(None, 2, 3, 900.0)] == [3, 3, 4]
        assert store.find(PEER, 0, 100, 2000.0) == []
        assert len(store.find(PEER, 0, 100, 0.0)) == 6
        assert all(900.0 <= one.age < 1100.0 for one in store.find(PEER, 0, 100, 900.0))


@pytest.mark.parametrize("column", ["body = 'x'", "channel = 'x'", "wire_id = 1", "crc = 1"])
def test_a_damaged_letter_is_left_out(tmp_path: Path, column: str) -> None:
    path = tmp_path / "node.db"
    with closing(open_store(path)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"%d" % n, n, 20)) for n in (11, 12, 13)])
    change(
        path,
        f"UPDATE dead_letter SET {column.replace(chr(39) + 'x' + chr(39), 'CAST(1 AS BLOB)')} WHERE number = 2"
        if column.startswith("body")
        else f"UPDATE dead_letter SET {column} WHERE number = 2",
    )
    with closing(open_store(path)) as store:
        assert [letter.number for letter in store.dead_letters(0, 10)] == [1, 3]


def test_a_forgetting_that_fails_changes_nothing(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing([1, 2]), PinPeer(PEER, b"k" * 32)])
        new = StoreMessages([message(3)], [[PEER, OTHER]])
        with pytest.raises(StoreError):
            store.commit([ForgetPeer(PEER), new, storing([1])])
        assert seqs(store.fetch(PEER, 0, 9, 9999)) == [1, 2]
        store.commit([ForgetPeer(PEER), RemoveMessages([(1, 2)]), new])
        assert seqs(store.fetch(PEER, 0, 9, 9999)) == [3]
        assert seqs(store.fetch(OTHER, 0, 9, 9999)) == [3]
        assert store.load().peers[PEER].spki_sha256 is None


def test_what_is_set_aside_is_not_fetched_until_it_is_put_back(tmp_path: Path) -> None:
    """T-09."""
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([storing([1, 2, 3]), ParkDelivery(PEER, 2)])
        assert seqs(everything(store)) == [1, 3]
        store.commit([UnparkDeliveries(PEER, [(1, 3)])])
        assert seqs(everything(store)) == [1, 2, 3]


def test_a_list_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """T-30."""
    old, new = Subscription("old", ""), Subscription("new", "")
    with closing(open_store(tmp_path / "node.db")) as store:
        for said in (old, new):
            store.commit([ReplacePeerSubscriptions(PEER, (said,))])
        assert store.load().peers[PEER].subscriptions == {new}


def test_what_is_forgotten_within_a_commit_stays_so(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([RememberHandled([(PEER, 1, 11), (PEER, 2, 12)], 2), RememberHandled([(PEER, 3, 13)], 1)])
        store.commit([RememberHandled([(PEER, 4, 0)], 1), RememberHandled([(PEER, 5, 2**32 - 1)], 5)])
        assert list(store.load().handled) == [(PEER, 4, 0), (PEER, 5, 2**32 - 1)]


def test_forgetting_many_at_once(tmp_path: Path) -> None:
    """Thousands of derived identities have had their day (T-72a)."""
    many = [UUID(int=0xF00DBABE0001 << 80 | 8 << 76 | 2 << 62 | number) for number in range(3000)]
    with closing(open_store(tmp_path / "node.db")) as store:
        store.commit([RememberHandled([(peer, 1, 2) for peer in (PEER, *many, OTHER)], 10_000)])
        store.commit([PinPeer(PEER, b"k" * 32)])
        store.commit([AddDeadLetter(DeadLetter(many[7], "c", "k", b"body", 1, 20))])
        store.commit([ForgetPeer(peer) for peer in (*many[1::2], *many[::2], many[0])])
        loaded = store.load()
        assert set(loaded.peers) == {PEER, OTHER, many[7]}, "a dead letter keeps its sender's name"
        assert loaded.peers[PEER].spki_sha256 == b"k" * 32
        assert list(loaded.handled) == [(PEER, 1, 2), (OTHER, 1, 2)]
        [letter] = store.dead_letters(0, 10)
        assert letter.peer == many[7]


def test_held_messages_that_somebody_is_owed_outlive_a_restart(tmp_path: Path) -> None:
    """T-62: held for who connects, and owed already."""
    path = tmp_path / "node.db"
    with closing(open_store(path)) as store:
        store.commit([StoreMessages([message(n) for n in (1, 2, 3)], [[PEER], [], []], [1, 2, 3])])
        store.commit([AddDeliveries(OTHER, [(2, message(2).wire_id, message(2).size)])])
    with closing(open_store(path)) as store:
        assert seqs(store.fetch(PEER, 0, 9, 9999)) == [1]
        assert seqs(store.fetch(OTHER, 0, 9, 9999)) == [2]
        assert store.load().live_ids == [(message(1).wire_id, message(2).wire_id)], "the third is gone"
