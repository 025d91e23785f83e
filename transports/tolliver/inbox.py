"""Inbox: a message's effect in the program's own database, once (docs/exactly-once.md).

Theory. A handler does its effect and notes the message in one transaction, so either both are there or neither. The
message is acknowledged after that commit. A copy finds the note, and has no second effect.

Identity of a message (T-48). Its sender's UUID, its id and a SHA-256 of channel, key and body: all copies of a
message have these in common, as a sender keeps id and bytes until the acknowledgement. An id alone would not do, since
ids come again (T-40); the program may give a `key` of its own instead, which outlives whatever becomes of ids.

How long it is remembered. A copy can come as long as its sender has not read the acknowledgement, and it is sent first
whenever the sender is back (T-50). So what counts is the time in which the sender is heard: a note goes once its sender
has been heard for `keep` seconds after it, and for one day more, in which copies have come. A sender that is away ages
nothing. Derived identities never come back, so all of them age together (T-72a).

Why that is safe. Two messages that have the same note need the same id and the same bytes. One database gives an id
again after 2^30 others at the earliest, so that takes 414 messages a second for 30 days, and equal bytes. A database
that was put back may draw an id again by chance, 1 in 2^31 for each pair of a lost id and a new one, and again the
bytes must be equal. Bodies that differ, such as those with a number of their own, exclude both; so does `key`.

Rejected: ids as a mark below which everything is known, as lower ids come later (T-09, T-40); a number of the newest
notes, as one busy sender would push out those of all others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import sha256
from itertools import count
from typing import Any, Protocol, runtime_checkable
from uuid import UUID
from weakref import ref

from tolliver_proto import Delivery, LocalProtocolError
from tolliver_proto.node import check_seconds, check_type, is_derived

from ._boxes import marks
from ._boxes.databases import Connect, Database, Dialect, checked_connect, checked_table, create, opened

DAY = 86_400.0
_KEEP = 30 * DAY
_EACH = 256  # notes between two looks for old ones
_MOST = 1024  # old notes that one transaction removes
_LENGTHS = struct.Struct(">16sQII")


@runtime_checkable
class Watcher(Protocol):
    """Hands out deliveries, and has the table of an inbox that notes them marked (P-76)."""

    def watch(self, inbox: Inbox) -> None: ...


class Inbox:
    """Notes of handled messages, in a table of the program's own database. Its calls may come from any thread.

    Two handlers of one message take two tables, as the first of them would be the only one.
    """

    def __init__(self, connect: Connect, table: str = "tolliver_inbox", *, keep: float = _KEEP) -> None:
        """`connect` is a function that returns a new connection of sqlite3 or psycopg, or an Engine of SQLAlchemy.

        `keep` is how long a message is remembered, in seconds in which its sender is heard. Raises TypeError,
        ValueError.
        """
        self.connect: Connect = checked_connect(connect)
        self.table: str = checked_table(table)
        check_seconds("keep", keep)
        self._keep = keep
        self._calls = count(1)
        self._settler: Callable[[], object] = _none  # the last one that was told of this inbox

    def create(self) -> None:
        """Create the table, unless it exists. Raises the errors of the driver."""
        create(self.connect, lambda dialect: statements(self.table, dialect))

    def once(self, connection: Any, delivery: Delivery, *, key: str | None = None) -> bool:
        """Note a message in the transaction that this connection is in. Returns False if it is noted already.

        Do the effect in the same transaction if it returns True, commit in both cases, and acknowledge after that: a
        handler that returns then does so. `connection` is one of sqlite3 or psycopg, or a Connection or Session of
        SQLAlchemy.

        `key` is the program's own name for the effect, in place of the message's sender, id and content.

        Raises LocalProtocolError if the connection commits each statement by itself, and for an unreliable message
        without a `key`, as it has no id; TypeError, and the errors of the driver.
        """
        name = _name_of(delivery, key)
        sender = "derived" if is_derived(delivery.peer_id) else str(delivery.peer_id)
        database = Database(connection)
        database.check_transaction()
        settler: object = delivery.settler
        if settler is not self._settler() and isinstance(settler, Watcher):
            settler.watch(self)
            self._settler = ref(settler)  # an inbox keeps no instance alive
        table = self.table
        note = f"INSERT INTO {table} (name, sender, seen_at) VALUES (?, ?, {{now}}) ON CONFLICT (name) DO NOTHING"
        if not database.run(note, name, sender):
            database.run(f"UPDATE {table} SET seen_at = {{now}} WHERE name = ?", name)
            return False
        if next(self._calls) % _EACH == 0:
            self._forget_old(database, sender)
        return True

    def forget(self, sender: UUID) -> int:
        """Remove all notes of a sender that never comes back; returns their number. Raises the errors of the driver."""
        check_type("sender", sender, UUID, "the UUID of a peer")
        with opened(self.connect) as database, database.transaction():
            return database.run(f"DELETE FROM {self.table} WHERE sender = ?", str(sender))

    def _forget_old(self, database: Database, sender: str) -> None:
        """Remove notes of this sender that are older than `keep`, as counted from when it was heard a day ago."""
        table = self.table
        heard = f"SELECT MAX(seen_at) FROM {table} WHERE sender = ? AND seen_at < {{now}} - {DAY!r}"
        old = f"SELECT name FROM {table} WHERE sender = ? AND seen_at < ({heard}) - {self._keep!r} LIMIT {_MOST}"
        database.run(f"DELETE FROM {table} WHERE name IN ({old}{database.dialect.skip_locked})", sender, sender)


def _none() -> None:
    """Stands for no object, as a reference to one that is gone."""


def statements(table: str, dialect: Dialect) -> list[str]:
    """The statements that create the table of an inbox."""
    return [
        f"CREATE TABLE IF NOT EXISTS {table} (\n"
        f"    name {dialect.blob} PRIMARY KEY,\n"
        "    sender TEXT NOT NULL,\n"
        "    seen_at DOUBLE PRECISION NOT NULL\n"
        ")",
        f"CREATE INDEX IF NOT EXISTS {table}_age ON {table} (sender, seen_at)",
        marks.statement(table),
    ]


def _name_of(delivery: Delivery, key: str | None) -> bytes:
    """The value that all copies of a message share, and nothing else has."""
    if key is not None:
        check_type("key", key, str, "a text, or None for the message's own name")
        return sha256(b"key\0" + key.encode()).digest()
    if delivery.message_id is None:
        raise LocalProtocolError(
            "no_id", f"{delivery!r} is unreliable and has no id: send it with `send`, or give a key of your own"
        )
    channel, name = delivery.channel.encode(), delivery.key.encode()
    head = _LENGTHS.pack(delivery.peer_id.bytes, delivery.message_id, len(channel), len(name))
    return sha256(b"message\0" + head + channel + name + delivery.body).digest()


__all__ = ["Inbox"]
