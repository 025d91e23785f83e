"""Mark file next to the log, which detects missing commits (D-13).

A database counts its commits, and after each one its mark gets the number. The mark is not synced: after a loss of
power it may be older than the database, or empty, and neither means anything. A mark that is newer than the database
means that confirmed commits are missing: the log was removed or cut, the disk lost synced data, or the file was
replaced by a copy. A kill cannot lose the mark, as the system has it.

The mark also holds the clocks of the last commit, or of the last look for messages whose time has come (D-10, P-91).
"""

from __future__ import annotations

import os
from contextlib import suppress
from struct import Struct
from typing import Any
from uuid import UUID
from zlib import crc32

from .._private import give_to_owner_of, open_private
from .clock import ClockNote, StoreClock

_BODY = Struct(">8s16sQQ")  # magic, the instance's UUID, its commits, missing commits
_MAGIC = b"tollmark"
_CHECK = Struct(">I")
_SIZE = _BODY.size + _CHECK.size
_NOTE = Struct(">16sddd")  # boot id, boot clock, wall clock, correction


def _write_at_once(file: int, data: bytes, place: int) -> None:
    os.lseek(file, place, os.SEEK_SET)
    os.write(file, data)


_write = getattr(os, "pwrite", _write_at_once)  # a single system call if there is one


class Mark:
    """File next to the database with the number of confirmed commits, which tells at opening that commits are missing.
    `missing` is how many, since the last `clear`.
    """

    def __init__(self, path: str, instance_id: UUID, commits: int) -> None:
        """Read the mark of the database `path`, in which the instance has `commits` commits."""
        self.missing = 0
        self.noted: ClockNote | None = None
        """The clocks of the last commit of the previous run."""
        self.clock: StoreClock | None = None
        """The clock that is stored from now on."""
        self._instance = instance_id.bytes
        self._commits = commits
        self._file: int | None = None
        with suppress(OSError):  # everything else works without a mark
            self._file = open_private(mark_path(path), os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0))
            give_to_owner_of(path, self._file)
            before, missing = self._read()
            self.missing = missing + max(0, before - commits)

    def _read(self) -> tuple[int, int]:
        """Number of commits and number of missing commits in the mark; 0 if it is torn or another database's."""
        assert self._file is not None
        data = os.read(self._file, _SIZE + _NOTE.size + _CHECK.size)
        body, note = _checked(_BODY, data[:_SIZE]), _checked(_NOTE, data[_SIZE:])
        if body is None or body[:2] != (_MAGIC, self._instance):
            return 0, 0
        self.noted = None if note is None else ClockNote(*note)
        return body[2], body[3]

    def write(self, commits: int) -> None:
        """Store the number of commits. Never raises: on a full disk the mark stays as it was."""
        self._commits = commits
        if self._file is None:
            return
        data = _with_check(_BODY.pack(_MAGIC, self._instance, commits, self.missing))
        note = self.noted if self.clock is None else self.clock.note()
        if note is not None:
            data += _with_check(_NOTE.pack(*note))
        try:
            _write(self._file, data, 0)
        except OSError:
            return

    def write_clock(self) -> None:
        """Store the clock's present time with what is there."""
        self.write(self._commits)

    def clear(self) -> None:
        """Acknowledge the missing commits: they are not reported again."""
        self.missing = 0
        self.write(self._commits)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _with_check(data: bytes) -> bytes:
    return data + _CHECK.pack(crc32(data))


def _checked(shape: Struct, data: bytes) -> tuple[Any, ...] | None:
    """The values in `data`, unpacked by the Struct; None if their checksum is wrong."""
    whole = len(data) == shape.size + _CHECK.size and _with_check(data[: shape.size]) == data
    return shape.unpack(data[: shape.size]) if whole else None


def mark_path(path: str) -> str:
    """Path of the mark of the database `path`."""
    return f"{path}.mark"
