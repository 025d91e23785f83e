"""Database of the second layout, and what becomes of it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from zlib import crc32

from .given import OTHER, OURS, PEER, open_store

LAYOUT_2 = (
    "PRAGMA application_id = 1416588396",
    "PRAGMA user_version = 2",
    """CREATE TABLE instance(
        id INTEGER PRIMARY KEY CHECK(id = 1), uuid BLOB NOT NULL, next_id INTEGER NOT NULL, seal BLOB,
        crc INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE peer(
        id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, spki_sha256 BLOB, crc INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE message(
        seq INTEGER PRIMARY KEY, wire_id INTEGER NOT NULL, crc INTEGER NOT NULL, stamp INTEGER NOT NULL,
        channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE delivery(
        peer INTEGER NOT NULL, seq INTEGER NOT NULL, wire_id INTEGER NOT NULL, size INTEGER NOT NULL,
        parked INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(peer, seq)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE held(seq INTEGER PRIMARY KEY) STRICT""",
    """CREATE TABLE peer_subscription(
        peer INTEGER NOT NULL, channel TEXT NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(peer, channel, key)
    ) STRICT, WITHOUT ROWID""",
    """CREATE TABLE dead_letter(
        number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, wire_id INTEGER NOT NULL,
        attempts INTEGER NOT NULL, failed_at INTEGER NOT NULL, crc INTEGER NOT NULL,
        channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE handled(
        number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, wire_id INTEGER NOT NULL,
        crc INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE own_subscription(
        channel TEXT NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(channel, key)
    ) STRICT, WITHOUT ROWID""",
)
_PRIME = 4294967291


def handled(number: int, peer: int, wire_id: int) -> tuple[int, int, int, int]:
    """A row as it was written then."""
    return number, peer, wire_id, (peer * 40503001 + wire_id * 69061 + 104729) % _PRIME


def seal_of(rows: list[tuple[int, int, int, int]]) -> bytes:
    return json.dumps({"handled": [len(rows), sum(crc for *_, crc in rows)]}).encode()


def write(path: Path, rows: list[tuple[int, int, int, int]], seal: bytes) -> None:
    """A file that was closed in order."""
    with closing(sqlite3.connect(path)) as old, old:
        for statement in LAYOUT_2:
            old.execute(statement)
        instance = (OURS.bytes, 77, seal)
        old.execute("INSERT INTO instance VALUES (1, ?, ?, ?, ?)", (*instance, crc32(repr(instance).encode())))
        for number, peer in ((1, PEER), (2, OTHER)):
            values = (number, peer.bytes, None)
            old.execute("INSERT INTO peer VALUES (?, ?, ?, ?)", (*values, crc32(repr(values).encode())))
        old.executemany("INSERT INTO handled VALUES (?, ?, ?, ?)", rows)


def test_handled_messages_are_known_by_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    rows = [handled(3, 1, 5), handled(4, 2, 2**31 - 2)]
    write(path, rows, seal_of(rows))
    for _ in range(2):
        with closing(open_store(path)) as store:
            assert store.check() == []
            assert not store.unclean
            assert list(store.load().handled) == [(PEER, 5, None), (OTHER, 2**31 - 2, None)]


def test_what_was_damaged_then_is_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "node.db"
    good, bad = handled(3, 1, 5), handled(4, 1, 6)
    write(path, [good, (*bad[:3], bad[3] ^ 1)], seal_of([good, bad]))
    with closing(open_store(path)) as store:
        [told] = store.check()
        assert "1 rows of table handled have a wrong checksum" in told
        assert list(store.load().handled) == [(PEER, 5, None)]
