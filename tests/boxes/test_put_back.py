"""Programs' own databases that are put back from copies, under an inbox or an outbox: told, whatever comes then."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._cli.outbox import say_restored
from tolliver.blocking import Instance, InstanceOptions, create_instance
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox

from tolliver_proto import Delivery, NoticeKind

from .kinds import PLAIN, Bank
from .test_outbox import ALAN, ALICE, BOB, put, until


def told(instance: Instance) -> list[str]:
    return [one.detail for one in instance.notices() if one.kind is NoticeKind.COMMITS_MISSING]


def copied(bank: Bank, box: Inbox | Outbox) -> Callable[[], None]:
    """Copies the tables of a box. Returns what puts them back."""
    beside = ("", "_mark") if isinstance(box, Inbox) else ("", "_begun", "_lease", "_mark")
    names = [box.table + end for end in beside]
    for name in names:
        bank.run(f"CREATE TABLE copy_of_{name} AS SELECT * FROM {name}")

    def put_back() -> None:
        for name in names:
            bank.run(f"DELETE FROM {name}")
            columns = ", ".join(column for column in _columns(bank, name) if (name, column) != (box.table, "number"))
            bank.run(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM copy_of_{name}")

    return put_back


def _columns(bank: Bank, table: str) -> list[str]:
    with closing(bank.plain()) as connection:
        return [str(one[0]) for one in connection.execute(f"SELECT * FROM {table} LIMIT 0").description]


class Rig:
    """Bob, whose inbox is in this bank's database, and a sender."""

    def __init__(self, bank: Bank, directory: Path) -> None:
        self.bank, self.directory, self.inbox = bank, directory, Inbox(bank.connect)
        self.inbox.create()
        self.rolls_back = False

    def handle(self, delivery: Delivery) -> None:
        with self.bank.undone() if self.rolls_back else self.bank.transaction() as connection:
            self.inbox.once(connection, delivery)

    def database(self, identity: UUID = BOB) -> Path:
        return self.directory / f"{identity.int % 8}.db"

    @contextmanager
    def open(self, identity: UUID = BOB) -> Iterator[Instance]:
        options = InstanceOptions(
            database=self.database(identity),
            plaintext=True,
            identity=identity,
            listen="127.0.0.1:0",
            handlers=[("x", "", self.handle)],
            subscriptions=["x"],
        )
        with create_instance(options) as bob:
            yield bob

    def send(self, to: Instance, count: int, identity: UUID = BOB, *, told: bool = False) -> None:
        """Returns once they are handled, and marked unless that is `told`."""
        number = self.number(identity)
        with create_instance(InstanceOptions(database=":memory:", plaintext=True)) as alice:
            alice.new_connection(f"127.0.0.1:{to.port}")
            alice.wait_subscribed("x")
            alice.wait_acked(alice.send_many([("x", "", b"%d" % number) for number in range(count)]))
        until(lambda: told or self.number(identity) > number)

    def number(self, identity: UUID) -> int:
        found = dict(self.bank.rows("SELECT instance, number FROM tolliver_inbox_mark"))
        return int(found.get(str(identity), 0))

    def life(self, count: int) -> list[str]:
        """An instance handles so many messages and ends in order. Returns what it has told."""
        with self.open() as bob:
            self.send(bob, count)
            return told(bob)


@pytest.fixture
def rig(bank: Bank, tmp_path: Path) -> Rig:
    return Rig(bank, tmp_path)


@PLAIN
def test_a_receiver_that_is_put_back_is_told_at_every_opening_until_somebody_says_so(rig: Rig) -> None:
    assert rig.life(2) == []
    put_back = copied(rig.bank, rig.inbox)
    assert rig.life(3) == []
    put_back()
    for count in (1, 10):
        with rig.open() as bob:
            rig.send(bob, count, told=True)
            until(partial(told, bob))
            assert "tolliver_inbox lacks what was committed between" in told(bob)[0]
            assert "some 3 messages" in told(bob)[0]
            assert f"`tolliver outbox restored {rig.database()}` ends this notice" in told(bob)[0]
    say_restored(rig.database())
    assert rig.life(1) == rig.life(1) == []


@PLAIN
def test_so_is_one_that_is_put_back_while_the_instance_runs(rig: Rig) -> None:
    with rig.open() as bob:
        rig.send(bob, 2)
        put_back = copied(rig.bank, rig.inbox)
        rig.send(bob, 3)
        put_back()
        rig.send(bob, 20, told=True)
        until(lambda: told(bob))


@PLAIN
def test_so_is_a_new_table_in_the_place_of_one_with_notes(rig: Rig) -> None:
    assert rig.life(2) == []
    for name in ("tolliver_inbox", "tolliver_inbox_mark"):
        rig.bank.run(f"DROP TABLE {name}")
    rig.inbox.create()
    with rig.open() as bob:
        rig.send(bob, 1, told=True)
        until(lambda: told(bob))
        assert "it is a new table, or an old copy" in told(bob)[0]


@PLAIN
def test_what_looks_like_it_and_is_not_is_never_told(rig: Rig) -> None:
    """Two instances with one table, transactions that are rolled back though their messages are acknowledged, notes
    that are removed, a database of the instance that is put back, and one whose memory of marks is lost.
    """
    assert rig.life(2) == []
    shutil.copy(rig.database(), rig.directory / "copy")
    with rig.open(ALAN) as alan, rig.open() as bob:
        for rig.rolls_back in (False, True, False):
            rig.send(alan, 2, ALAN)
            rig.send(bob, 2)
        assert told(alan) == told(bob) == []
    rig.bank.run("DELETE FROM tolliver_inbox")
    assert rig.life(1) == []
    shutil.copy(rig.directory / "copy", rig.database())
    with rig.open() as bob:
        rig.send(bob, 1)
        assert [one for one in told(bob) if "tolliver_inbox" in one] == []
    say_restored(rig.database())
    assert rig.life(1) == []


@PLAIN
def test_an_outbox_that_is_put_back_is_told_when_its_relay_begins(bank: Bank, tmp_path: Path) -> None:
    box = Outbox(bank.connect)
    box.create()
    options = InstanceOptions(database=tmp_path / "a.db", plaintext=True, identity=ALICE)

    def life(rows: int) -> None:
        with create_instance(options) as alice:
            alice.channel("x", keep=True)
            with alice.relay(box) as relay:
                put(bank, box, *[("x", b"")] * rows)
                until(lambda: relay.status.moved == rows)
            relay.join()
            assert told(alice) == []

    life(2)
    put_back = copied(bank, box)
    life(0)
    put_back()  # nothing has gone since
    life(3)
    put_back()
    for _ in range(2):
        with create_instance(options) as alice, alice.relay(box):
            until(partial(told, alice))
            assert "tolliver_outbox lacks what was committed between" in told(alice)[0]
