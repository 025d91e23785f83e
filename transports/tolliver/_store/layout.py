"""Layout of the database file: its tables and its version number.

The application id in the header marks a file as ours, and `user_version` is its layout. A layout that `migration` has a
step for is upgraded at the opening; every other file is refused unchanged. Versions before the first release had
another application id, so that their layouts 1 to 6 cannot be confused with these.
"""

from __future__ import annotations

import os

from tolliver_proto import StoreError

from .migration import BY_KEY, LATER, PEER_NAME, STEPS, STRICT

APPLICATION_ID = 0x746F6C6C  # "toll" in the file's header
_BEFORE = 0x546F6C6C  # "Toll": by versions before the first release
LAYOUT = 3
_BY_ROWID = ", ".join(STRICT)
# `crc` is a checksum of all other columns, except those of a batch that have their own: see checks.py.
TABLES = {
    "instance": f"""CREATE TABLE instance(
        id INTEGER PRIMARY KEY CHECK(id = 1), uuid BLOB NOT NULL, seal BLOB, crc INTEGER NOT NULL,
        commits INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "peer": f"""CREATE TABLE peer(
        id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, spki_sha256 BLOB, crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "peer_name": PEER_NAME,
    "batch": f"""CREATE TABLE batch(
        first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL, crc INTEGER NOT NULL,
        directory BLOB NOT NULL, bodies BLOB NOT NULL, number INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "owed": f"""CREATE TABLE owed(
        peer INTEGER NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, first_id INTEGER,
        bytes INTEGER NOT NULL, owed BLOB, parked BLOB, crc INTEGER NOT NULL, PRIMARY KEY(peer, first_seq)
    ) {BY_KEY}""",
    "expiry": f"""CREATE TABLE expiry(
        first_seq INTEGER PRIMARY KEY, due INTEGER NOT NULL, crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "later": LATER,
    "peer_subscription": f"""CREATE TABLE peer_subscription(
        peer INTEGER NOT NULL, channel TEXT NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(peer, channel, key)
    ) {BY_KEY}""",
    "held_subscription": f"""CREATE TABLE held_subscription(
        peer INTEGER NOT NULL, channel TEXT NOT NULL, key TEXT NOT NULL, since INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(peer, channel, key)
    ) {BY_KEY}""",
    "unsaid": f"""CREATE TABLE unsaid(
        peer INTEGER NOT NULL, channel TEXT NOT NULL, key TEXT NOT NULL, since INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(peer, channel, key)
    ) {BY_KEY}""",
    "dead_letter": f"""CREATE TABLE dead_letter(
        number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, wire_id INTEGER NOT NULL,
        attempts INTEGER NOT NULL, failed_at INTEGER NOT NULL, crc INTEGER NOT NULL,
        cause TEXT NOT NULL, channel TEXT NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL
    ) {_BY_ROWID}""",
    "handled": f"""CREATE TABLE handled(
        number INTEGER PRIMARY KEY AUTOINCREMENT, peer INTEGER NOT NULL, wire_id INTEGER NOT NULL, checksum INTEGER,
        crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "id_span": f"""CREATE TABLE id_span(
        number INTEGER PRIMARY KEY, first INTEGER NOT NULL, count INTEGER NOT NULL, crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "clock": f"""CREATE TABLE clock(
        id INTEGER PRIMARY KEY CHECK(id = 1), correction INTEGER NOT NULL, crc INTEGER NOT NULL
    ) {_BY_ROWID}""",
    "own_subscription": f"""CREATE TABLE own_subscription(
        channel TEXT NOT NULL, key TEXT NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(channel, key)
    ) {BY_KEY}""",
}


def refuse_unknown(path: str | os.PathLike[str], application: int, layout: int) -> None:
    """Raises StoreError if a file with these numbers in its SQLite header, of the application and of the layout, cannot
    be used by this version.
    """
    if application == _BEFORE:
        raise StoreError(
            f"the database {path} is of a version of tolliver before the first release, which this one does not read; "
            "nothing of it was changed. Let the version that wrote it deliver what waits, then move the file and those "
            f"beside it ({path}.*, {path}-*) away and start again: a new one is made (docs/releases.md)"
        )
    if application != APPLICATION_ID:
        raise StoreError(
            f"{path} is not the database of an instance: choose another path, or give the file that the instance uses"
        )
    if layout != LAYOUT and layout not in STEPS:
        raise StoreError(
            f"the database {path} has layout {layout}, and this version of tolliver knows {LAYOUT}: "
            "use the version that wrote it, or a newer one"
        )
