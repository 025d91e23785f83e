"""Damage by flipped bits: a payload is right, or known gone (V9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._store.batches import Directory, in_columns, pack
from tolliver._store.checks import batch_check, make_known

from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import (
    AddDeadLetter,
    AddOwnSubscription,
    CorruptMessage,
    DeadLetter,
    ParkDelivery,
    RememberHandled,
    RemoveDeliveries,
    RemoveMessages,
    ReplacePeerSubscriptions,
    StoredMessage,
    StoreMessages,
)

from .flips import Flips
from .given import OTHER, PEER, everything, message, open_store, storing

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
    """`scripts/prove/proofs.py flips` flips more of them."""
    flips = Flips(scratch)
    outcomes = [flips.attempt(number) for number in range(FLIPS)]
    assert [where for outcome, where in outcomes if outcome == "silent"] == []
    assert {outcome for outcome, _ in outcomes} == {"harmless", "parked", "told", "refused"}  # they did hit all kinds


def in_batch(path: Path, change: Callable[[bytes, bytes], tuple[bytes, bytes]], first_seq: int = 1) -> None:
    """By somebody else: what a batch says is changed."""
    with closing(sqlite3.connect(path)) as foreign, foreign:
        batch = foreign.execute("SELECT directory, bodies FROM batch WHERE first_seq = ?", (first_seq,)).fetchone()
        foreign.execute("UPDATE batch SET directory = ?, bodies = ? WHERE first_seq = ?", (*change(*batch), first_seq))


@pytest.mark.parametrize(
    "change",
    [
        lambda directory, bodies: (directory, bodies.replace(b"body 3", b"body 4")),
        lambda directory, bodies: (directory.replace(message(3).wire_id.to_bytes(8, "little"), bytes(8)), bodies),
        lambda directory, bodies: (directory.replace(crc_of(3), bytes(4)), bodies),
    ],
    ids=["body", "id", "check"],
)
def test_a_message_that_is_not_what_was_written_is_named_in_its_place(
    scratch: Path, change: Callable[[bytes, bytes], tuple[bytes, bytes]]
) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    in_batch(path, change)
    with closing(open_store(path)) as store:
        rows = everything(store)
    assert [row for row in rows if row.seq != 3] == [message(1), message(2), message(4), message(5)]
    assert isinstance(rows[2], CorruptMessage)


def crc_of(seq: int) -> bytes:
    """Of a message of the batch that `storing(range(1, 6))` makes."""
    messages = [message(number) for number in range(1, 6)]
    _, run = next(in_columns(messages))
    return Directory(pack(run, 0)[0]).crcs[seq - 1].to_bytes(4, "little")


def test_a_batch_in_the_place_of_another_is_noticed(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        for seq in range(1, 6):
            store.commit([storing([seq])])
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("DELETE FROM batch WHERE first_seq = 4")
        foreign.execute(
            "UPDATE batch SET first_seq = 4, last_seq = 4, crc = ? WHERE first_seq = 3", (batch_check(4, 4),)
        )
    with closing(open_store(path)) as store:
        rows = everything(store)
    assert rows == [message(1), message(2), lost(3), lost(4), message(5)]


def test_a_batch_whose_number_changed_is_told_and_set_aside(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
        store.commit([storing(range(6, 11))])
    changed(path, "UPDATE batch SET first_seq = 6 + 64 WHERE first_seq = 6")
    with closing(open_store(path)) as store:
        for _ in range(2):  # told once
            rows = everything(store)
            assert rows[:5] == [*map(message, range(1, 6))]
            assert [row.seq for row in rows[5:] if isinstance(row, CorruptMessage)] == [*range(6, 11)]
        told = [text.split(": ")[1] for _, text in store.news()]
        assert sorted(told) == [f"the batch of messages from {seq} on is missing or damaged" for seq in (6, 70)]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_bit_of_a_directory_is_told_and_hits_no_other_batch(scratch: Path, step: int) -> None:
    """Each third bit of it, and each, one after the other: a message is right, or set aside in its place."""
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        for seqs in (range(1, 4), range(4, 6)):
            store.commit([storing(seqs)])
        store.commit([RemoveDeliveries(PEER, [(2, 2)]), RemoveMessages([(2, 2)])])  # so an opening looks at it, too
        before = everything(store)
        [(good,)] = store._file.connection.execute("SELECT directory FROM batch WHERE first_seq = 1")
    hit = set[int]()
    for bit in range(0, 8 * len(good), step):
        content = bytearray(good)
        content[bit // 8] ^= 1 << bit % 8
        in_batch(path, lambda _, bodies, content=content: (bytes(content), bodies))  # type: ignore[misc]
        with closing(open_store(path)) as store:
            store.find(None, 0, 10, 0.0)
            assert "the batch of messages from 1 on is missing or damaged" in "; ".join(
                text for _, text in store.news()
            )
            rows = everything(store)
        assert [row.seq for row in rows] == [row.seq for row in before]
        gone = {row.seq for row in rows if isinstance(row, CorruptMessage)}
        assert all(row in before for row in rows if row.seq not in gone)
        assert gone <= {1, 3}
        assert [row for row in rows if row.seq in gone] == [lost(seq) for seq in sorted(gone)]
        hit.add(len(gone))
    assert hit == {0, 1, 2}


def test_a_batch_whose_end_changed_keeps_what_is_owed(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    changed(path, "UPDATE batch SET last_seq = 1")
    with closing(open_store(path)) as store:
        store.commit([RemoveDeliveries(PEER, [(1, 1)]), RemoveMessages([(1, 1)])])
        assert everything(store) == [message(seq) for seq in range(2, 6)]


def test_the_number_of_a_lost_message_is_not_given_again(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("DELETE FROM batch")
    with closing(open_store(path)) as store:
        assert store.load().next_seq == 6
        store.commit([storing([6])])
        assert everything(store) == [*(lost(seq) for seq in range(1, 6)), message(6)]


def test_a_damaged_page_costs_its_batch_and_no_other(path: Path) -> None:
    def long(seq: int) -> StoredMessage:
        return message(seq, b"body %d" % seq * 40)

    with closing(open_store(path)) as store:
        for first in (1001, 2001):
            store.commit([StoreMessages([long(seq) for seq in range(first, first + 300)], [[PEER]] * 300)])
    content = bytearray(path.read_bytes())
    page = content.index(long(1250).body) // PAGE * PAGE
    content[page : page + 8] = bytes(8)  # among them the number of the next page
    path.write_bytes(content)
    with closing(open_store(path)) as store:
        rows = everything(store)
        complaints = store.check()
    assert [row.seq for row in rows] == [*range(1, COUNT + 1), *range(1001, 1301), *range(2001, 2301)]
    assert [row.seq for row in rows if isinstance(row, CorruptMessage)] == [*range(1001, 1301)]
    assert all(row == (sent if row.seq < 1000 else long)(row.seq) for row in rows if isinstance(row, StoredMessage))
    assert complaints


# Damage that opening tells of, or refuses.


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
            "DELETE FROM owed WHERE first_seq = 1",
            "table owed has 1 rows and had 3 at the end of the last use: 2 rows are missing",
        ),
        (
            "INSERT INTO own_subscription SELECT 'd', key, row_check(x'64', CAST(key AS BLOB)) FROM own_subscription",
            "table own_subscription has 2 rows and had 1 at the end of the last use: 1 rows too many",
        ),
        ("UPDATE owed SET parked = x'40' WHERE first_seq = 1", "2 rows of table owed have a wrong checksum"),
        (
            "UPDATE owed SET bytes = (bytes | 1) - (bytes & 1) WHERE first_seq = 1",
            "2 rows of table owed have a wrong checksum",
        ),
        ("UPDATE peer_subscription SET key = 'k'", "1 rows of table peer_subscription have a wrong checksum"),
        ("DELETE FROM peer_subscription", "table peer_subscription has 0 rows and had 1 "),
        ("UPDATE own_subscription SET channel = CAST(x'ff' AS TEXT)", "1 rows of table own_subscription have a wrong"),
        ("UPDATE handled SET checksum = NULL", "1 rows of table handled have a wrong checksum"),
        ("UPDATE handled SET checksum = 71", "1 rows of table handled have a wrong checksum"),
        ("UPDATE handled SET wire_id = 8", "1 rows of table handled have a wrong checksum"),
        ("DELETE FROM peer WHERE id = 2", "2 rows of table owed belong to a peer (2) whose own row is missing"),
        ("DELETE FROM dead_letter", "table dead_letter has 0 rows and had 1 at the end of the last use"),
    ],
)
def test_opening_tells_of_rows_that_changed_or_vanished_and_goes_on(path: Path, change: str, told: str) -> None:
    with closing(open_store(path)) as store:
        store.commit([storing([COUNT + 1], peers=(OTHER,)), AddOwnSubscription(Subscription("c", "k"))])
        store.commit([RememberHandled([(PEER, 7, 70)], 10), AddDeadLetter(DeadLetter(PEER, "c", "k", b"", 1, 20))])
    changed(path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = replace(sql, 'STRICT', '')")
    changed(path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = replace(sql, ', WITHOUT', ' WITHOUT')")
    changed(path, change)
    with closing(open_store(path)) as store:
        assert store.unclean
        assert told in "; ".join(store.check())
        rows = everything(store)
        assert [row for row in rows if row != sent(row.seq)] == []
        assert len(rows) == (0 if change.startswith(("DELETE FROM owed", "UPDATE owed")) else COUNT)
        store.commit([storing([COUNT + 2])])
        assert everything(store, STRANGER) == []  # a new peer does not get what was another's
        store.commit([ReplacePeerSubscriptions(STRANGER, [])])
        assert everything(store, STRANGER) == []
    with closing(open_store(path)) as store:  # damaged rows were taken out
        assert not any("wrong checksum" in line for line in store.check())


@pytest.mark.parametrize(("count", "shown"), [(3, "): "), (4, ") and others: ")])
def test_some_of_many_damaged_rows_are_shown(path: Path, count: int, shown: str) -> None:
    with closing(open_store(path)) as store:
        store.commit([RememberHandled([(PEER, number, 70) for number in range(count)], 10)])
    changed(path, "UPDATE handled SET checksum = 123456789")
    with closing(open_store(path)) as store:
        [told] = [line for line in store.check() if "wrong checksum" in line]
    assert told.startswith(f"{count} rows of table handled have a wrong checksum and are left out, (")
    assert (told.count("123456789"), f"{shown}what they name may be handled once more" in told) == (3, True)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ("UPDATE instance SET uuid = zeroblob(16)", "the row with the instance's UUID has a wrong checksum"),
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
        "UPDATE sqlite_master SET sql = replace(sql, 'parked BLOB', 'parked BLOB DEFAULT 1')",
    )
    with pytest.raises(StoreError, match="the description of its tables is not the one it was made with"):
        open_store(path)


def test_a_bit_of_a_share_is_told_and_hits_that_share_alone(path: Path) -> None:
    """A bit of each column, one after the other: the other peer loses nothing by it, and the messages stay there."""
    with closing(open_store(path)) as store:
        store.commit([RemoveDeliveries(PEER, [(3, 5)]), ParkDelivery(OTHER, 9)])
        before = {peer: everything(store, peer) for peer in (PEER, OTHER)}
    with closing(sqlite3.connect(path)) as reader:
        rows = reader.execute("SELECT * FROM owed ORDER BY peer").fetchall()
    places = [(hit, at) for hit in (0, 1) for at in range(len(rows[hit])) if rows[hit][at] is not None]
    assert len(places) == 2 * len(rows[0]) - 1  # nothing is set aside for the first
    for hit, at in places:
        value = rows[hit][at]
        wrong = bytes([value[0] ^ 4, *value[1:]]) if type(value) is bytes else value ^ 4
        with closing(sqlite3.connect(path)) as foreign, foreign:
            foreign.execute("DELETE FROM owed")
            damaged = [*rows[:hit], (*rows[hit][:at], wrong, *rows[hit][at + 1 :]), *rows[hit + 1 :]]
            foreign.executemany("INSERT INTO owed VALUES (?, ?, ?, ?, ?, ?, ?, ?)", damaged)
        with closing(open_store(path)) as store:
            assert "1 rows of table owed have a wrong checksum and are left out" in "; ".join(store.check())
            assert everything(store, (PEER, OTHER)[hit]) == []
            other = (OTHER, PEER)[hit]
            assert everything(store, other) == before[other]
    changed(path, "DELETE FROM owed")
    open_store(path).close()
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT COUNT(*) FROM batch").fetchall() == [(1,)]  # for .recover


def test_a_batch_that_is_lost_makes_nothing_old(path: Path) -> None:
    changed(path, "DELETE FROM batch WHERE first_seq = 1")
    with closing(open_store(path)) as store:
        assert store.find(PEER, 0, 10, 1.0) == []
        assert [one.seq for one in store.find(PEER, 0, 3, 0.0)] == [1, 2, 3]  # and can be dropped


def test_dead_letters_are_known_where_the_number_of_the_last_one_cannot_be_read(path: Path) -> None:
    with closing(open_store(path)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"letter", number, 20)) for number in (1, 2, 3)])
        before = store.load()
    with closing(sqlite3.connect(path)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_sequence'")
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)
    with closing(open_store(path)) as store:
        assert store.news() == []
        loaded = store.load()
        assert (loaded.dead_letters, loaded.next_letter) == (before.dead_letters, before.next_letter)
        [(_, told)] = store.news()
        assert "the number of the newest dead letter cannot be read" in told
        assert [letter.body for letter in store.dead_letters(0, 9)] == [b"letter"] * 3


def test_dead_letters_that_are_out_of_order_are_told(path: Path) -> None:
    """The number of one changed in the tree, so that those before it are passed over."""
    with closing(open_store(path)) as store:
        store.commit([AddDeadLetter(DeadLetter(PEER, "c", "k", b"letter", number, 20)) for number in (1, 2, 3)])
    with closing(sqlite3.connect(path)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'dead_letter'")
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + 8)
        number = (page - 1) * PAGE + int.from_bytes(file.read(2), "big") + 1  # of the first cell, behind its length
        file.seek(number)
        assert file.read(1) == b"\1"
        file.seek(number)
        file.write(b"\x41")
    with closing(open_store(path)) as store:
        store.load()
        [(_, told)] = store.news()
        assert "dead letters are out of order" in told


@pytest.mark.parametrize(("change", "number"), [("attempts = 21", 1), ("cause = 'x'", 1), ("number = 7", 7)])
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
