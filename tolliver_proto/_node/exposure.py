"""Messages whose bytes may be reaching the peer just now (T-09).

The idea: if a peer ends a connection because of a message, it does so while that message comes in or shortly after. So
a message is exposed from its first byte to a moment after its last one, and no longer once anything was acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from .._common.waiting import EMPTY

_AFTERWARDS = 2.0  # seconds, besides the round trip, that a peer may take to close


class Exposure:
    """Exposed messages of one connection, by their ids. `round_trip` is that of its handshake, until an ack is
    quicker."""

    __slots__ = ("_handed", "_taken", "round_trip")

    def __init__(self) -> None:
        self.round_trip = 0.0
        self._handed: Sequence[int] = ()  # the socket has not got all of these
        self._taken: deque[tuple[float, Sequence[int]]] = EMPTY

    def handed(self, message_ids: Sequence[int]) -> None:
        """The socket was given these, and no earlier ones are left."""
        self._handed = message_ids

    def taken(self, now: float) -> None:
        """It has all of them."""
        self._forget_old(now)
        if self._handed:
            if self._taken is EMPTY:
                self._taken = deque()
            self._taken.append((now, self._handed))
            self._handed = ()

    def acked(self, now: float) -> None:
        """The peer has taken a message, and goes on."""
        if self._taken:
            self.round_trip = min(self.round_trip, now - self._taken[0][0])
            self._taken.clear()
        self._handed = ()

    @property
    def empty(self) -> bool:
        """True if nothing was exposed lately."""
        return not (self._handed or self._taken)

    def at(self, now: float) -> list[int]:
        """The ids that are exposed now."""
        self._forget_old(now)
        return [*self._handed, *(one for _, ids in self._taken for one in ids)]

    def _forget_old(self, now: float) -> None:
        while self._taken and self._taken[0][0] + _AFTERWARDS + self.round_trip < now:
            self._taken.popleft()
