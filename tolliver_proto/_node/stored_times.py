"""Times at which messages were stored, by their sequence numbers.

A node knows its outbox as numbers alone. To say how old a message is, it keeps a mark for each tenth of a second in
which something was stored; where there are many, the older ones are thinned out, so that an age is the less precise
the greater it is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

_APART = 0.1  # seconds
_MARKS = 4096


class StoredTimes:
    """Marks: those up to a sequence number were stored then. `known` has such marks of earlier lives."""

    __slots__ = ("_seqs", "_times")

    def __init__(self, known: Iterable[tuple[int, float]] = ()) -> None:
        self._seqs: list[int] = []
        self._times: list[float] = []
        for seq, when in known:
            self._add(seq, when)

    def stored(self, last_seq: int, now: float) -> None:
        """Everything up to this one is."""
        if self._times and now - self._times[-1] < _APART:
            self._seqs[-1] = last_seq
            return
        self._add(last_seq, now)

    def _add(self, seq: int, when: float) -> None:
        self._seqs.append(seq)
        self._times.append(when)
        if len(self._seqs) > _MARKS:  # of two the earlier time stands for both, lest an age is too small
            half = _MARKS // 2
            self._seqs[:half], self._times[:half] = self._seqs[1:half:2], self._times[0:half:2]

    def of(self, seq: int) -> float | None:
        """Time at which it was stored, None where nothing so new is."""
        at = bisect_left(self._seqs, seq)
        return self._times[at] if at < len(self._times) else None
