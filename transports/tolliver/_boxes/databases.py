"""Database of the program: SQLite or PostgreSQL, by DB-API or SQLAlchemy.

A statement here is written once, with `?` for its values, and what the databases write differently is a `Dialect`. A
connection is known by the module of its class, so nothing is imported that the program has not.

Two kinds of transactions run on it. One is the program's: it began before we are called and ends after, so here nothing
is committed, and a connection that commits each statement by itself is refused. The other is our own, of the relay and
of `create`: `transaction` begins and ends it.

Rejected: columns and statements of SQLAlchemy's language, which a program without SQLAlchemy would not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tolliver_proto import LocalProtocolError
from tolliver_proto.node import check_type

Connect: TypeAlias = Any
"""A callable without arguments that returns a new connection, or an Engine of SQLAlchemy."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_IDLE = 0  # libpq's PQTRANS_IDLE


@dataclass(frozen=True)
class Dialect:
    """The words that two databases write differently."""

    name: str
    blob: str
    """Type of a column of bytes."""
    number: str
    """Type of a column whose numbers the database gives, in order, none twice."""
    now: str
    """Seconds since 1970 by the database's clock, at this statement."""
    begin: str
    """Begins a transaction that will write."""
    place: str
    """A query for the place of the database, "" for one that has none."""
    skip_locked: str
    """Ends a query whose rows are then changed: those that another transaction changes are left out."""


SQLITE = Dialect(
    "sqlite",
    blob="BLOB",
    number="INTEGER PRIMARY KEY AUTOINCREMENT",
    now="((julianday('now') - 2440587.5) * 86400.0)",
    begin="BEGIN IMMEDIATE",
    place="SELECT file FROM pragma_database_list WHERE name = 'main'",
    skip_locked="",  # one transaction writes at a time
)
POSTGRESQL = Dialect(
    "postgresql",
    blob="BYTEA",
    number="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    now="extract(epoch FROM clock_timestamp())::double precision",
    begin="BEGIN",
    place="SELECT current_database() || '.' || COALESCE(current_schema(), '')",
    skip_locked=" FOR UPDATE SKIP LOCKED",
)
DIALECTS = {one.name: one for one in (SQLITE, POSTGRESQL)}
_OF_MODULE = {"sqlite3": SQLITE, "psycopg": POSTGRESQL, "psycopg2": POSTGRESQL}
_PLACES: dict[str, Callable[[int], str]] = {
    "qmark": lambda _number: "?",
    "format": lambda _number: "%s",
    "pyformat": lambda _number: "%s",
    "numeric_dollar": lambda number: f"${number}",
}
"""The place of a value in a statement, by a driver's `paramstyle`."""


def checked_table(name: str) -> str:
    """Returns the name of a table. Raises TypeError, ValueError: the name becomes part of statements."""
    check_type("table", name, str, "the name of a table")
    if not _NAME.fullmatch(name):
        raise ValueError(f"table={name!r:.100}: give letters, digits and _, 48 at most, and no digit first")
    return name


def checked_connect(connect: Connect) -> Connect:
    """Returns the argument. Raises TypeError for one that cannot make connections."""
    if not callable(connect) and not callable(getattr(connect, "connect", None)):
        raise TypeError(
            f"connect={connect!r:.100}: give a function that returns a new connection, such as "
            "lambda: sqlite3.connect('bank.db'), or an Engine of SQLAlchemy"
        )
    return connect


class Database:
    """A connection of the program, in one shape for all its kinds. Errors of the driver pass through."""

    def __init__(self, connection: Any) -> None:
        """Takes a connection of sqlite3, psycopg or psycopg2, or a Connection or Session of SQLAlchemy. Raises
        TypeError.
        """
        session = connection if hasattr(connection, "get_bind") else None
        self._connection = connection if session is None else session.connection()
        self._is_alchemy = hasattr(self._connection, "exec_driver_sql")
        if self._is_alchemy:
            known = DIALECTS.get(self._connection.dialect.name)
            style = self._connection.dialect.paramstyle
        else:
            known = next((_OF_MODULE[name] for name in _modules(connection) if name in _OF_MODULE), None)
            style = "qmark" if known is SQLITE else "format"
        if known is None or style not in _PLACES or hasattr(self._connection, "__aenter__"):
            raise TypeError(
                f"{connection!r:.100}: give a connection of sqlite3 or psycopg, or a Connection or Session of "
                "SQLAlchemy on SQLite or PostgreSQL. Of an AsyncSession: await session.run_sync(outbox.put, ...)"
            )
        self.dialect: Dialect = known
        self._place = _PLACES[style]

    def run(self, statement: str, *values: object) -> int:
        """Executes a statement; returns how many rows it changed."""
        return int(self._execute(statement, values).rowcount)

    def rows(self, statement: str, *values: object) -> list[Sequence[Any]]:
        """Executes a statement; returns its rows, with bytes as `bytes`."""
        found = self._execute(statement, values).fetchall()
        return [[bytes(one) if isinstance(one, memoryview) else one for one in row] for row in found]

    def many(self, statement: str, values: Sequence[tuple[object, ...]]) -> None:
        """Executes a statement once for each tuple of values."""
        if values and self._is_alchemy:
            self._connection.exec_driver_sql(self._written(statement), list(values))
        elif values:
            self._cursor().executemany(self._written(statement), values)

    def _execute(self, statement: str, values: tuple[object, ...]) -> Any:
        if self._is_alchemy:
            return self._connection.exec_driver_sql(self._written(statement), values)
        cursor = self._cursor()
        return cursor.execute(self._written(statement), values) or cursor

    def _written(self, statement: str) -> str:
        """The statement as this database and its driver have it."""
        parts = statement.replace("{now}", self.dialect.now).split("?")
        return parts[0] + "".join(self._place(number) + part for number, part in enumerate(parts[1:], 1))

    def _cursor(self) -> Any:
        """A cursor whose rows are tuples, whatever the program has set for its own."""
        cursor = self._connection.cursor()
        if self.dialect is SQLITE:
            cursor.row_factory = None
        elif "psycopg" in _modules(self._connection):
            from psycopg.rows import tuple_row

            cursor.row_factory = tuple_row
        return cursor

    @property
    def _driver(self) -> Any:
        return self._connection.connection.driver_connection if self._is_alchemy else self._connection

    @property
    def _in_transaction(self) -> bool:
        """True if the next statement is part of a transaction that somebody commits."""
        driver = self._driver
        if self.dialect is SQLITE:
            by_itself = getattr(driver, "autocommit", -1) is True or (
                getattr(driver, "autocommit", -1) == -1 and driver.isolation_level is None
            )
            return bool(driver.in_transaction or not by_itself)
        info = getattr(driver, "info", None)
        return not getattr(driver, "autocommit", False) or getattr(info, "transaction_status", _IDLE) != _IDLE

    def check_transaction(self) -> None:
        """Raises LocalProtocolError for a connection that would commit our row by itself, apart from the effect."""
        if not self._in_transaction:
            raise LocalProtocolError(
                "no_transaction",
                f"{self._driver!r:.100} commits each statement by itself: begin a transaction first, as the row and "
                "your own effect must be committed together",
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begins a transaction of our own, and commits it; after an exception it is rolled back."""
        if self._is_alchemy and not self._connection.in_transaction():
            self._connection.begin()
        if not (self._driver.in_transaction if self.dialect is SQLITE else self._in_transaction):
            self._execute(self.dialect.begin, ())
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Ends what reading has begun: another process waits for no query of ours."""
        try:
            yield
        finally:
            self._connection.rollback()


def _modules(connection: Any) -> list[str]:
    """The packages of the connection's class and of those that it descends from."""
    return [kind.__module__.partition(".")[0] for kind in type(connection).__mro__]


@contextmanager
def opened(connect: Connect) -> Iterator[Database]:
    """A connection of our own, closed at the end."""
    connection = connect() if callable(connect) else connect.connect()
    try:
        yield Database(connection)
    finally:
        connection.close()


def create(connect: Connect, statements: Callable[[Dialect], list[str]]) -> None:
    """Runs the statements of this database's dialect, in one transaction."""
    with opened(connect) as database, database.transaction():
        for statement in statements(database.dialect):
            database.run(statement)
