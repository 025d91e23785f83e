"""Layout of the database file: its tables, its number, and migrations from older ones.

A program opens every layout up to its own and brings an old file to its own in one transaction, so that a kill at any
point leaves the file as it was. A newer layout is refused untouched.
"""

from __future__ import annotations

import sqlite3

from .checks import STAMP, check_of

LAYOUT = 3
_STRICT = ["STRICT"] if sqlite3.sqlite_version_info >= (3, 37) else []
_BY_ROWID = ", ".join(_STRICT)
_BY_KEY = ", ".join([*_STRICT, "WITHOUT ROWID"])
# `crc` is a check of all other columns, except in `message`: see checks.py. A stamp there is its own.
TABLES = {
    "instance": f"""CREATE TABLE instance(
        id INTEGER PRIMARY KEY CHECK(id = 1), uuid BLOB NOT NULL, next_id INTEGER NOT NULL, seal BLOB,
        crc INTEGER NOT NULL, commits INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "peer": f"""CREATE TABLE peer(
        id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, spki_sha256 BLOB, crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "message": f"""CREATE TABLE message(
        seq INTEGER PRIMARY KEY, wire_id INTEGER NOT NULL, crc INTEGER NOT NULL, stamp INTEGER NOT NULL,
        channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL
    ) {_BY_ROWID}""",
    "delivery": f"""CREATE TABLE delivery(
        peer INTEGER NOT NULL, seq INTEGER NOT NULL, wire_id INTEGER NOT NULL, size INTEGER NOT NULL,
        parked INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(peer, seq)
    ) {_BY_KEY}""",
    "held": f"CREATE TABLE held(seq INTEGER PRIMARY KEY) {_BY_ROWID}",
    "peer_subscription": f"""CREATE TABLE peer_subscription(
        peer INTEGER NOT NULL, channel TEXT NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(peer, channel, key)
    ) {_BY_KEY}""",
    "dead_letter": f"""CREATE TABLE dead_letter(
        number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, wire_id INTEGER NOT NULL,
        attempts INTEGER NOT NULL, failed_at INTEGER NOT NULL, crc INTEGER NOT NULL,
        channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL
    ) {_BY_ROWID}""",
    "handled": f"""CREATE TABLE handled(
        number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, wire_id INTEGER NOT NULL,
        crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "own_subscription": f"""CREATE TABLE own_subscription(
        channel TEXT NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(channel, key)
    ) {_BY_KEY}""",
}
_FROM = {
    1: {
        "instance": "id, uuid, next_id, NULL, row_check(uuid, next_id, NULL), 0",
        "peer": "id, uuid, spki_sha256, row_check(id, uuid, spki_sha256)",
        "message": f"seq, wire_id, crc, stored_at * {STAMP}, channel, key, body",
        "delivery": f"peer, seq, wire_id, size, parked, {check_of('delivery')}",
        "peer_subscription": f"peer, channel, key, {check_of('peer_subscription')}",
        "own_subscription": f"channel, key, {check_of('own_subscription')}",
        "handled": f"number, peer, wire_id, {check_of('handled')}",
        "dead_letter": """number, peer, wire_id, attempts, failed_at,
            letter_check(crc, number, peer, attempts, failed_at), channel, key, body""",
    },
    2: {"instance": "id, uuid, next_id, seal, crc, 0"},
}
"""By the layout of the file and the new table: what its old rows give. A table that is not named stays as it is."""


def bring_up(connection: sqlite3.Connection) -> None:
    """Within a transaction. Rows without a check are taken as they are, and get one."""
    [(old,)] = connection.execute("PRAGMA user_version").fetchall()
    if old == LAYOUT:
        return
    for table, rows in _FROM[old].items():
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        connection.execute(TABLES[table])
        connection.execute(f"INSERT INTO {table} SELECT {rows} FROM old_{table}")
        connection.execute(f"DROP TABLE old_{table}")
    connection.execute(f"PRAGMA user_version = {LAYOUT}")
