"""Kinds of databases and connections that boxes are tested on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from .postgres import programs

Connect = Any
"""The argument of a box: a function that connects, or an Engine."""
Connection = Any
"""Of sqlite3, psycopg or SQLAlchemy."""
NO_SERVER = pytest.mark.skipif(programs() is None, reason="no PostgreSQL: on Debian, apt-get install postgresql")


class _Undone(Exception):
    pass


@dataclass(frozen=True)
class Bank:
    """A database of a program, and its way to it."""

    connect: Connect
    """The argument of a box."""
    transaction: Callable[[], AbstractContextManager[Connection]]
    """A transaction of the program, with the connection that `put` and `once` are given."""
    plain: Callable[[], Connection]
    """A connection of the driver."""

    @contextmanager
    def undone(self) -> Iterator[Connection]:
        """A transaction that is rolled back at its end, as by an exception."""
        with suppress(_Undone), self.transaction() as connection:
            yield connection
            raise _Undone

    def run(self, statement: str, *values: object) -> None:
        with closing(self.plain()) as connection:
            connection.execute(statement if isinstance(connection, sqlite3.Connection) else _percent(statement), values)
            connection.commit()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self.plain()) as connection:
            return [tuple(row) for row in connection.execute(statement).fetchall()]


def _percent(statement: str) -> str:
    return statement.replace("?", "%s")


def _driver(plain: Callable[[], Connection]) -> Bank:
    @contextmanager
    def transaction() -> Iterator[Connection]:
        with closing(plain()) as connection, connection:
            yield connection

    return Bank(plain, transaction, plain)


def _alchemy(url: str, plain: Callable[[], Connection], is_session: bool) -> Bank:
    engine = sqlalchemy.create_engine(url, creator=plain, poolclass=NullPool)

    @contextmanager
    def transaction() -> Iterator[Connection]:
        with Session(engine) if is_session else engine.connect() as connection, connection.begin():
            yield connection

    return Bank(engine, transaction, plain)


def sqlite(directory: Path) -> Callable[[], Connection]:
    path = directory / "bank.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("PRAGMA journal_mode=WAL")
    return lambda: sqlite3.connect(path)


def postgres(server: str) -> Callable[[], Connection]:
    """A schema of its own for each test."""
    schema = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return lambda: psycopg.connect(server, options=f"-c search_path={schema}")


KINDS: dict[str, Callable[[Callable[[], Connection]], Bank]] = {
    "sqlite3": _driver,
    "sqlite, a Connection": lambda plain: _alchemy("sqlite://", plain, False),
    "sqlite, a Session": lambda plain: _alchemy("sqlite://", plain, True),
    "psycopg": _driver,
    "postgresql, a Connection": lambda plain: _alchemy("postgresql+psycopg://", plain, False),
    "postgresql, a Session": lambda plain: _alchemy("postgresql+psycopg://", plain, True),
}
PARAMS = [pytest.param(kind, marks=[NO_SERVER] if kind[0] == "p" else []) for kind in KINDS]
PLAIN = pytest.mark.parametrize("bank", ["sqlite3", pytest.param("psycopg", marks=NO_SERVER)], indirect=True)
"""For what the way to the database does not change."""
POSTGRES = pytest.mark.parametrize("bank", [pytest.param("psycopg", marks=NO_SERVER)], indirect=True)
