"""Making and changing of files: regular ones, their owner's alone (D-13).

This is the one place that does so, and that knows their mode. A device, a pipe, a socket or a directory where a file is
to be is refused before anything is touched: a file that took the place of `/dev/null` would break the machine, and a
pipe without a reader would be waited for. No device and no pipe is written to by its name: a command that writes to
standard output calls it "-". `tests/test_modes.py` holds the sources against that; it lists the modules that make files
by other means, with their reasons.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

MODE = 0o600
FOR_OTHERS = 0o666
"""Mode of files for others: the process's umask says who they are."""
DRAFT_SUFFIX = ".new"
"""End of the name of a file that gets its own when it is whole."""

_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # nothing waits for a pipe that took the file's place a moment ago
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFile(OSError):
    """Something else is there. `strerror` says what; the whole text also says what to do."""

    def __init__(self, path: str | os.PathLike[str], found: os.stat_result, wanted: str) -> None:
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "a regular file")
        super().__init__(errno.EINVAL, f"{os.fspath(path)} is {kind}, and no {wanted}")

    def __str__(self) -> str:
        return f"{self.strerror}: it is left as it is. Give another path, or move that away"


def must_be_file(path: str | os.PathLike[str]) -> None:
    """To be called before a file is made, replaced, changed or appended to. A link is what it leads to.

    Raises NotAFile where something is there and no regular file, OSError where that cannot be said.
    """
    with suppress(FileNotFoundError, NotADirectoryError):  # nothing is there
        _check(path, os.stat(path))


def _check(path: str | os.PathLike[str], found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotAFile(path, found, "regular file")


def is_one_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """True if both are names of one file, which need not be there yet."""
    with suppress(OSError):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)


def open_private(path: str | os.PathLike[str], flags: int, mode: int = MODE) -> int:
    """A descriptor, as `os.open` gives it and `open` wants it of an `opener`. Raises NotAFile, OSError."""
    must_be_file(path)
    descriptor = os.open(path, flags | _AT_ONCE, mode)
    try:
        _check(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Bytes of a regular file alone: a pipe may be waited for, a device may never end. Raises NotAFile, OSError."""
    with open(path, "rb", opener=open_private) as file:
        return file.read()


def make_private(descriptor: int) -> None:
    """A file that may have been there before, with another mode. Raises OSError."""
    if hasattr(os, "fchmod"):
        os.fchmod(descriptor, MODE)


def give_to_owner_of(path: str | os.PathLike[str], descriptor: int) -> None:
    """A file that root makes beside the file `path` belongs to the owner of that, as SQLite has it."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        with suppress(OSError):  # it is not there yet
            found = os.stat(path)
            os.fchown(descriptor, found.st_uid, found.st_gid)


def write_private(path: str | os.PathLike[str], data: bytes) -> None:
    """A file with these bytes, in place of what it held. Raises NotAFile, OSError."""
    with open(path, "wb", opener=open_private) as file:
        make_private(file.fileno())
        file.write(data)


@contextmanager
def replacing(
    path: str | os.PathLike[str], mode: int = MODE, draft: str | os.PathLike[str] | None = None
) -> Iterator[BinaryIO]:
    """A new file, to be filled, which takes the place of `path` once the block has ended well: whole, or not at all.

    Until then it has the name `draft` (None: with DRAFT_SUFFIX), and it goes if the block fails. Raises NotAFile,
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
    """The file `draft` becomes `path`, in place of the file that may be there. Raises NotAFile, OSError."""
    must_be_file(path)
    os.replace(draft, path)


def make_directory(path: str | os.PathLike[str], mode: int = 0o700) -> None:
    """With those above it, where there is none. Raises NotAFile where something else is there, OSError."""
    try:
        Path(path).mkdir(mode=mode, parents=True, exist_ok=True)
    except FileExistsError:
        with suppress(FileNotFoundError):  # a link that leads nowhere
            raise NotAFile(path, os.stat(path), "directory") from None
        raise
