"""Test tools for tolliver and for programs built on it.

A test's world is made of the same pieces as the product and driven by one random generator, so a seed is a whole story.
All is in memory and repeatable. `ConnectionPair` joins two connections, `MemoryStore` is a store, `SimNet` a network of
nodes with crashes and faults that checks the promises of the node at every step; `shrink` makes a failure short.
`BeginAt` is a random generator for a node whose message ids are to begin at a known place.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ._testing.checks import SimFailure
from ._testing.clockwork import Report
from ._testing.dice import BeginAt
from ._testing.driving import Weather
from ._testing.field import Field
from ._testing.memory import MemoryStore
from ._testing.pair import ConnectionPair, Side
from ._testing.shrink import Shrunk, shrink_seed


class SimNet(Field):
    """`SimNet(seed).run()`: a whole life of a few nodes. Raises SimFailure where a promise is broken.

    One seed, one story. Further arguments are those of `Simulation`: `seconds` is how long the faults go on,
    `operations` how much the applications do in that time, `nodes` how many there are, `trace=True` keeps every line.
    """

    def __init__(self, seed: int, **scenario: Any) -> None:
        super().__init__(seed, Random(seed), **scenario)


def shrink(seed: int, lives: int = 400) -> Shrunk | None:
    """A short life that fails as `SimNet(seed)` does, or None if that one does not fail; `lives` bounds the search."""
    return shrink_seed(SimNet, seed, 30.0, lives)


__all__ = [
    "BeginAt",
    "ConnectionPair",
    "MemoryStore",
    "Report",
    "Shrunk",
    "Side",
    "SimFailure",
    "SimNet",
    "Weather",
    "shrink",
]
