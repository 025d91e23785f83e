"""Recordings on disk, and filters on their frames.

A filter is applied to block headers first, so unwanted blocks are not parsed. Damage is yielded like a block, and
reading continues after it where possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from functools import partial
from io import BufferedReader
from pathlib import Path
from uuid import UUID

from attrs import define

from tolliver_proto.layouts import Decoded
from tolliver_proto.recording import (
    INDEX,
    INDEX_ENTRY,
    INDEX_STEP,
    INDEX_SUFFIX,
    MAGIC,
    SUFFIX,
    Block,
    BlockHeader,
    Damage,
    Direction,
    Index,
    read_blocks,
)

_CHUNK = 2**20  # bytes read at once
_FAR = 10**11  # seconds since 1970, above which a time is invalid


@define(frozen=True, kw_only=True)
class Filter:
    """Filter of frames; None and "" match anything. Times are nanoseconds since 1970: from `since` on, before
    `until`."""

    peer: UUID | None = None
    direction: Direction | None = None
    since: int | None = None
    until: int | None = None
    channel: str = ""
    key: str = ""

    @property
    def asks_headers(self) -> bool:
        """True if the filter has conditions that only a recording can answer, as a stream has no headers."""
        return (self.peer, self.direction, self.since, self.until) != (None,) * 4

    def takes_block(self, header: BlockHeader) -> bool:
        return (
            self.peer in (None, header.peer)
            and self.direction in (None, header.direction)
            and (self.since is None or header.time_ns >= self.since)
            and (self.until is None or header.time_ns < self.until)
        )

    def takes_frame(self, frame: Decoded) -> bool:
        """True if the frame matches. With a channel or a key given, frames without names do not match."""
        return all(
            not wanted or getattr(frame, part, None) == wanted
            for part, wanted in (("channel", self.channel), ("key", self.key))
        )


def nanoseconds(text: str) -> int:
    """Nanoseconds since 1970, from ISO 8601 (local time without a zone) or seconds since 1970. Raises ValueError."""
    try:
        seconds = Decimal(text)
    except ArithmeticError:
        try:
            seconds = Decimal(str(datetime.fromisoformat(text).timestamp()))
        except (ValueError, OverflowError):
            seconds = Decimal("NaN")
    if not (seconds.is_finite() and -_FAR < seconds < _FAR):
        raise ValueError(f"{text!r:.100} is no time: write 2026-11-21T15:04:05, or seconds since 1970")
    return int(seconds * 10**9)


def files_in(paths: Iterable[Path]) -> list[Path]:
    """The paths, with each directory replaced by its recordings, oldest first. Raises ValueError if it has none."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            recordings = sorted(path.glob(f"*{SUFFIX}"))
            if not recordings:
                raise ValueError(f"{path}: no recordings (*{SUFFIX}) in this directory")
            found += recordings
        else:
            found.append(path)
    return found


def is_recording(file: BufferedReader, path: Path) -> bool:
    """True if the file is a recording, by its name, or by its first byte, which no frame has. Does not move the file
    position.
    """
    return path.suffix == SUFFIX or file.peek(1)[:1] == MAGIC[:1]


def blocks_in(file: BufferedReader, path: Path, *, streams: bool = False) -> Iterator[Block | Damage]:
    """Blocks of an open recording, and damage, in order; those of streams if they are asked for. After a damaged header
    it continues at the next entry of the file's index.
    """
    offset: int | None = 0
    while offset is not None:
        if offset:
            file.seek(offset)
        start, offset = offset, None
        for block in read_blocks(iter(partial(file.read, _CHUNK), b""), start, streams=streams):
            if isinstance(block, Damage) and block.resumes is None and not block.torn:
                offset = _next_entry(file, path, block.offset)
                block = block._replace(resumes=offset)
            yield block


def _next_entry(file: BufferedReader, path: Path, behind: int) -> int | None:
    sidecar = path.with_name(path.name + INDEX_SUFFIX)
    if not sidecar.is_file():
        return None
    length = path.stat().st_size
    most = INDEX.size + (length // INDEX_STEP + 2) * INDEX_ENTRY.size
    with sidecar.open("rb") as hint:
        index = Index.decode(hint.read(most))
    file.seek(0)
    if index is None or not index.fits(length, file.read(_CHUNK)):
        return None
    entry = index.after(behind)
    return None if entry is None else entry.offset


def in_words(damage: Damage) -> str:
    """Text about damage: place, kind, and the consequence."""
    code = "torn" if damage.torn else "damaged"
    rest = "nothing behind it was read" if damage.resumes is None else f"reading went on at byte {damage.resumes}"
    return f"byte {damage.offset}: {damage.detail}{'' if damage.torn else f'; {rest}'} [{code}]"
