"""Frame boundaries, found without making frames.

A program that records or splits a stream needs the ends of frames and not their contents. The bytes of a frame that are
in sight give its least end, and the frame is whole once all bytes up to that end are there. The same rule serves
messages, acks and handshakes; the least end of a handshake grows with each entry that comes into sight.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from .events import Ack, HandshakeFinal, HandshakeRequest, HandshakeResponse, Message, Revision
from .layouts import LAYOUTS, Fields, Layout, Reading, opening_of

_NO_CODE = -1
_MOST_ENTRIES = 2**32 - 1

_ACKS = 64  # acks of a run that one comparison finds


class Whole(NamedTuple):
    """Result of `whole_frames`: the number of whole frames, and the `end` of the last one.

    `wanted` is the least number of bytes from `end` on that the next frame needs; call again once they are there. None:
    no frame of the revision begins at `end`, so that further bytes cannot help.
    """

    frames: int
    end: int
    wanted: int | None


def whole_frames(data: bytes | bytearray | memoryview, revision: Revision = Revision.DRAFT_2) -> Whole:
    """Counts the whole frames that `data` starts with, and finds the end of the last one.

    Only lengths are read, against the format's own maxima (T-06): a frame with a bad text or status is whole too. If
    the caller waits for `wanted` bytes, the time is linear in the bytes, times a logarithm for handshakes.
    """
    return _scanner(revision).scan(data, [])


def frame_sizes(data: bytes, revision: Revision = Revision.DRAFT_2) -> tuple[list[int], Whole]:
    """Returns the size in bytes of each whole frame that `data` starts with, and the result of `whole_frames`."""
    scanner = _scanner(revision)
    sizes: list[int] = []
    return sizes, scanner.scan(data, sizes)


def claimed_id(data: bytes | bytearray | memoryview, revision: Revision = Revision.DRAFT_2) -> UUID | None:
    """Returns the UUID of the handshake that `data` starts with; None if there is no handshake, or a part of one."""
    head = _scanner(revision).handshakes.get(data[0]) if data else None
    if head is None or len(data) < head.size:
        return None
    return UUID(bytes=head.struct.unpack_from(data)[head.index("instance_id")])


def claimed_opening(data: bytes | bytearray | memoryview) -> UUID | None:
    """Returns the UUID of the request that `data` starts with, in any layout; the UUID can choose the layout (C6)."""
    return opening_of(data, 0)


class _Scanner:
    """A layout compiled for finding where frames end. The hot path is for messages and runs of acks, which most frames
    are.
    """

    def __init__(self, layout: Layout) -> None:
        codes, shape = layout.codes, layout.message
        self._message = shape
        self._flat_code = self._spread_code = _NO_CODE
        self._lengths = (0, 0, 0)
        if shape.is_flat and max(shape.maximum("channel"), shape.maximum("key")) <= layout.max_name:
            self._flat_code = codes[Message]
            self._lengths = shape.head.index("channel"), shape.head.index("key"), shape.head.index("body")
        else:
            self._spread_code = codes[Message]
        self._unpack = shape.head.struct.unpack_from
        self._max_body, self._max_name = layout.max_body, layout.max_name
        self._fixed = {codes[HandshakeFinal]: layout.final.size}
        self._ack_code, self._ack_size = _NO_CODE, 0
        if layout.ack is not None:
            self._ack_code, self._ack_size = codes[Ack], layout.ack.size
            self._fixed[codes[Ack]] = layout.ack.size
        self._entry, self._prefix_size, self._listed_size = layout.entry, len(layout.list_prefix), layout.listed_size
        self.handshakes: dict[int, Fields] = {
            codes[HandshakeRequest]: layout.request,
            codes[HandshakeResponse]: layout.response,
        }

    def scan(self, data: bytes | bytearray | memoryview, sizes: list[int]) -> Whole:
        code, head_size, unpack, max_body = self._flat_code, self._message.head.size, self._unpack, self._max_body
        channel_at, key_at, body_at = self._lengths
        add = sizes.append
        available = len(data)
        pos = 0
        while pos < available:
            kind = data[pos]
            if kind == code:
                size = head_size
                if pos + size <= available:
                    head = unpack(data, pos)
                    if head[body_at] > max_body:
                        return Whole(len(sizes), pos, None)
                    size += head[channel_at] + head[key_at] + head[body_at]
            elif kind == self._ack_code and (acks := self._acks(data, pos)):
                sizes += [self._ack_size] * acks
                pos += self._ack_size * acks
                continue
            else:
                least = self._least_end(data, pos)
                if least is None:
                    return Whole(len(sizes), pos, None)
                size = least - pos
            if pos + size > available:
                return Whole(len(sizes), pos, size)
            add(size)
            pos += size
        return Whole(len(sizes), pos, 1)

    def _acks(self, data: bytes | bytearray | memoryview, pos: int) -> int:
        """Returns the number of whole acks from `data[pos]` on, at most `_ACKS`."""
        size = self._ack_size
        last = max(pos, len(data) - size + 1)  # after the last place at which a whole ack may begin
        codes = bytes(data[pos : min(pos + _ACKS * size, last) : size])
        return len(codes) - len(codes.lstrip(bytes((self._ack_code,))))

    def _least_end(self, data: bytes | bytearray | memoryview, pos: int) -> int | None:
        code = data[pos]
        if code == self._spread_code:
            reading = self._message.read(data, pos, len(data))
            return reading.end if self._is_possible(reading) else None
        head = self.handshakes.get(code)
        if head is not None:
            return self._handshake_end(head, data, pos)
        size = self._fixed.get(code)
        return None if size is None else pos + size

    def _handshake_end(self, head: Fields, data: bytes | bytearray | memoryview, pos: int) -> int | None:
        entry, available = self._entry, len(data)
        end = pos + head.size
        left = head.unpack(data, pos).get("count", 0) if end <= available else 0
        if left > _MOST_ENTRIES:
            return None
        while left:
            reading = entry.read(data, end + self._prefix_size, available)
            if not self._is_possible(reading):
                return None
            left -= 1
            end = reading.end
            if not reading.known or end > available:
                return end + left * self._listed_size
        return end

    def _is_possible(self, reading: Reading) -> bool:
        """True if all lengths that the reading has are within the format's own maxima."""
        return all(
            reading.values[part] <= (self._max_body if part == "body" else self._max_name) for part in reading.places
        )


@lru_cache(maxsize=16)
def _compiled(layout: Layout) -> _Scanner:
    return _Scanner(layout)


def _scanner(revision: Revision) -> _Scanner:
    return _compiled(LAYOUTS[revision])
