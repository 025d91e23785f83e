"""Timers: deadlines by key, with the earliest one known at once.

This is a heap with lazy deletion. A key has at most one deadline; an entry that was moved or dropped stays in the heap
until it comes to the top, so every operation is O(log n) and looking is O(1).
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush


class Timers:
    """Deadlines in the node's monotonic seconds."""

    __slots__ = ("_due", "_heap", "_order")

    def __init__(self) -> None:
        self._due: dict[Hashable, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._order = 0  # equal deadlines fire in the order in which they were set, and keys are never compared

    def set(self, key: Hashable, due: float) -> None:
        self._order += 1
        self._due[key] = (due, self._order)
        heappush(self._heap, (due, self._order, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._due):
            self._heap = [(due, order, key) for key, (due, order) in self._due.items()]
            heapify(self._heap)

    def set_earlier(self, key: Hashable, due: float) -> None:
        """Set it unless it is due before that already."""
        known = self._due.get(key)
        if known is None or due < known[0]:
            self.set(key, due)

    def cancel(self, key: Hashable) -> None:
        self._due.pop(key, None)

    def due(self, key: Hashable) -> float | None:
        """Its deadline, if it has one."""
        known = self._due.get(key)
        return None if known is None else known[0]

    def earliest(self) -> tuple[float, Hashable] | None:
        """The next deadline and whose it is."""
        heap = self._heap
        while heap:
            due, order, key = heap[0]
            if self._due.get(key) == (due, order):
                return due, key
            heappop(heap)
        return None

    def pop_due(self, now: float) -> Hashable | None:
        """Remove and return a key that is due, or None."""
        first = self.earliest()
        if first is None or first[0] > now:
            return None
        heappop(self._heap)
        del self._due[first[1]]
        return first[1]
