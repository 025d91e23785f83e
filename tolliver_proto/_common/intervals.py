"""Interval sets and reference counts, at a cost per run.

Ids and sequence numbers are handed out in order and given back nearly in order, so that a million queued messages are a
few runs. A plain set, with an entry for each number, was rejected: a million messages would take megabytes.

State: a dict from block number to block, each of 2^14 numbers. A block keeps its runs in arrays, first and last numbers
counted from the block's beginning, so that a number takes two bytes.

Invariants: the runs of a block ascend, do not overlap, and neighbours with the same count are one run; an empty block
is removed. One array of runs for all numbers was rejected: if one peer takes every other message and another peer is
away, there are as many runs as messages, and each change would move half of them. A change moves the runs of one block.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Span = tuple[int, int]
"""First and last number of a run; both belong to it."""

BLOCK = 2**14  # numbers in a block: a block has at most half as many runs


def _pieces(first: int, last: int) -> Sequence[tuple[int, int, int]]:
    """Cuts the span from `first` to `last` at the boundaries of blocks of numbers: (block, first, last), with numbers
    counted from the block's beginning.
    """
    low, high = first // BLOCK, last // BLOCK
    if low == high:  # the usual case
        return ((low, first % BLOCK, last % BLOCK),)
    return (
        (low, first % BLOCK, BLOCK - 1),
        *((block, 0, BLOCK - 1) for block in range(low + 1, high)),
        (high, 0, last % BLOCK),
    )


def _merged(runs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Joins neighbouring runs, (first, last, count) each, of the same count."""
    held: tuple[int, int, int] | None = None
    for run in runs:
        if held is not None and held[1] + 1 == run[0] and held[2] == run[2]:
            held = (held[0], run[1], run[2])
            continue
        if held is not None:
            yield held
        held = run
    if held is not None:
        yield held


def spans_of(numbers: Iterable[int]) -> list[Span]:
    """Returns the numbers, given in any order, as ascending spans."""
    spans: list[Span] = []
    ascending = sorted({*numbers})
    if ascending and ascending[-1] - ascending[0] == len(ascending) - 1:  # the usual case: a run
        return [(ascending[0], ascending[-1])]
    first = last = None
    for number in ascending:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None and last is not None:
            spans.append((first, last))
        first = last = number
    if first is not None and last is not None:
        spans.append((first, last))
    return spans


def _in_bulk(firsts: Sequence[int], lasts: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """Groups ascending spans by block: (block, first number of the block, start and stop index of the group).

    The caller adds two spans of a group one by one: the first span, which may touch a run that is there already, and a
    last span that reaches into the next block.
    """
    start = 0
    while start < len(firsts):
        at = firsts[start] // BLOCK
        stop = bisect_left(firsts, (at + 1) * BLOCK, start)
        yield at, at * BLOCK, start, stop
        start = stop


class IntervalSet:
    """A set of whole numbers, kept as spans (first, last), in blocks of numbers."""

    __slots__ = ("_blocks",)

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._blocks: dict[int, _IntervalBlock] = {}
        for first, last in spans:
            self.add(first, last)

    def __iter__(self) -> Iterator[Span]:
        blocks = self._blocks
        runs = ((at * BLOCK + first, at * BLOCK + last, 1) for at in sorted(blocks) for first, last in blocks[at])
        return ((first, last) for first, last, _ in _merged(runs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and [*self] == [*other]

    def __repr__(self) -> str:
        return f"IntervalSet({[*self]})"

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __contains__(self, number: int) -> bool:
        block = self._blocks.get(number // BLOCK)
        return block is not None and number % BLOCK in block

    def add(self, first: int, last: int) -> None:
        blocks = self._blocks
        for at, low, high in _pieces(first, last):
            block = blocks.get(at)
            if block is None:
                block = blocks[at] = _IntervalBlock()
            block.add(low, high)

    def extend(self, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        """Adds spans that ascend and do not touch one another. Fast if they are above all numbers of the set."""
        for at, base, start, stop in _in_bulk(firsts, lasts):
            self.add(firsts[start], lasts[start])
            inside = stop - (lasts[stop - 1] >= base + BLOCK)
            if inside > start + 1:
                self._blocks[at].extend(base, firsts[start + 1 : inside], lasts[start + 1 : inside])
            if start < inside < stop:
                self.add(firsts[inside], lasts[inside])

    def discard(self, first: int, last: int) -> None:
        for at, low, high in _pieces(first, last):
            block = self._blocks.get(at)
            if block is not None:
                block.discard(low, high)
                if not block:
                    del self._blocks[at]

    def next_free(self, number: int) -> int:
        """Returns the first number, at or above this one, that is not in the set."""
        while number in self:
            at, place = divmod(number, BLOCK)
            number = at * BLOCK + self._blocks[at].end_of(place) + 1
        return number

    def next_taken(self, number: int) -> int | None:
        """Returns the first number, at or above this one, that is in the set, or None if there is none."""
        for at in sorted(at for at in self._blocks if at >= number // BLOCK):
            taken = self._blocks[at].next_taken(max(0, number - at * BLOCK))
            if taken is not None:
                return at * BLOCK + taken
        return None


class RefCounts:
    """Number of peers that each message is owed to, as runs of (first, last, count) (reference counts, T-43)."""

    __slots__ = ("_blocks",)

    def __init__(self, runs: Iterable[tuple[int, int, int]] = ()) -> None:
        self._blocks: dict[int, _CountBlock] = {}
        for first, last, count in runs:
            self.add(first, count, last + 1 - first)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        blocks = self._blocks
        return _merged(
            (at * BLOCK + first, at * BLOCK + last, count) for at in sorted(blocks) for first, last, count in blocks[at]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and [*self] == [*other]

    def __repr__(self) -> str:
        return f"RefCounts({[*self]})"

    def __contains__(self, seq: int) -> bool:
        block = self._blocks.get(seq // BLOCK)
        return block is not None and seq % BLOCK in block

    def count_of(self, seq: int) -> int:
        """Returns the number of peers that the message `seq` is owed to."""
        block = self._blocks.get(seq // BLOCK)
        return block.count_of(seq % BLOCK) if block is not None else 0

    def within(self, first: int, last: int) -> Iterator[Span]:
        """Yields the spans between seq `first` and `last` whose messages are owed to at least one peer."""
        for at, low, high in _pieces(first, last):
            block = self._blocks.get(at)
            if block is not None:
                for one, other in block.within(low, high):
                    yield at * BLOCK + one, at * BLOCK + other

    def add(self, seq: int, count: int, messages: int = 1) -> None:
        """Adds new messages from `seq` on, each owed to `count` peers. `seq` is above all seqs before."""
        for at, first, last in _pieces(seq, seq + messages - 1):
            block = self._blocks.get(at)
            if block is None:
                block = self._blocks[at] = _CountBlock()
            block.append(first, last, count)

    def extend(self, firsts: Sequence[int], lasts: Sequence[int], count: int) -> None:
        """Adds spans of new messages, each owed to `count` peers; the spans ascend and do not touch one another."""
        for at, base, start, stop in _in_bulk(firsts, lasts):
            self.add(firsts[start], count, lasts[start] + 1 - firsts[start])
            inside = stop - (lasts[stop - 1] >= base + BLOCK)
            if inside > start + 1:
                self._blocks[at].extend(base, firsts[start + 1 : inside], lasts[start + 1 : inside], count)
            if start < inside < stop:
                self.add(firsts[inside], count, lasts[inside] + 1 - firsts[inside])

    def take(self, first: int, last: int) -> list[Span]:
        """Counts one peer less for each message from seq `first` to `last`; returns the spans of messages that no peer
        is owed now.
        """
        gone: list[Span] = []
        for at, low, high in _pieces(first, last):
            block = self._blocks.get(at)
            if block is not None:
                gone += [(at * BLOCK + one, at * BLOCK + other) for one, other in block.take(low, high)]
                if not block:
                    del self._blocks[at]
        return gone

    def give(self, first: int, last: int) -> None:
        """Counts one peer more for each message from seq `first` to `last`; at least one peer is owed each of them
        before.
        """
        for at, low, high in _pieces(first, last):
            self._blocks[at].change(low, high, 1)

    def drop(self, first: int, last: int) -> None:
        """Removes the messages from seq `first` to `last`, which were never stored, whatever their counts are."""
        while any(True for _ in self.within(first, last)):
            self.take(first, last)


class _IntervalBlock:
    """The spans of an IntervalSet within one block of numbers."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts = array("H")
        self._lasts = array("H")

    def __iter__(self) -> Iterator[Span]:
        return zip(self._firsts, self._lasts, strict=True)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def add(self, first: int, last: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        if lasts and first == lasts[-1] + 1:  # the usual case: in order
            lasts[-1] = last
            return
        start = bisect_left(lasts, first - 1)
        stop = bisect_right(firsts, last + 1)
        if start < stop:
            first, last = min(first, firsts[start]), max(last, lasts[stop - 1])
        firsts[start:stop] = array("H", (first,))
        lasts[start:stop] = array("H", (last,))

    def extend(self, base: int, firsts: Sequence[int], lasts: Sequence[int]) -> None:
        if firsts[0] - base > self._lasts[-1] + 1:
            self._firsts.extend([first - base for first in firsts])
            self._lasts.extend([last - base for last in lasts])
            return
        for first, last in zip(firsts, lasts, strict=True):
            self.add(first - base, last - base)

    def discard(self, first: int, last: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        if first == firsts[0] and last <= lasts[0]:  # the usual case: the oldest go
            if last < lasts[0]:
                firsts[0] = last + 1
            else:
                del firsts[0], lasts[0]
            return
        start = bisect_left(lasts, first)
        stop = bisect_right(firsts, last)
        if start >= stop:
            return
        keep = []
        if firsts[start] < first:
            keep.append((firsts[start], first - 1))
        if lasts[stop - 1] > last:
            keep.append((last + 1, lasts[stop - 1]))
        firsts[start:stop] = array("H", [one for one, _ in keep])
        lasts[start:stop] = array("H", [one for _, one in keep])

    def end_of(self, number: int) -> int:
        """Returns the last number of the span that the number is in."""
        return self._lasts[bisect_right(self._firsts, number) - 1]

    def next_taken(self, number: int) -> int | None:
        at = bisect_left(self._lasts, number)
        return max(number, self._firsts[at]) if at < len(self._firsts) else None


class _CountBlock:
    """The runs of a RefCounts within one block of seqs, with the count of each."""

    __slots__ = ("_counts", "_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts = array("H")
        self._lasts = array("H")
        self._counts = array("I")

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self._firsts, self._lasts, self._counts, strict=True)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._firsts, seq) - 1
        return at >= 0 and seq <= self._lasts[at]

    def count_of(self, number: int) -> int:
        at = bisect_right(self._firsts, number) - 1
        return self._counts[at] if at >= 0 and number <= self._lasts[at] else 0

    def within(self, first: int, last: int) -> Iterator[Span]:
        for at in range(bisect_left(self._lasts, first), bisect_right(self._firsts, last)):
            yield max(self._firsts[at], first), min(self._lasts[at], last)

    def append(self, first: int, last: int, count: int) -> None:
        if self._lasts and self._lasts[-1] + 1 == first and self._counts[-1] == count:
            self._lasts[-1] = last
            return
        self._firsts.append(first)
        self._lasts.append(last)
        self._counts.append(count)

    def extend(self, base: int, firsts: Sequence[int], lasts: Sequence[int], count: int) -> None:
        self._firsts.extend([first - base for first in firsts])
        self._lasts.extend([last - base for last in lasts])
        self._counts.extend([count] * len(firsts))

    def take(self, first: int, last: int) -> list[Span]:
        if first == self._firsts[0] and last <= self._lasts[0] and self._counts[0] == 1:  # the usual case: the oldest
            if last < self._lasts[0]:
                self._firsts[0] = last + 1
            else:
                del self._firsts[0], self._lasts[0], self._counts[0]
            return [(first, last)]
        return self.change(first, last, -1)

    def change(self, first: int, last: int, by: int) -> list[Span]:
        """Adds `by` (1 or -1) to the counts from `first` to `last`, counted from the block's beginning; returns the
        spans whose count is zero now.
        """
        start = bisect_left(self._lasts, first)
        stop = bisect_right(self._firsts, last)
        runs: list[tuple[int, int, int]] = []
        gone: list[Span] = []
        for at in range(start, stop):
            one, other, count = self._firsts[at], self._lasts[at], self._counts[at]
            low, high = max(one, first), min(other, last)
            if one < low:
                runs.append((one, low - 1, count))
            if count + by:
                runs.append((low, high, count + by))
            else:
                gone.append((low, high))
            if high < other:
                runs.append((high + 1, other, count))
        # Neighbours of the same count become one run: else acks in order would leave a trail of fragments.
        low_at, high_at = max(start - 1, 0), min(stop + 1, len(self._firsts))
        around = [
            *zip(self._firsts[low_at:start], self._lasts[low_at:start], self._counts[low_at:start], strict=True),
            *runs,
            *zip(self._firsts[stop:high_at], self._lasts[stop:high_at], self._counts[stop:high_at], strict=True),
        ]
        merged = [*_merged(around)]
        self._firsts[low_at:high_at] = array("H", [one for one, _, _ in merged])
        self._lasts[low_at:high_at] = array("H", [one for _, one, _ in merged])
        self._counts[low_at:high_at] = array("I", [count for _, _, count in merged])
        return gone
