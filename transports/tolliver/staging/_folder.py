"""Stage folder: segment files, their names, extent and locks.

A stage is a sequence of recordings that grows at its end and shrinks at its beginning. A segment's name gives its
number and the number of messages before it; the head file gives the position up to which everything is on disk. So
readers need no lock and no server. One receiver writes, under a lock. Readers delete segments that they have processed.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import EDQUOT, ENOSPC
from io import FileIO
from itertools import pairwise, takewhile
from pathlib import Path
from typing import NamedTuple, Self
from uuid import UUID, uuid4
from weakref import WeakSet
from zlib import crc32

from tolliver_proto import StoreError
from tolliver_proto.layouts import Fields
from tolliver_proto.recording import BLOCK, INDEX_SUFFIX, SUFFIX, Blocks, Damage, Index

from .._private import DRAFT_SUFFIX, make_directory, must_be_file, open_private, plain_name, replacing
from ._errors import StageInUse, StageLost, UnknownStage
from ._incarnations import INCARNATIONS, KEPT, Incarnations

LAYOUT = 2
"""Version of the layout. Since 2, the file of ids beside a segment has checksums (T-48)."""

MARKER, LOCK, HEAD, DATABASE, SEGMENTS = "stage.json", "lock", "head", "node.db", "segments"
CONSUMERS = "consumers"
IDS_SUFFIX = ".ids"

_NAME = re.compile(r"(\d{8,19})-(\d{15,19})")
_MARKER_BYTES = 4096
_WINDOW = 2**16  # bytes read at once, when scanning headers and before a position
_LOOK = 0.05  # seconds between two tries to take a lock
_HEAD = Fields("4s magic, Q segment, Q pos, Q frames, I crc32")
_HEAD_MAGIC = b"TLVH"
_HEAD_TRIES = 3
_CRC_BYTES = 4
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone leaves data in the drive's cache


class Position(NamedTuple):
    """A place in a stage: before the block that begins at byte `pos` of segment number `segment`.

    `frames` is the number of messages before it since the stage was created. At the end of a closed segment, `pos` is
    the segment's length.
    """

    segment: int
    pos: int
    frames: int


class Mark(NamedTuple):
    """Fingerprint of the content before a position. Kept with it, it detects a stage that was restored from a backup.

    `incarnation` identifies the opening of the stage that wrote the message before the position; `checksum` is the
    CRC32 of the last 64 KiB before it in its segment. None is not compared.
    """

    stage: UUID
    incarnation: UUID | None = None
    checksum: int | None = None


class Segment(NamedTuple):
    """One recording file of a stage; `frames` is the number of messages before it."""

    number: int
    frames: int
    path: Path

    @property
    def start(self) -> Position:
        return Position(self.number, 0, self.frames)


class Stretch(NamedTuple):
    """Part of a segment's file that has whole blocks: from byte `start` to byte `end`."""

    file: str
    start: int
    end: int


def sync_file(fd: int) -> None:
    """Write everything in the file of this descriptor to the disk. Raises OSError."""
    if _FULL_SYNC is not None:
        fcntl.fcntl(fd, _FULL_SYNC)
    else:
        os.fdatasync(fd)


def sync_directory(path: Path) -> None:
    """Write the directory's entries to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: Path, data: bytes) -> None:
    """Create or replace a file atomically and write it to the disk, readable for its owner only."""
    with replacing(path) as file:
        file.write(data)
        file.flush()
        sync_file(file.fileno())
    sync_directory(path.parent)


def _write_place(path: Path, data: bytes) -> None:
    """Like `write_whole`, but over the file's old content if the disk is full, as deletions wait for this. Raises
    OSError.
    """
    try:
        write_whole(path, data)
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT) or not path.exists():
            raise
        with FileIO(path, "r+", opener=open_private) as file:  # as long, and within a sector
            file.write(data)
            sync_file(file.fileno())


def segment_name(number: int, frames: int) -> str:
    """Name, without suffix, of segment `number`, with `frames` messages before it."""
    return f"{number:08d}-{frames:015d}"


def segments_in(directory: Path, suffix: str = SUFFIX) -> list[Segment]:
    """Files with this suffix, in order. Raises OSError."""
    found = []
    for name in os.listdir(directory):
        match = _NAME.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if match is not None:
            found.append(Segment(int(match[1]), int(match[2]), directory / name))
    return sorted(found)


def encode_head(position: Position) -> bytes:
    """Content of the head file for a position."""
    data = _HEAD.struct.pack(_HEAD_MAGIC, *position, 0)[:-_CRC_BYTES]
    return data + crc32(data).to_bytes(_CRC_BYTES, "big")


def decode_head(data: bytes) -> Position | None:
    """Position in the content of a head file; None if it is none."""
    if len(data) != _HEAD.size:
        return None
    position = Position(*_HEAD.struct.unpack(data)[1:-1])
    return position if data == encode_head(position) else None


def in_place(fd: int, path: Path) -> bool:
    """True if the open file of the descriptor `fd` is still the one at this path. Raises OSError."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


class Lock:
    """The exclusive right to write into a stage, until `close` or the end of the process."""

    def __init__(self, directory: Path, patience: float) -> None:
        """Take the lock, waiting up to `patience` seconds for an earlier receiver to end. Raises StageInUse,
        OSError."""
        self._path = directory / LOCK
        self._file = FileIO(self._path, "a+", opener=open_private)
        deadline = time.monotonic() + patience
        try:
            while not self._taken():
                if time.monotonic() >= deadline:
                    raise StageInUse(
                        f"the stage {directory} is received into by process {self._owner()}: a stage has one receiver. "
                        "End that one, or give another directory"
                    )
                time.sleep(_LOOK)
            self._file.truncate(0)
            self._file.write(b"%d\n" % os.getpid())
        except BaseException:
            self._file.close()
            raise
        _locks.add(self)

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _owner(self) -> str:
        self._file.seek(0)
        written = self._file.read(20).strip()
        return written.decode() if written.isdigit() else "(unknown)"

    def is_in_place(self) -> bool:
        """True while the lock is that of the stage's folder: False once another folder has replaced it. Raises
        OSError.
        """
        return in_place(self._file.fileno(), self._path)

    def close(self) -> None:
        """Release the lock. A second call does nothing."""
        self._file.close()
        _locks.discard(self)


_locks: WeakSet[Lock] = WeakSet()


def _disown_all() -> None:
    """In a forked child: close our copies of locks, which would otherwise outlive the parent."""
    for lock in list(_locks):
        lock.close()


os.register_at_fork(after_in_child=_disown_all)


class StageFolder:
    """A stage, as readers see it. `stage` is its UUID; a stage created later in the same folder has another.

    Methods raise StageLost if messages that they need are missing, and StoreError if the folder cannot be read.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        """Open a stage. Raises UnknownStage if there is none, or one of another layout."""
        self.directory: Path = Path(os.path.abspath(directory))
        self.segments_directory: Path = self.directory / SEGMENTS
        marked = _marked(self.directory)
        if marked is None:
            raise UnknownStage(f"{self.directory} is no stage: check the path, or have `tolliver stage` make one there")
        self.stage: UUID = marked.stage

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.directory}, stage {self.stage}>"

    @classmethod
    def make(cls, directory: Path, patience: float = 0.0) -> tuple[Self, Lock]:
        """Open the stage for writing, or create it if the directory is missing or empty; returns it and its lock.

        A stage of an older layout is marked as of this one, so that older versions no longer write into it. Raises
        UnknownStage, StageInUse, and StoreError if it cannot be created. `patience` is how many seconds to wait for
        another receiver to end.
        """
        try:
            if not check_place(directory):
                _make_directory(directory)
            lock = Lock(directory, patience)
            try:
                marked = _marked(directory)  # again under the lock: created meanwhile
                if marked is None:
                    _make_directory(directory / SEGMENTS)
                if marked is None or marked.layout != LAYOUT:
                    marker = {"layout": LAYOUT, "stage": str(uuid4() if marked is None else marked.stage)}
                    write_whole(directory / MARKER, json.dumps(marker).encode() + b"\n")
                return cls(directory), lock
            except BaseException:
                lock.close()
                raise
        except OSError as error:
            raise StoreError(
                f"no stage can be made in {directory}: {error.strerror}. Give a directory that we may write to"
            ) from error

    def segments(self) -> list[Segment]:
        """Segments that exist now, oldest first."""
        try:
            return segments_in(self.segments_directory)
        except OSError as error:
            raise self._unreadable(self.segments_directory, error) from error

    def used_bytes(self) -> int:
        """Total size of the segments now, in bytes. Readers may delete some at any time."""
        total = 0
        for segment in self.segments():
            with suppress(FileNotFoundError):
                total += os.stat(segment.path).st_size
        return total

    def head(self) -> Position | None:
        """Position up to which everything is on disk: the bytes before it never change. None if it is not known.

        After a crash of the machine it may lie before an earlier answer, until the receiver runs again: a reader must
        then not go back.
        """
        for _ in range(_HEAD_TRIES):  # a read may coincide with a write
            try:
                position = decode_head(self._read(self.directory / HEAD))
            except FileNotFoundError:
                return None
            if position is not None:
                return position
        return None

    def first(self) -> Position:
        """Position before the oldest message."""
        segments = self.segments()
        return segments[0].start if segments else Position(1, 0, 0)

    def consumers(self) -> dict[str, Position]:
        """The place of each consumer by its name: it has read everything before. A consumer ends with the removal of
        its file.
        """
        found = {}
        for path in sorted(self.directory.glob(f"{CONSUMERS}/*")):
            with suppress(FileNotFoundError):
                position = None if path.suffix == DRAFT_SUFFIX else decode_head(self._read(path))
                if position is None and path.suffix != DRAFT_SUFFIX:
                    raise StoreError(f"{path} is damaged: remove it, and that consumer has no place any more")
                if position is not None:
                    found[path.name] = position
        return found

    def keep_place(self, consumer: str, position: Position) -> None:
        """Keep the place of a consumer on the disk: from now on `delete_before` deletes nothing behind it. Raises
        ValueError for a name that no file can have, and StoreError.
        """
        path = self.directory / CONSUMERS / plain_name(consumer)
        try:
            _make_directory(path.parent)
            _write_place(path, encode_head(position))
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror}. May we write into the stage?") from error

    def at_time(self, time_ns: int) -> Position:
        """Position before the first block of this time or later, in nanoseconds since 1970; the head if there is
        none. Blocks have the time at which they came, by the receiver's clock.
        """
        at = self.first()
        end = self.head() or at
        for segment, _ in self._from(at, end):
            at = segment.start
            size = end.pos if segment.number == end.segment else _size(segment)
            for length, frames, came in _blocks(segment, 0, size):
                if came >= time_ns:
                    return at
                at = Position(segment.number, at.pos + length, at.frames + frames)
        return at

    def mark(self, position: Position) -> Mark:
        """Mark of a position. A reader keeps it, to continue from there later."""
        return Mark(self.stage, self._incarnation(position), self._checksum(position))

    def check(self, position: Position, mark: Mark | None = None) -> None:
        """Raises StageLost unless reading can continue from the position. `mark` is its mark from the time it was
        reached."""
        marked = _marked(self.directory)
        now = None if marked is None else marked.stage
        for expected in (self.stage, mark.stage if mark is not None else self.stage):
            if now != expected:
                raise StageLost(
                    f"the stage in {self.directory} is {now or 'gone'}, and the position is of {expected}: put that "
                    "one back, or begin anew from what is there"
                )
        self._from(position)
        if mark is not None and not all(
            expected is None or found is None or found == expected
            for found, expected in (
                (self._incarnation(position), mark.incarnation),
                (self._checksum(position), mark.checksum),
            )
        ):
            raise StageLost(
                f"the stage {self.directory} has other messages before byte {position.pos} of segment "
                f"{position.segment} than those that were read there: it was restored from a backup and went on, or "
                f"was opened for writing {KEPT} times since. Restore a newer backup, or begin again with what is there"
            )

    def _incarnation(self, position: Position) -> UUID:
        """UUID of the opening of the stage that wrote the message before the position."""
        try:
            return Incarnations(self.directory, self.stage).at(position.frames)
        except OSError as error:
            raise self._unreadable(self.directory / INCARNATIONS, error) from error

    def _checksum(self, position: Position) -> int | None:
        """Checksum of the last bytes before the position in its segment; None if that segment was deleted after being
        processed.
        """
        path = next((one.path for one in self.segments() if one.number == position.segment), None)
        if path is None:
            return None
        try:
            with FileIO(path) as file:
                file.seek(max(0, position.pos - _WINDOW))
                return crc32(file.read(min(position.pos, _WINDOW)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(path, error) from error

    def advance(
        self, start: Position, end: Position, max_rows: int | None = None, max_bytes: int | None = None
    ) -> Position:
        """End of a batch from `start`, at most `end`: whole blocks, and at least one if there is one.

        So a batch of a single block may exceed `max_rows` messages or `max_bytes` bytes. A segment within the limits is
        taken without scanning its blocks.
        """
        if start >= end:
            return start
        rows = end.frames - start.frames if max_rows is None else max_rows
        left = sum(part.end - part.start for part in self.ranges(start, end)) if max_bytes is None else max_bytes
        at = start
        for segment, after in self._from(start, end):
            here = at if segment.number == at.segment else segment.start
            size = end.pos if segment.number == end.segment else _size(segment)
            done = end.frames if after is None or segment.number == end.segment else after.frames
            if done - here.frames <= rows and size - here.pos <= left:  # the rest of the segment
                at = Position(segment.number, size, done)
                rows -= done - here.frames
                left -= size - here.pos
                continue
            for length, frames, _ in _blocks(segment, here.pos, size):
                if at.frames > start.frames and (frames > rows or length > left):
                    return at
                here = at = Position(segment.number, here.pos + length, here.frames + frames)
                rows -= frames
                left -= length
        return at

    def ranges(self, start: Position, end: Position) -> list[Stretch]:
        """The byte ranges of files from `start` to `end`."""
        found = []
        for segment, after in self._from(start, end) if start < end else ():
            first = start.pos if segment.number == start.segment else 0
            last = end.pos if segment.number == end.segment else _size(segment)
            if after is not None and segment.number != end.segment:
                _check_whole(segment, last, after.frames)
            if first < last:
                found.append(Stretch(str(segment.path), first, last))
        return found

    def delete_before(self, position: Position) -> int:
        """Delete the segments that end at or before the position and the places of all consumers, except the last;
        returns how many existed.

        Several readers may do so at once. A file that cannot be deleted stays, until the next call.
        """
        segments = self.segments()[:-1]
        position = min([position, *self.consumers().values()])
        return _delete(
            takewhile(lambda one: Position(one.number, _size(one, 0), 0) <= position._replace(frames=0), segments)
        )

    def retain(self, keep_for: float | None, keep_bytes: int | None) -> int:
        """Delete the oldest segments, except the last, whether they were read or not: those to which nothing was
        written for `keep_for` seconds, and as many as leave `keep_bytes` bytes. None is no bound. Returns how many.
        """
        left = self.used_bytes() if keep_bytes is not None else 0
        since = -math.inf if keep_for is None else time.time() - keep_for
        gone = []
        for segment in self.segments()[:-1]:
            with suppress(FileNotFoundError):
                status = os.stat(segment.path)
                if status.st_mtime >= since and left <= (keep_bytes or 0):
                    break
                left -= status.st_size
                gone.append(segment)
        return _delete(gone)

    def _from(self, start: Position, end: Position | None = None) -> list[tuple[Segment, Segment | None]]:
        """Segments from `start` to `end` (None: to the last), each with the one after it, None for the last. Raises
        StageLost if one is missing.
        """
        segments = self.segments()
        row = [
            (one, after)
            for one, after in zip(segments, [*segments[1:], None], strict=False)
            if one.number >= start.segment and (end is None or one.number <= end.segment)
        ]
        if not row:
            if start == self.first():  # a stage without messages
                return []
            raise self._gone(start, segments)
        first = row[0][0]
        if first.number == start.segment:
            if _size(first) < start.pos or first.frames > start.frames:
                raise StageLost(
                    f"{first.path} ends before byte {start.pos}, up to which it was read: put the whole file back, or "
                    "begin anew from what is there"
                )
        elif first.frames != start.frames:  # else: the end of the previous segment, which was deleted
            raise self._gone(start, segments)
        for (one, _), (other, _) in pairwise(row):
            if one.number + 1 != other.number:
                raise self._gone(Position(one.number + 1, 0, 0), segments)
        last = row[-1][0]
        if end is not None and (last.number != end.segment or _size(last) < end.pos):
            raise self._gone(end, segments)
        return row

    def _gone(self, position: Position, segments: list[Segment]) -> StageLost:
        if segments and position.segment < segments[0].number:
            return StageLost(
                f"segment {position.segment} of the stage {self.directory} is gone, and so are "
                f"{segments[0].frames - position.frames} messages behind the place up to which was read: deleted by "
                "another reader, or by keep_for or keep_bytes. Read faster, keep more, or begin anew from what is there"
            )
        there = f"{segments[0].number} to {segments[-1].number} are" if segments else "none is"
        return StageLost(
            f"segment {position.segment} of the stage {self.directory} is gone, or does not reach byte {position.pos} "
            f"({there} there): put the files back, or begin anew from what is there"
        )

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._unreadable(path, error) from error

    def _unreadable(self, path: Path, error: OSError) -> StoreError:
        return StoreError(f"{path} cannot be read: {error.strerror}. Is the stage mounted here, and may we read it?")


def check_place(directory: Path) -> bool:
    """True if there is a stage in the directory, False if one can be created. Raises UnknownStage, OSError if
    neither.
    """
    for name in (MARKER, MARKER + DRAFT_SUFFIX, HEAD, LOCK):
        must_be_file(directory / name)
    there = _marked(directory) is not None
    if not there:
        _check_empty(directory)
    return there


class _Marker(NamedTuple):
    layout: int
    stage: UUID


def _marked(directory: Path) -> _Marker | None:
    """Content of the marker file; None if there is none. Raises UnknownStage for another layout."""
    path = directory / MARKER
    try:
        with open(path, "rb") as file:
            marker = json.loads(file.read(_MARKER_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnknownStage(f"{path} cannot be read: {error.strerror}. Give the directory of a stage") from error
    except (ValueError, RecursionError) as error:
        raise UnknownStage(f"{path} says of no stage what it is: give another directory, or put a copy back") from error
    layout = marker.get("layout") if isinstance(marker, dict) else None
    if type(layout) is not int or not 1 <= layout <= LAYOUT:
        raise UnknownStage(
            f"the stage {directory} has layout {layout!r:.20}, and this version of tolliver knows 1 to {LAYOUT}: use "
            "the version that wrote it, or a newer one"
        )
    try:
        return _Marker(layout, UUID(marker["stage"]))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise UnknownStage(f"{path} has no identity: give another directory, or put a copy back") from None


def _check_empty(directory: Path) -> None:
    """Raises UnknownStage if the directory holds any file that is not a stage's."""
    ours = {LOCK, MARKER + DRAFT_SUFFIX, SEGMENTS}  # left by a process killed while creating a stage
    there = [directory, directory / SEGMENTS]
    others = sorted(name for path in there if path.exists() for name in set(os.listdir(path)) - ours)
    if others:
        raise UnknownStage(
            f"{directory} is no stage, and not empty (it has {others[0]!r:.100}): give an empty directory, or one that "
            "is not there yet"
        )


def _make_directory(path: Path) -> None:
    if not path.is_dir():
        make_directory(path)
        sync_directory(path.parent)


def _delete(segments: Iterable[Segment]) -> int:
    count = 0
    for segment in segments:
        with suppress(OSError):
            segment.path.unlink()
            count += 1
        with suppress(OSError):
            segment.path.with_name(segment.path.name + INDEX_SUFFIX).unlink()
    return count


def _size(segment: Segment, otherwise: int | None = None) -> int:
    try:
        return segment.path.stat().st_size
    except OSError as error:
        if otherwise is not None:
            return otherwise
        raise StageLost(
            f"{segment.path} is gone ({error.strerror}): put it back, or begin anew from what is there"
        ) from error


def _check_whole(segment: Segment, size: int, frames_after: int) -> None:
    """Raises StageLost if a closed segment was cut, even between two blocks: the file has `size` bytes, and should end
    after `frames_after` messages of the stage.
    """
    try:
        index = Index.decode(segment.path.with_name(segment.path.name + INDEX_SUFFIX).read_bytes())
    except OSError:
        index = None
    if index is not None:
        whole = index.length == size
    else:
        whole = segment.frames + sum(frames for _, frames, _ in _blocks(segment, 0, size)) == frames_after
    if not whole:
        raise StageLost(
            f"{segment.path} was cut: it ends at byte {size}, and had more when closed. Put the whole file back, "
            "or begin anew from what is there"
        )


def _blocks(segment: Segment, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Size in bytes, number of messages and time of each block between the bytes `start`, where a block begins, and
    `end`. Reads only headers.
    """
    try:
        with open(segment.path, "rb", buffering=_WINDOW) as file:
            while start < end:
                file.seek(start)
                header = file.read(BLOCK.size)
                values = _checked(segment, start, end, header)
                yield values
                start += values[0]
    except OSError as error:
        raise StageLost(f"{segment.path} cannot be read: {error.strerror}. Is it still there?") from error


def _checked(segment: Segment, start: int, end: int, header: bytes) -> tuple[int, int, int]:
    blocks = Blocks(start)
    blocks.feed(header)
    found = blocks.next_block()
    values = BLOCK.unpack(header, 0) if len(header) == BLOCK.size else {"length": end}
    size = BLOCK.size + values["length"]
    if isinstance(found, Damage) or start + size > end:
        detail = found.detail if isinstance(found, Damage) else f"no block ends at byte {end}"
        raise StageLost(f"{segment.path}: byte {start}: {detail}: put a copy back, or begin anew behind it")
    return size, values["frames"], values["time_ns"]
