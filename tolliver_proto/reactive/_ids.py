"""Allocator of subscriber ids (R-12).

An id costs bytes in every frame, so small ones are used again; but one whose subscription was cancelled may still get
late signals, so it rests as long as it can. First ids that saw their terminal, the lowest first; then new ones that fit
a byte; then cancelled ones, the longest rested first; then new ones of more bytes. So no more ids were ever in use than
a byte holds, or than were open at once.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush

ONE_BYTE = 0x7F


class Ids:
    """The ids from 1 on. `highest` is the last one that was ever used."""

    def __init__(self) -> None:
        self.highest = 0
        self._ended: list[int] = []
        self._cancelled: OrderedDict[int, None] = OrderedDict()

    def take(self) -> int:
        if self._ended:
            return heappop(self._ended)
        if self._cancelled and self.highest >= ONE_BYTE:
            return self._cancelled.popitem(last=False)[0]
        self.highest += 1
        return self.highest

    def ended(self, subscriber_id: int) -> None:
        """Nothing can come for it any more."""
        heappush(self._ended, subscriber_id)

    def cancelled(self, subscriber_id: int) -> None:
        self._cancelled[subscriber_id] = None

    def late_end(self, subscriber_id: int) -> None:
        """The terminal of a cancelled one came after all."""
        if subscriber_id in self._cancelled:
            del self._cancelled[subscriber_id]
            self.ended(subscriber_id)
