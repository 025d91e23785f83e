"""Outbox: messages put in the program's own transaction (docs/exactly-once.md).

`put` writes a row beside the program's own, so both are committed or neither is. `instance.relay(outbox)` sends rows
that are committed, and deletes each once it is in the instance's store for somebody.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from tolliver_proto import LocalProtocolError, ReservedChannel
from tolliver_proto.node import PROBE_CHANNEL, RESERVED_CHANNEL, check_type

from ._boxes.databases import Connect, Database, checked_connect, checked_table, create, opened
from ._boxes.outbox_table import statements, waits
from ._options.times import Times

_LONGEST_NAME = 4096  # bytes (T-07)


class Outbox:
    """A table of messages to be sent, in the program's own database. Its calls may come from any thread."""

    def __init__(self, connect: Connect, table: str = "tolliver_outbox") -> None:
        """`connect` is a function that returns a new connection of sqlite3 or psycopg, or an Engine of SQLAlchemy: the
        relay calls it, on a thread of its own. Raises TypeError, ValueError.
        """
        self.connect: Connect = checked_connect(connect)
        self.table: str = checked_table(table)

    def create(self) -> None:
        """Create the tables, unless they exist. Raises the errors of the driver."""
        create(self.connect, lambda dialect: statements(self.table, dialect))

    def put(self, connection: Any, channel: str, key: str, body: bytes, *, not_before: datetime | None = None) -> None:
        """Put a message into the transaction that this connection is in: it is sent if that is committed.

        On a channel that is a work queue of the instance that relays, it is a job of that queue. `connection` is one of
        sqlite3 or psycopg, or a Connection or Session of SQLAlchemy. Nothing is committed here. `not_before` is an
        aware datetime, until which the message waits at the instance, as one of `Instance.send` does.

        Raises LocalProtocolError if the connection commits each statement by itself, or for a name that is too long;
        ReservedChannel; TypeError; ValueError for a date without a time zone; and the errors of the driver.
        """
        _check(channel, key, body)
        times = Times.of(None, not_before)
        database = Database(connection)
        database.check_transaction()
        statement = f"INSERT INTO {self.table} (id, channel, key, body, not_before) VALUES (?, ?, ?, ?, ?)"
        database.run(statement, str(uuid4()), channel, key, body, times.not_before)

    def waiting(self) -> dict[str, int]:
        """Numbers of committed rows that wait, by channel. Counts all of them. Raises the errors of the driver."""
        query = f"SELECT channel, COUNT(*) FROM {self.table} AS row WHERE {waits(self.table, 'row')} GROUP BY channel"
        with opened(self.connect) as database, database.reading():
            return {str(channel): int(count) for channel, count in database.rows(f"{query} ORDER BY channel")}

    def release(self, instance: UUID) -> int:
        """Let rows that this instance had begun wait again, for any relay; returns their number.

        For an instance that never comes back, whose relay is not running. A row that it had sent goes a second time.
        Raises TypeError, and the errors of the driver.
        """
        check_type("instance", instance, UUID, "the UUID of an instance")
        with opened(self.connect) as database, database.transaction():
            return database.run(f"DELETE FROM {self.table}_begun WHERE instance = ?", str(instance))


def _check(channel: str, key: str, body: bytes) -> None:
    """Raises for what no instance could send: in the table it would hold its channel back for ever."""
    for name, value in (("channel", channel), ("key", key)):
        check_type(name, value, str, "a text")
        if len(value.encode()) > _LONGEST_NAME:
            raise LocalProtocolError("too_long", f"{name}={value!r:.100} has more than {_LONGEST_NAME} bytes")
    check_type("body", body, bytes, "bytes: encode it first")
    if channel in (RESERVED_CHANNEL, PROBE_CHANNEL):
        raise ReservedChannel("reserved_channel", f"the channel {channel!r} is the protocol's own: take another")


__all__ = ["Outbox"]
