"""Offsets of streaming queries, as JSON in a checkpoint.

An offset may come back years later, to another version and another folder. So it says which kind it is, is read with
every check, and written in one form: Spark compares offsets as texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto import StoreError

VERSION, _MARKED = 1, 2  # a place of the first does not say what stood before it

Offset = dict[str, Any]
"""As Spark hands it over and takes it."""


class StreamLost(StoreError):
    """Data that a query has still to read, or its place in it, is no longer there. See the option failOnDataLoss."""


class Place(NamedTuple):
    """A place in a stage: before this byte of this segment stand so many messages, since the stage was made.

    `incarnation` and `checksum` say which (`Mark`). None in the offsets of earlier versions.
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
    """Raises StreamLost for an offset that no live stream wrote."""
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


def files_offset(positions: Mapping[str, int]) -> Offset:
    return {"v": VERSION, "files": dict(sorted(positions.items()))}


def read_files(offset: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of each file that are read. Raises StreamLost for an offset that no stream of files wrote."""
    _check_version(offset)
    files = offset.get("files")
    if len(offset) != 2 or not isinstance(files, Mapping) or not all(map(_is_count, files.values())):
        raise _strange(offset, "a stream of files")
    return dict(files)


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
