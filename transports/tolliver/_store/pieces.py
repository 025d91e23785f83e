"""Removals of one commit, cut into several that need less room.

Removing changes pages, and each goes into the log: on a full disk what peers have acknowledged meanwhile may take more
than the reserve has. Removals may be cut, as one that is done and not known of is asked for again.
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
_IN_ORDER = (ForgetPeer, AddDeliveries, UnparkDeliveries)  # their effect depends on what was removed before them


def in_pieces(operations: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    """Pieces, all else after the removals; none if they cannot be cut. A message goes with the last of its deliveries,
    as pieces are cut by seq."""
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
    """From seq to seq, about as many of these in each."""
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
