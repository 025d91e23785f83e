"""Databases of instances that are put back from copies, under an outbox and an inbox: told, and never twice unseen."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from tolliver.blocking import Instance, InstanceOptions, create_instance
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox

from tolliver_proto import Delivery, NoticeKind

from .kinds import Bank
from .test_outbox import ALICE, BOB, put, table, until

ONLY_SQLITE = pytest.mark.parametrize("bank", ["sqlite3"], indirect=True)


class Receiver:
    """Bob, whose handler notes each message and its effect in one transaction."""

    def __init__(self, bank: Bank, directory: Path, by_key: bool = False) -> None:
        self.inbox, self.bank, self._by_key, self._database = Inbox(bank.connect), bank, by_key, directory / "b.db"
        self.inbox.create()
        bank.run("CREATE TABLE effects (body BLOB)")

    def handle(self, delivery: Delivery) -> None:
        with self.bank.transaction() as connection:
            if self.inbox.once(connection, delivery, key=delivery.body.decode() if self._by_key else None):
                connection.execute("INSERT INTO effects VALUES (?)", (delivery.body,))

    @property
    def effects(self) -> list[bytes]:
        return sorted(body for (body,) in self.bank.rows("SELECT body FROM effects"))

    def has(self, count: int) -> bool:
        return len(self.effects) == count

    @contextmanager
    def open(self, listen: str = "127.0.0.1:0") -> Iterator[Instance]:
        options = InstanceOptions(database=self._database, plaintext=True, identity=BOB, listen=listen)
        with create_instance(options) as bob:
            bob.subscribe("x", handler=self.handle)
            yield bob


@contextmanager
def sender(directory: Path, identity: UUID = ALICE) -> Iterator[Instance]:
    options = InstanceOptions(database=directory / "a.db", plaintext=True, identity=identity)
    with create_instance(options) as alice:
        yield alice


def copy(directory: Path, name: str) -> None:
    shutil.copy(directory / f"{name}.db", directory / f"{name}.copy")


def put_back(directory: Path, name: str) -> None:
    for log in ("wal", "shm"):
        (directory / f"{name}.db-{log}").unlink(missing_ok=True)
    shutil.copy(directory / f"{name}.copy", directory / f"{name}.db")


def relayed(alice: Instance, box: Outbox, rows: int) -> None:
    with alice.relay(box) as relay:
        until(lambda: relay.status.moved == rows)
    relay.join()


@ONLY_SQLITE
def test_a_sender_that_is_put_back_doubles_nothing_and_tells_what_may_be_lost(bank: Bank, tmp_path: Path) -> None:
    box, receiver = Outbox(bank.connect), Receiver(bank, tmp_path)
    box.create()
    with receiver.open() as bob:
        address = f"127.0.0.1:{bob.port}"
        with sender(tmp_path) as alice:
            alice.new_connection(address)
            alice.wait_subscribed("x")
        with sender(tmp_path) as alice:
            put(bank, box, ("x", b"owed in the copy"))
            relayed(alice, box, 1)
        copy(tmp_path, "a")
        with sender(tmp_path) as alice:
            alice.new_connection(address)
            put(bank, box, ("x", b"after the copy"))
            relayed(alice, box, 1)
            until(lambda: len(receiver.effects) == 2)
        with sender(tmp_path) as alice:
            put(bank, box, ("x", b"lost"))
            relayed(alice, box, 1)
        put_back(tmp_path, "a")
        with sender(tmp_path) as alice:
            until(lambda: [one for one in alice.notices() if one.kind is NoticeKind.COMMITS_MISSING])
            alice.new_connection(address)
            put(bank, box, ("x", b"new"))
            relayed(alice, box, 1)
            until(lambda: len(receiver.effects) == 3)
            until(lambda: not alice.stats()["pending"])
    assert receiver.effects == [b"after the copy", b"new", b"owed in the copy"]


@ONLY_SQLITE
def test_a_receiver_that_is_put_back_has_each_effect_once(bank: Bank, tmp_path: Path) -> None:
    box, receiver = Outbox(bank.connect), Receiver(bank, tmp_path)
    box.create()
    with sender(tmp_path) as alice:
        with receiver.open() as bob:
            listen = f"127.0.0.1:{bob.port}"
            alice.new_connection(listen)
            alice.wait_subscribed("x")
        copy(tmp_path, "b")
        for number in range(2):
            with receiver.open(listen):
                put(bank, box, ("x", b"%d" % number))
                relayed(alice, box, 1)
                until(partial(receiver.has, number + 1))
                until(lambda: not alice.stats()["pending"])
            put_back(tmp_path, "b")
        with receiver.open(listen) as bob:
            until(lambda: [one for one in bob.notices() if one.kind is NoticeKind.COMMITS_MISSING])
    assert receiver.effects == [b"0", b"1"]


@ONLY_SQLITE
@pytest.mark.parametrize("by_key", [False, True])
def test_a_row_begun_before_a_restore_is_told_and_goes_again_once_somebody_says_so(
    bank: Bank, tmp_path: Path, by_key: bool
) -> None:
    """It was sent, and the copy does not know that: under another id it would be another message. A key of the
    program's own knows it all the same.
    """
    box, receiver = Outbox(bank.connect), Receiver(bank, tmp_path, by_key)
    box.create()
    with receiver.open() as bob:
        with sender(tmp_path) as alice:
            alice.new_connection(f"127.0.0.1:{bob.port}")
            alice.wait_subscribed("x")
        copy(tmp_path, "a")
        put(bank, box, ("x", b"begun"))
        with table(box, ALICE) as killed, sender(tmp_path) as alice:
            alice.new_connection(f"127.0.0.1:{bob.port}")
            [row] = killed.begin(["x"], 1, 1000).rows
            alice.wait_acked(alice.send("x", "", row.body, message_key=row.id))
        put_back(tmp_path, "a")
        with sender(tmp_path) as alice:
            until(lambda: [one for one in alice.notices() if one.kind is NoticeKind.COMMITS_MISSING])
            alice.new_connection(f"127.0.0.1:{bob.port}")
            with alice.relay(box) as relay:
                until(lambda: relay.status.doubtful == {str(ALICE): 1})
                until(lambda: [one for one in alice.notices() if one.kind is NoticeKind.ROWS_HELD])
                assert receiver.effects == [b"begun"]
                assert box.release(ALICE) == 1
                until(lambda: relay.status.moved == 1)
            until(lambda: not alice.stats()["pending"])
    assert receiver.effects == [b"begun"] * (1 if by_key else 2)
