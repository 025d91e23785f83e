"""Input buffer that joins partial frames as late as possible.

The parser reads one immutable chunk at an offset. Parts that arrive later are kept in a list, and joined once the frame
that the parser waits for is complete. So the time is linear in the bytes, however the peer cuts them.
"""

from __future__ import annotations

_PART_RUN = 1024

_join = b"".join  # every copy is made by this call, so that the tests can count copies


class Buffer:
    """Received bytes of one connection. The unread ones in one piece are `data[pos:]`, and the parts behind them wait
    to be joined.
    """

    __slots__ = ("_loose", "_need", "_parts", "_parts_size", "base", "data", "pos")

    def __init__(self) -> None:
        self.data = b""
        self.pos = 0
        self.base = 0  # offset of data[0] in the stream
        self._parts: list[bytes] = []
        self._parts_size = 0
        self._loose = 0  # number of the last parts that were never joined
        self._need = 0

    def __len__(self) -> int:
        return len(self.data) - self.pos + self._parts_size

    @property
    def offset(self) -> int:
        """Position of the next unread byte in the stream, in bytes."""
        return self.base + self.pos

    def feed(self, data: bytes) -> None:
        if self.pos == len(self.data) and not self._parts:
            self.base += self.pos
            self.data = data
            self.pos = 0
            return
        self._parts.append(data)
        self._parts_size += len(data)
        self._loose += 1
        if self._loose == _PART_RUN:  # else each byte of a peer that sends single bytes costs eight bytes of list
            self._parts[-_PART_RUN:] = [_join(self._parts[-_PART_RUN:])]
            self._loose = 0

    def move_to(self, pos: int) -> None:
        """Marks the bytes before `data[pos]` as read. A chunk read to its end is freed: idle peers cost nothing."""
        if pos == len(self.data):
            self.base += pos
            self.data = b""
            pos = 0
        self.pos = pos

    def gather(self, need: int) -> bool:
        """Joins parts until `data[pos:]` has `need` bytes. Returns False, and notes the need, if fewer have arrived."""
        if len(self.data) - self.pos >= need:
            self._need = 0
            return True
        if len(self) < need:
            self._need = need
            return False
        self.base += self.pos
        self.data = _join([self.data[self.pos :], *self._parts])
        self.pos = 0
        self._parts.clear()
        self._parts_size = self._loose = self._need = 0
        return True

    @property
    def starved(self) -> bool:
        """True while the bytes that the last `gather` asked for have not arrived."""
        return len(self.data) - self.pos + self._parts_size < self._need
