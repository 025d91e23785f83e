"""Recordings for tests, and their rows as decoded frame by frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import Frame, Ignored, Message, Revision, decode, encode
from tolliver_proto.recording import (
    BLOCK,
    INDEX_SUFFIX,
    Block,
    BlockHeader,
    Codec,
    Direction,
    Gathered,
    Indexer,
    Runs,
    encode_block,
    encode_group,
    frame_sizes,
    read_blocks,
)

OURS = UUID("01890000-0000-7000-8000-000000000001")
PEER = UUID("01890000-0000-7000-8000-000000000002")
OTHER = UUID("01890000-0000-7000-8000-000000000003")
NOON = 1_795_262_400_000_000_000
"""2026-11-21T12:00:00Z, in nanoseconds."""


def header(
    time_ns: int = NOON,
    peer: UUID | None = PEER,
    direction: Direction = Direction.IN,
    revision: Revision = Revision.DRAFT_2,
    frames: int = 1,
) -> BlockHeader:
    return BlockHeader(time_ns, OURS, peer, 1, direction, revision, frames)


def block(frames: Sequence[Frame], head: BlockHeader | None = None) -> bytes:
    """A block with these frames."""
    head = head or header()
    return encode_block(head._replace(frames=len(frames)), b"".join(encode(frame, head.revision) for frame in frames))


def group(calls: Sequence[tuple[BlockHeader, Sequence[Frame]]], codec: Codec = Codec.NONE) -> bytes:
    """A group of what some calls brought, each with frames: a block for each peer, direction and revision."""
    blocks: dict[tuple[Any, ...], tuple[list[bytes], Runs]] = {}
    position = 0
    for head, frames in calls:
        data = b"".join(encode(frame, head.revision) for frame in frames)
        position += len(data)
        parts, runs = blocks.setdefault((head.peer, head.direction, head.revision), ([], Runs([], [], [])))
        parts.append(data)
        for column, number in zip(runs, (len(data), position, head.time_ns), strict=True):
            column.append(number)
    gathered = []
    for (peer, direction, revision), (parts, runs) in blocks.items():
        payload = b"".join(parts)
        gathered.append(Gathered(1, peer, direction, revision, frame_sizes(payload, revision)[0], runs, payload))
    return encode_group(OURS, gathered, codec=codec)


def write(path: Path, blocks: Sequence[bytes], *, index: bool = True) -> Path:
    """A recording with these blocks, and its index beside it."""
    path.write_bytes(b"".join(blocks))
    if index:
        indexer = Indexer()
        for one in blocks:
            indexer.add(one[: BLOCK.size], len(one))
        sidecar(path).write_bytes(indexer.index().encode())
    return path


def sidecar(path: Path) -> Path:
    return path.with_name(path.name + INDEX_SUFFIX)


def large_blocks(mib: int = 3, first_id: int = 1) -> list[bytes]:
    """Blocks of 64 KiB and a little more, with 8 messages each."""
    return [
        block([Message("bulk", f"k{number % 3}", bytes(8192), first_id + 8 * number + at) for at in range(8)])
        for number in range(16 * mib)
    ]


class Row(NamedTuple):
    """A message, as the machine reads it, and all that a recording says of it."""

    channel: str
    key: str
    body: bytes
    message_id: int | None
    reliable: bool
    sender: str | None
    received_at: int  # microseconds
    file: str
    frame_offset: int
    direction: str
    place: int
    header: BlockHeader


def rows_of(path: Path) -> Iterator[Row]:
    """All messages of a good recording, in order."""
    for one in read_blocks([path.read_bytes()]):
        assert isinstance(one, Block), one
        head = one.header
        who = head.local if head.direction is Direction.OUT else head.peer
        offset = one.payload_offset
        moments = iter(_moments(one))
        for frame in decode(one.payload, head.revision):
            assert not isinstance(frame, Ignored)
            time_ns, place = next(moments)
            if isinstance(frame, Message):
                is_reliable = frame.reliable and head.revision is not Revision.RUST_2026  # its ids mean nothing
                yield Row(
                    frame.channel,
                    frame.key,
                    frame.body,
                    frame.message_id if is_reliable else None,
                    is_reliable,
                    None if who is None else str(who),
                    time_ns // 1000,
                    str(path),
                    offset,
                    head.direction.name.lower(),
                    place,
                    head._replace(time_ns=time_ns),
                )
            offset += len(encode(frame, head.revision))


def _moments(block: Block) -> Iterator[tuple[int, int]]:
    """The time and the place of each frame."""
    sizes = frame_sizes(block.payload, block.header.revision)[0]
    if block.columns is None:
        for end, size in zip(accumulate(sizes), sizes, strict=True):
            yield block.header.time_ns, block.payload_offset + end - size
        return
    at = iter(accumulate(sizes))
    for piece in block.columns.pieces():
        for end in islice(at, piece.frames):
            yield piece.time_ns, piece.ordinal - (piece.end - end)


def values(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, column) for column in columns) for row in rows]
