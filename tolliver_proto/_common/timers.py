"""Timers: deadlines by key, with the earliest one known at once.

The deadlines are in a heap with lazy deletion. A key has at most one deadline; the entry of a moved or cancelled
deadline stays in the heap until it comes to the top, so that every operation takes O(log n). `first` is never later
than the earliest deadline: one comparison with `first` shows that no timer is due.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from math import inf


class Timers:
    """Deadlines of a machine, each by a key that says its purpose, in monotonic seconds."""

    __slots__ = ("_heap", "_order", "deadlines", "first")

    def __init__(self) -> None:
        self.deadlines: dict[Hashable, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self.first: float = inf
        self._order = 0  # equal deadlines fire in the order in which they were set, and keys are never compared

    def set(self, key: Hashable, due: float) -> None:
        self._order += 1
        self.deadlines[key] = (due, self._order)
        heappush(self._heap, (due, self._order, key))
        if due < self.first:
            self.first = due
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self.deadlines):
            self._heap = [(due, order, key) for key, (due, order) in self.deadlines.items()]
            heapify(self._heap)

    def set_earlier(self, key: Hashable, due: float) -> None:
        """Sets the key's deadline to `due`, unless the key has an earlier one."""
        known = self.deadlines.get(key)
        if known is None or due < known[0]:
            self.set(key, due)

    def cancel(self, key: Hashable) -> None:
        self.deadlines.pop(key, None)

    def due(self, key: Hashable) -> float | None:
        """Returns the key's deadline, or None if it has none."""
        known = self.deadlines.get(key)
        return None if known is None else known[0]

    def earliest(self) -> tuple[float, Hashable] | None:
        """Returns the earliest deadline and its key, or None if there is none."""
        heap = self._heap
        while heap:
            due, order, key = heap[0]
            if self.deadlines.get(key) == (due, order):
                self.first = due
                return due, key
            heappop(heap)
        self.first = inf
        return None

    def pop_due(self, now: float) -> Hashable | None:
        """Removes and returns a key whose deadline has passed, or returns None if there is none."""
        first = self.earliest() if self.first <= now else None
        if first is None or first[0] > now:
            return None
        heappop(self._heap)
        del self.deadlines[first[1]]
        return first[1]
