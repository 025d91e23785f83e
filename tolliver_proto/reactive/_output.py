"""Output buffer, and its bound for a peer that does not read.

Both halves of a connection write here. Reading never waits for writing, so that answers to the peer's subscriptions
(accepted, refused, ended) need a bound of their own. Their bytes are counted apart from elements, and the bound is
checked when the peer subscribes again.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._common.errors import LimitExceeded
from ._frames import encode
from ._layout import Layout
from ._limits import Limits
from ._sign_of_life import Ping, Pong


class Output:
    """Buffer of what one connection has to send: takes frames, and gives their bytes as one unit. Its size tells
    whether sources must wait.
    """

    def __init__(self, limits: Limits, layout: Layout) -> None:
        self.layout = layout
        self.limits = limits
        self.unsent = 0
        self._parts: list[bytes] = []
        self._pong: int | None = None  # place of an unsent pong in the parts
        self._answers = 0
        self._congested = False

    def write(self, frame: object, sizes: Mapping[int, int] | None = None) -> None:
        self.write_bytes(encode(frame, sizes or {}, layout=self.layout))

    def write_bytes(self, data: bytes) -> None:
        self._parts.append(data)
        self.unsent += len(data)

    def take_ping(self, ping: Ping) -> None:
        """Answers a ping. One pong waits at most: that of the newest ping, for a peer that asks and does not read."""
        pong = encode(Pong(ping.number), {}, layout=self.layout)
        if self._pong is None:
            self._pong = len(self._parts)
            self.write_bytes(pong)
        else:
            self.unsent += len(pong) - len(self._parts[self._pong])
            self._parts[self._pong] = pong

    def answer(self, frame: object) -> None:
        """Writes a frame that the peer has caused, and counts its bytes as an answer."""
        before = self.unsent
        self.write(frame)
        self._answers += self.unsent - before

    def check_answers(self) -> None:
        """Raises LimitExceeded if the peer causes answers and does not read them."""
        if self._answers > self.limits.max_answers:
            raise LimitExceeded(
                "flood", f"over {self.limits.max_answers} bytes of answers that were caused and are not read"
            )

    def take(self) -> list[bytes]:
        units = [b"".join(self._parts)] if self._parts else []
        self._parts.clear()
        self._pong = None
        self.unsent = self._answers = 0
        return units

    def congested(self, buffered: int) -> bool:
        """True if pulling from sources has to wait: from high water on, until low water is reached (backpressure,
        R-32). `buffered` counts the bytes that the adapter has not written.
        """
        waiting = self.unsent + buffered
        if waiting >= self.limits.high_water:
            self._congested = True
        elif waiting <= self.limits.low_water:
            self._congested = False
        return self._congested
