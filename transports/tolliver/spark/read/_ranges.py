"""Recordings on disk as ranges that tasks read by themselves.

Only an index says where a block begins inside a file, as a body may hold what looks like one. So a file is split at
entries of an index that fits it, or of one that is made of the file's headers there and then, and every range must end
where the next one begins: were the index wrong, that would show and nothing be read twice or left out.
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
"""The bytes that a task reads where nothing else is asked for."""


class DamagedRecording(TolliverError):
    """A recording, or what a peer sent in it, cannot be read to its end. `file`, and `offset` in bytes, say where."""

    def __init__(self, file: str, offset: int, detail: str) -> None:
        super().__init__(file, offset, detail)
        self.file = file
        self.offset = offset
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.file}: byte {self.offset}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Range:
    """The blocks of a file that begin at `start` and later, up to `end`, in bytes.

    `last`: `end` is the file's as it was when the work was planned, so a block may be torn there. `entries` are places
    behind `start` where blocks are known to begin: where to go on after a damaged header. `length` is what the
    recording had when it was closed, if that is known and more than there is now: it was cut afterwards.
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
    """The files of a directory that are recordings, by their names, and whether those of the directories below are."""

    names: str | None = None
    deep: bool = False

    def takes(self, name: str) -> bool:
        return fnmatchcase(name, self.names or f"*{SUFFIX}") and not name.endswith(INDEX_SUFFIX)


EVERY = Choice()


def files_of(paths: Iterable[str], choice: Choice = EVERY) -> list[str]:
    """The recordings at these paths, each once: files, directories with `.rec` files, globs; in order of name.

    Raises ValueError for a path at which there is none, and for one that is not in the file system.
    """
    found: list[str] = []
    for path in paths:
        recordings = recordings_at(path, choice)
        if not recordings:
            raise ValueError(_why_none(path, choice))
        found += recordings
    return list(dict.fromkeys(found))


def recordings_at(path: str, choice: Choice = EVERY) -> list[str]:
    """As `files_of`, of one path; there may be none."""
    return [file for name in _names_at(path) for file in _files_at(Path(name), choice)]


def _names_at(path: str) -> list[str]:
    here = os.path.abspath(local_path(path))
    if not has_magic(here) or Path(here).exists():
        return [here]
    return [name for name in sorted(glob(here)) if not name.endswith(INDEX_SUFFIX)]


def _why_none(path: str, choice: Choice) -> str:
    """Why there is nothing to read at a path: it says where that is, as nobody sees where Spark looks from."""
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
    """Raises ValueError for a file that is something else than a recording, by its first bytes; and StoreError."""
    with opened(file) as recording:
        start = recording.read(len(MAGIC))
    if not MAGIC.startswith(start[: len(MAGIC)]):
        raise ValueError(
            f"{file} is no recording: it begins with {start!r}, and a recording with {MAGIC!r}. Leave it out, or "
            "mode=dropmalformed does"
        )


def local_path(path: str) -> str:
    """Without `file:`. Raises ValueError for what is not in the file system."""
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
        below[:] = [name for name in below if choice.deep and not name.startswith((".", "_"))]  # as Spark does
    return sorted(found)


class Span(NamedTuple):
    """Bytes of a file, from one block's first byte on."""

    file: str
    start: int
    end: int


def plan(files: Sequence[str], min_partitions: int = 1, since: int = 0, until: int = 2**64) -> list[list[Range]]:
    """The ranges that each task reads: `min_partitions` tasks or more where the sizes and the indexes allow it.

    Small files are read by one task together. A range that has no frame from `since` on and before `until`,
    as its index says, is left out. Raises StoreError where a file cannot be read.
    """
    spans = [Span(file, 0, size_of(file)) for file in files]
    return _packed(spans, min_partitions, settled=False, since=since, until=until)


def plan_spans(spans: Sequence[Span], min_partitions: int = 1, most: int = RANGE_BYTES) -> list[list[Range]]:
    """As `plan`, of parts of files that end where a block ends. `most`: bytes for a task, but for a larger block."""
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
    """In bytes. Raises StoreError where it cannot be read."""
    with opened(file) as recording:
        return recording.seek(0, os.SEEK_END)


def _split(span: Span, most: int, *, settled: bool, since: int, until: int) -> list[Range]:
    """The span in ranges of at most so many bytes, as far as its blocks allow.

    `settled`: its end is known to be a block's; else it is where the file ended.
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
        # One that grew since its size was taken, and was closed, was not cut.
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
    """True for each stretch of these bytes that may have frames of a time; where nothing is known, it may."""
    known = [entry for entry in entries if start <= entry.offset < end]
    if not known or known[0].offset > start:
        yield True
    for entry in known:
        yield entry.first_time_ns < until and entry.time_ns >= since


def own_index(recording: BinaryIO, file: str, length: int) -> Index | None:
    """The index beside a file, if it is this file's; it may be one of another length, and `length` bounds it."""
    hint = _sidecar(file, length)
    return hint if hint is not None and hint.fits(hint.length, _read_at(recording, 0, BLOCK.size)) else None


@contextmanager
def opened(file: str) -> Iterator[BinaryIO]:
    """Raises StoreError where it cannot be read."""
    try:
        with open(file, "rb") as recording:
            yield recording
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}. Every machine must see it, by this name") from error


def _sidecar(file: str, length: int) -> Index | None:
    """The index beside a file, if it is whole; bounded by what one of a file of twice that length may take."""
    try:
        with open(file + INDEX_SUFFIX, "rb") as sidecar:
            return Index.decode(sidecar.read(INDEX.size + (length // INDEX_STEP + 512) * 2 * INDEX_ENTRY.size))
    except OSError:
        return None


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _begins_block(place: int, read_at: Callable[[int, int], bytes]) -> bool:
    """True if a block's header stands there, as a fitting index says: if not, the header is damaged."""
    blocks = Blocks(place)
    blocks.feed(read_at(place, BLOCK.size))
    damage = blocks.next_block()
    return not isinstance(damage, Damage) or damage.resumes is not None


def block_ends(file: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The end of each whole block from `start` on, and its number of frames; only headers are read.

    Ends at `end`, or before a block that ends behind it. Raises DamagedRecording at a damaged header, and StoreError.
    """
    with opened(file) as recording:
        while start + BLOCK.size <= end:
            head = _read_at(recording, start, BLOCK.size)
            blocks = Blocks(start)
            blocks.feed(head)
            found = blocks.next_block()
            if len(head) < BLOCK.size:
                return  # it was cut this moment
            if isinstance(found, Damage) and found.resumes is None:
                raise DamagedRecording(file, start, found.detail)
            values = BLOCK.unpack(head, 0)
            start += BLOCK.size + values["length"]
            if start > end:
                return
            yield start, values["frames"]


def blocks_in(part: Range, takes: Callable[[BlockHeader], bool] = lambda _header: True) -> Iterator[Block | Damage]:
    """The blocks of a range that are taken, in order, and what is damaged. Behind a damaged header it goes on at the
    next entry.

    Raises DamagedRecording where a block does not end by the end of the range: then the index was not the file's.
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
