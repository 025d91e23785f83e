"""The recordings of an audit: which there are, whose they are, whether they were ended, and the pieces to read.

The idea: a file is told apart by its number in the order of names, which is the order of time, so (file, offset) says
what came before what in all that an instance recorded, whatever its clock did. An index beside a file says where blocks
begin, so a file is read in pieces; and that it was ended, so that nothing is missing at its end.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tolliver_proto.recording import (
    BLOCK,
    INDEX,
    INDEX_ENTRY,
    INDEX_STEP,
    INDEX_SUFFIX,
    MAGIC,
    SUFFIX,
    Block,
    Damage,
    Index,
    build_index,
    read_blocks,
)

PIECE = 16 * 2**20
"""The least bytes of a piece, but for the last of a file."""

_CHUNK = 2**20  # bytes


class Recording(NamedTuple):
    """A file. `local` is whose it is, None where it has no block that can be read. `ended`: it was closed in order."""

    file: int
    path: str
    local: str | None
    size: int
    ended: bool
    starts: tuple[int, ...]
    """Where its pieces begin, in bytes."""


class Piece(NamedTuple):
    """Bytes of a file, from where one block begins to where another does, or to its end."""

    file: int
    path: str
    begin: int
    end: int


def recordings_in(paths: Iterable[str | os.PathLike[str]]) -> list[Recording]:
    """All recordings of these directories, with those below them, and of these files. Each file counts once.

    Raises ValueError where a directory has none, OSError where something cannot be read.
    """
    found: set[Path] = set()
    for path in map(Path, paths):
        files = list(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"{path}: no recordings (*{SUFFIX}) in this directory or below it")
        found.update(file.resolve() for file in files)
    ordered = sorted(found, key=lambda path: (path.name, str(path)))
    return [_recording(number, path) for number, path in enumerate(ordered)]


def _recording(number: int, path: Path) -> Recording:
    size = path.stat().st_size
    with path.open("rb") as file:

        def read_at(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        start = read_at(0, BLOCK.size)
        index = _sidecar(path, size, start)
        ended = index is not None
        entries = (index or build_index(read_at, size)).entries
    starts = [0]
    for entry in entries:
        if entry.offset >= starts[-1] + PIECE:
            starts.append(entry.offset)
    return Recording(number, str(path), _local(start), size, ended, tuple(starts))


def _sidecar(path: Path, size: int, start: bytes) -> Index | None:
    """The index beside the file, if it is this file's as it is now."""
    try:
        with path.with_name(path.name + INDEX_SUFFIX).open("rb") as file:
            data = file.read(INDEX.size + (size // INDEX_STEP + 2) * INDEX_ENTRY.size)
    except FileNotFoundError:
        return None
    index = Index.decode(data)
    return index if index is not None and index.fits(size, start) else None


def _local(start: bytes) -> str | None:
    if len(start) < BLOCK.size:
        return None
    values = BLOCK.unpack(start, 0)
    return str(UUID(bytes=values["local"])) if values["magic"] == MAGIC else None


def pieces_of(recordings: Sequence[Recording]) -> list[Piece]:
    """What can be read on its own, in order."""
    return [
        Piece(one.file, one.path, begin, end)
        for one in recordings
        for begin, end in zip(one.starts, (*one.starts[1:], one.size), strict=True)
    ]


def read_piece(piece: Piece) -> Iterator[Block | Damage]:
    """Its blocks, in order, and what is damaged. Behind a damaged header nothing of the piece is read."""
    with open(piece.path, "rb") as file:
        file.seek(piece.begin)
        yield from read_blocks(_chunks(file.read, piece.end - piece.begin), piece.begin)


def _chunks(read: Callable[[int], bytes], left: int) -> Iterator[bytes]:
    while left > 0 and (data := read(min(_CHUNK, left))):
        left -= len(data)
        yield data


def names_of(recordings: Sequence[Recording]) -> dict[str, str]:
    """What to call an instance: its directory's name, where that holds one instance's recordings and nobody else's."""
    owners: defaultdict[str, set[str]] = defaultdict(set)
    homes: defaultdict[str, set[str]] = defaultdict(set)
    for one in recordings:
        if one.local is not None:
            home = os.path.dirname(one.path)
            owners[home].add(one.local)
            homes[one.local].add(home)
    named = {local: os.path.basename(min(where)) for local, where in homes.items() if len(where) == 1}
    taken = list(named.values())
    return {
        local: name for local, name in named.items() if taken.count(name) == 1 and len(owners[min(homes[local])]) == 1
    }
