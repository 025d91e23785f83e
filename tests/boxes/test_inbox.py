"""Inbox: an effect and the note of its message are in one transaction, and a copy has no second effect."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st
from tolliver.derived import derived_identity
from tolliver.inbox import DAY, Inbox

from tolliver_proto import Delivery, LocalProtocolError, Message

from .kinds import NO_SERVER, PLAIN, POSTGRES, Bank

ALICE, CAROL = UUID(int=0xA11CE), UUID(int=0xCA01)
ONCE = {"sender": ALICE, "message_id": 7, "channel": "pay", "key": "k", "body": b"10"}


def delivery(**changes: Any) -> Delivery:
    told = {**ONCE, **changes}
    return Delivery(1, told["sender"], Message(told["channel"], told["key"], told["body"], told["message_id"]))


def inbox(bank: Bank, **options: Any) -> Inbox:
    made = Inbox(bank.connect, **options)
    made.create()
    made.create()
    return made


def test_a_copy_is_told_after_the_commit_alone(bank: Bank) -> None:
    box = inbox(bank)
    with bank.undone() as connection:
        assert box.once(connection, delivery())
    for is_first in (True, False, False):
        with bank.transaction() as connection:
            assert box.once(connection, delivery()) is is_first


def test_a_copy_in_the_same_transaction_is_told(bank: Bank) -> None:
    box = inbox(bank)
    with bank.transaction() as connection:
        assert [box.once(connection, delivery()) for _ in range(2)] == [True, False]


OTHERS = {"sender": CAROL, "message_id": 2**40, "channel": "payk", "key": "", "body": b"11"}


def test_another_message_is_another_one_whatever_it_has_in_common(bank: Bank) -> None:
    box = inbox(bank)
    with bank.transaction() as connection:
        assert box.once(connection, delivery())
        assert all(box.once(connection, delivery(**{name: value})) for name, value in OTHERS.items())
        assert box.once(connection, delivery(channel="pa", key="yk"))
        assert box.once(connection, delivery(key="k1", body=b"0"))
        assert not box.once(connection, delivery(key="k1", body=b"0"))


@given(st.lists(st.tuples(st.integers(1, 3), st.text("ab", max_size=2), st.binary(max_size=1)), max_size=20))
def test_what_differs_is_done_once_each(messages: list[tuple[int, str, bytes]]) -> None:
    box = Inbox(lambda: sqlite3.connect(":memory:"))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE tolliver_inbox (name BLOB PRIMARY KEY, sender TEXT, seen_at REAL)")
        done = [
            (number, key, body)
            for number, key, body in messages
            if box.once(connection, delivery(message_id=number, key=key, body=body))
        ]
    assert done == [*dict.fromkeys(messages)]


def test_a_key_of_the_programs_own_is_the_effect_whoever_sends_it(bank: Bank) -> None:
    box = inbox(bank)
    with bank.transaction() as connection:
        assert box.once(connection, delivery(), key="transfer 1")
        assert not box.once(connection, delivery(sender=CAROL, message_id=None, body=b"x"), key="transfer 1")
        assert box.once(connection, delivery(), key="transfer 2")
        assert box.once(connection, delivery())


def _note(box: Inbox, connection: Any, found: list[bool]) -> None:
    found.append(box.once(connection, delivery()))


@POSTGRES
def test_two_transactions_with_one_message_wait_for_each_other(bank: Bank) -> None:
    """The second one decides when the first one has ended: then it knows."""
    box, found = inbox(bank), list[bool]()
    for ends_well in (False, True):
        with closing(bank.plain()) as first, closing(bank.plain()) as second:
            assert box.once(first, delivery())
            thread = threading.Thread(target=partial(_note, box, second, found))
            thread.start()
            (first.commit if ends_well else first.rollback)()
            thread.join(30)
    assert found == [True, False]


# How long a message is remembered.


def age(bank: Bank, seconds: float) -> None:
    bank.run("UPDATE tolliver_inbox SET seen_at = seen_at - ?", seconds)


def note_many(bank: Bank, box: Inbox, sender: UUID, first: int = 1000) -> None:
    """So many that old notes are looked for."""
    with bank.transaction() as connection:
        for number in range(first, first + 256):
            box.once(connection, delivery(sender=sender, message_id=number))


def known(bank: Bank, box: Inbox, **changes: Any) -> bool:
    """Asks in a transaction that is rolled back: a copy would be noted as seen now."""
    with closing(bank.plain()) as connection:
        return not box.once(connection, delivery(**changes))


@PLAIN
def test_a_sender_that_is_away_ages_nothing(bank: Bank) -> None:
    box = inbox(bank, keep=10 * DAY)
    note_many(bank, box, ALICE)
    age(bank, 400 * DAY)
    note_many(bank, box, CAROL)
    note_many(bank, box, ALICE, 5000)
    assert known(bank, box, message_id=1000)


@PLAIN
def test_a_note_goes_once_its_sender_was_heard_long_after_it(bank: Bank) -> None:
    box = inbox(bank, keep=10 * DAY)
    note_many(bank, box, ALICE)
    note_many(bank, box, CAROL)
    age(bank, 11 * DAY)
    note_many(bank, box, ALICE, 5000)
    with bank.transaction() as connection:
        assert not box.once(connection, delivery(message_id=1001))  # a copy, which is seen now
    age(bank, 1.5 * DAY)
    note_many(bank, box, ALICE, 9000)
    assert [known(bank, box, message_id=number) for number in (1000, 1001, 5000, 9000)] == [False, True, True, True]
    assert known(bank, box, sender=CAROL, message_id=1000)


@PLAIN
def test_derived_identities_age_together(bank: Bank) -> None:
    box = inbox(bank, keep=10 * DAY)
    first, second, third = (derived_identity("f00000000001", f"job {number}") for number in range(3))
    note_many(bank, box, first)
    age(bank, 11 * DAY)
    note_many(bank, box, second)
    age(bank, 1.5 * DAY)
    note_many(bank, box, third)
    assert [known(bank, box, sender=one, message_id=1000) for one in (first, second, third)] == [False, True, True]


@PLAIN
def test_a_sender_can_be_forgotten(bank: Bank) -> None:
    box = inbox(bank)
    note_many(bank, box, ALICE)
    note_many(bank, box, CAROL)
    assert box.forget(ALICE) == 256
    assert [known(bank, box, sender=one, message_id=1000) for one in (ALICE, CAROL)] == [False, True]


# Mistakes.


def test_an_unreliable_message_has_no_name(bank: Bank) -> None:
    box = inbox(bank)
    with bank.transaction() as connection, pytest.raises(LocalProtocolError, match="unreliable"):
        box.once(connection, delivery(message_id=None))


def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Any) -> None:
    connect = partial(sqlite3.connect, tmp_path / "bank.db", isolation_level=None)
    box = Inbox(connect)
    box.create()
    with closing(connect()) as connection:
        with pytest.raises(LocalProtocolError, match="begin a transaction"):
            box.once(connection, delivery())
        connection.execute("BEGIN")
        assert box.once(connection, delivery())


@NO_SERVER
def test_so_is_one_of_postgresql(server: str) -> None:
    box = Inbox(lambda: psycopg.connect(server), "by_itself")
    box.create()
    with psycopg.connect(server, autocommit=True) as connection:
        with pytest.raises(LocalProtocolError, match="begin a transaction"):
            box.once(connection, delivery())
        with connection.transaction():
            assert box.once(connection, delivery())
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(server))
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(LocalProtocolError, match="begin a transaction"),
    ):
        box.once(connection, delivery(message_id=8))
    engine.dispose()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: Inbox("bank.db"), TypeError),
        (lambda: Inbox(print, "a table"), ValueError),
        (lambda: Inbox(print, 3), TypeError),  # type: ignore[arg-type]
        (lambda: Inbox(print, "x" * 49), ValueError),
        (lambda: Inbox(print, keep=0), ValueError),
        (lambda: Inbox(print).once(object(), delivery()), TypeError),
        (lambda: Inbox(print).once(object(), delivery(), key=3), TypeError),  # type: ignore[arg-type]
        (lambda: Inbox(print).forget("alice"), TypeError),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_said(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()
