"""Databases as older programs made them: their tables, word for word."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID
from zlib import crc32

_LAYOUT_2 = (
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
    "CREATE TABLE held(seq INTEGER PRIMARY KEY) STRICT",
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


def make_layout_2(path: Path, uuid: UUID, next_id: int) -> None:
    """A database that was used, killed and is empty again."""
    with closing(sqlite3.connect(path)) as old, old:
        for statement in _LAYOUT_2:
            old.execute(statement)
        row = (uuid.bytes, next_id, None)
        old.execute("INSERT INTO instance VALUES (1, ?, ?, ?, ?)", (*row, crc32(repr(row).encode())))
