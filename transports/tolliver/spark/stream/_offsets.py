"""Offsets of streaming queries, as JSON in a checkpoint.

An offset may be read years later, by another version or against another folder. So it has its kind, is validated in
full, and is written in a single form, as Spark compares offsets as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import StoreError

VERSION, _MARKED = 1, 2  # version 1 has no mark of what is before the place, and of which file it is in

Offset = dict[str, Any]
"""Offset as Spark passes and takes it."""


class StreamLost(StoreError):
    """Data that a query still has to read, or its place, does not exist any more. See the option failOnDataLoss."""


class Place(NamedTuple):
    """Place in a stage: byte `pos` of a segment, with the number of messages before it since the stage was created.

    `incarnation` and `checksum` are those of its `Mark`; None in offsets of earlier versions.
    """

    stage: UUID
    segment: int
    pos: int
    frames: int
    incarnation: UUID | None = None
    checksum: int | None = None


def place_offset(place: Place) -> Offset:
    said = {name: str(value) if isinstance(value, UUID) else value for name, value in place._asdict().items()}
    return {"v": _MARKED, **said}


def read_place(offset: Mapping[str, Any]) -> Place:
    """Place in a live stream's offset. Raises StreamLost for any other offset."""
    marked = _check_version(offset) == _MARKED
    numbers: list[Any] = [offset.get(name) for name in ("segment", "pos", "frames")]
    checksum = offset.get("checksum") if marked else None
    try:
        stage = UUID(offset.get("stage", ""))
        incarnation = UUID(offset.get("incarnation", "")) if marked else None
    except (ValueError, AttributeError, TypeError):
        raise _strange(offset, "a live stream") from None
    counts = numbers if checksum is None else [*numbers, checksum]
    if len(offset) != (7 if marked else 5) or not all(map(_is_count, counts)):
        raise _strange(offset, "a live stream")
    segment, pos, frames = numbers
    return Place(stage, segment, pos, frames, incarnation, checksum)


class At(NamedTuple):
    """Position in a file: its first `pos` bytes are read. `first` is the CRC32 of its first header, whose time and
    UUIDs tell it from other files; None in offsets of earlier versions.
    """

    pos: int
    first: int | None = None

    def is_other(self, there: At) -> bool:
        """True if this is in another file than `there`, of the same name."""
        return None not in (self.first, there.first) and self.first != there.first

    def leads_to(self, there: At) -> bool:
        """True if reading on from here comes to `there`."""
        return self.pos <= there.pos and not self.is_other(there)


def files_offset(positions: Mapping[str, At]) -> Offset:
    return {"v": _MARKED, "files": {name: list(at) for name, at in sorted(positions.items())}}


def read_files(offset: Mapping[str, Any]) -> dict[str, At]:
    """Position in each file, from the offset of a stream of files. Raises StreamLost for any other offset."""
    marked = _check_version(offset) == _MARKED
    files = offset.get("files")
    if len(offset) != 2 or not isinstance(files, Mapping):
        raise _strange(offset, "a stream of files")
    found = {}
    for name, value in files.items():
        at = value if marked else [value, None]
        if not isinstance(at, list) or len(at) != 2 or not all(map(_is_count, at[:1] if at[1] is None else at)):
            raise _strange(offset, "a stream of files")
        found[name] = At(*at)
    return found


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _check_version(offset: object) -> object:
    version = offset.get("v") if isinstance(offset, Mapping) else None
    if version not in (VERSION, _MARKED):
        raise StreamLost(
            f"the checkpoint has the offset {offset!r:.200}, which this tolliver does not know: use the version that "
            "wrote it, or a new checkpointLocation"
        )
    return version


def _strange(offset: object, kind: str) -> StreamLost:
    return StreamLost(
        f"the checkpoint has the offset {offset!r:.200}, which is none of {kind}: the checkpointLocation is another "
        "query's, give this one its own"
    )
