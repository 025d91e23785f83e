"""Migration of a database from an older layout, step by step.

All steps run in one transaction: after a kill, or on a full disk, the file is as before. A step creates a table with
today's SQL and copies rows into it, with their checksums, so a damaged row stays damaged. ALTER TABLE RENAME is not
used: it would leave other SQL than the opening expects.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

STRICT = ["STRICT"] if sqlite3.sqlite_version_info >= (3, 37) else []
BY_KEY = ", ".join([*STRICT, "WITHOUT ROWID"])
LATER = f"""CREATE TABLE later(
        by_wall INTEGER NOT NULL, due INTEGER NOT NULL, first_seq INTEGER NOT NULL, crc INTEGER NOT NULL,
        PRIMARY KEY(by_wall, due, first_seq)
    ) {BY_KEY}"""

PEER_NAME = f"""CREATE TABLE peer_name(
        peer INTEGER PRIMARY KEY, name TEXT NOT NULL, crc INTEGER NOT NULL
    ) {", ".join(STRICT)}"""


def _add_later(connection: sqlite3.Connection) -> None:
    """Layout 2 has the times of messages that are sent later, which layout 1 would not wait for."""
    connection.execute(LATER)


def _add_names(connection: sqlite3.Connection) -> None:
    """Layout 3 has the names of peers."""
    connection.execute(PEER_NAME)


STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {1: _add_later, 2: _add_names}
"""By older layout: the function that changes it into the next one."""


def bring_up(connection: sqlite3.Connection) -> None:
    """Run the steps from the file's layout to today's, inside a transaction."""
    [(layout,)] = connection.execute("PRAGMA user_version").fetchall()
    while layout in STEPS:
        STEPS[layout](connection)
        layout += 1
        connection.execute(f"PRAGMA user_version = {layout}")
