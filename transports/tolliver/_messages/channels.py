"""Counters of handlers and iterators, by channel."""

from __future__ import annotations

from tolliver_proto.node import Histogram

from .._status.snapshot import HistogramStatus

_KEPT = 1000
"""Channels with counters. Above this number, a channel without handlers is forgotten for each new one."""


class ChannelCounts:
    """Counters of one channel: its handlers and iterators, and their deliveries.

    Changed only on the loop, or under the lock. Counters grow by a whole run at a time, except where a handler is
    called once for each message.
    """

    __slots__ = ("failed", "handled", "handlers", "queued", "seconds")

    def __init__(self) -> None:
        self.handlers: int = 0
        self.queued: int = 0
        self.handled: int = 0
        self.failed: int = 0
        self.seconds: Histogram = Histogram()


class ChannelTable:
    """Counters of an instance by channel, including channels that no longer have a handler."""

    def __init__(self) -> None:
        self._known: dict[str, ChannelCounts] = {}

    def begin(self, channel: str) -> ChannelCounts:
        """Count one more handler of the channel, and return the channel's counters."""
        counts = self._known.get(channel)
        if counts is None:
            if len(self._known) >= _KEPT:
                idle = next((name for name, one in self._known.items() if not one.handlers), None)
                if idle is not None:
                    del self._known[idle]
            counts = self._known[channel] = ChannelCounts()
        counts.handlers += 1
        return counts

    def seconds(self) -> HistogramStatus:
        """Histogram of handler durations in seconds, over all channels."""
        known = [one.seconds for one in self._known.values()]
        counts = tuple(map(sum, zip(*(one.counts for one in known), strict=True))) or tuple(Histogram().counts)
        return HistogramStatus(Histogram.SECONDS, counts, sum(one.sum for one in known))

    def items(self) -> list[tuple[str, ChannelCounts]]:
        """Each channel with its counters, sorted by channel."""
        return sorted(self._known.items())
