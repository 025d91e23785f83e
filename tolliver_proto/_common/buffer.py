"""Input buffer that joins partial frames as late as possible.

The parser works on one immutable chunk with an offset. Parts that arrive behind it are kept as a list and joined once,
when the frame that the parser waits for is complete: linear time however the bytes are cut.
"""

from __future__ import annotations

_PART_RUN = 1024

_join = b"".join  # every copy goes through here, and the tests count it


class Buffer:
    """`data[pos:]` is unread and in one piece; `gather(n)` makes at least n bytes so, `move_to` says what was read."""

    __slots__ = ("_loose", "_need", "_parts", "_parts_size", "base", "data", "pos")

    def __init__(self) -> None:
        self.data = b""
        self.pos = 0
        self.base = 0  # offset of data[0] in the stream
        self._parts: list[bytes] = []
        self._parts_size = 0
        self._loose = 0  # how many of the last parts were never joined
        self._need = 0

    def __len__(self) -> int:
        return len(self.data) - self.pos + self._parts_size

    @property
    def offset(self) -> int:
        """Position of the next unread byte in the stream."""
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
        if self._loose == _PART_RUN:  # a peer that sends single bytes must not cost eight bytes of list for each
            self._parts[-_PART_RUN:] = [_join(self._parts[-_PART_RUN:])]
            self._loose = 0

    def move_to(self, pos: int) -> None:
        """Everything before `data[pos]` is read. A chunk that is used up is let go: an idle peer holds nothing."""
        if pos == len(self.data):
            self.base += pos
            self.data = b""
            pos = 0
        self.pos = pos

    def gather(self, need: int) -> bool:
        """True when at least `need` bytes stand at `data[pos:]`; else remembers to wait for them."""
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
        """Still waiting for the bytes that the last `gather` asked for."""
        return len(self.data) - self.pos + self._parts_size < self._need
