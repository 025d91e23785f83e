"""Random choices of the simulation.

Only `tolliver_proto.testing` makes random generators; all other modules of the package are given one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from .._node.outboxes.ids import FIRST_ID, LAST_ID, Randomness

T = TypeVar("T")


class Dice(Protocol):
    """Random generator of a simulation, as `random.Random` is one."""

    def random(self) -> float: ...

    def randint(self, a: int, b: int) -> int: ...

    def randrange(self, start: int, stop: int | None = None) -> int: ...

    def choice(self, seq: Sequence[T]) -> T: ...

    def choices(self, population: Sequence[T], weights: Sequence[float] | None = None, *, k: int = 1) -> list[T]: ...


class BeginAt:
    """Random generator of a node whose message ids begin at `first_id`, if that id is free (T-40). `dice` makes all
    later choices."""

    def __init__(self, dice: Randomness, first_id: int) -> None:
        self._dice = dice
        self._said: float | None = (first_id - FIRST_ID + 0.5) / LAST_ID

    def random(self) -> float:
        said, self._said = self._said, None
        return self._dice.random() if said is None else said
