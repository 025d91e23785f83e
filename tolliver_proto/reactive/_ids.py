"""Allocator of subscriber ids (R-12).

An id costs bytes in every frame, so that small ids are used again. An id whose subscription was cancelled may still get
late signals, and rests as long as possible. The order is: ids that saw their terminal, the lowest first; new ids of one
byte; cancelled ids, the longest rested first; new ids of more bytes. So the highest id is the largest of one byte, or
at most the number of streams that were open at once.
"""

from __future__ import annotations

from collections import OrderedDict
from heapq import heappop, heappush

ONE_BYTE = 0x7F


class Ids:
    """Ids of the streams that we subscribe to on one connection, from 1 on, each in use or free. `highest` is the
    highest id that was ever used.
    """

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
        """Frees an id whose last frame, OnComplete or OnError, has come: no frame can come for it."""
        heappush(self._ended, subscriber_id)

    def cancelled(self, subscriber_id: int) -> None:
        self._cancelled[subscriber_id] = None

    def late_end(self, subscriber_id: int) -> None:
        """Frees the id of a stream that we have cancelled at once, as its OnComplete or OnError has come."""
        if subscriber_id in self._cancelled:
            del self._cancelled[subscriber_id]
            self.ended(subscriber_id)
