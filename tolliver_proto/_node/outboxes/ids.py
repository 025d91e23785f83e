"""Allocator of message ids: cyclic, unique, elsewhere at each opening.

Ids run from 1 to 2^31-2 and begin again (T-40, T-41). The allocator remembers the next taken id ahead, so that `take`
is one comparison until that id. The store reserves ids in blocks ahead of use, so that no id is given twice after a
crash.

Each opening begins at a random place. Rejected: to go on behind the last id, as a database restored from a backup would
then give ids that were given since the backup, and peers would take new messages for old ones. The store remembers the
spans of earlier openings, and draws avoid them: only a restored backup can meet an id again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ..._common.errors import OutboxFull
from ..._common.intervals import IntervalSet, Span
from ..._wire.dialect import RESERVED_ID
from ..store import IdSpan, Loaded, ReserveIds

FIRST_ID = 1
LAST_ID = 2**31 - 2
NO_ID = RESERVED_ID
"""The id that no message ever has."""
RESERVE = 4096
OPENINGS = 4096
"""Number of openings that the store remembers; an opening that used no id does not count."""
REMEMBERED = 2**30
"""Number of ids that the store remembers at most: half the circle stays free to draw from."""
DRAWS = 64
BEYOND_A_COPY = 2**24
"""Ids that an instance may have given since a backup of its database."""


class Randomness(Protocol):
    """Random generator of a node, such as `random.Random`."""

    def random(self) -> float:
        """Returns a number from 0.0 up to, not including, 1.0."""


class IdAllocator:
    """Gives out wire ids, the numbers of messages on the wire. `live` are the ids in use: of messages that a peer is
    owed, and of control messages in flight.
    """

    __slots__ = ("_clear_until", "_first", "_keep", "_laps", "_next", "_older", "_reserved", "live")

    def __init__(self, first: int, live: Iterable[Span] = (), older: Sequence[IdSpan] = ()) -> None:
        """`older` are the spans of earlier openings, the oldest first, avoided until no other id is free."""
        self.live: IntervalSet = live if isinstance(live, IntervalSet) else IntervalSet(live)
        kept = remembered(older)
        self._older = _HandedOut(kept)
        self._keep = min(1 + len(kept), OPENINGS)
        self._begin(first)

    @classmethod
    def opened(cls, loaded: Loaded, rng: Randomness | None) -> IdAllocator:
        """Returns the allocator of an opening (T-40): at a random place or, without `rng`, behind the reserved ids."""
        ids = cls(_behind(loaded.id_spans), loaded.live_ids, loaded.id_spans)
        if rng is not None:
            ids._begin(ids._drawn(rng, default=ids._next))
        return ids

    def _begin(self, first: int) -> None:
        self._first = self._next = self._clear_until = first  # ids from `_next` to below this one are free
        self._laps = 0
        self._reserved = 0

    def _drawn(self, rng: Randomness, default: int) -> int:
        for _ in range(DRAWS):
            first = FIRST_ID + int(rng.random() * LAST_ID)
            if self._is_clear(first, first + RESERVE - 1):
                return first
        return default

    def _is_clear(self, first: int, last: int) -> bool:
        beyond = last - LAST_ID  # the part that wraps around
        return self._next_taken(first) > min(last, LAST_ID) and (beyond <= 0 or self._next_taken(FIRST_ID) > beyond)

    def take(self) -> int:
        """Returns the next free id. Raises OutboxFull if all are outstanding (T-41)."""
        if self._next >= self._clear_until:
            self._find_clear()
        taken = self._next
        self._next += 1
        self.live.add(taken, taken)
        return taken

    def take_many(self, count: int) -> Sequence[int]:
        """Returns `count` free ids. Raises OutboxFull, and takes none, if fewer are free (T-41)."""
        first = self._next
        if first + count <= self._clear_until:  # the usual case: a run
            self._next += count
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
        for start, laps in ((self._next, 0), (FIRST_ID, 1)):
            free = self._next_free(start)
            if free <= LAST_ID:
                self._next = free
                self._laps += laps
                self._clear_until = self._next_taken(free)
                return
        if not self._older:
            raise OutboxFull("every message id is outstanding: nothing was stored. Wait for acknowledgements (T-41)")
        self._older = _HandedOut()
        self._find_clear()

    def _next_free(self, number: int) -> int:
        while (free := self._older.next_free(self.live.next_free(number))) != number:
            number = free
        return free

    def _next_taken(self, number: int) -> int:
        return min(taken.next_taken(number) or LAST_ID + 1 for taken in (self.live, self._older))

    def give_back(self, spans: Iterable[Span]) -> None:
        """Frees ids, given as spans, for later messages."""
        for first, last in spans:
            self.live.discard(first, last)

    def forget_reserve(self) -> None:
        """Has the next commit record again which ids may be handed out, as the last record may not be stored."""
        self._reserved = 0

    @property
    def _passed(self) -> int:
        """Number of ids from the first of this opening to the next one, whether they were used or skipped as taken."""
        return self._laps * LAST_ID + self._next - self._first

    @property
    def needs_reserve(self) -> bool:
        """True if an id was used, and less than half a block of the recorded ids is left."""
        return 0 < self._passed > self._reserved - RESERVE // 2

    def reserve(self) -> ReserveIds:
        """Returns the operation that records the next block of ids as handed out; the caller must store the
        operation.
        """
        self._reserved = self._passed + RESERVE
        return ReserveIds(self._first, self._reserved, self._keep)


class _HandedOut:
    """Ids that were handed out, as spans in order; one id is looked up by bisection."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, spans: Iterable[IdSpan] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in sorted(piece for span in spans for piece in _on_the_line(span)):
            if self._lasts and first <= self._lasts[-1] + 1:
                self._lasts[-1] = max(self._lasts[-1], last)
            else:
                self._firsts.append(first)
                self._lasts.append(last)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def next_free(self, number: int) -> int:
        at = bisect_right(self._firsts, number) - 1
        return max(number, self._lasts[at] + 1) if at >= 0 else number

    def next_taken(self, number: int) -> int | None:
        at = bisect_left(self._lasts, number)
        return max(number, self._firsts[at]) if at < len(self._firsts) else None


def remembered(spans: Sequence[IdSpan]) -> list[IdSpan]:
    """Returns the spans of the last OPENINGS openings, cut to their last REMEMBERED ids."""
    kept: list[IdSpan] = []
    room = REMEMBERED
    for first, count in reversed(spans[-OPENINGS:]):
        if room <= 0:
            break
        kept.append((_ahead(first, max(count - room, 0)), min(count, room)))
        room -= count
    return kept[::-1]


def begin_elsewhere(loaded: Loaded, rng: Randomness) -> list[ReserveIds]:
    """Returns operations for a store restored from a backup: no opening starts at ids given since the backup (T-40).

    Since the backup the instance gave ids after its newest span. A derived identity never draws a random place itself,
    so it continues at the one drawn here.
    """
    spans = list(loaded.id_spans)
    if spans:
        first, count = spans.pop()
        spans.append((first, count + BEYOND_A_COPY))
    ids = IdAllocator(_behind(spans), loaded.live_ids, spans)
    operations = [ReserveIds(*one, OPENINGS) for one in spans[-1:]]
    return [*operations, ReserveIds(ids._drawn(rng, default=ids._next), 0, OPENINGS)]


def _behind(spans: Sequence[IdSpan]) -> int:
    return _ahead(*spans[-1]) if spans else FIRST_ID


def _ahead(number: int, count: int) -> int:
    """Returns the id that is `count` steps after `number`; after the highest id the lowest follows."""
    return FIRST_ID + (number - FIRST_ID + count) % LAST_ID


def _on_the_line(span: IdSpan) -> Iterator[Span]:
    """Returns a span of ids as one span (first, last), or as two if it goes on at the lowest id after the highest
    one.
    """
    first, count = span
    last = first + count - 1
    if count > 0:
        yield first, min(last, LAST_ID)
    if last > LAST_ID:
        yield FIRST_ID, last - LAST_ID
