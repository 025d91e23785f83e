"""Splitting the removals of one commit into several that need less space.

Removing messages changes pages, which are written to the log. On a full disk, all removals together may need more than
the reserve. Removals may be split, because after a crash the rest is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tolliver_proto.store import (
    AddDeliveries,
    ForgetPeer,
    Operation,
    RemoveDeliveries,
    RemoveMessages,
    UnparkDeliveries,
)

from .owed import Span, joined

_PIECES = 16
_Removal = RemoveDeliveries | RemoveMessages
_IN_ORDER = (ForgetPeer, AddDeliveries, UnparkDeliveries)  # their effect depends on earlier removals


def in_pieces(operations: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """Parts of the commit, with all other operations after the removals; empty if it cannot be split.

    It is split by seq, so that a message is removed together with the last of its deliveries.
    """
    removals = [one for one in operations if isinstance(one, _Removal)]
    rest = [one for one in operations if not isinstance(one, _Removal)]
    ranges = _ranges(joined(span for removal in removals for span in removal.spans))
    if any(isinstance(one, _IN_ORDER) for one in rest) or len(ranges) + bool(rest) < 2:
        return
    for first, last in ranges:
        yield [replace(one, spans=spans) for one in removals if (spans := _within(one.spans, first, last))]
    if rest:
        yield rest


def _ranges(spans: Sequence[Span]) -> list[Span]:
    """Ranges of seqs with about the same number of removals."""
    share = -(-sum(last + 1 - first for first, last in spans) // _PIECES)
    ranges: list[Span] = []
    begin, left = 0, share
    for first, last in spans:
        while last + 1 - first >= left:
            ranges.append((begin, first + left - 1))
            begin = first = first + left
            left = share
        left -= last + 1 - first
    return [*ranges, (begin, spans[-1][1])] if spans and begin <= spans[-1][1] else ranges


def _within(spans: Sequence[Span], first: int, last: int) -> list[Span]:
    return [(max(low, first), min(high, last)) for low, high in spans if low <= last and high >= first]
