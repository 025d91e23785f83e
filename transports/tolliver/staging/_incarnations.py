"""Incarnations of a stage: each of its openings for writing.

A stage restored from a backup continues under the same UUID, and writes other messages at positions that readers have
passed already. So each opening gets a UUID of its own, noted in a file before its first message is on disk: a copy and
its original then differ in their notes. Openings that wrote nothing are not noted.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from pathlib import Path
from struct import Struct
from uuid import UUID, uuid4
from zlib import crc32

INCARNATIONS = "incarnations"
KEPT = 4096
"""Most notes kept. Messages older than the oldest note belong to the stage's own UUID."""

_NOTE = Struct(">Q16s")  # number of messages before it, and the incarnation's UUID
_CHECKSUM = Struct(">I")


class Incarnations:
    """List of the openings of a stage that have written messages (incarnations), each with a UUID, and the number of
    messages before its first one; kept in a file.
    """

    def __init__(self, directory: Path, stage: UUID) -> None:
        """Read the notes; none if the file is missing or damaged. Raises OSError if it cannot be read."""
        data = b""
        with suppress(FileNotFoundError):
            data = (directory / INCARNATIONS).read_bytes()
        end = len(data) - _CHECKSUM.size
        whole = end >= 0 and end % _NOTE.size == 0 and data[end:] == _CHECKSUM.pack(crc32(data[:end]))
        self._notes = data[:end] if whole else b""
        self._stage = stage

    def at(self, frames: int) -> UUID:
        """UUID of the opening that wrote message number `frames`, counted from 1; the stage's own UUID without a
        note.
        """
        before = self._before(frames)
        if not before:
            return self._stage
        return UUID(bytes=_NOTE.unpack_from(self._notes, (before - 1) * _NOTE.size)[1])

    def with_another(self, frames: int) -> bytes:
        """New content of the file: with a note for an incarnation that begins after `frames` messages."""
        kept = self._notes[: self._before(frames) * _NOTE.size][-(KEPT - 1) * _NOTE.size :]
        notes = kept + _NOTE.pack(frames, uuid4().bytes)
        return notes + _CHECKSUM.pack(crc32(notes))

    def _before(self, frames: int) -> int:
        """Number of openings that began to write before message number `frames`."""
        places = range(len(self._notes) // _NOTE.size)
        return bisect_left(places, frames, key=lambda at: _NOTE.unpack_from(self._notes, at * _NOTE.size)[0])
