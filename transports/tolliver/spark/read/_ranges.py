"""Recordings on disk, split into ranges for tasks.

Only an index can tell where a block begins inside a file, as a body may contain bytes that look like a block. So a file
is split at entries of its index, or of one computed from the file's headers. Every range must end exactly where the
next one begins: with a wrong index this fails, instead of reading messages twice or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from glob import glob, has_magic
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from tolliver_proto import StoreError, TolliverError
from tolliver_proto.recording import (
    BLOCK,
    INDEX,
    INDEX_ENTRY,
    INDEX_STEP,
    INDEX_SUFFIX,
    MAGIC,
    SUFFIX,
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


class Choice(NamedTuple):
    """Option of a reader: which files of a directory are read, by name, and whether subdirectories are."""

    names: str | None = None
    deep: bool = False

    def takes(self, name: str) -> bool:
        return fnmatchcase(name, self.names or f"*{SUFFIX}") and not name.endswith(INDEX_SUFFIX)


EVERY = Choice()


def files_of(paths: Iterable[str], choice: Choice = EVERY) -> list[str]:
    """Recordings at these paths, each once, in order of name: files, directories with `.rec` files, globs.

    Raises ValueError for a path without recordings, and for one that is not in the file system.
    """
    found: list[str] = []
    for path in paths:
        recordings = recordings_at(path, choice)
        if not recordings:
            raise ValueError(_why_none(path, choice))
        found += recordings
    return list(dict.fromkeys(found))


def recordings_at(path: str, choice: Choice = EVERY) -> list[str]:
    """Like `files_of`, for one path; may be empty."""
    return [file for name in _names_at(path) for file in _files_at(Path(name), choice)]


def _names_at(path: str) -> list[str]:
    here = os.path.abspath(local_path(path))
    if not has_magic(here) or Path(here).exists():
        return [here]
    return [name for name in sorted(glob(here)) if not name.endswith(INDEX_SUFFIX)]


def _why_none(path: str, choice: Choice) -> str:
    """Error text for a path without recordings. It has the absolute path, as users do not see Spark's working
    directory."""
    here = os.path.abspath(local_path(path))
    where = here if path == here else f"{here} ({path!r}, seen from {os.getcwd()} on the machine that plans the query)"
    there = [Path(name) for name in _names_at(path) if Path(name).exists()]
    if not there:
        return f"{where}: there is nothing of this name. Is it mounted here?"
    kind = f"recordings, which are called {choice.names or '*' + SUFFIX}"
    if not any(one.is_dir() for one in there):
        return f"{where}: no {kind}, as pathGlobFilter says"
    below = [] if choice.deep else [file for one in there for file in _files_at(one, choice._replace(deep=True))]
    if below:
        return f"{where}: no {kind}, but {len(below)} in directories below it: recursiveFileLookup=true reads them"
    others = sorted(name for one in there if one.is_dir() for name in os.listdir(one))
    if others:
        return f"{where}: no {kind}, among {len(others)} others such as {others[0]!r:.100}: pathGlobFilter names them"
    return f"{where}: an empty directory"


def check_recording(file: str) -> None:
    """Raises ValueError if the file's first bytes are not those of a recording; and StoreError."""
    with opened(file) as recording:
        start = recording.read(len(MAGIC))
    if not MAGIC.startswith(start[: len(MAGIC)]):
        raise ValueError(
            f"{file} is no recording: it begins with {start!r}, and a recording with {MAGIC!r}. Leave it out, or "
            "mode=dropmalformed does"
        )


def local_path(path: str) -> str:
    """The path without `file:`. Raises ValueError for other schemes."""
    parts = urlsplit(path)
    if not parts.scheme or ("://" not in path and parts.scheme != "file"):
        return path
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return unquote(parts.path)
    raise ValueError(
        f"{path}: only files that every machine has mounted can be read; for {parts.scheme}:, read them as binaryFile "
        "and give that to mapInArrow(partition_batches())"
    )


def _files_at(path: Path, choice: Choice) -> list[str]:
    if not path.is_dir():
        return [str(path)] if path.is_file() and (choice.names is None or choice.takes(path.name)) else []
    found = []
    for directory, below, names in os.walk(path):
        found += [os.path.join(directory, name) for name in names if choice.takes(name)]
        below[:] = [name for name in below if choice.deep and not name.startswith((".", "_"))]  # as Spark
    return sorted(found)


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
