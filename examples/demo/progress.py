"""Progress bar of the demo: parts that take about so long.

A part that takes longer than expected stops short of its end, and one that is over early jumps there. Off a terminal
there is no bar, and what it would say is printed.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

_LATE = 0.95
"""The share of its width that a part may fill before it is over."""


class Bar:
    """The bar of a story whose parts have names and take about so many seconds. Use it as a context manager."""

    def __init__(self, console: Console, parts: Mapping[str, float]) -> None:
        self.shown = console.is_terminal
        self._parts = dict(parts)
        self._done = 0.0
        self._now: tuple[str, float] | None = None
        self._progress = Progress(
            BarColumn(30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
            disable=not self.shown,
        )
        self._task = self._progress.add_task("", total=sum(self._parts.values()))

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def done(self) -> float:
        """The share of all."""
        task = self._progress.tasks[0]
        return task.completed / (task.total or 1.0)

    @contextmanager
    def part(self, name: str) -> Generator[None]:
        """While this goes on."""
        self._now = name, time.monotonic()
        try:
            yield
        finally:
            self._done += self._parts.pop(name)
            self._now = None
            self.move()

    def move(self, words: str | None = None) -> None:
        """Go as far as the clock says; `words` stand beside the bar from now on."""
        done = self._done
        if self._now is not None and (expected := self._parts.get(self._now[0])):
            done += min(time.monotonic() - self._now[1], _LATE * expected)
        self._progress.update(self._task, completed=done, description=words)
