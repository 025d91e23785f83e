"""Tables on a terminal or in a pipe, and bars of progress.

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
    """Cells are shown as text, never as markup; a `Text` keeps its style on a terminal. A row that is wider than the
    terminal has a line for each cell."""
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
    """Rows of one kind: as JSON lines, or as a table, or as a text where there are none."""
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
    """It is on standard error, where that is a terminal, and leaves nothing there. Elsewhere it writes nothing."""
    console = Console(stderr=True)
    shown = shown and console.is_terminal
    console.quiet = not shown  # rich ends also a bar that is disabled with an empty line, before its version 15
    columns = (TextColumn("{task.description}"), *middle, TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not shown)
