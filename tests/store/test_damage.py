"""Damage by flipped bits: a payload is right, or known gone (V9)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from tolliver_transports._store.checks import STAMP, check_of, make_known
from tolliver_transports._store.sqlite import Row, _checksum

from tolliver_proto import (
    AddDeadLetter,
    AddOwnSubscription,
    CorruptMessage,
    DeadLetter,
    RememberHandled,
    ReplacePeerSubscriptions,
    StoredMessage,
    StoreError,
    Subscription,
)

from .flips import Flips
from .given import OTHER, OURS, PEER, everything, message, open_store, storing

FLIPS = 80
COUNT = 400
PAGE = 4096
LARGE = b"large" * 4000
STRANGER = UUID("01890000-0000-7000-8000-00000000000f")


@pytest.fixture
def path(scratch: Path) -> Path:
    """A database that was closed in order, with small bodies and one that fills pages of its own."""
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, COUNT), peers=(PEER, OTHER)), storing([COUNT], body=LARGE)])
        store.commit([ReplacePeerSubscriptions(PEER, [Subscription("channel", "")])])
    return path


def sent(seq: int) -> StoredMessage:
    return message(seq, LARGE if seq == COUNT else None)


def lost(seq: int, wire_id: int | None = None) -> CorruptMessage:
    return CorruptMessage(seq, message(seq).wire_id if wire_id is None else wire_id, message(seq).size)


def test_no_flipped_bit_is_silent(scratch: Path) -> None:
    """`scripts/bit_flips.py` flips more of them."""
    flips = Flips(scratch)
    outcomes = [flips.attempt(number) for number in range(FLIPS)]
    assert [where for outcome, where in outcomes if outcome == "silent"] == []
    assert {outcome for outcome, _ in outcomes} == {"harmless", "parked", "told", "refused"}  # they did hit all kinds


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE message SET body = CAST(body AS TEXT)",  # the same bytes of another kind: harmless, and let through
        "UPDATE message SET body = zeroblob(length(body))",
        "UPDATE message SET channel = 'another'",
        "UPDATE message SET channel = CAST(x'ff' AS TEXT)",
        "UPDATE message SET channel = channel || 'k', key = substr(key, 2)",
        "UPDATE message SET wire_id = wire_id + 1",
        "UPDATE message SET crc = crc + 1",
        "UPDATE delivery SET wire_id = 7",
        "DELETE FROM message",
    ],
)
def test_a_row_that_is_not_what_was_written_is_named_in_its_place(scratch: Path, change: str) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("PRAGMA writable_schema = 1")
        foreign.execute("UPDATE sqlite_master SET sql = replace(sql, ' STRICT', '')")  # else it refuses some of these
        foreign.commit()
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute(f"{change} WHERE seq = 3")
        foreign.commit()
    with closing(open_store(path)) as store:
        rows, complaints = everything(store), store.check()
    damaged: Row = lost(3)
    if "AS TEXT" in change and "body" in change:
        damaged = message(3)
    if "delivery" in change:  # whose it is, nobody knows: it is left out and told of
        assert rows == [message(1), message(2), message(4), message(5)]
        assert "1 rows of table delivery have a wrong checksum and are left out" in complaints[0]
    else:
        assert rows == [message(1), message(2), damaged, message(4), message(5)]


def test_a_row_in_the_place_of_another_is_noticed(scratch: Path) -> None:
    path = scratch / "node.db"
    check = check_of("delivery", "peer", "seq", "(wire_id - 1)", "size", "parked")
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("DELETE FROM message WHERE seq = 4")
        foreign.execute("UPDATE message SET seq = 4 WHERE seq = 3")
        foreign.execute(f"UPDATE delivery SET wire_id = wire_id - 1, crc = {check} WHERE seq = 4")
    with closing(open_store(path)) as store:
        rows = everything(store)
    assert rows == [message(1), message(2), lost(3), lost(4, wire_id=message(3).wire_id), message(5)]


def test_the_number_of_a_lost_message_is_not_given_again(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("DELETE FROM message")
    with closing(open_store(path)) as store:
        assert store.load().next_seq == 6
        store.commit([storing([6])])
        assert everything(store) == [*(lost(seq) for seq in range(1, 6)), message(6)]


def test_a_damaged_page_takes_its_own_rows_and_no_others(path: Path) -> None:
    content = bytearray(path.read_bytes())
    page = content.index(b"body 75") // PAGE * PAGE
    lost = {seq for seq in range(1, COUNT) if f"key {seq}body {seq}".encode() in content[page : page + PAGE]}
    assert 75 in lost
    content[page : page + 8] = bytes(8)
    path.write_bytes(content)
    with closing(open_store(path)) as store:
        rows = everything(store)
        complaints = store.check()
    assert [row.seq for row in rows] == list(range(1, COUNT + 1))
    assert {row.seq for row in rows if isinstance(row, CorruptMessage)} == lost
    assert all(row == sent(row.seq) for row in rows if isinstance(row, StoredMessage))
    assert complaints


# What opening tells of, and what it refuses.


def changed(path: Path, *statements: str) -> None:
    """By somebody else: bits that changed, as far as SQL can do it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        make_known(foreign)
        for statement in statements:
            foreign.execute(statement)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "DELETE FROM delivery WHERE seq = 7",
            "table delivery has 798 rows and had 800 at the end of the last use: 2 ",
        ),
        ("UPDATE delivery SET parked = 1 WHERE seq = 7", "2 rows of table delivery have a wrong checksum"),
        ("UPDATE delivery SET size = x'' WHERE seq = 7", "2 rows of table delivery have a wrong checksum"),
        ("UPDATE peer_subscription SET key = 'k'", "1 rows of table peer_subscription have a wrong checksum"),
        ("DELETE FROM peer_subscription", "table peer_subscription has 0 rows and had 1 "),
        ("UPDATE own_subscription SET channel = CAST(x'ff' AS TEXT)", "1 rows of table own_subscription have a wrong"),
        ("UPDATE handled SET wire_id = 8", "1 rows of table handled have a wrong checksum"),
        ("DELETE FROM peer WHERE id = 2", "400 rows of table delivery belong to a peer (2) whose own row is missing"),
        ("DELETE FROM dead_letter", "table dead_letter has 0 rows and had 1 at the end of the last use"),
    ],
)
def test_opening_tells_of_rows_that_changed_or_vanished_and_goes_on(path: Path, change: str, told: str) -> None:
    with closing(open_store(path)) as store:
        store.commit([storing([COUNT + 1], peers=(OTHER,)), AddOwnSubscription(Subscription("c", "k"))])
        store.commit([RememberHandled([(PEER, 7)], 10), AddDeadLetter(DeadLetter(PEER, "c", "k", b"", 1, 20))])
    changed(path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = replace(sql, 'STRICT', '')")
    changed(path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = replace(sql, ', WITHOUT', ' WITHOUT')")
    changed(path, change)
    with closing(open_store(path)) as store:
        assert store.unclean
        assert told in "; ".join(store.check())
        rows = everything(store)
        assert [row for row in rows if row != sent(row.seq)] == []
        assert len(rows) >= COUNT - 1
        store.commit([storing([COUNT + 2])])
        assert everything(store, STRANGER) == []  # a new peer does not get what was another's
        store.commit([ReplacePeerSubscriptions(STRANGER, [])])
        assert everything(store, STRANGER) == []
    with closing(open_store(path)) as store:  # what was damaged was taken out
        assert not any("wrong checksum" in line for line in store.check())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("UPDATE instance SET next_id = next_id + 1", "the row with the instance's UUID has a wrong checksum"),
        ("UPDATE peer SET spki_sha256 = x'00' WHERE id = 1", "the row of peer 1, its UUID and its pin, has a wrong"),
    ],
)
def test_who_is_who_is_not_guessed(path: Path, change: str, match: str) -> None:
    changed(path, change)
    with pytest.raises(
        StoreError, match=f"cannot open the database .*{match}.*; stop the instance and put back a copy"
    ):
        open_store(path)


def test_a_table_that_is_described_otherwise_is_not_used(path: Path) -> None:
    changed(
        path,
        "PRAGMA writable_schema = 1",
        "UPDATE sqlite_master SET sql = replace(sql, 'parked INTEGER NOT NULL', 'parked INTEGER DEFAULT 1')",
    )
    with pytest.raises(StoreError, match="the description of its tables is not the one it was made with"):
        open_store(path)


def test_a_time_of_storing_that_changed_makes_nothing_old(path: Path) -> None:
    changed(path, "UPDATE message SET stamp = stamp - 4096 WHERE seq = 1", "DELETE FROM message WHERE seq = 2")
    with closing(open_store(path)) as store:
        assert store.find(PEER, 0, 10, 1.0) == []
        assert [one.seq for one in store.find(PEER, 0, 3, 0.0)] == [1, 2, 3]  # and can be dropped
    changed(path, f"UPDATE message SET stamp = stamp - 4096 * {STAMP} WHERE seq = 1")


@pytest.mark.parametrize(("change", "number"), [("attempts = 21", 1), ("number = 7", 7)])
def test_a_dead_letter_that_changed_is_told_of_when_it_is_asked_for(path: Path, change: str, number: int) -> None:
    with closing(open_store(path)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"body", n, 20)) for n in (1, 2)])
    changed(path, f"UPDATE dead_letter SET {change} WHERE number = 1")
    with closing(open_store(path)) as store:
        assert [letter.number for letter in store.dead_letters(0, 10)] == [2]
        assert [text.split(": ", 1)[1] for _, text in store.news()] == [
            f"dead letter {number} has a wrong checksum and is left out: its text is lost"
        ]
        assert store.news() == []


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("head", "the head of"),
        ("midst", "is damaged in its midst: "),
        ("end", "ends with a commit that is not whole"),
        ("salt", "is damaged in its midst: "),
        ("other salt", "is damaged in its midst: "),
        ("last salt", "ends with a commit that is not whole"),
        ("cut", None),  # a process was killed as it wrote
    ],
)
def test_a_log_that_ends_too_early_is_told_of(scratch: Path, where: str, told: str | None) -> None:
    path, image = scratch / "node.db", scratch / "image.db"
    with closing(open_store(path)) as store:
        for seq in range(1, 9):
            store.commit([storing([seq])])
        log = bytearray(Path(f"{path}-wal").read_bytes())
        image.write_bytes(path.read_bytes())
    if where == "cut":
        del log[-PAGE - 24 :]
    else:
        third, last = 32 + 2 * (PAGE + 24), len(log) - PAGE - 24  # heads of frames: their salts are in no checksum
        places = {"head": 18, "midst": len(log) // 2, "end": len(log) - 9}
        log[(places | {"salt": third + 8, "other salt": third + 14, "last salt": last + 9})[where]] ^= 1
    Path(f"{image}-wal").write_bytes(log)
    with closing(open_store(image)) as store:
        assert len(everything(store)) < 8
        complaints = store.check()
    assert (told in complaints[0]) if told else (complaints == [])
    with closing(open_store(image)) as store:
        assert store.check() == []


# What an older version left.


def test_a_database_of_the_first_layout_gets_its_checks(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(sqlite3.connect(path)) as old, old:
        for statement in LAYOUT_1:
            old.execute(statement)
        old.execute("INSERT INTO instance VALUES (1, ?, 77, 1)", (OURS.bytes,))
        old.execute("INSERT INTO peer VALUES (1, ?, ?)", (PEER.bytes, b"pin"))
        rows = [message(1), message(2)]
        crcs = [_checksum(row.seq, row.wire_id, row.channel.encode(), row.key.encode(), row.body) for row in rows]
        for row, crc in zip(rows, crcs, strict=True):
            old.execute(
                "INSERT INTO message VALUES (?, ?, ?, 1000, ?, ?, ?)",
                (row.seq, row.wire_id, crc, row.channel, row.key, row.body),
            )
            old.execute("INSERT INTO delivery VALUES (1, ?, ?, ?, ?)", (row.seq, row.wire_id, row.size, row.seq == 2))
        old.execute("INSERT INTO peer_subscription VALUES (1, 'c', 'k')")
        old.execute("INSERT INTO own_subscription VALUES ('own', '')")
        old.execute("INSERT INTO handled VALUES (3, 1, 5)")
        letter = _checksum(0, 9, b"c", b"k", b"body")
        old.execute("INSERT INTO dead_letter VALUES (4, 1, 9, 20, 1000, ?, 'c', 'k', ?)", (letter, b"body"))
        old.execute("INSERT INTO dead_letter VALUES (5, 1, 9, 20, 1000, ?, 'c', 'k', ?)", (letter + 1, b"body"))
    for _ in range(2):
        with closing(open_store(path)) as store:
            loaded = store.load()
            assert (store.instance_id, loaded.next_id) == (OURS, 77)
            assert everything(store) == [message(1)]
            assert [(one.seq, one.parked) for one in store.find(PEER, 0, 10, 1e6)] == [(1, False), (2, True)]
            assert loaded.peers[PEER].spki_sha256 == b"pin"
            assert loaded.peers[PEER].subscriptions == {Subscription("c", "k")}
            assert loaded.own_subscriptions == {Subscription("own", "")}
            assert loaded.handled == [(PEER, 5)]
            assert [letter.number for letter in store.dead_letters(0, 10)] == [4]
            assert store.check() == []


LAYOUT_1 = (
    "PRAGMA application_id = 1416588396",
    "PRAGMA user_version = 1",
    "CREATE TABLE instance(id INTEGER PRIMARY KEY, uuid BLOB, next_id INTEGER, clean INTEGER)",
    "CREATE TABLE peer(id INTEGER PRIMARY KEY, uuid BLOB NOT NULL UNIQUE, spki_sha256 BLOB)",
    "CREATE TABLE message(seq INTEGER PRIMARY KEY, wire_id INTEGER, crc INTEGER, stored_at INTEGER, "
    "channel TEXT, key TEXT, body BLOB)",
    "CREATE TABLE delivery(peer INTEGER, seq INTEGER, wire_id INTEGER, size INTEGER, parked INTEGER DEFAULT 0, "
    "PRIMARY KEY(peer, seq)) WITHOUT ROWID",
    "CREATE TABLE held(seq INTEGER PRIMARY KEY)",
    "CREATE TABLE peer_subscription(peer INTEGER, channel TEXT, key TEXT, PRIMARY KEY(peer, channel, key)) "
    "WITHOUT ROWID",
    "CREATE TABLE dead_letter(number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER, wire_id INTEGER, "
    "attempts INTEGER, failed_at INTEGER, crc INTEGER, channel TEXT, key TEXT, body BLOB)",
    "CREATE TABLE handled(number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER, wire_id INTEGER)",
    "CREATE TABLE own_subscription(channel TEXT, key TEXT, PRIMARY KEY(channel, key)) WITHOUT ROWID",
)
