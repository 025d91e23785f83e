"""Recordings for tests, and their rows as decoded frame by frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import Frame, Ignored, Message, Revision, decode, encode
from tolliver_proto.recording import (
    BLOCK,
    INDEX_SUFFIX,
    Block,
    BlockHeader,
    Direction,
    Indexer,
    encode_block,
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
    header: BlockHeader


def rows_of(path: Path) -> Iterator[Row]:
    """All messages of a good recording, in order."""
    for one in read_blocks([path.read_bytes()]):
        assert isinstance(one, Block), one
        head = one.header
        who = head.local if head.direction is Direction.OUT else head.peer
        offset = one.payload_offset
        for frame in decode(one.payload, head.revision):
            assert not isinstance(frame, Ignored)
            if isinstance(frame, Message):
                yield Row(
                    frame.channel,
                    frame.key,
                    frame.body,
                    frame.message_id,
                    frame.reliable,
                    None if who is None else str(who),
                    head.time_ns // 1000,
                    str(path),
                    offset,
                    head.direction.name.lower(),
                    head,
                )
            offset += len(encode(frame, head.revision))


def values(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return [tuple(getattr(row, column) for column in columns) for row in rows]
