"""Marks in a program's database, which show that it was put back.

Each instance has a row in a table beside its inbox or outbox (P-76), and raises the row's number in a transaction of
its own, after others were committed. The instance remembers the number beside its own database
(`_store/table_marks.py`), after that commit. So the table has at least the number that is remembered; with less, or
without the row, commits are gone.

A row has a random name, its lineage, by which it is known wherever the database is moved. A table without the row is
known by its place.

Rejected: a look for notes that were seen once, as `forget` and age remove notes; a number raised in the program's
transactions, for which they would wait for each other; one row for all instances, of which none knows what the others
have seen.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID, uuid4

from .databases import Database


class Mark(NamedTuple):
    """An instance's row as a transaction has found and left it. Times are in seconds since 1970, by the database."""

    lineage: str
    place: str
    """The database and the table; "" for a database that has no place, such as one in memory."""
    before: int | None
    """The number that it had, None if the row was not there."""
    before_at: float
    number: int
    at: float


def statement(table: str) -> str:
    """The statement that creates the marks of an inbox or outbox."""
    return (
        f"CREATE TABLE IF NOT EXISTS {table}_mark (\n"
        "    instance TEXT PRIMARY KEY,\n"
        "    lineage TEXT NOT NULL,\n"
        "    number BIGINT NOT NULL,\n"
        "    marked_at DOUBLE PRECISION NOT NULL\n"
        ")"
    )


def raised(database: Database, table: str, instance: UUID, step: int) -> Mark:
    """Raise this instance's mark by `step`, in the transaction that is under way."""
    marks, me = f"{table}_mark", str(instance)
    [(place,)] = database.rows(database.dialect.place)
    is_there = database.run(f"UPDATE {marks} SET number = number + ? WHERE instance = ?", step, me)
    if not is_there:
        database.run(f"INSERT INTO {marks} VALUES (?, ?, ?, {{now}})", me, str(uuid4()), step)
    query = f"SELECT lineage, number, marked_at, {{now}} FROM {marks} WHERE instance = ?"
    [(lineage, number, before_at, now)] = database.rows(query, me)
    database.run(f"UPDATE {marks} SET marked_at = ? WHERE instance = ?", now, me)
    before = number - step if is_there else None
    return Mark(lineage, f"{place} {table}" if place else "", before, before_at, number, now)
