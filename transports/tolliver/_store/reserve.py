"""Disk reserve, with which a full outbox can drain (D-13).

Removing acknowledged messages needs disk space too: the log grows before it starts again at its beginning, and the
database may grow when the log is copied to it. A reserve file keeps that space free. It is deleted for a commit that
stores no message when the disk is full, and created again when twice its size is free. Half of it is for the log, the
other half for copying the log: a reader can delay the copying, and if the log had used everything by then, it could
never start again. Little is stored in most databases, so the file begins small and grows with its database.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

from .._private import give_to_owner_of, open_private

SIZE = 8 * 2**20  # at most
_FIRST = 2**19  # of an empty database
_SHARE = 8  # at most 1/8 of the disk
_SMALLEST = 2**16
_ZEROS = bytes(2**20)


class Reserve:
    """File that takes disk space in advance, for commits that store no message on a full disk: `size` bytes, next to
    the database `path`. `there` is True while it has its full size.
    """

    def __init__(self, path: str) -> None:
        self.path = f"{path}.reserve"
        self._directory = os.path.dirname(path)
        most = min(SIZE, shutil.disk_usage(self._directory).total // _SHARE)
        self._most = most & -4096 if most >= _SMALLEST else 0
        self.size = min(self._most, max(_FIRST, self._found()))
        self.there = self._is_whole()

    def _found(self) -> int:
        with suppress(OSError):
            return os.stat(self.path).st_size & -4096
        return 0

    def _is_whole(self) -> bool:
        with suppress(OSError):
            found = os.stat(self.path)
            return found.st_size >= self.size and getattr(found, "st_blocks", self.size) * 512 >= self.size
        return not self.size

    def free(self) -> int:
        """Free bytes of the disk for this user."""
        return shutil.disk_usage(self._directory).free

    def make(self) -> bool:
        """Create the file; True if it exists now and did not before. Never raises."""
        if self.there:
            return False
        try:
            if self.free() < 2 * self.size:
                return False
            self._allocate(self.size)
        except OSError:
            self._remove()
            return False
        self.there = True
        return True

    def grow(self, wanted: int) -> bool:
        """Let the file grow to `wanted` bytes or more, if there is room for that twice; True if it has grown. Never
        raises."""
        size = self.size
        while 0 < size < min(wanted, self._most):
            size = min(2 * size, self._most)
        if size == self.size or not self.there:
            return False
        try:
            if self.free() < 2 * size:
                return False
            self._allocate(size)
        except OSError:
            with suppress(OSError):
                os.truncate(self.path, self.size)
            return False
        self.size = size
        return True

    def _allocate(self, size: int) -> None:
        file = open_private(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0))
        give_to_owner_of(self.path.removesuffix(".reserve"), file)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file, 0, size)
            else:
                for at in range(0, size, len(_ZEROS)):
                    os.write(file, _ZEROS[: size - at])
        finally:
            os.close(file)

    def give_up_half(self) -> bool:
        """Shrink the file to half; True if that freed space."""
        was_there, self.there = self.there, not self.size
        if not was_there or self.there:
            return False
        try:
            os.truncate(self.path, self.size // 2)
        except OSError:
            return False
        return True

    def give_up(self) -> bool:
        """Delete the file; True if that freed space."""
        self.there = not self.size
        return self._remove()

    def _remove(self) -> bool:
        try:
            os.unlink(self.path)
        except OSError:
            return False
        return True
