"""Tables on a terminal or in a pipe, and progress bars.

Tables are aligned on a terminal, and have tabs between values in a pipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. Cells are plain text, never markup; a `Text` keeps its style on a terminal. A row wider than the
    terminal is printed with one line for each cell."""
    cells = [["" if cell is None else cell if isinstance(cell, Text) else str(cell) for cell in row] for row in rows]
    shown = [[str(cell) for cell in row] for row in cells]
    console = Console()
    if not console.is_terminal:
        for row in (columns, *shown):
            typer.echo("\t".join(row))
    elif _width(columns, shown) > console.width:
        _print_records(columns, shown)
    else:
        table = Table(*columns, box=None, pad_edge=False)
        for styled in cells:
            table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in styled))
        console.print(table)


def print_rows(rows: Sequence[Mapping[str, Any]], as_json: bool, nothing: str) -> None:
    """Print rows of one kind: with `as_json` as JSON lines, else as a table, or the text `nothing` if there are
    none.
    """
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        typer.echo(nothing)


def _width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(columns, *rows, strict=True)) - 2


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widest = max(map(len, columns))
    for number, row in enumerate(rows):
        if number:
            typer.echo()
        for name, cell in zip(columns, row, strict=True):
            typer.echo(f"{name:<{widest}}  {cell}".rstrip())


def progress(*middle: ProgressColumn, shown: bool = True) -> Progress:
    """Progress bar with these columns on standard error if that is a terminal and it is to be `shown`; it disappears at
    its end. Elsewhere it writes nothing.
    """
    console = Console(stderr=True)
    shown = shown and console.is_terminal
    console.quiet = not shown  # before version 15 rich prints an empty line even after a disabled bar
    columns = (TextColumn("{task.description}"), *middle, TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not shown)
