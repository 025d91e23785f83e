"""Oldest deliveries of a peer, the first to make room (D-10).

The node counts its deliveries and does not know them one by one. A search of the store finds some of the oldest ahead
of need; they are known here until they go, in this way or another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from .intervals import IntervalSet
from .store import Found

AHEAD = 256
"""Deliveries that a search finds at least, so that not every send needs one."""

Share = tuple[int, int]
"""Messages, and their bytes."""


class Oldest:
    """The oldest deliveries of a peer, as the last search found them and as far as they are still owed."""

    __slots__ = ("_found", "_gone", "complete_at", "searching")

    def __init__(self) -> None:
        self._found: dict[int, Found] = {}
        self._gone = IntervalSet()  # since the search began, which may have found them before
        self.searching = False
        self.complete_at = 0  # the seq that was next when a search found all that there was

    def begin_search(self) -> None:
        self.searching = True
        self._gone = IntervalSet()

    def end_search(self, found: Iterable[Found], complete_at: int) -> None:
        """In place of what was known: the order is that in which they are to go."""
        self.searching = False
        self._found = {one.seq: one for one in found if one.seq not in self._gone}
        self.complete_at = complete_at

    def forget(self) -> None:
        """Others may be older now."""
        self._found.clear()
        self.complete_at = 0

    def discard(self, first: int, last: int) -> None:
        """These are owed no more."""
        if self.searching:
            self._gone.add(first, last)
        if not self._found:
            return
        if last - first < len(self._found):
            for seq in range(first, last + 1):
                self._found.pop(seq, None)
        else:
            self._found = {seq: one for seq, one in self._found.items() if not first <= seq <= last}

    def choose(self, excess: Share, is_in_flight: Callable[[Found], bool], next_seq: int) -> list[Found] | None:
        """As many as make room for that much, or None where a search must find more. Those that are in flight come
        last, and only where nothing else is left."""
        count, size = excess
        chosen: list[Found] = []
        for one in self._in_order(is_in_flight, next_seq):
            if count <= 0 and size <= 0:
                break
            chosen.append(one)
            count -= 1
            size -= one.size
        return chosen if count <= 0 and size <= 0 else None

    def _in_order(self, is_in_flight: Callable[[Found], bool], next_seq: int) -> Iterator[Found]:
        flying: list[Found] = []
        for one in self._found.values():
            if is_in_flight(one):
                flying.append(one)
            else:
                yield one
        if self.complete_at == next_seq:
            yield from flying


class Gathered:
    """Deliveries that a search for the oldest finds: enough that is not in flight, or all that there is."""

    __slots__ = ("_excess", "_flying", "_idle", "_is_in_flight", "complete")

    def __init__(self, excess: Share, is_in_flight: Callable[[Found], bool]) -> None:
        self._excess = excess
        self._is_in_flight = is_in_flight
        self._idle: list[Found] = []
        self._flying: list[Found] = []
        self.complete = True

    def take(self, found: Iterable[Found]) -> bool:
        """A piece of them; returns whether it is enough."""
        for one in found:
            (self._flying if self._is_in_flight(one) else self._idle).append(one)
        count, size = self._excess
        enough = len(self._idle) >= max(AHEAD, count) and sum(one.size for one in self._idle) >= size
        self.complete = not enough
        return enough

    def __iter__(self) -> Iterator[Found]:
        return chain(self._idle, self._flying)
