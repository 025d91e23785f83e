"""Tables on a terminal, and in a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDE = 10_000  # columns


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], unbroken: str | None = None) -> None:
    """Cells are shown as text, never as markup; those of the column `unbroken` stay in one line."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)  # a path that is cut in two is no path
    table = Table(*columns, box=None, pad_edge=False)
    if unbroken is not None:
        table.columns[columns.index(unbroken)].no_wrap = True
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell), overflow="fold") for cell in row))
    console.print(table)
