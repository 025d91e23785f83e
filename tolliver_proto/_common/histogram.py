"""Histogram with fixed bounds.

Adding a number takes one bisection and two additions, no lock and no allocation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import ClassVar

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_COUNTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)


class Histogram:
    """Distribution of a number: how many values were at most each of some ascending bounds and above the one before;
    the last count is of the values above all bounds.
    """

    __slots__ = ("bounds", "counts", "listeners", "sum")

    SECONDS: ClassVar[tuple[float, ...]] = _SECONDS
    """Bounds for durations, in seconds."""
    COUNTS: ClassVar[tuple[float, ...]] = _COUNTS
    """Bounds for numbers of things."""

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        self.bounds: tuple[float, ...] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.sum: float = 0.0
        self.listeners: tuple[Callable[[float], object], ...] = ()
        """Called with the value at each `add`."""

    def add(self, value: float, times: int = 1) -> None:
        """Adds the value `times` times. The caller passes the mean of a run for all numbers of the run."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times
        for listener in self.listeners:
            listener(value)
