"""Expiry of single messages on disk (P-27): by the corrected clock, over restarts, with the batch that it is for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tolliver_proto.store import AddDeliveries, Operation, ParkDelivery, RemoveDeliveries, RemoveMessages, StoreMessages

from .ages import Machine
from .given import OTHER, PEER, message, open_store
from .test_clock import DAY


def expiring(seqs: list[int], after: float | None, held: bool = False) -> Operation:
    messages = [message(seq) for seq in seqs]
    return StoreMessages(messages, [(PEER,)] * len(messages), seqs if held else (), after)


def rows(path: Path) -> list[tuple[int, int]]:
    with closing(sqlite3.connect(path)) as foreign:
        return foreign.execute("SELECT first_seq, due FROM expiry ORDER BY first_seq").fetchall()


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as foreign, foreign:
        for statement in statements:
            foreign.execute(statement)


def test_over_a_restart_and_a_step_of_the_wall_clock(scratch: Path) -> None:
    path, machine = scratch / "node.db", Machine()
    with machine.store(path) as store:
        store.commit([expiring([1, 2], 100.0), expiring([3], None), expiring([4], 50.0)])
        assert store.load().expires_in == pytest.approx(50.0, abs=1.0)
        machine.passes(10.0)
        machine.wall += 30 * DAY
        assert [(one.seq, round(one.expires_in)) for one in store.expiring(9)] == [(4, 40), (1, 90), (2, 90)]
        store.commit([ParkDelivery(PEER, 2)])
    machine.passes(50.0)
    with machine.store(path) as store:
        assert store.load().expires_in == pytest.approx(-10.0, abs=1.0)
        assert [one.seq for one in store.expiring(2)] == [4, 1]
        assert [one.parked for one in store.expiring(3)] == [False, False, True]
        store.commit([RemoveDeliveries(PEER, [(1, 4)]), RemoveMessages([(1, 4)])])
        assert (store.expiring(9), store.load().expires_in) == ([], None)
    assert rows(path) == []


def test_a_message_that_nobody_is_owed_any_more_has_no_end(scratch: Path) -> None:
    """It may be there for a while yet: it is removed in a later commit."""
    with Machine().store(scratch / "node.db") as store:
        store.commit([expiring([1], 50.0), expiring([2], 100.0)])
        store.commit([RemoveDeliveries(PEER, [(1, 1)])])
        assert store.load().expires_in == pytest.approx(100.0, abs=1.0)
        store.commit([RemoveDeliveries(PEER, [(2, 2)])])
        assert store.load().expires_in is None


def test_a_batch_that_goes_by_pieces_takes_its_expiry_along(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([expiring([1, 2, 3], 1000.0), expiring([4], 1000.0, held=True), AddDeliveries(OTHER, [(1, 1, 1)])])
        for seq in (1, 2):
            store.commit([RemoveDeliveries(PEER, [(seq, seq)])])
            store.commit([RemoveMessages([(seq, seq)])] if seq == 2 else [])
        assert sorted((one.seq, one.peer) for one in store.expiring(9)) == [(1, OTHER), (3, PEER), (4, PEER)]
        store.commit([RemoveDeliveries(OTHER, [(1, 1)]), RemoveDeliveries(PEER, [(3, 4)]), RemoveMessages([(1, 3)])])
        assert store.expiring(9) == []
    assert [first for first, _ in rows(path)] == [1], "one of it is kept for who connects"
    open_store(path).close()
    assert rows(path) == []


def test_a_row_that_is_left_over_is_no_later_messages(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([expiring([1], 1000.0)])
    changed(path, "DELETE FROM batch", "DELETE FROM owed")
    with closing(open_store(path)) as store:
        store.commit([expiring([1], None)])
        assert store.expiring(9) == []


def test_one_whose_time_or_place_is_damaged_does_not_expire(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([expiring([1], 1000.0)])
        store.commit([expiring([3], 1000.0)])
    changed(path, "UPDATE expiry SET due = due - 512 WHERE first_seq = 1", "UPDATE batch SET directory = x'00'")
    with closing(open_store(path)) as store:
        [told] = [one for one in store.check() if "expiry" in one]
        assert "do not expire when their send said" in told
        assert store.expiring(9) == []
