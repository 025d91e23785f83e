"""Frame boundaries, found without making frames.

A program that records or splits a stream needs its cuts and not its contents. Each frame's head gives a least end, and
a frame is whole once that end is there; so one rule serves messages, acks and handshakes, whose end moves away as their
entries come into sight.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from .events import Ack, HandshakeFinal, HandshakeRequest, HandshakeResponse, Message, Revision
from .layouts import LAYOUTS, Fields, Layout


class Whole(NamedTuple):
    """Result of `whole_frames`: so many whole frames, of which the last ends at `end`.

    `wanted` is the least number of bytes from `end` on with which it is worth to ask again, or None where no frame of
    the revision begins at `end`: then nothing more can come of these bytes.
    """

    frames: int
    end: int
    wanted: int | None


def whole_frames(data: bytes | bytearray | memoryview, revision: Revision = Revision.DRAFT_2) -> Whole:
    """Count the whole frames that `data` starts with, within the format's own maxima (T-06), and where the last one
    ends.

    Only lengths are looked at: a frame with a bad text or status is whole too. Asked again only once `wanted` bytes
    are there, it takes time linear in the bytes, but for a logarithm in handshakes.
    """
    return _scanner(revision).scan(data)


def claimed_id(data: bytes | bytearray | memoryview, revision: Revision = Revision.DRAFT_2) -> UUID | None:
    """The UUID in the handshake that `data` starts with; None where it starts with none, or a part of one."""
    head = _scanner(revision).handshakes.get(data[0]) if data else None
    if head is None or len(data) < head.size:
        return None
    return UUID(bytes=head.struct.unpack_from(data)[head.index("instance_id")])


class _Scanner:
    """A layout compiled for finding ends."""

    def __init__(self, layout: Layout) -> None:
        codes, message = layout.codes, layout.message
        self._message_code, self._message_size = codes[Message], message.size
        self._unpack = message.struct.unpack_from
        self._lengths = tuple(message.index(part) for part in ("channel", "key", "body"))
        self._max_body = layout.max_body
        self._fixed = {codes[Ack]: layout.ack.size, codes[HandshakeFinal]: layout.final.size}
        self._entry = layout.entry
        self.handshakes: dict[int, Fields] = {
            codes[HandshakeRequest]: layout.request,
            codes[HandshakeResponse]: layout.response,
        }

    def scan(self, data: bytes | bytearray | memoryview) -> Whole:
        code, size, unpack, max_body = self._message_code, self._message_size, self._unpack, self._max_body
        channel_at, key_at, body_at = self._lengths
        available = len(data)
        count = pos = 0
        while pos < available:
            if data[pos] == code:
                end = pos + size
                if end <= available:
                    head = unpack(data, pos)
                    if head[body_at] > max_body:
                        return Whole(count, pos, None)
                    end += head[channel_at] + head[key_at] + head[body_at]
            else:
                least = self._least_size(data, pos)
                if least is None:
                    return Whole(count, pos, None)
                end = pos + least
            if end > available:
                return Whole(count, pos, end - pos)
            count += 1
            pos = end
        return Whole(count, pos, 1)

    def _least_size(self, data: bytes | bytearray | memoryview, pos: int) -> int | None:
        head = self.handshakes.get(data[pos])
        if head is None:
            return self._fixed.get(data[pos])
        entry, available = self._entry, len(data)
        end = pos + head.size
        if end <= available:
            left = head.struct.unpack_from(data, pos)[head.index("count")]
            while left and end + entry.size <= available:
                end += entry.size + sum(entry.struct.unpack_from(data, end))
                left -= 1
            end += left * entry.size
        return end - pos


@lru_cache(maxsize=16)
def _compiled(layout: Layout) -> _Scanner:
    return _Scanner(layout)


def _scanner(revision: Revision) -> _Scanner:
    return _compiled(LAYOUTS[revision])
