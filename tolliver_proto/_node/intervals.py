"""Interval sets and reference counts, at a cost per run.

Ids and sequence numbers are handed out in order and given back nearly so. A million queued messages are a few spans. If
one peer takes every other message and another is away, there are as many gaps as messages: so the numbers are cut into
blocks, found at once, and a change moves what is in one block only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from .store import Span

BLOCK = 2**14  # numbers: at most half as many runs to move


def _pieces(first: int, last: int) -> Sequence[Span]:
    """The parts of a span that lie in one block each."""
    low, high = first // BLOCK, last // BLOCK
    if low == high:  # the usual case
        return ((first, last),)
    starts = [first, *range((low + 1) * BLOCK, last + 1, BLOCK)]
    return [*zip(starts, [start - 1 for start in starts[1:]] + [last], strict=True)]


def _merged(runs: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The same with neighbours that count the same as one."""
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
    """The numbers, in any order, as ascending spans."""
    spans: list[Span] = []
    first = last = None
    for number in sorted(numbers):
        if last is not None and number <= last + 1:
            last = number
            continue
        if first is not None and last is not None:
            spans.append((first, last))
        first = last = number
    if first is not None and last is not None:
        spans.append((first, last))
    return spans


class IntervalSet:
    """A set of whole numbers."""

    __slots__ = ("_blocks",)

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._blocks: dict[int, _IntervalBlock] = {}
        for first, last in spans:
            self.add(first, last)

    def __iter__(self) -> Iterator[Span]:
        blocks = self._blocks
        runs = ((first, last, 1) for at in sorted(blocks) for first, last in blocks[at])
        return ((first, last) for first, last, _ in _merged(runs))

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def __contains__(self, number: int) -> bool:
        block = self._blocks.get(number // BLOCK)
        return block is not None and number in block

    def add(self, first: int, last: int) -> None:
        for low, high in _pieces(first, last):
            block = self._blocks.get(low // BLOCK)
            if block is None:
                block = self._blocks[low // BLOCK] = _IntervalBlock()
            block.add(low, high)

    def discard(self, first: int, last: int) -> None:
        for low, high in _pieces(first, last):
            block = self._blocks.get(low // BLOCK)
            if block is not None:
                block.discard(low, high)
                if not block:
                    del self._blocks[low // BLOCK]

    def next_free(self, number: int) -> int:
        """The first number from there on that is not in the set."""
        while number in self:
            number = self._blocks[number // BLOCK].end_of(number) + 1
        return number

    def next_taken(self, number: int) -> int | None:
        """The first number from there on that is in the set."""
        for at in sorted(at for at in self._blocks if at >= number // BLOCK):
            taken = self._blocks[at].next_taken(number)
            if taken is not None:
                return taken
        return None


class RefCounts:
    """Reference counts: the number of peers that each message is owed to, as runs of (first, last, count) (T-43)."""

    __slots__ = ("_blocks",)

    def __init__(self, runs: Iterable[tuple[int, int, int]] = ()) -> None:
        self._blocks: dict[int, _CountBlock] = {}
        for first, last, count in runs:
            self.add(first, count, last + 1 - first)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return _merged(run for at in sorted(self._blocks) for run in self._blocks[at])

    def __contains__(self, seq: int) -> bool:
        block = self._blocks.get(seq // BLOCK)
        return block is not None and seq in block

    def within(self, first: int, last: int) -> Iterator[Span]:
        """The spans of those in this range that somebody is owed."""
        for low, high in _pieces(first, last):
            block = self._blocks.get(low // BLOCK)
            if block is not None:
                yield from block.within(low, high)

    def add(self, seq: int, count: int, messages: int = 1) -> None:
        """New messages from that seq on, higher than all before."""
        for first, last in _pieces(seq, seq + messages - 1):
            block = self._blocks.get(first // BLOCK)
            if block is None:
                block = self._blocks[first // BLOCK] = _CountBlock()
            block.append(first, last, count)

    def take(self, first: int, last: int) -> list[Span]:
        """One peer less for each of these; returns those that nobody is owed any more."""
        gone: list[Span] = []
        for low, high in _pieces(first, last):
            block = self._blocks.get(low // BLOCK)
            if block is not None:
                gone += block.take(low, high)
                if not block:
                    del self._blocks[low // BLOCK]
        return gone

    def drop(self, first: int, last: int) -> None:
        """Nobody is owed these: they were never stored."""
        while any(True for _ in self.within(first, last)):
            self.take(first, last)


class _IntervalBlock:
    """The spans of one block."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

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
        firsts[start:stop] = [first]
        lasts[start:stop] = [last]

    def discard(self, first: int, last: int) -> None:
        firsts, lasts = self._firsts, self._lasts
        start = bisect_left(lasts, first)
        stop = bisect_right(firsts, last)
        if start >= stop:
            return
        keep = []
        if firsts[start] < first:
            keep.append((firsts[start], first - 1))
        if lasts[stop - 1] > last:
            keep.append((last + 1, lasts[stop - 1]))
        firsts[start:stop] = [one for one, _ in keep]
        lasts[start:stop] = [one for _, one in keep]

    def end_of(self, number: int) -> int:
        """The last number of the span that this one is in."""
        return self._lasts[bisect_right(self._firsts, number) - 1]

    def next_taken(self, number: int) -> int | None:
        at = bisect_left(self._lasts, number)
        return max(number, self._firsts[at]) if at < len(self._firsts) else None


class _CountBlock:
    """The runs of one block."""

    __slots__ = ("_counts", "_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._counts: list[int] = []

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self._firsts, self._lasts, self._counts, strict=True)

    def __bool__(self) -> bool:
        return bool(self._firsts)

    def __contains__(self, seq: int) -> bool:
        at = bisect_right(self._firsts, seq) - 1
        return at >= 0 and seq <= self._lasts[at]

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

    def take(self, first: int, last: int) -> list[Span]:
        start = bisect_left(self._lasts, first)
        stop = bisect_right(self._firsts, last)
        runs: list[tuple[int, int, int]] = []
        gone: list[Span] = []
        for at in range(start, stop):
            one, other, count = self._firsts[at], self._lasts[at], self._counts[at]
            low, high = max(one, first), min(other, last)
            if one < low:
                runs.append((one, low - 1, count))
            if count > 1:
                runs.append((low, high, count - 1))
            else:
                gone.append((low, high))
            if high < other:
                runs.append((high + 1, other, count))
        # Neighbours that count the same again become one run, so that acks in order leave no trail of fragments.
        low_at, high_at = max(start - 1, 0), min(stop + 1, len(self._firsts))
        around = [
            *zip(self._firsts[low_at:start], self._lasts[low_at:start], self._counts[low_at:start], strict=True),
            *runs,
            *zip(self._firsts[stop:high_at], self._lasts[stop:high_at], self._counts[stop:high_at], strict=True),
        ]
        merged = [*_merged(around)]
        self._firsts[low_at:high_at] = [one for one, _, _ in merged]
        self._lasts[low_at:high_at] = [one for _, one, _ in merged]
        self._counts[low_at:high_at] = [count for _, _, count in merged]
        return gone
