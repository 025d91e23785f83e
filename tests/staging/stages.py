"""Messages for the tests of staging, and contents of a stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Any
from uuid import UUID
from zlib import crc32

from tolliver.staging import FolderOptions, Position, StageFolder, StageWriter

from tolliver_proto import Message, Revision, decode
from tolliver_proto.recording import Block, read_blocks

ALICE, BOB = UUID(int=0xA11CE), UUID(int=0xB0B)
JOB = UUID("f00dbabe-0001-8000-8000-000000000001")  # derived
D2 = Revision.DRAFT_2
LAST_ID = 2**31 - 2

Row = tuple[UUID | None, Message]


def message(number: int | None, body: bytes = b"", key: str = "k") -> Message:
    return Message("c", key, body, number)


def messages(first: int, last: int, body: bytes = b"") -> list[Message]:
    return [message(number, body) for number in range(first, last + 1)]


def writer(directory: Path, **options: Any) -> StageWriter:
    return StageWriter(FolderOptions(directory=directory, **{"lock_timeout": 0.0, **options}))


def staged(directory: Path, start: Position | None = None, end: Position | None = None) -> list[Row]:
    """Senders and their messages, between these positions, or from the oldest that is there to the head."""
    folder = StageFolder(directory)
    end = end or folder.head()
    assert end is not None
    found = [row for stretch in folder.ranges(start or folder.first(), end) for row in rows_in(*stretch)]
    if start is not None:
        assert len(found) == end.frames - start.frames
    return found


def rows_in(file: str, start: int, end: int) -> Iterator[Row]:
    """Every block of the range is whole."""
    data = Path(file).read_bytes()
    assert len(data) >= end
    for block in read_blocks([data[start:end]], start):
        assert isinstance(block, Block), block
        frames = decode(block.payload, block.header.revision)
        assert len(frames) == block.header.frames
        for frame in frames:
            assert isinstance(frame, Message)
            yield block.header.peer, frame


def ids(rows: list[Row]) -> list[int | None]:
    return [one.message_id for _, one in rows]


def of_layout_1(*senders: tuple[UUID, list[tuple[int, int]]]) -> bytes:
    """The file beside a segment of that time: ids alone."""
    count = sum(last + 1 - first for _, spans in senders for first, last in spans)
    data = Struct(">4sHQI").pack(b"TLVS", 1, count, len(senders))
    for sender, spans in senders:
        data += sender.bytes + len(spans).to_bytes(4, "big") + b"".join(Struct(">II").pack(*span) for span in spans)
    return data + crc32(data).to_bytes(4, "big")
