"""Migration of a database from an older layout, step by step.

All steps are one transaction: a kill at any point, or a disk that is full, leaves the file as it was. A step makes a
table with today's words and copies rows into it, with their checks: a damaged row stays damaged, and the opening, which
compares the words of all tables afterwards, finds no other ones (ALTER TABLE RENAME would leave others).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {}
"""By an older layout: the change that makes the next one of it. None is older before the first release."""


def bring_up(connection: sqlite3.Connection) -> None:
    """Within a transaction: take the steps from the layout of the file to today's."""
    [(layout,)] = connection.execute("PRAGMA user_version").fetchall()
    while layout in STEPS:
        STEPS[layout](connection)
        layout += 1
        connection.execute(f"PRAGMA user_version = {layout}")
