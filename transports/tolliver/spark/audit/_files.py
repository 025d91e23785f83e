"""Recordings of an audit: their files, owners, and orderly ends.

A file gets a number in the order of names, which is the order of time. So (file, ordinal) orders everything that an
instance recorded, even if its clock was set. An index next to a file shows that it was closed, so nothing is missing at
its end.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

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
)

from ..read._ranges import DamagedRecording, Range, blocks_in, plan


class Recording(NamedTuple):
    """A recording file. `local` is its instance's UUID, None if it has no readable block. `ended`: it was closed in
    order."""

    file: int
    path: str
    local: str | None
    size: int
    ended: bool


def recordings_in(paths: Iterable[str | os.PathLike[str]]) -> list[Recording]:
    """Recordings in these directories and their subdirectories, and these files. Each file counts once.

    Raises ValueError if a directory has none, OSError if one cannot be read.
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
        start = file.read(BLOCK.size)
    return Recording(number, str(path), _local(start), size, _has_index(path, size, start))


def _has_index(path: Path, size: int, start: bytes) -> bool:
    """True if the index next to the file is complete and belongs to its present content: `size` bytes, which begin with
    `start`.
    """
    try:
        with path.with_name(path.name + INDEX_SUFFIX).open("rb") as file:
            data = file.read(INDEX.size + (size // INDEX_STEP + 2) * INDEX_ENTRY.size)
    except FileNotFoundError:
        return False
    index = Index.decode(data)
    return index is not None and index.fits(size, start)


def _local(start: bytes) -> str | None:
    if len(start) < BLOCK.size:
        return None
    values = BLOCK.unpack(start, 0)
    return str(UUID(bytes=values["local"])) if values["magic"] == MAGIC else None


RANGES = pa.schema(
    [
        ("number", pa.int32()),
        ("file", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("last", pa.bool_()),
        ("entries", pa.list_(pa.int64())),
        ("length", pa.int64()),
    ]
)
"""The columns of `ranges_of`."""


def ranges_of(recordings: Sequence[Recording], tasks: int) -> pa.Table:
    """Ranges of the recordings that `tasks` tasks can read independently, in order, each with its file's number."""
    numbers = {one.path: one.file for one in recordings}
    parts = [part for task in plan(list(numbers), tasks) for part in task]
    return pa.Table.from_pylist([{"number": numbers[part.file], **asdict(part)} for part in parts], RANGES)


def items_of(row: dict[str, Any]) -> Iterator[Block | Damage]:
    """Blocks of one range, a row of `ranges_of`, and damage in it."""
    values = {name: value for name, value in row.items() if name != "number"}
    try:
        yield from blocks_in(Range(**values | {"entries": tuple(values["entries"])}))
    except DamagedRecording as error:
        yield Damage(error.offset, error.detail)


def names_of(recordings: Sequence[Recording]) -> dict[str, str]:
    """Names of instances: the name of a directory that has one instance's recordings and no others."""
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
