"""`tolliver outbox-table` and `inbox-table`: what they print makes the tables that outboxes and inboxes use."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from tolliver.inbox import Inbox
from tolliver.outbox import Outbox

from tests.boxes.kinds import NO_SERVER
from tests.boxes.postgres import server

from .commands import tolliver

COMMANDS = {"outbox-table": Outbox, "inbox-table": Inbox}


def tables(connection: sqlite3.Connection) -> list[str]:
    return [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_sql_makes_what_create_makes(command: str, tmp_path: Path) -> None:
    printed = tolliver(command, "--table", "mine").stdout
    with closing(sqlite3.connect(":memory:")) as ours, closing(sqlite3.connect(tmp_path / "made.db")) as made:
        ours.executescript(printed)
        COMMANDS[command](lambda: sqlite3.connect(tmp_path / "made.db"), "mine").create()
        assert tables(ours) == tables(made)
        assert len(tables(ours)) >= 2


@pytest.mark.thorough
@NO_SERVER
def test_postgresql_takes_it() -> None:
    with server() as place, psycopg.connect(place, autocommit=True) as connection:
        for command in COMMANDS:
            connection.execute(tolliver(command, "--database", "postgresql").stdout.encode())


def test_a_name_that_is_none_is_refused() -> None:
    done = tolliver("outbox-table", "--table", "a b")
    assert done.exit_code == 1
    assert "letters, digits" in done.stderr
