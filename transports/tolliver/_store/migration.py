"""Migration of a database from an older layout, step by step.

All steps run in one transaction: after a kill, or on a full disk, the file is as before. A step creates a table with
today's SQL and copies rows into it, with their checksums, so a damaged row stays damaged. ALTER TABLE RENAME is not
used: it would leave other SQL than the opening expects.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

STEPS: dict[int, Callable[[sqlite3.Connection], None]] = {}
"""By older layout: the function that changes it into the next one. Empty, as no layout is older before the first
release."""


def bring_up(connection: sqlite3.Connection) -> None:
    """Run the steps from the file's layout to today's, inside a transaction."""
    [(layout,)] = connection.execute("PRAGMA user_version").fetchall()
    while layout in STEPS:
        STEPS[layout](connection)
        layout += 1
        connection.execute(f"PRAGMA user_version = {layout}")
