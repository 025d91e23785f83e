"""Random choices of the simulation.

The pure package makes no random numbers; `tolliver_proto.testing` alone may, and hands its generator down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Dice(Protocol):
    """Random generator of a simulation: `random.Random` satisfies it."""

    def random(self) -> float: ...

    def randint(self, a: int, b: int) -> int: ...

    def randrange(self, start: int, stop: int | None = None) -> int: ...

    def choice(self, seq: Sequence[T]) -> T: ...

    def choices(self, population: Sequence[T], weights: Sequence[float] | None = None, *, k: int = 1) -> list[T]: ...
