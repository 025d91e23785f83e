"""Second tries of parked messages (T-09).

A peer may have been given a larger limit, or a message been set aside for what was not its fault. So one at a time is
sent again, at pauses that double while that fails. One that is at least as large as one that failed is left alone,
until the peer may have changed: when it has ended a connection for another reason and is back.
"""

from __future__ import annotations

from .intervals import IntervalSet
from .store import Found

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 6 * 3600.0
UP_FOR = 60.0  # seconds after which a peer that acknowledges nothing is taken to be well
ALONE_FOR = 10.0


class SecondTries:
    """The tries for one peer. `not_before` is the earliest time of the next one."""

    __slots__ = (
        "_bar",
        "_began",
        "_ended_otherwise",
        "_last",
        "_pause",
        "_size",
        "corrupt",
        "not_before",
        "searching",
        "seq",
    )

    def __init__(self, now: float) -> None:
        self.not_before = now + FIRST_PAUSE
        self.seq: int | None = None  # the message that is tried, until it is acknowledged or the connection ends
        self.searching = False  # for one to try
        self.corrupt = IntervalSet()  # those that cannot be read: never tried (V9)
        self._pause = FIRST_PAUSE
        self._began = 0.0
        self._last = self._size = 0
        self._bar: tuple[int, int] | None = None  # the smallest that failed: its size and seq
        self._ended_otherwise = False

    def begin(self, now: float) -> None:
        """One is looked for: the next pause begins."""
        self.searching = True
        self._began, self.not_before = now, now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def may_be(self, one: Found) -> bool:
        """True unless it cannot be read, or another that failed was no larger."""
        is_small = self._bar is None or one.size < self._bar[0] or one.seq == self._bar[1]
        return is_small and one.seq not in self.corrupt

    def is_turn_of(self, one: Found) -> bool:
        """True if it comes after the one that was tried last: each has its turn."""
        return one.seq > self._last

    def trying(self, seq: int, size: int) -> None:
        self.seq = self._last = seq
        self._size = size

    def acked(self) -> None:
        """The peer has taken it: the next may go a minute after it."""
        self.seq = None
        if self._bar is not None and self._size >= self._bar[0]:
            self._bar = None
        self._begin_anew(self._began)

    def failed(self) -> int:
        """The peer closed for it. Returns the one to set aside again."""
        assert self.seq is not None
        seq, self.seq = self.seq, None
        if self._bar is None or self._size < self._bar[0]:
            self._bar = self._size, seq
        return seq

    def connection_ended(self, struck: bool) -> None:
        """`struck` if a message may be to blame."""
        self.seq = None
        self._ended_otherwise = self._ended_otherwise or not struck

    def came_back(self, now: float) -> None:
        """A handshake: after another end it may be another program, or have other limits."""
        if self._ended_otherwise:
            self._ended_otherwise = False
            self._bar = None
            self._begin_anew(now)

    def _begin_anew(self, now: float) -> None:
        self._pause = FIRST_PAUSE
        self.not_before = min(self.not_before, now + FIRST_PAUSE)
