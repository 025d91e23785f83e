"""Recordings: bytes of connections, in blocks of whole frames.

A block says all that its frames do not (when, who with whom, which way), so a recording can be read from any block on,
by any number of readers. Two checksums guard it: one of the header alone, so that a length is known to be true before
it is followed, and one of the payload. Behind a damaged header nothing is guessed, as a body may hold a recording
itself: reading stops, or goes on at the next entry of the index. The index is a file beside the recording, and a hint:
one that does not fit is made anew.

This module does no I/O; `Recorder` of the adapters writes such files. They hold plaintext (D-14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from ._common.buffer import Buffer
from ._common.errors import OwnLimitExceeded
from ._common.records import frozen
from ._wire.events import Revision
from ._wire.layouts import Fields
from ._wire.whole import Whole, claimed_id, whole_frames

__all__ = [
    "BLOCK",
    "INDEX",
    "INDEX_ENTRY",
    "INDEX_STEP",
    "INDEX_SUFFIX",
    "MAX_LENGTH",
    "SUFFIX",
    "Block",
    "BlockHeader",
    "Blocks",
    "Damage",
    "Direction",
    "Entry",
    "Index",
    "Indexer",
    "Whole",
    "build_index",
    "claimed_id",
    "encode_block",
    "read_blocks",
    "whole_frames",
]

MAGIC = b"TLVR"  # begins with a byte that no frame begins with
INDEX_MAGIC = b"TLVI"
LAYOUT_VERSION = 1
MAX_LENGTH = 2**28  # bytes of a payload: far above what an instance holds of one frame
INDEX_STEP = 2**20  # bytes of a recording for each entry of its index
SUFFIX = ".rec"
INDEX_SUFFIX = ".idx"  # behind the recording's whole name

BLOCK = Fields(
    "4s magic, H layout, I length, I payload_crc32, Q time_ns, 16s local, 16s peer, Q cid, B direction, B revision, "
    "I frames, I header_crc32"
)
"""A block's header; the payload follows."""

INDEX = Fields("4s magic, H layout, Q length, I first_header_crc32, I count")
"""An index's header; `count` entries follow, and a CRC32 of all that."""

INDEX_ENTRY = Fields("Q offset, Q ordinal")

_CHECKSUM = Fields("I crc32")
_NOBODY = UUID(int=0)


class Direction(IntEnum):
    """Direction of the frames of a block."""

    IN = 0
    OUT = 1


class BlockHeader(NamedTuple):
    """Header of a block.

    `time_ns` is the wall clock in nanoseconds since 1970, when the last frame was complete (IN) or was given to the
    connection (OUT). `peer` is the UUID that the peer's handshake claimed, None until that has come. `cid` tells
    connections of one run of the instance apart. `frames` is the writer's count of them.
    """

    time_ns: int
    local: UUID
    peer: UUID | None
    cid: int
    direction: Direction
    revision: Revision
    frames: int


class Block(NamedTuple):
    """A block that is as it was written: both checksums are right. `offset` is its place in the file, in bytes."""

    offset: int
    header: BlockHeader
    payload: bytes

    @property
    def payload_offset(self) -> int:
        """Position of the first frame in the file."""
        return self.offset + BLOCK.size


class Damage(NamedTuple):
    """Bytes from `offset` on that are no good block. `torn`: the file ends inside it, as after a crash.

    `resumes` is where the next block is known to begin; None: nothing behind this was read.
    """

    offset: int
    detail: str
    torn: bool = False
    resumes: int | None = None


def encode_block(header: BlockHeader, payload: bytes) -> bytes:
    """The block's bytes. `payload` is `header.frames` whole frames: see `whole_frames`.

    Raises OwnLimitExceeded for a payload that readers would refuse.
    """
    if len(payload) > MAX_LENGTH:
        raise OwnLimitExceeded("too_long", f"a block of {len(payload)} bytes: the limit is {MAX_LENGTH}, make several")
    values = header._asdict() | {
        "magic": MAGIC,
        "layout": LAYOUT_VERSION,
        "length": len(payload),
        "payload_crc32": crc32(payload),
        "local": header.local.bytes,
        "peer": (header.peer or _NOBODY).bytes,
        "header_crc32": 0,
    }
    unchecked = BLOCK.pack(values)[: -_CHECKSUM.size]
    return b"".join((unchecked, _CHECKSUM.pack({"crc32": crc32(unchecked)}), payload))


class _Head(NamedTuple):
    """A header that is as it was written, whatever its values mean."""

    length: int
    payload_crc32: int
    header: BlockHeader | None
    unknown: str


def _read_head(data: bytes, pos: int, max_length: int) -> _Head | str:
    """The header at `pos`, or what is wrong with it."""
    values = BLOCK.unpack(data, pos)
    if values["magic"] != MAGIC:
        return "no block begins here"
    if values["layout"] != LAYOUT_VERSION:
        return f"layout version {values['layout']} is not known here: read it with a later tolliver"
    if crc32(data[pos : pos + BLOCK.size - _CHECKSUM.size]) != values["header_crc32"]:
        return "the header's checksum is wrong"
    length = values["length"]
    if length > max_length:
        return f"a block of {length} bytes: the limit is {max_length}"
    header, unknown = None, ""
    try:
        header = BlockHeader(
            time_ns=values["time_ns"],
            local=UUID(bytes=values["local"]),
            peer=UUID(bytes=values["peer"]) if any(values["peer"]) else None,
            cid=values["cid"],
            direction=Direction(values["direction"]),
            revision=Revision(values["revision"]),
            frames=values["frames"],
        )
    except ValueError as error:
        unknown = f"{error}: read it with a later tolliver"
    return _Head(length, values["payload_crc32"], header, unknown)


class Blocks:
    """Bytes of a recording in, blocks out, however the bytes are cut. Holds one block at most, and what was fed."""

    def __init__(self, offset: int = 0, *, max_length: int = MAX_LENGTH) -> None:
        """`offset` is where in the file the first byte stands: 0, or that of an `Entry`."""
        self._buffer = Buffer()
        self._buffer.base = offset
        self._max_length = max_length
        self._head: _Head | None = None
        self._stopped = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add what was read. Copies nothing if it is bytes; after damage without `resumes` it is thrown away."""
        if data and not self._stopped:
            self._buffer.feed(bytes(data))

    def next_block(self) -> Block | Damage | None:
        """The next block, or what stands in its place; None if more bytes are needed, or nothing more will come."""
        buffer = self._buffer
        if self._stopped or not buffer.gather(BLOCK.size):
            return None
        if self._head is None:
            head = _read_head(buffer.data, buffer.pos, self._max_length)
            if isinstance(head, str):
                self._stopped = True
                return Damage(buffer.offset, head)
            self._head = head
        head = self._head
        if not buffer.gather(BLOCK.size + head.length):
            return None
        self._head = None
        offset, start = buffer.offset, buffer.pos + BLOCK.size
        end = start + head.length
        payload = buffer.data[start:end]
        buffer.move_to(end)
        if crc32(payload) != head.payload_crc32:
            return Damage(offset, "the payload's checksum is wrong", resumes=buffer.offset)
        if head.header is None:
            return Damage(offset, head.unknown, resumes=buffer.offset)
        return Block(offset, head.header, payload)

    def finish(self) -> Damage | None:
        """The file is over: what there is of a last block that is not whole."""
        rest = len(self._buffer)
        if self._stopped or not rest:
            return None
        self._stopped = True
        return Damage(self._buffer.offset, f"the file ends inside a block, of which {rest} bytes are there", torn=True)


def read_blocks(
    chunks: Iterable[bytes | bytearray | memoryview], offset: int = 0, *, max_length: int = MAX_LENGTH
) -> Iterator[Block | Damage]:
    """All blocks of a recording, in order, and whatever is damaged or torn, where it stands. See `Blocks`."""
    blocks = Blocks(offset, max_length=max_length)
    for chunk in chunks:
        blocks.feed(chunk)
        while (block := blocks.next_block()) is not None:
            yield block
    torn = blocks.finish()
    if torn is not None:
        yield torn


class Entry(NamedTuple):
    """A block's place: its first byte, and how many blocks stand before it."""

    offset: int
    ordinal: int


@frozen
class Index:
    """One entry for the first block of each MiB of a recording.

    `length` is the recording's, in bytes. `first` is the CRC32 of its first header: with time and UUIDs in it, that
    header is no other recording's.
    """

    length: int
    first: int
    entries: tuple[Entry, ...]

    def encode(self) -> bytes:
        """As it stands in the file."""
        values = {
            "magic": INDEX_MAGIC,
            "layout": LAYOUT_VERSION,
            "length": self.length,
            "first_header_crc32": self.first,
            "count": len(self.entries),
        }
        data = INDEX.pack(values) + b"".join(INDEX_ENTRY.pack(entry._asdict()) for entry in self.entries)
        return data + _CHECKSUM.pack({"crc32": crc32(data)})

    @classmethod
    def decode(cls, data: bytes) -> Index | None:
        """From the file's bytes; None if they are not such an index, whole and in order."""
        size = len(data) - _CHECKSUM.size
        if size < INDEX.size or crc32(data[:size]) != _CHECKSUM.unpack(data, size)["crc32"]:
            return None
        values = INDEX.unpack(data, 0)
        if (values["magic"], values["layout"]) != (INDEX_MAGIC, LAYOUT_VERSION):
            return None
        if INDEX.size + values["count"] * INDEX_ENTRY.size != size:
            return None
        places = range(INDEX.size, size, INDEX_ENTRY.size)
        entries = tuple(Entry(**INDEX_ENTRY.unpack(data, place)) for place in places)
        offsets = [-1, *(entry.offset for entry in entries), values["length"]]
        if any(one >= other for one, other in pairwise(offsets)):
            return None
        return cls(values["length"], values["first_header_crc32"], entries)

    def fits(self, length: int, start: bytes) -> bool:
        """True if it was made of a recording of this length that starts with these bytes."""
        return self.length == length and self.first == crc32(start[: BLOCK.size])

    def after(self, offset: int) -> Entry | None:
        """The first entry behind `offset`: where to go on after damage there."""
        return next((entry for entry in self.entries if entry.offset > offset), None)


class Indexer:
    """Makes an index, block by block."""

    def __init__(self) -> None:
        self.length = 0
        """Position of the next block."""
        self._first = crc32(b"")
        self._entries: list[Entry] = []
        self._blocks = 0

    def add(self, header: bytes, size: int) -> None:
        """The next block: it starts with `header` and has `size` bytes in all."""
        if self.length == 0:
            self._first = crc32(header[: BLOCK.size])
        if not self._entries or self.length // INDEX_STEP > self._entries[-1].offset // INDEX_STEP:
            self._entries.append(Entry(self.length, self._blocks))
        self._blocks += 1
        self.length += size

    def index(self, length: int | None = None) -> Index:
        """Of what was added; `length` is the file's where something that is no block follows."""
        return Index(self.length if length is None else length, self._first, tuple(self._entries))


def build_index(read_at: Callable[[int, int], bytes], length: int, *, max_length: int = MAX_LENGTH) -> Index:
    """The index of a recording of `length` bytes, from `read_at(offset, size)`. Only headers are read.

    It covers what stands before the first damaged header or the torn tail; payloads are checked when they are read.
    """
    indexer = Indexer()
    while indexer.length + BLOCK.size <= length:
        start = read_at(indexer.length, BLOCK.size)
        head = _read_head(start, 0, max_length) if len(start) == BLOCK.size else ""
        if isinstance(head, str) or indexer.length + BLOCK.size + head.length > length:
            break
        indexer.add(start, BLOCK.size + head.length)
    return indexer.index(length)
