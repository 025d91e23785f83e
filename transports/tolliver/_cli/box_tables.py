"""SQL of the tables in a program's own database."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from .._boxes.databases import DIALECTS, Dialect, checked_table


class Kind(StrEnum):
    """The database that the SQL is for."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


def script(statements: Callable[[str, Dialect], list[str]], table: str, kind: Kind) -> str:
    """The statements, as a tool for migrations takes them. Raises ValueError for a name that is none."""
    return "\n".join(f"{one};" for one in statements(checked_table(table), DIALECTS[kind]))
