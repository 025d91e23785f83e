"""Spark streaming source of recordings: a directory of growing files.

The offset is the position in each file. A file is read up to the end of its last whole block, which the headers give;
an incomplete block is waited for. Files are read in the order of their names, which are times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from tolliver_proto import StoreError
from tolliver_proto.recording import BLOCK, Index

from ..read._options import Mode
from ..read._paths import Choice, alternatives, is_glob, local_path, recordings_at
from ..read._ranges import DamagedRecording, Span, block_ends, opened, own_index
from ._log import Bounds, log
from ._offsets import At, Offset, StreamLost, files_offset, read_files
from ._options import Begin, StreamOptions

MOST_FILES = 4_096
"""Most files: each offset has all their names, and Spark stores one for each batch."""

_REST = 9  # pause after a look, in multiples of its duration: Spark asks some 80 times a second


@dataclass(slots=True)
class _Seen:
    """State of a file when it was last looked at: its size, and the end of its last whole block."""

    size: int = 0
    whole: int = 0
    first: int | None = None  # CRC32 of the first header
    changed: tuple[int, int] = (0, 0)  # inode and time of the last change, which tell that another file may be there
    cut: bool = False  # the notice that it is shorter than its index says was given


class Recordings:
    """The recordings at a path as a `Log` for the stream reader. Names in offsets are relative to the directory, or to
    that before a glob."""

    def __init__(self, options: StreamOptions) -> None:
        [path] = options.read.paths
        self._pattern = os.path.abspath(local_path(path))
        self._base = _base(self._pattern)
        self._choice = Choice(options.read.names, options.read.recursive)
        self._strict = options.read.mode is Mode.FAILFAST
        self._fails = options.fail_on_data_loss
        self._start = options.start
        self._seen: dict[str, _Seen] = {}
        self._next_look = 0.0
        self._read: dict[str, At] = {}  # how far the query has read, as last reported

    def begin(self) -> Offset:
        if isinstance(self._start, dict):
            return self._start
        return self.head() if self._start is Begin.LATEST else files_offset({})

    def head(self) -> Offset:
        self._look()
        return files_offset({name: At(seen.whole, seen.first) for name, seen in self._seen.items() if seen.whole})

    def advance(self, start: Mapping[str, Any], end: Mapping[str, Any], bounds: Bounds) -> Offset:
        """Implements `Log.advance`. Files that were deleted leave the offset with the next step."""
        before, there = read_files(start), read_files(end)
        after = {name: at for name, at in before.items() if name in there}
        rows, size = bounds
        moved = False
        for name, to in there.items():
            at = after.get(name, At(0)).pos
            if not after.get(name, to).leads_to(to):
                self._lost(f"{self._path(name)} was read up to byte {at}, and now it is another file")
                at = 0
            for stop, frames in self._steps(name, at, to.pos, bounds):
                if moved and ((rows is not None and frames > rows) or (size is not None and stop - at > size)):
                    return files_offset(after)
                rows = None if rows is None else rows - frames
                size = None if size is None else size - (stop - at)
                after[name] = to._replace(pos=stop)
                at, moved = stop, True
        return files_offset(after) if moved else dict(start)

    def waiting(self, _start: Mapping[str, Any], _end: Mapping[str, Any]) -> int | None:
        return None

    def spans(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Span]:
        before, found = read_files(start), []
        for name, to in read_files(end).items():
            at, path = before.get(name, At(0)), self._path(name)
            begin = at.pos if at.leads_to(to) else 0
            if begin == to.pos:
                continue
            there = _file_at(path)
            if there is not None and to.leads_to(there):
                found.append(Span(path, begin, to.pos))
            else:
                self._lost(f"{path} {_state(there, to)}, and bytes {begin} to {to.pos} of it are to be read")
        return found

    def consumed(self, offset: Mapping[str, Any]) -> None:
        """Implements `Log.consumed`. Deletes nothing, as recordings are not the stream's; notes the positions, from
        which files are examined."""
        self._read = read_files(offset)

    def _steps(self, name: str, at: int, to: int, bounds: Bounds) -> Iterator[tuple[int, int]]:
        """Each offset of the file `name`, from `at` to `to`, where a batch may end, with the number of frames since the
        one before.
        """
        if at == to:
            return
        if bounds == Bounds():
            yield to, 0
            return
        path = self._path(name)
        while at < to:
            try:
                for stop, frames in block_ends(path, at, to):
                    yield stop, frames
                    at = stop
                break
            except DamagedRecording as damage:  # `to` lies after it, so an index has the next block
                at = self._behind(path, damage.offset, to)
                yield at, 0
        if at < to:
            yield to, 0

    def _behind(self, path: str, offset: int, otherwise: int) -> int:
        with opened(path) as recording:
            index = own_index(recording, path, os.fstat(recording.fileno()).st_size)
        entry = index.after(offset) if index is not None else None
        return otherwise if entry is None else min(entry.offset, otherwise)

    # Files.

    def _look(self) -> None:
        begun = time.monotonic()
        if begun < self._next_look:
            return
        names = self._names()
        for name in self._seen.keys() - names.keys():
            unread = self._seen.pop(name).whole - self._read.get(name, At(0)).pos
            if unread > 0:
                self._lost(f"{self._path(name)} is gone, and {unread} bytes of it were not read")
        for name, path in names.items():
            self._look_at(name, path)
        done = time.monotonic()
        self._next_look = done + _REST * (done - begun)

    def _names(self) -> dict[str, str]:
        """Paths of all files by their names in offsets, in reading order."""
        if not self._base.is_dir():
            raise StoreError(f"{self._base} is no directory: check the path. Is it mounted here?")
        begin = len(str(self._base / "_")) - 1
        found = {file[begin:]: file for file in recordings_at(self._pattern, self._choice)}
        if len(found) > MOST_FILES:
            raise StoreError(
                f"{self._pattern} has {len(found)} recordings, and an offset names each: {MOST_FILES} is the most. "
                "Move away those that are read, or read them at rest"
            )
        return dict(sorted(found.items()))

    def _path(self, name: str) -> str:
        return str(self._base / name)

    def _look_at(self, name: str, path: str) -> None:
        read = self._read.get(name, At(0))
        seen = self._seen.get(name) or _Seen(whole=read.pos, first=read.first)
        try:
            status = os.stat(path)
        except FileNotFoundError:  # the file was just deleted
            return
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}. May we read it?") from error
        self._seen[name] = seen
        size, changed = status.st_size, (status.st_ino, status.st_mtime_ns)
        if changed != seen.changed or size != seen.size:
            self._begin_anew_if_other(name, path, seen, read)
        if size != seen.size or seen.whole != size:
            seen.whole = self._whole(path, seen, size)
            seen.size = size
        seen.changed = changed

    def _begin_anew_if_other(self, name: str, path: str, seen: _Seen, read: At) -> None:
        """Compares the first header with that of the file that was seen under this name. `advance` tells
        of what was read already."""
        there = _file_at(path)
        if there is None:
            return
        if there.is_other(At(seen.whole, seen.first)):
            unread, seen.whole, seen.size, seen.cut = seen.whole, 0, 0, False
            if not read.pos:
                self._lost(f"{self._path(name)} is another file now, and {unread} bytes of the other were not read")
        seen.first = there.first

    def _whole(self, path: str, seen: _Seen, size: int) -> int:
        """Offset of the end of the last whole block, in a file that now has `size` bytes; `seen` is the file as last
        looked at.
        """
        with opened(path) as recording:
            index = own_index(recording, path, size)
        if index is not None and index.length == size:
            return size
        if index is not None and index.length > size:
            self._cut(path, seen, size, index)
        at = seen.whole if seen.whole <= size else 0
        if size == seen.size:
            return at  # an incomplete block
        try:
            for stop, _ in block_ends(path, at, size):
                at = stop
        except DamagedRecording as damage:
            self._damaged(damage)
        return at

    # Faults.

    def _cut(self, path: str, seen: _Seen, size: int, index: Index) -> None:
        if not seen.cut:
            self._damaged(
                DamagedRecording(path, size, f"the file was cut: it had {index.length} bytes when it was closed")
            )
            seen.cut = True

    def _damaged(self, damage: DamagedRecording) -> None:
        if self._strict:
            raise DamagedRecording(
                damage.file, damage.offset, f"{damage.detail}; mode=dropmalformed reads what is good"
            ) from damage
        log.warning("%s: nothing behind it is read until there is an index", damage)

    def _lost(self, what: str) -> None:
        if self._fails:
            raise StreamLost(f"{what}; put it back, or go on without it: failOnDataLoss=false")
        log.warning("%s; failOnDataLoss=false goes on without it", what)


def _base(path: str) -> Path:
    """Directory to which names in offsets are relative."""
    here = Path(path)
    if here.is_file():
        return here.parent
    if here.exists() or not is_glob(path):
        return here
    return Path(os.path.commonpath([_before_signs(Path(one).parent) for one in alternatives(path)]))


def _before_signs(here: Path) -> Path:
    while not here.exists() and is_glob(str(here)):
        here = here.parent
    return here


def _file_at(path: str) -> At | None:
    """Position of the end of a file; None if there is none."""
    try:
        with open(path, "rb") as recording:
            head = recording.read(BLOCK.size)
            size = recording.seek(0, os.SEEK_END)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}. May we read it?") from error
    return At(size, crc32(head) if len(head) == BLOCK.size else None)


def _state(there: At | None, planned: At) -> str:
    if there is None:
        return "is gone"
    return "is another file" if there.is_other(planned) else f"has only {there.pos} bytes"
