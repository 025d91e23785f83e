"""Recordings: bytes of connections, in blocks of whole frames.

Terms: a block is the frames of one connection and direction, with a header that tells time, both instances, direction
and revision. Blocks stand alone (layout 1) or in groups (layout 2). A group has the frames of all connections that the
writer gathered, and a table with a row for each of its blocks. The index is a file next to the recording, with an entry
for each MiB.

Invariants: a group is written at once, so that a recording that ends early never has an answer without the question. A
recording can be read from any group on, by any number of readers. Checksums guard the header (so that a length is true
before a reader follows it), the table of a group, and each block. The index is a hint: a reader makes another one if
the index does not fit the recording.

A search for the next header behind a damaged one was rejected, as a body may hold a recording itself: reading stops, or
goes on at the next entry of the index. This module does no I/O; `Recorder` of the adapters writes the files, which hold
plaintext (D-14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID
from zlib import compress, crc32, decompressobj
from zlib import error as zlib_error

from ._common.buffer import Buffer
from ._common.errors import OwnLimitExceeded
from ._common.records import frozen
from ._wire.columns import Column, FrameColumns, Runs, decode_columns, encode_columns
from ._wire.events import Revision
from ._wire.frame_boundaries import Whole, claimed_id, claimed_opening, frame_sizes, whole_frames
from ._wire.layouts import Fields

__all__ = [
    "BLOCK",
    "GROUP",
    "GROUPED",
    "INDEX",
    "INDEX_ENTRY",
    "INDEX_STEP",
    "INDEX_SUFFIX",
    "MAGIC",
    "MAX_LENGTH",
    "STREAMS",
    "SUFFIX",
    "Block",
    "BlockHeader",
    "Blocks",
    "Codec",
    "Column",
    "Damage",
    "Direction",
    "Entry",
    "FrameColumns",
    "Gathered",
    "Index",
    "Indexer",
    "Runs",
    "Whole",
    "build_index",
    "claimed_id",
    "claimed_opening",
    "encode_block",
    "encode_group",
    "frame_sizes",
    "in_order",
    "read_blocks",
    "read_taken",
    "whole_frames",
]

MAGIC = b"TLVR"  # begins with a byte that no frame begins with
INDEX_MAGIC = b"TLVI"
LAYOUT_VERSION = 1
GROUP_LAYOUT = 2
MAX_LENGTH = 2**28  # bytes of a payload or a group: far above the largest frame of an instance
INDEX_STEP = 2**20  # bytes of a recording for each entry of its index
_WINDOW = 2**16  # bytes of a file that are read at once; a larger block is read whole
SUFFIX = ".rec"
INDEX_SUFFIX = ".idx"  # appended to the recording's whole name

BLOCK = Fields(
    "4s magic, H layout, I length, I payload_crc32, Q time_ns, 16s local, 16s peer, Q cid, B direction, B revision, "
    "I frames, I header_crc32"
)
"""A block's header; the payload follows."""

GROUP = Fields(
    "4s magic, H layout, I length, I table_crc32, Q time_ns, 16s local, Q first_time_ns, I blocks, 14s reserved, "
    "I frames, I header_crc32"
)
"""A group's header, as large as a block's; the table and the blocks follow."""

GROUPED = Fields(
    "Q cid, 16s peer, B direction, B revision, B codec, I frames, I runs, Q first_time_ns, Q time_ns, Q ordinal, "
    "I columns, I payload, I stored, I stored_crc32"
)
"""A row of a group's table. A block is stored as its columns and its frames, plain or compressed together."""

INDEX = Fields("4s magic, H layout, Q length, I first_header_crc32, I count")
"""An index's header; `count` entries follow, and a CRC32 of header and entries."""

INDEX_ENTRY = Fields("Q offset, Q ordinal, Q first_time_ns, Q time_ns")

STREAMS = 0
"""In place of a revision: bytes of the Reactive Streams protocol, of which a run is counted as a frame."""

_TIMELESS_ENTRY = Fields("Q offset, Q ordinal")  # an entry of an index in layout 1
_INDEX_LAYOUT = 2

Takes = Callable[["BlockHeader"], bool]
_CHECKSUM = Fields("I crc32")
_NOBODY = UUID(int=0)


class Direction(IntEnum):
    """Direction of the frames of a block."""

    IN = 0
    OUT = 1


class Codec(IntEnum):
    """Compression of a block that stands in a group."""

    NONE = 0
    ZLIB = 1


class BlockHeader(NamedTuple):
    """Header of a block.

    `time_ns` is the wall clock in nanoseconds since 1970 at which the last frame was complete (IN) or was given to the
    connection (OUT); `first_time_ns` is that time of the first frame. In a group these are the latest and the earliest
    time. `peer` is the UUID that the peer's handshake claimed, None before the handshake. `cid` tells the connections
    of one run of the instance apart. `frames` is the number of frames that the writer counted. With `streams`, which a
    reader must ask for, the bytes are of the other protocol, cut anywhere, and `revision` means nothing.
    """

    time_ns: int
    local: UUID
    peer: UUID | None
    cid: int
    direction: Direction
    revision: Revision
    frames: int
    since_ns: int | None = None
    streams: bool = False

    @property
    def first_time_ns(self) -> int:
        """Time of the earliest frame; in a block that stands alone, all frames have the same time."""
        return self.time_ns if self.since_ns is None else self.since_ns


class Block(NamedTuple):
    """A block whose checksums are right. `offset` is its place in the file, in bytes.

    A block of a group has `columns`, which tell the run and the time of each frame. `group` is the offset of that
    group, and `lead` the number of bytes before the frames. Offsets in a compressed block count the plain bytes.
    """

    offset: int
    header: BlockHeader
    payload: bytes
    lead: int = BLOCK.size
    columns: FrameColumns | None = None
    group: int | None = None

    @property
    def payload_offset(self) -> int:
        """Offset of the block's first frame in the file, in bytes."""
        return self.offset + self.lead


class Damage(NamedTuple):
    """Bytes from `offset` on that are no good block. `torn` is True if the file ends inside a block, as after a crash.

    `resumes` is the known offset of the next block; None: the reader stopped here.
    """

    offset: int
    detail: str
    torn: bool = False
    resumes: int | None = None


def encode_block(header: BlockHeader, payload: bytes) -> bytes:
    """Returns the block's bytes. `payload` has `header.frames` whole frames, as `whole_frames` counts them.

    Raises OwnLimitExceeded for a payload that readers would refuse.
    """
    if len(payload) > MAX_LENGTH:
        raise OwnLimitExceeded("too_long", f"a block of {len(payload)} bytes: the limit is {MAX_LENGTH}, make several")
    values = header._asdict() | {
        "magic": MAGIC,
        "layout": LAYOUT_VERSION,
        "length": len(payload),
        "payload_crc32": crc32(payload),
        "revision": STREAMS if header.streams else header.revision,
        "local": header.local.bytes,
        "peer": (header.peer or _NOBODY).bytes,
        "header_crc32": 0,
    }
    unchecked = BLOCK.pack(values)[: -_CHECKSUM.size]
    return b"".join((unchecked, _CHECKSUM.pack({"crc32": crc32(unchecked)}), payload))


class Gathered(NamedTuple):
    """Frames of one direction of a connection, for a group. `sizes` has the size of each frame, in bytes."""

    cid: int
    peer: UUID | None
    direction: Direction
    revision: Revision | None  # None: bytes of streams
    sizes: Sequence[int]
    runs: Runs
    payload: bytes


def encode_group(local: UUID, blocks: Sequence[Gathered], *, base: int = 0, codec: Codec = Codec.NONE) -> bytes:
    """Returns the bytes of a group of at least one block. Ordinals are counted from `base`.

    Raises OwnLimitExceeded for a group that readers would refuse.
    """
    rows: list[dict[str, Any]] = []
    stored: list[bytes] = []
    for block in blocks:
        first, ordinal, columns = encode_columns(block.sizes, block.runs)
        data, used = columns + block.payload, Codec.NONE
        if codec is Codec.ZLIB and len(packed := compress(data, 1)) < len(data):
            data, used = packed, codec
        stored.append(data)
        rows.append(
            {
                "cid": block.cid,
                "peer": (block.peer or _NOBODY).bytes,
                "direction": block.direction,
                "revision": STREAMS if block.revision is None else block.revision,
                "codec": used,
                "frames": len(block.sizes),
                "runs": len(block.runs.times),
                "first_time_ns": first,
                "time_ns": max(block.runs.times),
                "ordinal": (ordinal - base) % 2**64,
                "columns": len(columns),
                "payload": len(block.payload),
                "stored": len(data),
                "stored_crc32": crc32(data),
            }
        )
    table = b"".join(map(GROUPED.pack, rows))
    length = len(table) + sum(map(len, stored))
    if length > MAX_LENGTH:
        raise OwnLimitExceeded("too_long", f"a group of {length} bytes: the limit is {MAX_LENGTH}, make several")
    values = {
        "magic": MAGIC,
        "layout": GROUP_LAYOUT,
        "length": length,
        "table_crc32": crc32(table),
        "time_ns": max(row["time_ns"] for row in rows),
        "local": local.bytes,
        "first_time_ns": min(row["first_time_ns"] for row in rows),
        "blocks": len(rows),
        "reserved": b"",
        "frames": sum(row["frames"] for row in rows),
        "header_crc32": 0,
    }
    unchecked = GROUP.pack(values)[: -_CHECKSUM.size]
    return b"".join((unchecked, _CHECKSUM.pack({"crc32": crc32(unchecked)}), table, *stored))


class _Head(NamedTuple):
    """Header as it stands in the file, with a checksum that is right; its values may be unknown to this version."""

    length: int
    values: dict[str, Any]


def _read_head(data: bytes, pos: int, max_length: int) -> _Head | str:
    """Returns the header at `data[pos]`, or the text of its fault, such as a block of more than `max_length` bytes."""
    values = BLOCK.unpack(data, pos)
    if values["magic"] != MAGIC:
        return "no block begins here"
    if values["layout"] not in (LAYOUT_VERSION, GROUP_LAYOUT):
        return f"layout version {values['layout']} is not known here: read it with a later tolliver"
    if crc32(data[pos : pos + BLOCK.size - _CHECKSUM.size]) != values["header_crc32"]:
        return "the header's checksum is wrong"
    length = values["length"]
    if length > max_length:
        return f"a block of {length} bytes: the limit is {max_length}"
    return _Head(length, GROUP.unpack(data, pos) if values["layout"] == GROUP_LAYOUT else values)


@lru_cache(maxsize=4096)
def _uuid(data: bytes) -> UUID | None:
    return UUID(bytes=data) if any(data) else None


def _header_of(values: dict[str, Any], local: bytes, streams: bool = False) -> BlockHeader | str:
    """Returns the header of a block, from the values of a header or of a table's row, or the text of a fault; a block
    of streams is one unless `streams` are asked for."""
    is_streams = values["revision"] == STREAMS
    if is_streams and not streams:
        return "bytes of streams, and no messages: `tolliver decode` shows them"
    try:
        return BlockHeader(
            time_ns=values["time_ns"],
            local=_uuid(local) or _NOBODY,
            peer=_uuid(values["peer"]),
            cid=values["cid"],
            direction=Direction(values["direction"]),
            revision=Revision.DRAFT_2 if is_streams else Revision(values["revision"]),
            frames=values["frames"],
            since_ns=values.get("first_time_ns"),
            streams=is_streams,
        )
    except ValueError as error:
        return f"{error}: read it with a later tolliver"


def _all(_header: BlockHeader) -> bool:
    return True


def _items_of(
    head: _Head, offset: int, read: Callable[[int, int], bytes], takes: Takes = _all, streams: bool = False
) -> Iterator[Block | Damage]:
    """Yields the block behind a good header at `offset`, or the blocks of its group, if `takes` takes them.

    `read(at, size)` returns bytes behind the header. A block that is not taken is not read.
    """
    end = offset + BLOCK.size + head.length
    if head.values["layout"] == GROUP_LAYOUT:
        yield from _items_of_group(head, offset, read, takes, streams)
        return
    header = _header_of(head.values, head.values["local"], streams)
    if isinstance(header, BlockHeader) and not takes(header):
        return
    data = read(0, head.length)
    if crc32(data) != head.values["payload_crc32"]:
        yield Damage(offset, "the payload's checksum is wrong", resumes=end)
    elif isinstance(header, str):
        yield Damage(offset, header, resumes=end)
    else:
        yield Block(offset, header, data)


def _items_of_group(
    head: _Head, offset: int, read: Callable[[int, int], bytes], takes: Takes, streams: bool
) -> Iterator[Block | Damage]:
    begin, end = offset + BLOCK.size, offset + BLOCK.size + head.length
    rows = _read_table(head, read(0, min(head.values["blocks"] * GROUPED.size, head.length)))
    if isinstance(rows, str):
        yield Damage(offset, rows, resumes=end)
        return
    at = len(rows) * GROUPED.size
    for row in rows:
        place, at = at, at + row["stored"]
        header = _header_of(row, head.values["local"], streams)
        if isinstance(header, BlockHeader):
            if not takes(header):
                continue
            opened = _opened(row, header, begin + place, read(place, row["stored"]))
            if isinstance(opened, Block):
                yield opened._replace(group=offset)
                continue
            header = opened
        yield Damage(begin + place, header, resumes=begin + at)


def _read_table(head: _Head, table: bytes) -> list[dict[str, Any]] | str:
    """Returns the rows of a group's table, or the text of its fault."""
    if crc32(table) != head.values["table_crc32"]:
        return "the checksum of the group's table is wrong"
    rows = [GROUPED.unpack(table, at) for at in range(0, len(table) - GROUPED.size + 1, GROUPED.size)]
    if len(rows) != head.values["blocks"] or len(table) + sum(row["stored"] for row in rows) != head.length:
        return "the group's table does not say what stands behind it"
    return rows


def _opened(row: dict[str, Any], header: BlockHeader, offset: int, stored: bytes) -> Block | str:
    """Returns a block of a group from its row in the group's table and its stored bytes, which begin at `offset`; or
    the text of their fault.
    """
    if crc32(stored) != row["stored_crc32"]:
        return "the block's checksum is wrong"
    size = row["columns"] + row["payload"]
    try:
        codec = Codec(row["codec"])
    except ValueError as error:
        return f"{error}: read it with a later tolliver"
    try:
        data = _inflated(stored, size) if codec is Codec.ZLIB else stored
        columns = decode_columns(
            data[: row["columns"]],
            time_ns=row["first_time_ns"],
            ordinal=row["ordinal"],
            frames=row["frames"],
            runs=row["runs"],
            payload=len(data) - row["columns"],
        )
        if len(data) != size:
            raise ValueError("other bytes")
    except (ValueError, zlib_error):
        return "the block's columns are not those of its frames"
    return Block(offset, header, data[row["columns"] :], row["columns"], columns)


def _inflated(stored: bytes, size: int) -> bytes:
    """Decompresses bytes that had `size` bytes before. Raises ValueError or zlib's error for other bytes."""
    opening = decompressobj()
    data = opening.decompress(stored, min(size, MAX_LENGTH) + 1)
    if not opening.eof:
        raise ValueError(f"more than {size} bytes")
    return data


def _part(data: bytes, at: int, size: int) -> bytes:
    return data[at : at + size]


class Blocks:
    """Bytes of a recording in, cut anywhere, blocks out. The reader holds one group at most, and the fed bytes."""

    def __init__(self, offset: int = 0, *, max_length: int = MAX_LENGTH, streams: bool = False) -> None:
        """`offset` is the place of the first byte in the file: 0, or the offset of an `Entry`. Blocks of streams are
        damage to who does not ask for `streams`."""
        self._streams = streams
        self._buffer = Buffer()
        self._buffer.base = offset
        self._max_length = max_length
        self._head: _Head | None = None
        self._items: Iterator[Block | Damage] = iter(())
        self._stopped = False

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes of the file; an object of class `bytes` is not copied. After damage without `resumes` the bytes
        are dropped."""
        if data and not self._stopped:
            self._buffer.feed(bytes(data))

    def next_block(self) -> Block | Damage | None:
        """Returns the next block, or the damage in its place; None if more bytes are needed, or reading has stopped."""
        while (item := next(self._items, None)) is None:
            buffer = self._buffer
            if self._stopped or not buffer.gather(BLOCK.size):
                return None
            if self._head is None:
                head = _read_head(buffer.data, buffer.pos, self._max_length)
                if isinstance(head, str):
                    self._stopped = True
                    return Damage(buffer.offset, head)
                self._head = head
            size = BLOCK.size + self._head.length
            if not buffer.gather(size):
                return None
            offset, start = buffer.offset, buffer.pos
            data = buffer.data[start + BLOCK.size : start + size]
            self._items = _items_of(self._head, offset, partial(_part, data), streams=self._streams)
            self._head = None
            buffer.move_to(start + size)
        return item

    def finish(self) -> Damage | None:
        """Ends the reading; returns the block that the end of the file has cut, or None if there is none."""
        rest = len(self._buffer)
        if self._stopped or not rest:
            return None
        self._stopped = True
        return _torn(self._buffer.offset, rest)


def _torn(offset: int, size: int) -> Damage:
    return Damage(offset, f"the file ends inside a block, of which {size} bytes are there", torn=True)


def read_blocks(
    chunks: Iterable[bytes | bytearray | memoryview],
    offset: int = 0,
    *,
    max_length: int = MAX_LENGTH,
    streams: bool = False,
) -> Iterator[Block | Damage]:
    """Yields all blocks of a recording in order, and damage in its place, as `Blocks` does. The bytes begin at `offset`
    of the file; a longer block than `max_length` bytes is damage.
    """
    blocks = Blocks(offset, max_length=max_length, streams=streams)
    for chunk in chunks:
        blocks.feed(chunk)
        while (block := blocks.next_block()) is not None:
            yield block
    torn = blocks.finish()
    if torn is not None:
        yield torn


class _Window:
    """Bytes of a file that were read together, up to `end`, or to the present end of the file."""

    def __init__(self, read_at: Callable[[int, int], bytes], end: int) -> None:
        self._read_at = read_at
        self._data = b""
        self._begin = 0
        self.end = end

    def read(self, begin: int, at: int, size: int) -> bytes:
        """Returns `size` bytes from `begin + at` on. Raises EOFError if there are fewer."""
        at += begin
        if at < self._begin or at + size > self._begin + len(self._data):
            self._begin, self._data = at, self._read_at(at, min(max(size, _WINDOW), self.end - at))
            if len(self._data) < size:
                self.end = min(self.end, at + len(self._data))
                raise EOFError
        return self._data[at - self._begin : at - self._begin + size]

    def check(self, begin: int, end: int) -> None:
        """Raises EOFError unless the bytes from `begin` to `end` are there."""
        known = self._begin + len(self._data)
        if end > self.end or (end > known and not self._read_at(end - 1, 1)):
            self.end = begin + len(self._read_at(begin, min(end, self.end) - begin))
            raise EOFError


def read_taken(
    read_at: Callable[[int, int], bytes], start: int, end: int, takes: Takes, *, max_length: int = MAX_LENGTH
) -> Iterator[Block | Damage]:
    """Yields the blocks and the damage from `start` to `end`, without the blocks whose header `takes` refuses.

    `read_at(offset, size)` reads the file. The checksum of a refused block is not checked; if blocks are large, its
    bytes are not read.
    """
    window = _Window(read_at, end)
    while start < end:
        try:
            head = _read_head(window.read(start, 0, BLOCK.size), 0, max_length)
            if isinstance(head, str):
                yield Damage(start, head)
                return
            behind = start + BLOCK.size + head.length
            window.check(start, behind)
            yield from _items_of(head, start, partial(window.read, start + BLOCK.size), takes)
        except EOFError:
            if window.end > start:
                yield _torn(start, window.end - start)
            return
        start = behind


def in_order(items: Iterable[Block | Damage]) -> Iterator[Block | Damage]:
    """Yields the frames of a recording in the order in which they came and went, on all connections.

    A block of a group becomes one block for each run, with the time of the run. Damage comes after its group.
    """
    held: list[Block] = []
    damages: list[Damage] = []
    for item in items:
        if isinstance(item, Damage):
            damages.append(item)
            continue
        if not held or item.group != held[0].group:
            yield from _merged(held)
            yield from damages
            held, damages = [], []
        if item.columns is None:
            yield item
        else:
            held.append(item)
    yield from _merged(held)
    yield from damages


def _merged(blocks: Sequence[Block]) -> Iterator[Block]:
    found = [(piece, block) for block in blocks if block.columns is not None for piece in block.columns.pieces()]
    found.sort(key=lambda one: one[0].ordinal)
    for piece, block in found:
        header = block.header._replace(time_ns=piece.time_ns, since_ns=None, frames=piece.frames)
        payload = block.payload[piece.begin : piece.end]
        yield block._replace(header=header, payload=payload, lead=block.lead + piece.begin, columns=None)


class Entry(NamedTuple):
    """Place of a group or single block: `offset` of its first byte, and the number of groups and blocks before it.

    The times are the earliest and the latest of the frames up to the next entry; the defaults mean unknown times.
    """

    offset: int
    ordinal: int
    first_time_ns: int = 0
    time_ns: int = 2**64 - 1


@frozen
class Index:
    """Index of a recording, with one entry for the first block of each MiB.

    `length` is the recording's, in bytes. `first` is the CRC32 of the recording's first header, whose time and UUIDs
    tell it from the headers of other recordings.
    """

    length: int
    first: int
    entries: tuple[Entry, ...]

    def encode(self) -> bytes:
        """Returns the bytes of the index's file."""
        values = {
            "magic": INDEX_MAGIC,
            "layout": _INDEX_LAYOUT,
            "length": self.length,
            "first_header_crc32": self.first,
            "count": len(self.entries),
        }
        data = INDEX.pack(values) + b"".join(INDEX_ENTRY.pack(entry._asdict()) for entry in self.entries)
        return data + _CHECKSUM.pack({"crc32": crc32(data)})

    @classmethod
    def decode(cls, data: bytes) -> Index | None:
        """Returns the index of a file's bytes; None if the bytes are no index, or a damaged one."""
        size = len(data) - _CHECKSUM.size
        if size < INDEX.size or crc32(data[:size]) != _CHECKSUM.unpack(data, size)["crc32"]:
            return None
        values = INDEX.unpack(data, 0)
        entry = {LAYOUT_VERSION: _TIMELESS_ENTRY, _INDEX_LAYOUT: INDEX_ENTRY}.get(values["layout"])
        if values["magic"] != INDEX_MAGIC or entry is None or INDEX.size + values["count"] * entry.size != size:
            return None
        entries = tuple(Entry(**entry.unpack(data, place)) for place in range(INDEX.size, size, entry.size))
        offsets = [-1, *(entry.offset for entry in entries), values["length"]]
        if any(one >= other for one, other in pairwise(offsets)):
            return None
        return cls(values["length"], values["first_header_crc32"], entries)

    def fits(self, length: int, start: bytes) -> bool:
        """True if the index was made of a recording of this length that starts with these bytes."""
        return self.length == length and self.first == crc32(start[: BLOCK.size])

    def after(self, offset: int) -> Entry | None:
        """Returns the first entry behind `offset`, at which a reader goes on after damage, or None if there is none."""
        return next((entry for entry in self.entries if entry.offset > offset), None)


class Indexer:
    """Makes an index, block by block."""

    def __init__(self) -> None:
        self.length: int = 0
        """Position of the next block."""
        self._first = crc32(b"")
        self._entries: list[Entry] = []
        self._blocks = 0

    def add(self, header: bytes, size: int) -> None:
        """Adds the next group or block, which starts with `header` and has `size` bytes in all."""
        if self.length == 0:
            self._first = crc32(header[: BLOCK.size])
        values = GROUP.unpack(header, 0)
        last = values["time_ns"]
        first = values["first_time_ns"] if values["layout"] == GROUP_LAYOUT else last
        if not self._entries or self.length // INDEX_STEP > self._entries[-1].offset // INDEX_STEP:
            self._entries.append(Entry(self.length, self._blocks, first, last))
        else:
            entry = self._entries[-1]
            self._entries[-1] = entry._replace(
                first_time_ns=min(first, entry.first_time_ns), time_ns=max(last, entry.time_ns)
            )
        self._blocks += 1
        self.length += size

    def index(self, length: int | None = None) -> Index:
        """Returns the index of the added blocks. `length` is the file's, if other bytes follow the blocks."""
        return Index(self.length if length is None else length, self._first, tuple(self._entries))


def build_index(read_at: Callable[[int, int], bytes], length: int, *, max_length: int = MAX_LENGTH) -> Index:
    """Returns the index of a recording of `length` bytes. `read_at(offset, size)` is called for headers alone.

    The index covers the blocks before the first damaged header or the torn tail; their payloads are not checked.
    """
    indexer = Indexer()
    while indexer.length + BLOCK.size <= length:
        start = read_at(indexer.length, BLOCK.size)
        head = _read_head(start, 0, max_length) if len(start) == BLOCK.size else ""
        if isinstance(head, str) or indexer.length + BLOCK.size + head.length > length:
            break
        indexer.add(start, BLOCK.size + head.length)
    return indexer.index(length)
