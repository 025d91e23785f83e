"""Tools for tests of tolliver and of whatever is built on it: all in memory, all repeatable.

The idea: what a test needs of the world is made of the same pieces as the product and driven by one random generator,
so a seed is a whole story. `ConnectionPair` joins two connections, `MemoryStore` is a store, `SimNet` a network of
nodes with crashes and faults that checks the promises of the node at every step.
"""

from __future__ import annotations

from ._checks import SimFailure
from ._memory import MemoryStore
from ._pair import ConnectionPair, Side
from ._simnet import Report, SimNet, Weather

__all__ = ["ConnectionPair", "MemoryStore", "Report", "Side", "SimFailure", "SimNet", "Weather"]
