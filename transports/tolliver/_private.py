"""Creating and changing files: regular ones, private to their owner (D-13).

All such code uses this module, which sets the mode of files. A device, pipe, socket or directory in the place of a file
is refused before anything is changed: replacing `/dev/null` would break the machine, and opening a pipe without a
reader would block. Commands that write to standard output call it "-", not by a device's name. `tests/test_modes.py`
checks that no other module creates files by other means, and lists the exceptions.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

MODE = 0o600
FOR_OTHERS = 0o666
"""Mode of files meant for other users, as far as the process's umask allows."""
DRAFT_SUFFIX = ".new"
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""Suffix of the temporary name of a file that is being written."""

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # does not block if a pipe has just replaced the file
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFile(OSError):
    """The path is not a regular file. `strerror` says what it is; the full text also has advice."""

    def __init__(self, path: str | os.PathLike[str], found: os.stat_result, wanted: str) -> None:
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a regular file")
        super().__init__(errno.EINVAL, f"{os.fspath(path)} is {kind}, and no {wanted}")

    def __str__(self) -> str:
        return f"{self.strerror}: it is left as it is. Give another path, or move that away"


def must_be_file(path: str | os.PathLike[str]) -> None:
    """Raises NotAFile if the path exists and is not a regular file, OSError if that cannot be checked. Links are
    followed.

    Call it before a file is created, replaced, changed or appended to.
    """
    with suppress(FileNotFoundError, NotADirectoryError):  # the path does not exist
        _check(path, os.stat(path))


def _check(path: str | os.PathLike[str], found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(path, found, "regular file")


def is_one_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """True if both are names of the same file, which need not exist yet."""
    with suppress(OSError):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def open_private(path: str | os.PathLike[str], flags: int, mode: int = MODE) -> int:
    """Open a file for its owner alone, with the flags and the mode of `os.open`; returns its descriptor; also usable as
    `opener` of `open`. Raises NotAFile, OSError.
    """
    must_be_file(path)
    descriptor = os.open(path, flags | _AT_ONCE, mode)
    try:
        _check(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Content of a regular file. Pipes and devices are refused, as reading them may never end. Raises NotAFile,
    OSError."""
    with open(path, "rb", opener=open_private) as file:
        return file.read()


def make_private(descriptor: int) -> None:
    """Make an open file, given by its descriptor, private, as it may have existed with another mode. Raises OSError."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, MODE)


def give_to_owner_of(path: str | os.PathLike[str], descriptor: int) -> None:
    """Give a file that root creates next to `path`, and has open as `descriptor`, to the owner of `path`, as SQLite
    does.
    """
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        with suppress(OSError):  # `path` does not exist yet
            found = os.stat(path)
            os.fchown(descriptor, found.st_uid, found.st_gid)


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """Create or overwrite a private file. Raises NotAFile, OSError."""
    with open(path, "wb", opener=open_private) as file:
        make_private(file.fileno())
        file.write(data)


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode: int = MODE, draft: str | os.PathLike[str] | None = None
) -> Iterator[BinaryIO]:
    """Context manager: a new file that replaces `path` atomically when the block ends without an error.

    Until then its name is `draft` (by default with DRAFT_SUFFIX). If the block fails, it is removed. Raises NotAFile,
    OSError.
    """
    must_be_file(path)
    draft = f"{os.fspath(path)}{DRAFT_SUFFIX}" if draft is None else draft
    with open(draft, "wb", opener=partial(open_private, mode=mode)) as file:
        try:
            yield file
            file.close()
            take_place(draft, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise


def take_place(draft: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Rename the file `draft` to `path`, replacing an existing file. Raises NotAFile, OSError."""
    must_be_file(path)
    os.replace(draft, path)


def plain_name(given: str) -> str:
    """Return a name under which a file may stand. Raises ValueError."""
    if not _PLAIN.fullmatch(given):
        raise ValueError("give a name of at most 100 of the letters a to z and A to Z, digits, - and _")
    return given


def make_directory(path: str | os.PathLike[str], mode: int = 0o700) -> None:
    """Create a directory and its parents if missing. Raises NotAFile if another kind of file exists there, OSError."""
    try:
        Path(path).mkdir(mode=mode, parents=True, exist_ok=True)
    except FileExistsError:
        with suppress(FileNotFoundError):  # a dangling link
            raise NotAFile(path, os.stat(path), "directory") from None
        raise
