"""Graph of a row: numbers over time that a command says in one line, and docs/proof.md draws in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, Self

_SAID = re.compile(r"^graph: (?P<what>[^|]+?) \| (?P<values>\S+(?: \S+)*)$")
_LEVELS = "▁▂▃▄▅▆▇█"
_POINTS = 48  # that a line of the page has


class Graph(NamedTuple):
    """Numbers in the order of time; `what` names them and their unit."""

    what: str
    values: Sequence[float]

    @classmethod
    def heard(cls, line: str) -> Self | None:
        """A graph of a command's line, if it is one."""
        match = _SAID.match(line)
        return cls(match["what"], [float(value) for value in match["values"].split()]) if match else None

    def said(self) -> str:
        """The line for a command to print. Of many numbers it has some, evenly spread, with the first and the last."""
        last = len(self.values) - 1
        shown = min(_POINTS, len(self.values))
        picked = [self.values[round(at * last / max(1, shown - 1))] for at in range(shown)]
        return f"graph: {self.what} | {' '.join(f'{value:.6g}' for value in picked)}"

    def drawn(self) -> str:
        """The line of the page: bars between the least and the largest number."""
        least, largest = min(self.values), max(self.values)
        top = len(_LEVELS) - 1
        levels = (round((value - least) / (largest - least or 1.0) * top) for value in self.values)
        return f"{self.what}: `{''.join(_LEVELS[level] for level in levels)}` from {least:,.6g} to {largest:,.6g}"
