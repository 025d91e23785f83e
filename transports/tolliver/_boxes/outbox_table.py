"""Table of an outbox: programs put rows, relays move them.

State of a row. *Waiting*: it is committed, and no relay has it. *Begun*: a relay has noted it for its instance, in a
commit before the send. *Gone*: it was owed to somebody and is deleted. A row that nobody gets is waiting again. A row
itself is never changed, as a database would write all of its body again: what is begun stands in a table beside it.

Invariants:
- A row is sent only by the instance that has begun it, as only that one's store knows whether it was sent before. So a
  row that a killed relay had begun waits for that instance, however long: nobody else could tell a lost send from one
  whose message is on its way. The same holds for what is in that instance's own store. If that store was put back from
  a copy, nobody knows: the rows are doubtful, and wait for `release`.
- The name of a row (`id`) is random, and is its message key. Numbers would not do: a database that was put back gives
  them again, to other rows.
- Relays look for rows that are there, lowest number first, and remember no position. So a row whose transaction
  commits late, below numbers that have gone, is found as any other.

Leases. One relay at a time serves a channel, so that its rows go in order; which, is said by a lease with an end, by
the database's clock. Leases share the work and keep the order. That no row goes twice does not depend on them, nor on
any clock.

Rejected: a lease on each row that another relay takes over at its end, which sends rows twice; one position up to which
all is moved, which skips late commits; deleting before sending, which loses rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import inf, nextafter
from typing import NamedTuple
from uuid import UUID

from . import marks
from .databases import Database, Dialect

LEASE = 10.0
"""Seconds for which a relay has a channel, unless it goes on."""


class Row(NamedTuple):
    """A row on its way."""

    number: int
    id: str
    channel: str
    key: str
    body: bytes
    not_before: float | None = None
    """Seconds since 1970 until which the message waits, at the instance (P-90)."""


class Batch(NamedTuple):
    """Rows that one commit has begun, in order, and the moment that is noted with them."""

    begun_at: float
    rows: Sequence[Row]


class Outcome(NamedTuple):
    """A batch after it was sent, but for some of its rows."""

    batch: Batch
    unsent: Sequence[Row]


def statements(table: str, dialect: Dialect) -> list[str]:
    """The statements that create the tables of an outbox."""
    return [
        f"CREATE TABLE IF NOT EXISTS {table} (\n"
        f"    number {dialect.number},\n"
        "    id TEXT NOT NULL,\n"
        "    channel TEXT NOT NULL,\n"
        "    key TEXT NOT NULL,\n"
        f"    body {dialect.blob} NOT NULL,\n"
        "    not_before DOUBLE PRECISION\n"
        ")",
        f"CREATE INDEX IF NOT EXISTS {table}_order ON {table} (channel, number)",
        f"CREATE TABLE IF NOT EXISTS {table}_begun (\n"
        "    number BIGINT PRIMARY KEY,\n"
        "    instance TEXT NOT NULL,\n"
        "    begun_at DOUBLE PRECISION NOT NULL\n"
        ")",
        f"CREATE TABLE IF NOT EXISTS {table}_lease (\n"
        "    channel TEXT PRIMARY KEY,\n"
        "    holder TEXT NOT NULL,\n"
        "    until DOUBLE PRECISION NOT NULL\n"
        ")",
        marks.statement(table),
    ]


def waits(table: str, row: str) -> str:
    """The condition under which this row, by its name in the statement, waits."""
    return f"NOT EXISTS (SELECT 1 FROM {table}_begun AS begun WHERE begun.number = {row}.number)"


class OutboxTable:
    """One relay's view of the table, on a connection of its own. Each call is one transaction."""

    def __init__(
        self, database: Database, table: str, instance: UUID, remembered: float, holder: str | None = None
    ) -> None:
        """The instance remembers the keys of rows for so many seconds. `holder` has the leases, by default the
        instance: several relays of one instance each have a name of their own."""
        self._database = database
        self._table = table
        self._me = str(instance)
        self._holder = holder or self._me
        self._remembered = remembered
        self._begun_at = 0.0  # of the last batch

    def heads(self) -> list[tuple[str, str]]:
        """Channel and key of the first waiting row of each channel. Reads one row for each, however many wait."""
        table = self._table
        query = f"""
            WITH RECURSIVE known (channel) AS (
                SELECT MIN(channel) FROM {table}
                UNION ALL
                SELECT (SELECT MIN(channel) FROM {table} WHERE channel > known.channel)
                FROM known WHERE known.channel IS NOT NULL
            )
            SELECT channel, (
                SELECT key FROM {table} AS head WHERE head.channel = known.channel AND {waits(table, "head")}
                ORDER BY number LIMIT 1
            ) FROM known WHERE channel IS NOT NULL
        """
        with self._database.reading():
            return [(channel, key) for channel, key in self._database.rows(query) if key is not None]

    def begin(self, channels: Sequence[str], most: int, most_bytes: int, ended: Outcome | None = None) -> Batch:
        """Begin waiting rows of these channels, as far as no other relay has a lease on them: so many, and so many
        bytes of bodies, but for one row that is larger. Each channel has a fair share, the first one at least a row.

        The same commit ends the batch before.
        """
        with self._database.transaction():
            if ended is not None:
                self._end(ended)
            ((clock,),) = self._database.rows("SELECT {now}")
            self._begun_at = now = max(clock, nextafter(self._begun_at, inf))  # a clock of milliseconds may stand
            leased = {one for one in sorted(channels) if self._lease(one, now)}  # in one order: others lease, too
            mine, count, size = [one for one in channels if one in leased], 0, 0
            for number, channel in enumerate(mine):
                share = (most - count) // (len(mine) - number)
                found = self._note(channel, now, share, most_bytes - size, not count)
                count += len(found)
                size += sum(found)
            rows = self._rows("instance = ? AND begun_at = ?", self._me, now) if count else []
        return Batch(now, rows)

    def _lease(self, channel: str, now: float) -> bool:
        lease = f"{self._table}_lease"
        return bool(
            self._database.run(
                f"INSERT INTO {lease} (channel, holder, until) VALUES (?, ?, ?) "
                "ON CONFLICT (channel) DO UPDATE SET holder = excluded.holder, until = excluded.until "
                f"WHERE {lease}.holder = excluded.holder OR {lease}.until < ?",
                *(channel, self._holder, now + LEASE, now),
            )
        )

    def _note(self, channel: str, now: float, most: int, most_bytes: int, at_least_one: bool) -> list[int]:
        """Note the first waiting rows of a channel as begun; returns their sizes."""
        query = (
            f"SELECT number, LENGTH(body) FROM {self._table} AS row WHERE channel = ? AND {waits(self._table, 'row')}"
        )
        found = self._database.rows(f"{query} ORDER BY number LIMIT ?", channel, most)
        sizes = [*accumulate(size for _, size in found)]
        count = max(bisect_right(sizes, most_bytes), min(at_least_one, len(found)))
        self._database.many(
            f"INSERT INTO {self._table}_begun (number, instance, begun_at) VALUES (?, ?, ?)",
            [(number, self._me, now) for number, _ in found[:count]],
        )
        return [size for _, size in found[:count]]

    def begun(self, after: int, most: int) -> list[Row]:
        """Rows that this instance has begun in an earlier life, after the number `after`, so many at most. Those whose
        keys may be forgotten are left out.
        """
        mine = f"instance = ? AND number > ? AND begun_at > {{now}} - {self._remembered!r}"
        with self._database.reading():
            return self._rows(mine, self._me, after, most=most)

    def _rows(self, condition: str, *values: object, most: int | None = None) -> list[Row]:
        query = (
            f"SELECT number, id, channel, key, body, not_before FROM {self._table}_begun "
            f"JOIN {self._table} USING (number) WHERE {condition} ORDER BY number"
            + ("" if most is None else f" LIMIT {most}")
        )
        return [Row(*row) for row in self._database.rows(query, *values)]

    def end(self, ended: Outcome) -> None:
        """Delete the rows of a batch that were sent; the others wait again."""
        with self._database.transaction():
            self._end(ended)

    def _end(self, ended: Outcome) -> None:
        table, batch = self._table, ended.batch
        self._database.many(f"DELETE FROM {table}_begun WHERE number = ?", [(row.number,) for row in ended.unsent])
        mine = "instance = ? AND begun_at = ?"
        sent = f"SELECT number FROM {table}_begun WHERE {mine}"
        self._database.run(f"DELETE FROM {table} WHERE number IN ({sent})", self._me, batch.begun_at)
        self._database.run(f"DELETE FROM {table}_begun WHERE {mine}", self._me, batch.begun_at)

    def delete(self, rows: Sequence[Row]) -> None:
        """Delete rows of an earlier life that are owed now."""
        numbers = [(row.number,) for row in rows]
        with self._database.transaction():
            for table in (self._table, f"{self._table}_begun"):
                self._database.many(f"DELETE FROM {table} WHERE number = ?", numbers)

    def let_wait(self, rows: Sequence[Row]) -> None:
        """Have rows that this instance has begun, and that were not sent, wait again."""
        with self._database.transaction():
            self._database.many(f"DELETE FROM {self._table}_begun WHERE number = ?", [(row.number,) for row in rows])

    def doubt(self) -> None:
        """Have nobody finish what this instance has begun: its store has lost what it knew of these rows."""
        with self._database.transaction():
            self._database.run(f"UPDATE {self._table}_begun SET begun_at = 0 WHERE instance = ?", self._me)

    def doubtful(self) -> dict[str, int]:
        """Number of rows that were begun and not ended, by instance: of others for longer than a lease lasts, of this
        one for longer than it remembers keys.
        """
        query = (
            f"SELECT instance, COUNT(*) FROM {self._table}_begun "
            f"WHERE begun_at < {{now}} - CASE instance WHEN ? THEN {self._remembered!r} ELSE {LEASE!r} END "
            "GROUP BY instance"
        )
        with self._database.reading():
            return {str(instance): int(count) for instance, count in self._database.rows(query, self._me)}

    def give_back_leases(self) -> None:
        """Let other relays have the channels at once."""
        with self._database.transaction():
            self._database.run(f"DELETE FROM {self._table}_lease WHERE holder = ?", self._holder)
