"""Oldest deliveries of a peer, the first to make room (D-10).

The node counts deliveries, and has no list of them. A search of the store finds some of the oldest ahead of need;
`Oldest` remembers them until they are removed, to make room or for another reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..store import Found

AHEAD = 256
"""Deliveries that a search finds at least, so that not every send needs a search."""

Share = tuple[int, int]
"""A number of messages, and of bytes."""


class Oldest:
    """The oldest deliveries of a peer that the last search found and that are still owed."""

    __slots__ = ("_found", "complete_at", "searching", "valid")

    def __init__(self) -> None:
        self._found: dict[int, Found] = {}
        self.searching: bool = False
        self.valid: bool = True  # no older delivery was added since the search began
        self.complete_at: int = 0  # the next seq when a search had found all deliveries, else 0

    def begin(self) -> None:
        """Begins a search: its results replace those of the last one."""
        self.forget()
        self.searching = self.valid = True

    def add(self, found: Iterable[Found], excess: Share, is_in_flight: Callable[[Found], bool]) -> bool:
        """Adds deliveries of one piece of the search's result. Returns True to end the search: deliveries that are not
        in flight are known for `excess`, the (messages, bytes) to drop, and for some sends ahead."""
        self._found.update((one.seq, one) for one in found)
        idle = [one.size for one in self._found.values() if not is_in_flight(one)]
        return len(idle) >= max(AHEAD, excess[0]) and sum(idle) >= excess[1]

    def end(self, next_seq: int | None, is_in_flight: Callable[[Found], bool]) -> None:
        """Ends the search. `next_seq` is given if the search has found all deliveries, and is the next seq."""
        self.searching = False
        if not self.valid:
            self.forget()
            return
        idle = {seq: one for seq, one in self._found.items() if not is_in_flight(one)}
        self._found = idle if next_seq is None else {**idle, **self._found}  # idle ones go first
        self.complete_at = next_seq or 0

    def forget(self) -> None:
        """Forgets all known deliveries, as others may be older now."""
        self._found.clear()
        self.complete_at = 0
        self.valid = False

    def discard(self, first: int, last: int) -> None:
        """Removes deliveries from seq `first` to `last`, which are no longer owed."""
        if not self._found:
            return
        if last - first < len(self._found):
            for seq in range(first, last + 1):
                self._found.pop(seq, None)
        else:
            self._found = {seq: one for seq, one in self._found.items() if not first <= seq <= last}

    def choose(self, excess: Share, is_in_flight: Callable[[Found], bool], next_seq: int) -> list[Found] | None:
        """Returns the oldest deliveries that together have `excess` (messages, bytes), or None if a search must find
        more. `next_seq` is the seq of the next message.

        Deliveries in flight come last, and only if the search has found all deliveries.
        """
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
