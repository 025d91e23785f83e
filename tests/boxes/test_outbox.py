"""Outbox and its relay on each database: what is committed goes once, however late, and whoever is killed."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy
from tolliver._boxes.databases import opened
from tolliver._boxes.outbox_table import LEASE, OutboxTable
from tolliver._messages.relaying import Relay
from tolliver.blocking import Instance, InstanceOptions, Work, create_instance
from tolliver.outbox import Outbox

from tolliver_proto import Limits, LocalProtocolError, NoticeKind, Policy, ReservedChannel
from tolliver_proto.node import QuotaPolicy

from .kinds import PLAIN, POSTGRES, Bank

ALICE, ALAN, BOB = (UUID(f"01890000-0000-7000-8000-00000000000{number}") for number in "123")
PATIENCE = 30.0
DAY = 86_400.0


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def outbox(bank: Bank) -> Outbox:
    made = Outbox(bank.connect)
    made.create()
    made.create()
    return made


def put(bank: Bank, box: Outbox, *items: tuple[str, bytes]) -> None:
    with bank.transaction() as connection:
        for channel, body in items:
            box.put(connection, channel, "", body)


def _moved(relay: Relay, count: int) -> bool:
    return relay.status.moved == count


class Bob:
    """Subscribes to all that he is told, and remembers what he got, by its sender."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.got: list[tuple[UUID, str, bytes]] = []
        self.address = f"127.0.0.1:{instance.port}"

    def subscribe(self, channel: str) -> None:
        self._instance.subscribe(channel, handler=lambda one: self.got.append((one.peer_id, one.channel, one.body)))

    def work(self, channel: str) -> Work:
        return self._instance.work(channel, timeout=0.05)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.got]


@pytest.fixture
def bob(tmp_path: Path) -> Iterator[Bob]:
    options = InstanceOptions(database=tmp_path / "b.db", plaintext=True, identity=BOB, listen="127.0.0.1:0")
    with create_instance(options) as instance:
        made = Bob(instance)
        made.subscribe("x")
        yield made


@contextmanager
def sender(directory: Path, bob: Bob, identity: UUID = ALICE, **more: Any) -> Iterator[Instance]:
    options = InstanceOptions(database=directory / f"{identity.int & 7}.db", plaintext=True, identity=identity, **more)
    with create_instance(options) as instance:
        instance.new_connection(bob.address)
        instance.wait_subscribed("x")
        yield instance


@contextmanager
def table(box: Outbox, instance: UUID) -> Iterator[OutboxTable]:
    """The table as a relay of that instance has it, which is then killed."""
    with opened(box.connect) as database:
        yield OutboxTable(database, box.table, instance, DAY)


def test_rows_of_every_kind_of_connection_go_once_they_are_committed(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    box = outbox(bank)
    with sender(tmp_path, bob) as alice, alice.relay(box) as relay:
        with bank.undone() as connection:
            box.put(connection, "x", "", b"rolled back")
        bodies = [b"", bytes(range(256)), *(b"%d" % number for number in range(20))]
        with bank.transaction() as connection:
            for body in bodies:
                box.put(connection, "x", "\u00e9", body)
            assert box.waiting() == {}
        until(lambda: relay.status.moved == len(bodies))
        until(lambda: len(bob.got) == len(bodies))
        assert bob.bodies == bodies
        assert box.waiting() == {}


@POSTGRES
def test_rows_whose_transactions_commit_late_are_not_skipped(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """PostgreSQL gives the numbers of rows at once, and shows the rows at the commit: lower ones may come later."""
    box = outbox(bank)
    with sender(tmp_path, bob) as alice, alice.relay(box) as relay:
        late = [bank.plain() for _ in range(5)]
        for number, connection in enumerate(late):
            box.put(connection, "x", "", b"late %d" % number)
            put(bank, box, ("x", b"soon %d" % number))
        until(lambda: relay.status.moved == 5)
        for connection in reversed(late):
            connection.commit()
            connection.close()
        until(lambda: relay.status.moved == 10)
        until(lambda: len(bob.got) == 10)
    assert sorted(bob.bodies) == sorted(b"%s %d" % (kind, number) for kind in (b"late", b"soon") for number in range(5))


@PLAIN
def test_two_relays_share_a_table(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """Programs put rows meanwhile. Each row goes once, those of a channel in order, by one of the two."""
    box, channels, count = outbox(bank), [f"c{number}" for number in range(6)], 120
    for channel in channels:
        bob.subscribe(channel)
    with sender(tmp_path, bob) as alice, sender(tmp_path, bob, ALAN) as alan:
        for one in (alice, alan):
            one.wait_subscribed(channels[-1])
        with alice.relay(box) as first, alan.relay(box) as second:
            for number in range(count):
                put(bank, box, *((channel, b"%03d" % number) for channel in channels))
            until(lambda: first.status.moved + second.status.moved == count * len(channels))
            until(lambda: len(bob.got) >= count * len(channels))
    of_channel = {channel: [body for _, one, body in bob.got if one == channel] for channel in channels}
    assert of_channel == {channel: [b"%03d" % number for number in range(count)] for channel in channels}
    assert {len({peer for peer, one, _ in bob.got if one == channel}) for channel in channels} == {1}


# Leases, and rows that were begun.


@PLAIN
def test_a_channel_has_one_relay_until_its_lease_is_over(bank: Bank) -> None:
    box = outbox(bank)
    put(bank, box, ("x", b"1"), ("y", b"2"))
    with table(box, ALICE) as first, table(box, ALAN) as second:
        assert [row.body for row in first.begin(["x"], 10, 1000).rows] == [b"1"]
        put(bank, box, ("x", b"3"))
        assert [row.body for row in second.begin(["x", "y"], 10, 1000).rows] == [b"2"]
        bank.run("UPDATE tolliver_outbox_lease SET until = until - ?", LEASE)
        assert [row.body for row in second.begin(["x"], 10, 1000).rows] == [b"3"]
        assert first.begin(["x"], 10, 1000).rows == []
        second.give_back_leases()
        put(bank, box, ("x", b"4"))
        assert [row.body for row in first.begin(["x"], 10, 1000).rows] == [b"4"]


@PLAIN
def test_a_batch_has_bounds(bank: Bank) -> None:
    box = outbox(bank)
    put(bank, box, *(("x", bytes(400)) for _ in range(5)), ("y", bytes(2000)), ("y", b""))
    with table(box, ALICE) as relay:
        assert [[row.number for row in relay.begin("yx", 4, 1000).rows] for _ in range(4)] == [
            [6],
            [1, 2, 7],
            [3, 4],
            [5],
        ]


@PLAIN
def test_a_channel_with_many_rows_leaves_room_for_others(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    box = outbox(bank)
    others = [f"z{number:02}" for number in range(45)]
    put(bank, box, *(("x", b"") for _ in range(5000)), *((channel, b"") for channel in others))
    for channel in others:
        bob.subscribe(channel)
    with sender(tmp_path, bob) as alice:
        alice.wait_subscribed(others[-1])
        with alice.relay(box):
            until(lambda: len({channel for _, channel, _ in bob.got}) == 46)
    came = [channel for _, channel, _ in bob.got]
    assert max(came.index(channel) for channel in others) < 3000


@PLAIN
def test_rows_of_a_killed_relay_wait_for_its_instance_alone(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """Killed between the commit that began them and the sending: only its store can tell that they did not go."""
    box = outbox(bank)
    put(bank, box, *(("x", b"%d" % number) for number in range(3)))
    with table(box, ALICE) as killed:
        assert len(killed.begin("x", 2, 1000).rows) == 2
    bank.run("UPDATE tolliver_outbox_lease SET until = until - ?", LEASE)
    bank.run("UPDATE tolliver_outbox_begun SET begun_at = begun_at - ?", LEASE)
    with sender(tmp_path, bob, ALAN) as alan, alan.relay(box) as other:
        until(lambda: other.status.doubtful)
        until(lambda: other.status.moved)
        assert (other.status.doubtful, other.status.moved) == ({str(ALICE): 2}, 1)
        until(lambda: [one for one in alan.notices() if one.kind is NoticeKind.ROWS_HELD])
        assert str(ALICE) in alan.notices()[-1].detail
        with sender(tmp_path, bob) as alice, alice.relay(box):
            until(lambda: len(bob.got) == 3)
            until(lambda: not other.status.doubtful)
    assert bob.got == [(ALAN, "x", b"2"), (ALICE, "x", b"0"), (ALICE, "x", b"1")]
    assert bank.rows("SELECT * FROM tolliver_outbox") == []


@PLAIN
def test_rows_of_an_instance_that_never_comes_back_are_released(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    box = outbox(bank)
    put(bank, box, ("x", b"1"), ("x", b"2"))
    with table(box, ALICE) as killed:
        assert len(killed.begin("x", 2, 1000).rows) == 2
        killed.give_back_leases()
    assert (box.waiting(), box.release(ALAN), box.release(ALICE), box.waiting()) == ({}, 0, 2, {"x": 2})
    with sender(tmp_path, bob, ALAN) as alan, alan.relay(box):
        until(lambda: len(bob.got) == 2)
    assert bob.bodies == [b"1", b"2"]


@PLAIN
def test_rows_that_were_begun_longer_ago_than_keys_live_are_told(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """The store has forgotten whether it sent them."""
    box = outbox(bank)
    put(bank, box, ("x", b"1"))
    with table(box, ALICE) as killed:
        killed.begin("x", 1, 1000)
    bank.run("UPDATE tolliver_outbox_begun SET begun_at = begun_at - ?", DAY)
    put(bank, box, ("x", b"2"))
    with sender(tmp_path, bob) as alice, alice.relay(box) as relay:
        until(lambda: relay.status.doubtful and relay.status.moved == 1)
        assert relay.status.doubtful == {str(ALICE): 1}
        assert box.release(ALICE) == 1
        until(lambda: len(bob.got) == 2)


@PLAIN
def test_a_row_begun_earlier_that_nobody_gets_now_holds_its_channel_back(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """It may have gone before, so it stays begun."""
    box = outbox(bank)
    put(bank, box, ("late", b"1"), ("x", b"2"))
    with table(box, ALICE) as killed:
        killed.begin(["late"], 1, 1000)
    put(bank, box, ("late", b"3"))
    with sender(tmp_path, bob) as alice, alice.relay(box) as relay:
        until(lambda: bob.got and relay.status.held)
        assert "begun earlier" in relay.status.held["late"]
        bob.subscribe("late")
        until(lambda: len(bob.got) == 3)
        until(lambda: not relay.status.held)
    assert bob.bodies == [b"2", b"1", b"3"]


@pytest.mark.parametrize("bank", ["sqlite3"], indirect=True)
def test_rows_of_a_table_that_was_put_back_are_known_by_their_keys(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """The rows that were there when the copy was made, and new ones, which have the numbers of rows that are lost."""
    box = outbox(bank)
    put(bank, box, ("x", b"1"), ("x", b"2"))
    bank.run("CREATE TABLE copied AS SELECT * FROM tolliver_outbox")
    put(bank, box, ("x", b"3"))
    with sender(tmp_path, bob) as alice:
        with alice.relay(box) as relay:
            until(lambda: relay.status.moved == 3)
        relay.join()
        bank.run("INSERT INTO tolliver_outbox SELECT * FROM copied")
        bank.run("UPDATE sqlite_sequence SET seq = 2 WHERE name = 'tolliver_outbox'")
        put(bank, box, ("x", b"4"))
        assert bank.rows("SELECT number FROM tolliver_outbox") == [(1,), (2,), (3,)]
        with alice.relay(box) as relay:
            until(lambda: relay.status.moved == 3)
            until(lambda: b"4" in bob.bodies)
    assert bob.bodies == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("bank", ["sqlite3"], indirect=True)
def test_a_relay_leaves_room_for_keys(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """It moves more rows than keys are remembered."""
    box, limits = outbox(bank), Limits(max_message_keys=100)
    with sender(tmp_path, bob, limits=limits) as alice, alice.relay(box) as relay:
        for number in range(10):
            put(bank, box, *(("x", b"%d.%d" % (number, at)) for at in range(40)))
            until(partial(_moved, relay, 40 * (number + 1)))
        until(lambda: len(bob.got) == 400)
        assert alice.stats().message_keys <= 100
        assert not relay.status.held


# Jobs, and messages for later.


@PLAIN
def test_rows_on_the_channel_of_a_work_queue_are_jobs_for_one_worker_each(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """A row with a time leaves the table at once, and is a job at that time."""
    box = outbox(bank)
    with sender(tmp_path, bob) as alice, sender(tmp_path, bob, ALAN, listen="127.0.0.1:0") as alan:
        alice.work_queue("jobs")
        alice.new_connection(f"127.0.0.1:{alan.port}")
        with alice.relay(box) as relay:
            due = datetime.now(UTC) + timedelta(seconds=1)
            with bank.transaction() as connection:
                box.put(connection, "jobs", "later", b"", not_before=due)
                for number in range(20):
                    box.put(connection, "jobs", f"{number}", b"")
            until(lambda: relay.status.moved == 21)
            assert box.waiting() == {}
            done = dict[str, datetime]()
            with bob.work("jobs") as first, alan.work("jobs", timeout=0.05) as second:
                while len(done) < 21:
                    for jobs in (first, second):
                        for job in jobs:
                            assert job.key not in done
                            done[job.key] = datetime.now(UTC)
                            job.ack()
            assert done.keys() == {*map(str, range(20)), "later"}
            assert done["later"] >= due


@pytest.mark.parametrize("bank", ["sqlite3"], indirect=True)
def test_a_row_with_a_time_is_a_message_at_that_time(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    box, due = outbox(bank), datetime.now(UTC) + timedelta(seconds=1)
    with sender(tmp_path, bob) as alice, alice.relay(box) as relay:
        with bank.transaction() as connection:
            box.put(connection, "x", "", b"later", not_before=due)
            box.put(connection, "x", "", b"now")
            with pytest.raises(ValueError, match="time zone"):
                box.put(connection, "x", "", b"", not_before=datetime(2030, 1, 1))
        until(lambda: relay.status.moved == 2)
        until(lambda: len(bob.got) == 2)
        assert datetime.now(UTC) >= due
    assert bob.bodies == [b"now", b"later"]


# Rows that an instance refuses.


@PLAIN
def test_a_row_that_the_instance_refuses_holds_its_channel_back(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    box = outbox(bank)
    bob.subscribe("y")
    put(bank, box, ("x", bytes(17 * 2**20)), ("x", b"behind it"), ("y", b"beside it"))
    with sender(tmp_path, bob) as alice:
        alice.wait_subscribed("y")
        with alice.relay(box) as relay:
            until(lambda: bob.got and relay.status.held)
            assert "max_body" in relay.status.held["x"]
            bank.run("DELETE FROM tolliver_outbox WHERE LENGTH(body) > ?", 1000)
            until(lambda: len(bob.got) == 2)
    assert bob.bodies == [b"beside it", b"behind it"]


@pytest.mark.parametrize("bank", ["sqlite3"], indirect=True)
def test_what_a_peer_at_its_quota_does_not_take_waits_in_order(bank: Bank, bob: Bob, tmp_path: Path) -> None:
    """A smaller row that the quota has room for does not pass the one that is held back."""
    box, policy = outbox(bank), Policy(quota_policy=QuotaPolicy.SKIP)
    large = [b"%d" % number + bytes(40_000) for number in range(5)]
    bodies = [*large[:4], b"small", large[4]]
    put(bank, box, *(("x", body) for body in bodies))
    with sender(tmp_path, bob, policy=policy, limits=Limits(outbox_bytes=100_000)) as alice, alice.relay(box) as relay:
        until(lambda: relay.status.moved == len(bodies))
        until(lambda: len(bob.got) == len(bodies))
    assert bob.bodies == bodies


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (("tolliver", "", b""), ReservedChannel),
        (("tolliver.probe", "", b""), ReservedChannel),
        (("x" * 4097, "", b""), LocalProtocolError),
        (("x", "\u00e9" * 2049, b""), LocalProtocolError),
        ((1, "", b""), TypeError),
        (("x", None, b""), TypeError),
        (("x", "", "text"), TypeError),
        (("x", "", bytearray()), TypeError),
    ],
)
def test_what_could_never_be_sent_is_refused_at_once(item: tuple[Any, ...], error: type[Exception]) -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(error):
        Outbox(lambda: connection).put(connection, *item)


def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Path) -> None:
    box = Outbox(lambda: sqlite3.connect(tmp_path / "shop.db", isolation_level=None))
    box.create()
    with closing(box.connect()) as connection, pytest.raises(LocalProtocolError, match="begin a transaction"):
        box.put(connection, "x", "", b"")


def test_an_engine_with_transactions_of_its_own_can_be_relayed(bob: Bob, tmp_path: Path) -> None:
    """The recipe of SQLAlchemy's pages, by which it begins every transaction of SQLite itself."""
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db")

    @sqlalchemy.event.listens_for(engine, "connect")
    def alone(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    box = Outbox(engine)
    box.create()
    with sender(tmp_path, bob) as alice, alice.relay(box):
        with engine.begin() as connection:
            box.put(connection, "x", "", b"1")
        until(lambda: bob.got)
    engine.dispose()
    assert bob.bodies == [b"1"]
