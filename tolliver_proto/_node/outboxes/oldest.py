"""Oldest deliveries of a peer, the first to make room (D-10).

The node counts its deliveries and does not know them one by one. A search of the store finds some of the oldest ahead
of need; they are known here until they go, in this way or another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..store import Found

AHEAD = 256
"""Deliveries that a search finds at least, so that not every send needs one."""

Share = tuple[int, int]
"""Messages, and their bytes."""


class Oldest:
    """The oldest deliveries of a peer, as the last search found them and as far as they are still owed."""

    __slots__ = ("_found", "complete_at", "searching", "valid")

    def __init__(self) -> None:
        self._found: dict[int, Found] = {}
        self.searching = False
        self.valid = True  # none was added since the search began that may be older
        self.complete_at = 0  # the seq that was next when a search had found all that there is

    def begin(self) -> None:
        """A search begins."""
        self.forget()
        self.searching = self.valid = True

    def add(self, found: Iterable[Found], excess: Share, is_in_flight: Callable[[Found], bool]) -> bool:
        """A piece of what it finds. True if that is enough: much that is not in flight, and as much as is needed."""
        self._found.update((one.seq, one) for one in found)
        idle = [one.size for one in self._found.values() if not is_in_flight(one)]
        return len(idle) >= max(AHEAD, excess[0]) and sum(idle) >= excess[1]

    def end(self, next_seq: int | None, is_in_flight: Callable[[Found], bool]) -> None:
        """The search is over. It has seen all that there is where `next_seq`, the seq that comes next, is given."""
        self.searching = False
        if not self.valid:
            self.forget()
            return
        idle = {seq: one for seq, one in self._found.items() if not is_in_flight(one)}
        self._found = idle if next_seq is None else {**idle, **self._found}  # in the order in which they are to go
        self.complete_at = next_seq or 0

    def forget(self) -> None:
        """Others may be older now."""
        self._found.clear()
        self.complete_at = 0
        self.valid = False

    def discard(self, first: int, last: int) -> None:
        """These are owed no more."""
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
