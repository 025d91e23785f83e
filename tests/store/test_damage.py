"""V9: what bits that change by themselves do. A payload is right, or it is known to be gone."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tolliver_transports._sqlite import Row

from tolliver_proto import CorruptMessage, ReplacePeerSubscriptions, StoredMessage, StoreError, Subscription

from .given import OTHER, PEER, everything, message, open_store, storing

FLIPS = 300
COUNT = 400
PAGE = 4096
LARGE = b"large" * 4000


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


def payload(row: StoredMessage) -> tuple[object, ...]:
    return row.seq, row.wire_id, row.channel, row.key, row.body


def test_no_flipped_bit_gives_a_wrong_payload(path: Path, scratch: Path) -> None:
    whole = path.read_bytes()
    random_ = random.Random(9)
    damaged = scratch / "damaged.db"
    corrupt = refused = 0
    for _ in range(FLIPS):
        copy = bytearray(whole)
        position = random_.randrange(len(copy) * 8)
        copy[position // 8] ^= 1 << position % 8
        damaged.write_bytes(copy)
        for suffix in ("-wal", "-shm"):
            Path(f"{damaged}{suffix}").unlink(missing_ok=True)
        try:
            with closing(open_store(damaged)) as store:
                store.load()
                for row in everything(store) + everything(store, OTHER):
                    if isinstance(row, CorruptMessage):
                        corrupt += 1
                    else:
                        assert payload(row) == payload(sent(row.seq)), f"bit {position}"
                store.check()
        except StoreError:
            refused += 1
    assert corrupt > FLIPS / 10  # the flips did hit payloads
    assert refused > 0


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
        rows = everything(store)
    damaged: Row = CorruptMessage(3, 7 if "delivery" in change else message(3).wire_id, message(3).size)
    if "AS TEXT" in change and "body" in change:
        damaged = message(3)
    assert rows == [message(1), message(2), damaged, message(4), message(5)]


def test_a_row_in_the_place_of_another_is_noticed(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("DELETE FROM message WHERE seq = 4")
        foreign.execute("UPDATE message SET seq = 4 WHERE seq = 3")
        foreign.execute("UPDATE delivery SET wire_id = wire_id - 1 WHERE seq = 4")
    with closing(open_store(path)) as store:
        rows = everything(store)
    wire_id = message(3).wire_id
    assert rows == [
        message(1),
        message(2),
        CorruptMessage(3, wire_id, message(3).size),
        CorruptMessage(4, wire_id, message(4).size),
        message(5),
    ]


def test_the_number_of_a_lost_message_is_not_given_again(scratch: Path) -> None:
    path = scratch / "node.db"
    with closing(open_store(path)) as store:
        store.commit([storing(range(1, 6))])
    with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
        foreign.execute("DELETE FROM message")
    with closing(open_store(path)) as store:
        assert store.load().next_seq == 6
        store.commit([storing([6])])
        assert everything(store) == [
            *(CorruptMessage(seq, message(seq).wire_id, message(seq).size) for seq in range(1, 6)),
            message(6),
        ]


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
