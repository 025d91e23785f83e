"""Allocator of message ids: cyclic, unique among those in use.

Ids run from 1 to 2^31-2 and begin again (T-40, T-41). The next live id ahead is remembered, so that taking one is a
comparison until it is reached. Ids that may have been used are reserved in the store in blocks ahead of use: after a
crash the count goes on behind the block, and no id is ever given twice for want of a row that recorded it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .._common.errors import OutboxFull
from .intervals import IntervalSet
from .store import Span

FIRST_ID = 1
LAST_ID = 2**31 - 2
NO_ID = 2**31 - 1
"""The id that nothing ever has: an ack of it says nothing (T-80)."""
RESERVE = 4096


class IdAllocator:
    """Hands out wire ids. `live` are those that still have a delivery to anyone, or a control message in flight."""

    __slots__ = ("_clear_until", "_next", "_used", "live")

    def __init__(self, next_id: int, live: Iterable[Span] = ()) -> None:
        self._next = next_id if FIRST_ID <= next_id <= LAST_ID else FIRST_ID
        self._clear_until = self._next  # ids below are free without a look at `live`
        self._used = RESERVE  # nothing is reserved yet
        self.live = live if isinstance(live, IntervalSet) else IntervalSet(live)

    def take(self) -> int:
        """The next free id. Raises OutboxFull if all are outstanding (T-41)."""
        if self._next >= self._clear_until:
            self._find_clear()
        taken = self._next
        self._next += 1
        self._used += 1
        self.live.add(taken, taken)
        return taken

    def take_many(self, count: int) -> Sequence[int]:
        """As `take`, that many times or not at all."""
        first = self._next
        if first + count <= self._clear_until:  # the usual case: a run
            self._next += count
            self._used += count
            if count:
                self.live.add(first, first + count - 1)
            return range(first, first + count)
        taken: list[int] = []
        try:
            for _ in range(count):
                taken.append(self.take())
        except OutboxFull:
            self.give_back((one, one) for one in taken)
            raise
        return taken

    def _find_clear(self) -> None:
        for start in (self._next, FIRST_ID):
            free = self.live.next_free(start)
            if free <= LAST_ID:
                if free != self._next:
                    self.forget_reserve()  # a jump over live ids may lead out of the block
                self._next = free
                self._clear_until = min(self.live.next_taken(free) or LAST_ID + 1, LAST_ID + 1)
                return
        raise OutboxFull("every message id is outstanding: nothing was stored. Wait for acknowledgements (T-41)")

    def give_back(self, spans: Iterable[Span]) -> None:
        """Nobody is owed an answer for these any more."""
        for first, last in spans:
            self.live.discard(first, last)

    def forget_reserve(self) -> None:
        """The block that was to be reserved last may not have been."""
        self._used = RESERVE

    @property
    def needs_reserve(self) -> bool:
        """More than half of the reserved block is used."""
        return self._used * 2 > RESERVE

    def reserve(self) -> int:
        """The id to begin with after a restart, to be stored before the block is used up."""
        self._used = 0
        ahead = self._next + RESERVE
        return ahead if ahead <= LAST_ID else FIRST_ID + (ahead - LAST_ID - 1)
