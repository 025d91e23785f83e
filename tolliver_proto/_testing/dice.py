"""Chance, as the simulation uses it.

The idea: the pure package makes no random numbers; `tolliver_proto.testing` alone may, and hands its generator down.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Dice(Protocol):
    """What is asked of a random generator: `random.Random` has it all."""

    def random(self) -> float: ...

    def randint(self, a: int, b: int) -> int: ...

    def randrange(self, start: int, stop: int | None = None) -> int: ...

    def choice(self, seq: Sequence[T]) -> T: ...

    def choices(self, population: Sequence[T], weights: Sequence[float] | None = None, *, k: int = 1) -> list[T]: ...
