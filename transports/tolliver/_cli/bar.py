"""Progress bar of a command."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TextColumn, TimeElapsedColumn


def progress(*middle: ProgressColumn, shown: bool = True) -> Progress:
    """It is on standard error, where that is a terminal, and leaves nothing there. Elsewhere it writes nothing."""
    console = Console(stderr=True)
    shown = shown and console.is_terminal
    console.quiet = not shown  # rich ends also a bar that is disabled with an empty line, before its version 15
    columns = (TextColumn("{task.description}"), *middle, TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not shown)
