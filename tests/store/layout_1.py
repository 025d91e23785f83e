"""Databases of the first layout, as the earliest programs wrote them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from uuid import UUID

from tolliver_transports._store.checks import content_check

from tolliver_proto import StoredMessage

TABLES = (
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


def write(path: Path, ours: UUID, peer: UUID, pin: bytes | None, messages: Sequence[StoredMessage]) -> None:
    """One peer, which is owed these messages; that is all."""
    with closing(sqlite3.connect(path)) as old, old:
        for statement in TABLES:
            old.execute(statement)
        old.execute("INSERT INTO instance VALUES (1, ?, 77, 1)", (ours.bytes,))
        old.execute("INSERT INTO peer VALUES (1, ?, ?)", (peer.bytes, pin))
        for row in messages:
            crc = content_check(row.seq, row.wire_id, row.channel.encode(), row.key.encode(), row.body)
            columns = (row.seq, row.wire_id, crc, row.channel, row.key, row.body)
            old.execute("INSERT INTO message VALUES (?, ?, ?, 1000, ?, ?, ?)", columns)
            old.execute("INSERT INTO delivery VALUES (1, ?, ?, ?, 0)", (row.seq, row.wire_id, row.size))
