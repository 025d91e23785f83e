"""Outbox and inbox over every adapter: rows of a program's database become messages, and messages effects, once."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tolliver.inbox import Inbox as Notes
from tolliver.outbox import Outbox

from tolliver_proto import ConnectionClosing, Delivery, NoticeKind, Policy

from .facade import until
from .kinds import EACH_ADAPTER, EVERY_LOOP
from .nodes import AGAIN, Inbox, Nodes, address, noticed

Connect = Callable[[], sqlite3.Connection]


def database(path: Path) -> Connect:
    return lambda: sqlite3.connect(path)


@contextmanager
def transaction(connect: Connect) -> Iterator[sqlite3.Connection]:
    with closing(connect()) as connection, connection:
        yield connection


def put(outbox: Outbox, *items: tuple[str, str, bytes]) -> None:
    with transaction(outbox.connect) as connection:
        for item in items:
            outbox.put(connection, *item)


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    made = Outbox(database(tmp_path / "shop.db"))
    made.create()
    return made


@EVERY_LOOP
def test_committed_rows_go_in_order_and_others_never(nodes: Nodes, outbox: Outbox) -> None:
    with nodes.pair() as (left, _, inbox):
        relay = left.relay(outbox)
        put(outbox, ("news", "k", b"1"), ("news", "", b"2"))
        with closing(outbox.connect()) as connection:
            outbox.put(connection, "news", "", b"rolled back")
            connection.rollback()
        put(outbox, *(("news", "", b"%d" % number) for number in range(3, 1500)))
        inbox.holds(1499)
        until(lambda: relay.status.moved == 1499)
        relay.close()
        assert inbox.bodies == [b"%d" % number for number in range(1, 1500)]
        assert inbox.deliveries[0].key == "k"
        assert outbox.waiting() == {}
        assert repr(relay) == "<Relay of tolliver_outbox, 1499 rows moved>"


@EACH_ADAPTER
def test_rows_of_a_channel_that_keeps_leave_the_table_at_once(nodes: Nodes, outbox: Outbox) -> None:
    with nodes.pair() as (left, right, inbox), left.relay(outbox) as relay:
        left.send("late", "", b"0", keep=True)
        put(outbox, ("late", "a", b"1"), ("late", "b", b"2"))
        until(lambda: relay.status.moved == 2)
        assert (outbox.waiting(), relay.status.held) == ({}, {})
        assert left.stats().kept == 3
        right.subscribe("late", handler=inbox)
        inbox.holds(3)
        assert inbox.bodies == [b"0", b"1", b"2"]


@EACH_ADAPTER
def test_a_row_that_nobody_gets_holds_back_its_channel_alone(nodes: Nodes, outbox: Outbox) -> None:
    with nodes.pair() as (left, right, inbox), left.relay(outbox) as relay:
        put(outbox, ("late", "a", b"1"), ("news", "", b"2"), ("late", "b", b"3"))
        inbox.holds(1)
        until(lambda: relay.status.held)
        assert relay.status.held == {"late": "nobody subscribes"}
        assert outbox.waiting() == {"late": 2}
        until(lambda: noticed(left, NoticeKind.ROWS_HELD))
        right.subscribe("late", "b")
        put(outbox, ("news", "", b"4"))
        inbox.holds(2)
        assert inbox.bodies == [b"2", b"4"]
        right.subscribe("late", handler=inbox)
        inbox.holds(4)
        assert inbox.bodies == [b"2", b"4", b"1", b"3"]
        until(lambda: relay.status.held == {})
    assert left.stats()["no_recipients"] == 0


@EACH_ADAPTER
def test_a_relay_ends_with_its_instance_and_the_next_one_goes_on(nodes: Nodes, outbox: Outbox) -> None:
    """Each end of an instance may cost an ack, and its message comes again: `dedupe` drops that, and no second send."""
    with nodes.open("right", policy=Policy(dedupe=2000)) as right:
        inbox = Inbox()
        right.subscribe("news", handler=inbox)
        for life in range(2):
            with nodes.open("left") as left:
                left.new_connection(address(right))
                left.relay(outbox)
                put(outbox, *(("news", "", b"%d" % number) for number in range(1000 * life, 1000 * (life + 1))))
        with nodes.open("left") as left:
            left.new_connection(address(right))
            left.relay(outbox)
            inbox.holds(2000)
        assert inbox.bodies == [b"%d" % number for number in range(2000)]
        with pytest.raises(ConnectionClosing):
            left.relay(outbox)


@EACH_ADAPTER
def test_an_effect_is_done_once_for_a_message_that_comes_twice(nodes: Nodes, tmp_path: Path) -> None:
    """The first copy's transaction is committed, and then its handler fails, as if it had been killed there."""
    connect, left_out = database(tmp_path / "bank.db"), []
    notes = Notes(connect)
    notes.create()
    with transaction(connect) as connection:
        connection.execute("CREATE TABLE paid (body BLOB)")

    def pay(delivery: Delivery) -> bool:
        with transaction(connect) as connection:
            if not notes.once(connection, delivery):
                left_out.append(delivery.body)
                return True
            connection.execute("INSERT INTO paid VALUES (?)", (delivery.body,))
        return False

    with nodes.pair((), left=AGAIN) as (left, right, _):
        right.subscribe("pay", handler=pay)
        left.wait_subscribed("pay")
        left.wait_acked(left.send_many([("pay", "", b"%d" % number) for number in range(5)]))
    with transaction(connect) as connection:
        paid = [body for (body,) in connection.execute("SELECT body FROM paid")]
    assert sorted(paid) == sorted({*left_out}) == [b"%d" % number for number in range(5)]


@EACH_ADAPTER
def test_only_an_outbox_can_be_relayed(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        for wrong in ("shop.db", None):
            with pytest.raises(TypeError):
                left.relay(wrong)


@EACH_ADAPTER
def test_a_database_that_fails_is_told_and_tried_again(nodes: Nodes, tmp_path: Path) -> None:
    """The table is made while the relay runs."""
    outbox = Outbox(database(tmp_path / "shop.db"))
    with nodes.pair() as (left, _, inbox), left.relay(outbox) as relay:
        until(lambda: relay.status.error)
        assert "no such table" in str(relay.status.error)
        until(lambda: noticed(left, NoticeKind.STORE_ERROR))
        outbox.create()
        put(outbox, ("news", "", b"1"))
        inbox.holds(1)
        assert relay.status.error is None


@EACH_ADAPTER
def test_a_program_database_that_is_put_back_is_told(nodes: Nodes, tmp_path: Path) -> None:
    connect, handled = database(tmp_path / "bank.db"), list[bytes]()
    notes = Notes(connect)
    notes.create()

    def note(delivery: Delivery) -> None:
        with transaction(connect) as connection:
            notes.once(connection, delivery)
        handled.append(delivery.body)

    def life(body: bytes, is_told: bool) -> None:
        with nodes.pair(()) as (left, right, _):
            right.subscribe("pay", handler=note)
            left.wait_subscribed("pay")
            left.wait_acked(left.send("pay", "", body))
            until(lambda: not is_told or noticed(right, NoticeKind.COMMITS_MISSING))

    life(b"1", is_told=False)
    shutil.copy(tmp_path / "bank.db", tmp_path / "copy")
    life(b"2", is_told=False)
    shutil.copy(tmp_path / "copy", tmp_path / "bank.db")
    life(b"3", is_told=True)
    assert handled == [b"1", b"2", b"3"]
