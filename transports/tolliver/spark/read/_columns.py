"""Frames as Arrow columns, without a Python object for each.

Only a frame's head tells where the next frame begins, so Python walks from frame to frame, unless the recording has
their sizes. Everything else is done for many frames at once. As frames are adjacent, their bytes are already the values
of one Arrow array, whose offsets cut each frame into head, parts and the gap before the next; a column is every n-th
element. The `Decoder` reads handshakes and everything malformed, so both agree on any bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from struct import Struct, calcsize
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tolliver_proto import (
    Ack,
    Decoder,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    OwnLimitExceeded,
    RemoteProtocolError,
    Revision,
    decode,
)
from tolliver_proto.layouts import LAYOUTS, Decoded, Fields, Layout
from tolliver_proto.node import RESERVED_CHANNEL
from tolliver_proto.recording import Column, FrameColumns

MAX_BYTES = 2**31 - 1
"""Most bytes of a run: Spark reads Arrow's offsets as 32 bits."""

_WORD = 8  # first bytes of a name that are compared
_NO_CODE = -1
_RESERVED = RESERVED_CHANNEL.encode()
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Frames:
    """Offsets at which the frames in a run of bytes begin, in order.

    `messages` are all frames with a message's head: application messages, control messages, and ignored ones.
    `handshakes` are all others except acks; they include refusals. `error` is the error at which the search ended, as
    `decode` would raise it; None if the run consists of whole frames.
    """

    messages: list[int] | Integers
    acks: list[int] | Integers
    handshakes: list[tuple[int, Decoded]]
    error: RemoteProtocolError | None = None


def find_frames(data: bytes, revision: Revision = Revision.DRAFT_2, columns: FrameColumns | None = None) -> Frames:
    """The frames of `data`, which begins with one. Malformed data raises nothing: see `Frames.error`.

    `columns` are those of its block: where their sizes are right, the search is not necessary. Raises OwnLimitExceeded
    for more than `MAX_BYTES`.
    """
    if len(data) > MAX_BYTES:
        raise OwnLimitExceeded("too_long", f"{len(data)} bytes in one run: the limit is {MAX_BYTES}, give less at once")
    found = None if columns is None else _by_sizes(data, revision, numbers(columns.sizes, columns.frames))
    return _walker(revision).walk(data) if found is None else found


def numbers(column: Column, count: int) -> Integers:
    """Values of a column of a block, `count` of them, modulo 2^64."""
    if not column.width:
        return np.zeros(count, np.int64)
    return np.frombuffer(column.data, f">u{column.width}").astype(np.int64)


def _by_sizes(data: bytes, revision: Revision, sizes: Integers) -> Frames | None:
    """Frames with these sizes in bytes, which fill `data`; None if a frame contradicts its size or is malformed."""
    layout = LAYOUTS[revision]
    shape, ack = layout.message, layout.ack
    if not _walker(revision).in_heads or ack is None or "status" in ack.names:
        return None
    starts = np.cumsum(sizes) - sizes
    codes = np.frombuffer(data, np.uint8)[np.minimum(starts, len(data) - 1)]
    of_messages, of_acks = codes == layout.codes[Message], codes == layout.codes[Ack]
    messages, acks = starts[of_messages], starts[of_acks]
    if (sizes[of_acks] != ack.size).any() or (sizes[of_messages] < shape.size).any():
        return None
    heads = heads_at(data, shape.head, messages)
    wanted = shape.size + sum(heads[part].astype(np.int64) for part in shape.parts)
    if (sizes[of_messages] != wanted).any():
        return None
    handshakes: list[tuple[int, Decoded]] = []
    for at in np.flatnonzero(~(of_messages | of_acks)).tolist():
        start = int(starts[at])
        try:
            [frame] = decode(data[start : start + int(sizes[at])], revision)
        except (RemoteProtocolError, ValueError):
            return None
        handshakes.append((start, frame))
    return Frames(messages, acks, handshakes)


class _Slow(NamedTuple):
    frame: Decoded
    size: int


class _Walker:
    """A frame layout, compiled to find one frame after the other.

    A message that fits into a run is below the largest body of either draft (T-06), so only its end is computed. In
    layouts with a lower limit, or whose head does not have all lengths, each message is checked in full.
    """

    def __init__(self, revision: Revision, layout: Layout) -> None:
        shape, ack = layout.message, layout.ack
        self._revision = revision
        self._shape = shape
        self._message_code, self._message_size = layout.codes[Message], shape.head.size
        self._unpack = _code_and_lengths(shape.head).unpack_from
        self._max_id, self._unreliable_id = layout.greatest_id, layout.unreliable_id
        self._max_body = layout.max_body
        self.in_heads = shape.is_flat and self._max_id == shape.maximum("message_id") and self._max_body >= MAX_BYTES
        self._ack, self._ack_code = ack, _NO_CODE if ack is None else layout.codes[Ack]
        self._handled = layout.acks[Ack]
        self._least = {
            layout.codes[HandshakeRequest]: layout.request.size,
            layout.codes[HandshakeResponse]: layout.response.size,
            layout.codes[HandshakeFinal]: layout.final.size,
        }

    def walk(self, data: bytes) -> Frames:
        message_code, size, unpack = self._message_code, self._message_size, self._unpack
        messages: list[int] = []
        acks: list[int] = []
        found = Frames(messages, acks, [])
        add = messages.append
        pos, available = 0, len(data)
        last = available - size if self.in_heads else -1
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
                pos = messages.pop()  # incomplete: the machine finds the error
            elif data[pos] == message_code and (end := self._message_end(data, pos)) is not None:
                add(pos)
                pos = end
                continue
            elif data[pos] == self._ack_code and (end := self._ack_end(data, pos)) is not None:
                acks.append(pos)
                pos = end
                continue
            try:
                frame, length = self._read_slowly(data, pos)
            except RemoteProtocolError as error:
                error.offset = pos
                found.error = error
                return found
            found.handshakes.append((pos, frame))
            pos += length

    def _message_end(self, data: bytes, pos: int) -> int | None:
        """Offset behind the message at `data[pos]`; None if the machine must read the message, which is malformed."""
        reading = self._shape.read(data, pos, len(data))
        if not reading.known or reading.end > len(data):
            return None
        message_id, body = reading.values["message_id"], reading.values["body"]
        is_id = message_id <= self._max_id or message_id == self._unreliable_id
        return reading.end if is_id and body <= self._max_body else None

    def _ack_end(self, data: bytes, pos: int) -> int | None:
        """Offset behind the ack at `data[pos]`; None if the machine must read it, as for a refusal."""
        ack = self._ack
        if ack is None or pos + ack.size > len(data):
            return None
        return pos + ack.size if ack.unpack(data, pos).get("status", self._handled) == self._handled else None

    def _read_slowly(self, data: bytes, pos: int) -> _Slow:
        """The frame at `data[pos]` and its size, read by the machine, which gets twice as many bytes each time until
        the frame is whole: linear time.
        """
        decoder = Decoder(self._revision)
        fed, size = 0, self._least.get(data[pos], self._message_size)
        while (frame := decoder.next_frame()) is None:
            piece = data[pos + fed : pos + fed + size]
            if not piece:
                decoder.finish()  # raises, as it holds an incomplete frame
            decoder.feed(piece)
            fed += len(piece)
            size = fed
        return _Slow(frame, fed - decoder.buffered)  # nothing is parsed beyond a handshake


def _code_and_lengths(head: Fields) -> Struct:
    """Struct for the fields of a message's head that a walk needs: the code, which is first (T-01), and three
    lengths."""
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
    """Type of numpy for heads of messages with these fields."""
    pairs = [part.split() for part in fields.spec.split(",")]
    return np.dtype([(name, f">{kind}") for kind, name in pairs])


def heads_at(data: bytes, fields: Fields, starts: Integers) -> npt.NDArray[Any]:
    """Array of the heads of fixed size at the offsets `starts`, with the names of `fields`."""
    if not len(starts):
        return np.empty(0, head_type(fields))
    # Fetching untyped bytes takes a seventh of the time of structured items.
    everywhere = np.ndarray(len(data) - fields.size + 1, f"V{fields.size}", data, strides=(1,))
    return everywhere[starts].view(head_type(fields))


class Word(NamedTuple):
    """Test of a name's first 8 bytes: after applying `mask` they must equal `value`.

    `least` and `most` limit the name's length in bytes.
    """

    value: int
    mask: int
    least: int
    most: int


def word_of(name: bytes, *, whole: bool) -> Word:
    """Test for one name if `whole`, else for all that begin with `name`."""
    size = min(len(name), _WORD)
    value = int.from_bytes(name[:size].ljust(_WORD, b"\0"))
    return Word(value, 2**64 - 2 ** (8 * (_WORD - size)), len(name), len(name) if whole else MAX_BYTES)


def likely(data: bytes, starts: Integers, part: str, words: Sequence[Word], revision: Revision) -> Booleans:
    """Flags of the messages at `starts` whose channel or key (`part`) may match one of the words. Every match is
    flagged; false positives are rare.

    It compares a few bytes of each, so most messages that a filter drops never become columns.
    """
    shape, last = LAYOUTS[revision].message, len(data) - _WORD
    if last < 0 or not shape.is_flat:
        return np.ones(len(starts), np.bool_)
    heads = heads_at(data, shape.head, starts)
    begins = starts + shape.size
    for before in shape.parts[: shape.parts.index(part)]:
        begins = begins + heads[before]
    found = begins > last
    names = np.ndarray(last + 1, ">u8", data, strides=(1,))[np.minimum(begins, last)].astype(np.uint64)
    lengths = heads[part]
    for word in words:
        same = (names & np.uint64(word.mask)) == np.uint64(word.value)
        found |= same & (lengths >= word.least) & (lengths <= word.most)
    return found


def ack_ids(data: bytes, starts: Integers, revision: Revision = Revision.DRAFT_2) -> npt.NDArray[np.uint64]:
    """Message ids of the acks at `starts`. A peer can send any number that fits into the field."""
    ack = LAYOUTS[revision].ack
    return np.empty(0, np.uint64) if ack is None else heads_at(data, ack, starts)["message_id"].astype(np.uint64)


class Columns:
    """Columns of the messages that begin at the offsets `starts` in `data`. Each column is computed on first access.

    All messages are complete, as found by `find_frames`, and of one revision. `regular` separates application messages
    from control messages (T-27) and messages whose names are not UTF-8 (T-10), which `decode` returns as other types.
    """

    def __init__(self, data: bytes, starts: list[int] | Integers, revision: Revision = Revision.DRAFT_2) -> None:
        layout = LAYOUTS[revision]
        self.offsets: Integers = np.asarray(starts, dtype=np.int64)
        """Starts of the frames."""
        self._layout = layout
        self._fields: dict[str, npt.NDArray[Any]] = {}
        self._at: dict[str, int] = {}  # by part: its index among the cuts of a frame
        cuts = [self.offsets]
        for fields, parts in layout.message.pieces:
            heads = heads_at(data, fields, cuts[-1])
            self._fields.update((name, heads[name]) for name in fields.names)
            cuts.append(cuts[-1] + fields.size)
            for part in parts:
                self._at[part] = len(cuts) - 1
                cuts.append(cuts[-1] + heads[part].astype(np.int64))
        self.ends: Integers = cuts[-1]
        """Ends of the frames."""
        bounds = np.stack(cuts, axis=1).astype(np.int32)
        self._cuts = len(cuts)  # pieces of a frame, with the gap before the next frame
        buffers = [None, pa.py_buffer(bounds if len(bounds) else bytes(4)), pa.py_buffer(data)]
        self._pieces = pa.Array.from_buffers(pa.binary(), max(0, bounds.size - 1), buffers)

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, name: str, rows: Integers | None = None) -> Any:
        """Bytes of the part `name`, "channel", "key" or "body", as a binary Arrow array, for all rows or these row
        numbers.
        """
        chosen = np.arange(len(self)) if rows is None else rows
        return self._pieces.take(pa.array(chosen * self._cuts + self._at[name]))

    @cached_property
    def channel(self) -> Any:
        """All channels, as encoded on the wire."""
        return self.part("channel")

    @cached_property
    def key(self) -> Any:
        """All keys, as encoded on the wire."""
        return self.part("key")

    @cached_property
    def ids(self) -> Integers:
        """Ids as encoded on the wire; for an unreliable message the number that marks it (T-42)."""
        return self._fields["message_id"].astype(np.int64)

    @cached_property
    def reliable(self) -> Booleans:
        """Mask of messages with an id, which are acknowledged."""
        if not self._layout.has_acks:
            return np.zeros(len(self), np.bool_)
        return np.asarray(self.ids != self._layout.unreliable_id)

    @cached_property
    def control(self) -> Booleans:
        """Mask of messages on the reserved channel."""
        if not np.any(self._fields["channel"] == len(_RESERVED)):
            return np.zeros(len(self), np.bool_)
        return np.asarray(pc.equal(self.channel, _RESERVED).to_numpy(zero_copy_only=False))

    @cached_property
    def regular(self) -> Booleans:
        """Mask of application messages: neither control messages nor messages whose names are not UTF-8."""
        return ~self.control & good_text(self.channel) & good_text(self.key)

    def message_ids(self, rows: Integers) -> Any:
        """Column `message_id` of these rows: null for unreliable messages."""
        reliable = self.reliable[rows]
        return pa.array(self.ids[rows], mask=None if reliable.all() else ~reliable)


def as_text(column: Any) -> Any:
    """Binary column as strings. Raises ArrowInvalid if a value is not UTF-8."""
    return column.cast(pa.string())


def good_text(column: Any) -> Booleans:
    """Flags of the values in a binary column that are UTF-8."""
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
