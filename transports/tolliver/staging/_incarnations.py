"""Incarnations of a stage: its openings for writing.

A stage that was restored from a backup goes on under the same identity, and other messages come to stand where readers
have been already. So each opening is noted before its first message is on the disk, with a UUID of its own: from there
on a copy and its original differ in what they have noted. Openings that wrote nothing leave no note.
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
"""Notes that are kept: messages from before the oldest of them count as the stage's own."""

_NOTE = Struct(">Q16s")  # how many messages stood before, and the incarnation that wrote from there on
_CHECKSUM = Struct(">I")


class Incarnations:
    """The notes, as they were when they were read."""

    def __init__(self, directory: Path, stage: UUID) -> None:
        """None where there is no file of them, or it is damaged. Raises OSError where it cannot be read."""
        data = b""
        with suppress(FileNotFoundError):
            data = (directory / INCARNATIONS).read_bytes()
        end = len(data) - _CHECKSUM.size
        whole = end >= 0 and end % _NOTE.size == 0 and data[end:] == _CHECKSUM.pack(crc32(data[:end]))
        self._notes = data[:end] if whole else b""
        self._stage = stage

    def at(self, frames: int) -> UUID:
        """The incarnation that wrote the message of this number, from 1. The stage's own UUID where none is noted."""
        before = self._before(frames)
        if not before:
            return self._stage
        return UUID(bytes=_NOTE.unpack_from(self._notes, (before - 1) * _NOTE.size)[1])

    def with_another(self, frames: int) -> bytes:
        """The file with one more, which writes what comes behind so many messages."""
        kept = self._notes[: self._before(frames) * _NOTE.size][-(KEPT - 1) * _NOTE.size :]
        notes = kept + _NOTE.pack(frames, uuid4().bytes)
        return notes + _CHECKSUM.pack(crc32(notes))

    def _before(self, frames: int) -> int:
        """The number of incarnations that began to write before that."""
        places = range(len(self._notes) // _NOTE.size)
        return bisect_left(places, frames, key=lambda at: _NOTE.unpack_from(self._notes, at * _NOTE.size)[0])
