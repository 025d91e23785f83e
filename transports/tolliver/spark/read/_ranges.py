"""Recordings on disk, split into ranges for tasks.

Only an index can tell where a block begins inside a file, as a body may contain bytes that look like a block. So a file
is split at entries of its index, or of one computed from the file's headers. Every range must end exactly where the
next one begins: with a wrong index this fails, instead of reading messages twice or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import BinaryIO, NamedTuple

from tolliver_proto import StoreError, TolliverError
from tolliver_proto.recording import (
    BLOCK,
    INDEX,
    INDEX_ENTRY,
    INDEX_STEP,
    INDEX_SUFFIX,
    MAGIC,
    Block,
    BlockHeader,
    Blocks,
    Damage,
    Entry,
    Index,
    build_index,
    read_taken,
)

RANGE_BYTES = 32 * 2**20
"""Default bytes of a task's range."""


def why_no_recording(start: bytes) -> str | None:
    """Reason why no recording begins with these bytes, its first ones; None if one may, as also if there are none."""
    first = start[: len(MAGIC)]
    if MAGIC.startswith(first):
        return None
    return f"is no recording: it begins with {first!r}, and a recording with {MAGIC!r}"


class DamagedRecording(TolliverError):
    """A recording, or a peer's data in it, cannot be read to its end: at byte `offset` of `file`."""

    def __init__(self, file: str, offset: int, detail: str) -> None:
        super().__init__(file, offset, detail)
        self.file = file
        self.offset = offset
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.file}: byte {self.offset}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Range:
    """Blocks of a file that begin between the bytes `start` and `end`.

    `last`: `end` is the size of the file when the work was planned, so a block may be incomplete there. `entries` are
    known block starts after `start`: where reading continues after a damaged header. `length` is the recording's length
    when it was closed, if it is known and larger than now: the file was cut afterwards.
    """

    file: str
    start: int
    end: int
    last: bool
    entries: tuple[int, ...] = ()
    length: int | None = None

    @property
    def size(self) -> int:
        return self.end - self.start


class Span(NamedTuple):
    """Part of a file: from byte `start`, where a block begins, to byte `end`."""

    file: str
    start: int
    end: int


def plan(files: Sequence[str], min_partitions: int = 1, since: int = 0, until: int = 2**64) -> list[list[Range]]:
    """Ranges for each task: at least `min_partitions` tasks, if sizes and indexes allow it.

    Small files share a task. A range is left out if its index says that all its frames are before `since` or from
    `until` on, in nanoseconds since 1970. Raises StoreError if a file cannot be read.
    """
    spans = [Span(file, 0, size_of(file)) for file in files]
    return _packed(spans, min_partitions, settled=False, since=since, until=until)


def plan_spans(spans: Sequence[Span], min_partitions: int = 1, most: int = RANGE_BYTES) -> list[list[Range]]:
    """Like `plan`, for parts of files that end with a block. `most`: bytes for a task, except a larger single block."""
    return _packed(spans, min_partitions, settled=True, most=most)


def _packed(
    spans: Sequence[Span],
    min_partitions: int,
    *,
    settled: bool,
    most: int = RANGE_BYTES,
    since: int = 0,
    until: int = 2**64,
) -> list[list[Range]]:
    size = sum(span.end - span.start for span in spans)
    most = min(most, max(INDEX_STEP, -(-size // min_partitions)))
    tasks: list[list[Range]] = []
    free = 0
    for span in spans:
        for part in _split(span, most, settled=settled, since=since, until=until):
            if part.size > free or not tasks:
                tasks.append([])
                free = most
            tasks[-1].append(part)
            free -= part.size
    return tasks


def size_of(file: str) -> int:
    """Size of a file in bytes. Raises StoreError if the file cannot be read."""
    with opened(file) as recording:
        return recording.seek(0, os.SEEK_END)


def _split(span: Span, most: int, *, settled: bool, since: int, until: int) -> list[Range]:
    """Ranges of a span, of at most `most` bytes if its blocks allow it, without those outside the times from `since` to
    `until`.

    `settled`: the end of the span is known to be the end of a block, and not only the end of the file.
    """
    file, start, end = span
    with opened(file) as recording:
        length = recording.seek(0, os.SEEK_END) if settled else end
        hint = own_index(recording, file, length)
        entries = hint.entries if hint is not None and hint.length == length else ()
        read_at = partial(_read_at, recording)
        places = [one.offset for one in entries if start < one.offset < end and _begins_block(one.offset, read_at)]
        if not places and end - start > most:
            behind = build_index(lambda offset, size: read_at(start + offset, size), end - start)
            places = [start + one.offset for one in behind.entries if one.offset]
        # A file that grew after its size was read, and was then closed, was not cut.
        cut = not settled and hint is not None and hint.length > recording.seek(0, os.SEEK_END)
    cuts = [start]
    for place, after in pairwise([*places, end]):
        if after - cuts[-1] > most:
            cuts.append(place)
    return [
        Range(
            file,
            begin,
            stop,
            last=not settled and stop == end,
            entries=tuple(one for one in places if begin < one < stop),
            length=hint.length if cut and hint is not None and stop == end else None,
        )
        for begin, stop in pairwise([*cuts, end])
        if begin == stop or any(_overlaps(entries, begin, stop, since, until))
    ]


def _overlaps(entries: Sequence[Entry], start: int, end: int, since: int, until: int) -> Iterator[bool]:
    """For each part between two index entries, from byte `start` to `end`: True if it may have frames in the time range
    (nanoseconds since 1970), as also if nothing is known of it."""
    known = [entry for entry in entries if start <= entry.offset < end]
    if not known or known[0].offset > start:
        yield True
    for entry in known:
        yield entry.first_time_ns < until and entry.time_ns >= since


def own_index(recording: BinaryIO, file: str, length: int) -> Index | None:
    """Index next to the recording, None unless it was made for this file. The file may have had another length then, up
    to about twice `length` bytes.
    """
    hint = _sidecar(file, length)
    return hint if hint is not None and hint.fits(hint.length, _read_at(recording, 0, BLOCK.size)) else None


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """Context manager: the open file. Raises StoreError if it cannot be read."""
    try:
        with open(file, "rb") as recording:
            yield recording
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}. Every machine must see it, by this name") from error


def _sidecar(file: str, length: int) -> Index | None:
    """Index in the file next to a recording of `length` bytes, None unless it is complete. At most as much is read as a
    recording of twice that length needs.
    """
    try:
        with open(file + INDEX_SUFFIX, "rb") as sidecar:
            return Index.decode(sidecar.read(INDEX.size + (length // INDEX_STEP + 512) * 2 * INDEX_ENTRY.size))
    except OSError:
        return None


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _begins_block(place: int, read_at: Callable[[int, int], bytes]) -> bool:
    """True if a block's header is at byte `place`, where a matching index has an entry: if not, the header is
    damaged.
    """
    blocks = Blocks(place)
    blocks.feed(read_at(place, BLOCK.size))
    damage = blocks.next_block()
    return not isinstance(damage, Damage) or damage.resumes is not None


def block_ends(file: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """End offset and number of frames of each whole block from byte `start` on; reads only headers.

    Ends at byte `end`, or before a block that ends after it. Raises DamagedRecording at a damaged header, and
    StoreError.
    """
    with opened(file) as recording:
        while start + BLOCK.size <= end:
            head = _read_at(recording, start, BLOCK.size)
            blocks = Blocks(start)
            blocks.feed(head)
            found = blocks.next_block()
            if len(head) < BLOCK.size:
                return  # the file was just cut
            if isinstance(found, Damage) and found.resumes is None:
                raise DamagedRecording(file, start, found.detail)
            values = BLOCK.unpack(head, 0)
            start += BLOCK.size + values["length"]
            if start > end:
                return
            yield start, values["frames"]


def blocks_in(part: Range, takes: Callable[[BlockHeader], bool] = lambda _header: True) -> Iterator[Block | Damage]:
    """Blocks of a range that `takes` accepts, in order, and damage. After a damaged header it continues at the next
    entry.

    Raises DamagedRecording if a block ends after the range: then the index was not the file's.
    """
    start: int | None = part.start
    with opened(part.file) as recording:
        while start is not None:
            blocks, start = read_taken(partial(_read_at, recording), start, part.end, takes), None
            for block in blocks:
                if isinstance(block, Damage) and block.torn and not part.last:
                    crossing = f"a block crosses byte {part.end}, where the index has another: remove the index"
                    raise DamagedRecording(part.file, block.offset, crossing)
                if isinstance(block, Damage) and block.resumes is None and not block.torn:
                    start = next((entry for entry in part.entries if entry > block.offset), None)
                    elsewhere = None if part.last else part.end
                    block = block._replace(resumes=elsewhere if start is None else start)
                yield block
