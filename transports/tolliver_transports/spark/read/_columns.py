"""Frames as Arrow columns, without an object for each.

Python walks from frame to frame, as only a head tells where the next one begins; all else is done for many frames at
once. Frames stand back to back, so their bytes already are the values of one Arrow array whose offsets cut each frame
into head, parts and what stands before the next one: a column is every fifth element of it. The `Decoder` reads
handshakes and whatever is wrong, so both say the same of any bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from struct import Struct, calcsize
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tolliver_proto import (
    RESERVED_CHANNEL,
    Ack,
    Decoded,
    Decoder,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    OwnLimitExceeded,
    RemoteProtocolError,
    Revision,
)
from tolliver_proto.layouts import LAYOUTS, Fields, Layout

MAX_BYTES = 2**31 - 1
"""Of one run of bytes: Arrow's offsets have 32 bits where Spark reads them."""

_CUTS = 5  # of each frame: head, three parts, and the gap before the next one
_RESERVED = RESERVED_CHANNEL.encode()
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Frames:
    """The places at which the frames of a run of bytes begin, from its start and in order.

    `messages` are all frames with a message's head: those of applications, control messages, and what is ignored.
    `error` is what the walk ended at, as `decode` would raise it: None where the run is whole frames to its end.
    """

    messages: list[int]
    acks: list[int]
    handshakes: list[tuple[int, Decoded]]
    error: RemoteProtocolError | None = None


def find_frames(data: bytes, revision: Revision = Revision.DRAFT_2) -> Frames:
    """The frames of `data`, which begins with one. Never raises for what the bytes say: see `Frames.error`.

    Raises OwnLimitExceeded for more than `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        raise OwnLimitExceeded("too_long", f"{len(data)} bytes in one run: the limit is {MAX_BYTES}, give less at once")
    return _walker(revision).walk(data)


class _Slow(NamedTuple):
    frame: Decoded
    size: int


class _Walker:
    """A layout compiled for walking.

    A message that fits into a run is within the largest body of either draft (T-06), so only its end is looked at.
    """

    def __init__(self, revision: Revision, layout: Layout) -> None:
        self._revision = revision
        self._message_code, self._message_size = layout.codes[Message], layout.message.size
        self._ack_size, self._ack_code = layout.ack.size, layout.codes[Ack]
        self._unpack = _code_and_lengths(layout.message).unpack_from
        self._least = {
            layout.codes[HandshakeRequest]: layout.request.size,
            layout.codes[HandshakeResponse]: layout.response.size,
            layout.codes[HandshakeFinal]: layout.final.size,
        }

    def walk(self, data: bytes) -> Frames:
        message_code, size, unpack = self._message_code, self._message_size, self._unpack
        found = Frames([], [], [])
        add = found.messages.append
        pos, available = 0, len(data)
        last = available - size
        while True:
            while pos <= last:
                code, first, second, third = unpack(data, pos)
                if code != message_code:
                    break
                add(pos)
                pos += size + first + second + third
            if pos == available:
                return found
            if pos > available:
                pos = found.messages.pop()  # it is not whole: the machine says why
            elif data[pos] == self._ack_code and pos + self._ack_size <= available:
                found.acks.append(pos)
                pos += self._ack_size
                continue
            try:
                frame, length = self._read_slowly(data, pos)
            except RemoteProtocolError as error:
                error.offset = pos
                found.error = error
                return found
            found.handshakes.append((pos, frame))
            pos += length

    def _read_slowly(self, data: bytes, pos: int) -> _Slow:
        """The frame at `pos`, by the machine, which is given twice as much until the frame is whole: linear time."""
        decoder = Decoder(self._revision)
        fed, size = 0, self._least.get(data[pos], self._message_size)
        while (frame := decoder.next_frame()) is None:
            piece = data[pos + fed : pos + fed + size]
            if not piece:
                decoder.finish()  # raises, as it holds a part of a frame
            decoder.feed(piece)
            fed += len(piece)
            size = fed
        return _Slow(frame, fed - decoder.buffered)  # nothing is parsed ahead of a handshake


def _code_and_lengths(head: Fields) -> Struct:
    """Of a message's head only what a walk needs: the code, which comes first (T-01), and the three lengths."""
    fields = [part.split() for part in head.spec.split(",")]
    kept = ("code", "channel", "key", "body")
    return Struct(">" + "".join(kind if name in kept else f"{calcsize('>' + kind)}x" for kind, name in fields))


@lru_cache(maxsize=16)
def _compiled_walker(revision: Revision, layout: Layout) -> _Walker:
    return _Walker(revision, layout)


def _walker(revision: Revision) -> _Walker:
    return _compiled_walker(revision, LAYOUTS[revision])


@lru_cache(maxsize=16)
def head_type(fields: Fields) -> np.dtype[np.void]:
    """The numpy type whose items are such heads, of numbers."""
    pairs = [part.split() for part in fields.spec.split(",")]
    return np.dtype([(name, f">{kind}") for kind, name in pairs])


def heads_at(data: bytes, fields: Fields, starts: Integers) -> npt.NDArray[Any]:
    """The fixed-size heads that begin at `starts`, as an array with the names of `fields`."""
    if not len(starts):
        return np.empty(0, head_type(fields))
    everywhere = np.ndarray(len(data) - fields.size + 1, head_type(fields), data, strides=(1,))
    return everywhere[starts]


def ack_ids(data: bytes, starts: Integers, revision: Revision = Revision.DRAFT_2) -> Integers:
    """The message ids of the acks that begin at `starts`."""
    return heads_at(data, LAYOUTS[revision].ack, starts)["message_id"].astype(np.int64)


class Columns:
    """The frames with a message's head that begin at `starts` in `data`; each column is made when it is asked for.

    All are whole, as `find_frames` found them, and of one revision. `regular` tells the messages of applications
    from control messages (T-27) and from those whose names are not UTF-8 (T-10), which `decode` gives as others.
    """

    def __init__(self, data: bytes, starts: list[int] | Integers, revision: Revision = Revision.DRAFT_2) -> None:
        layout = LAYOUTS[revision]
        self.offsets: Integers = np.asarray(starts, dtype=np.int64)
        """The places at which they begin."""
        self._layout = layout
        self._heads = heads_at(data, layout.message, self.offsets)
        bounds = np.empty((len(self.offsets), _CUTS), np.int32)
        bounds[:, 0] = self.offsets
        bounds[:, 1] = layout.message.size
        for at, part in enumerate(layout.parts):
            bounds[:, 2 + at] = self._heads[part]
        np.cumsum(bounds, axis=1, out=bounds)
        self.ends: Integers = bounds[:, -1].astype(np.int64)
        """The places at which they end."""
        buffers = [None, pa.py_buffer(bounds if len(bounds) else bytes(4)), pa.py_buffer(data)]
        self._pieces = pa.Array.from_buffers(pa.binary(), max(0, _CUTS * len(bounds) - 1), buffers)

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, name: str, rows: Integers | None = None) -> Any:
        """The bytes of "channel", "key" or "body" as an Arrow array of binary; `rows` are the numbers of the rows."""
        chosen = np.arange(len(self)) if rows is None else rows
        return self._pieces.take(pa.array(chosen * _CUTS + (1 + self._layout.parts.index(name))))

    @cached_property
    def channel(self) -> Any:
        """All channels, as they stand on the wire."""
        return self.part("channel")

    @cached_property
    def key(self) -> Any:
        """All keys, as they stand on the wire."""
        return self.part("key")

    @cached_property
    def ids(self) -> Integers:
        """The id of each as it stands on the wire; of an unreliable one, the number that says so (T-42)."""
        return self._heads["message_id"].astype(np.int64)

    @cached_property
    def reliable(self) -> Booleans:
        """Mask of those that have an id, and so are acknowledged."""
        return np.asarray(self.ids != self._layout.unreliable_id)

    @cached_property
    def control(self) -> Booleans:
        """Mask of those that stand on the reserved channel."""
        if not np.any(self._heads["channel"] == len(_RESERVED)):
            return np.zeros(len(self), np.bool_)
        return np.asarray(pc.equal(self.channel, _RESERVED).to_numpy(zero_copy_only=False))

    @cached_property
    def regular(self) -> Booleans:
        """Mask of those that are messages of applications."""
        return ~self.control & good_text(self.channel) & good_text(self.key)

    def message_ids(self, rows: Integers) -> Any:
        """The column `message_id` of these rows: null where unreliable."""
        reliable = self.reliable[rows]
        return pa.array(self.ids[rows], mask=None if reliable.all() else ~reliable)


def as_text(column: Any) -> Any:
    """A column of binary as strings. Raises ArrowInvalid where one is not UTF-8."""
    return column.cast(pa.string())


def good_text(column: Any) -> Booleans:
    """Flags of the values in a column of binary that are UTF-8."""
    try:
        as_text(column)
    except pa.ArrowInvalid:
        return np.array([_is_text(value) for value in column.to_pylist()], np.bool_)
    return np.ones(len(column), np.bool_)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
