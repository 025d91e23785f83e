"""Unix sockets: paths, modes, and who is at the other end.

The file's mode says who may connect, and the system says who it is (D-18). Two processes that open one path at the same
time are kept apart by a lock on the path's directory, so that neither removes the file of the other as stale.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tolliver_proto.errors import CannotListen

from .._options.unix import MODE, SCHEME, check_length

_OTHERS = 0o022  # write permission of the group, of everybody: what connecting needs
_CREDENTIALS = struct.Struct("iII")


class Credentials(NamedTuple):
    """The process at the other end, as the system tells: its process id and its user's number."""

    pid: int
    uid: int


def is_supported() -> bool:
    """True if this system has Unix sockets."""
    return hasattr(socket, "AF_UNIX")


def credentials(sock: socket.socket) -> Credentials | None:
    """The process at the other end of a connection; None where the system does not say. Raises OSError."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return Credentials(pid, uid)


def may_connect(who: Credentials | None, mode: int) -> bool:
    """True if this process may be here. With a mode for the owner alone, only the owner and root may, whatever became
    of the file's mode meanwhile."""
    return who is None or bool(mode & _OTHERS) or who.uid in (0, os.getuid())


class Listener(socket.socket):
    """A listening Unix socket, non-blocking. Closing it removes its file, if that is still ours."""

    def __init__(self, path: str | os.PathLike[str], mode: int = MODE) -> None:
        """Replaces a file that a killed owner has left. Raises CannotListen."""
        self.path: Path = Path(path)
        self.mode: int = mode
        self._process = os.getpid()
        self._file: tuple[int, int] | None = None
        if not is_supported():
            raise CannotListen(errno.EAFNOSUPPORT, f"cannot listen on {self}: this system has no Unix sockets")
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            check_length(path)
            with _alone(self.path):
                _remove_stale(self.path)
                self._bind()
        except ValueError as error:
            super().close()
            raise CannotListen(errno.ENAMETOOLONG, f"cannot listen on {self}: {error}") from None
        except OSError as error:
            super().close()
            advice = "" if isinstance(error, _Taken) else ". Is its directory there, and yours?"
            raise CannotListen(error.errno, f"cannot listen on {self}: {error.strerror}{advice}") from None

    def __str__(self) -> str:
        return f"{SCHEME}{self.path}"

    def close(self) -> None:
        if self.fileno() >= 0 and self._process == os.getpid():  # in a forked child the file is the parent's
            with suppress(OSError):
                found = os.lstat(self.path)
                if (found.st_dev, found.st_ino) == self._file:
                    self.path.unlink()
        super().close()

    def _bind(self) -> None:
        with suppress(OSError):  # Linux gives the file this mode from the start; elsewhere the next lines alone do
            os.fchmod(self.fileno(), self.mode)
        self.bind(os.fspath(self.path))
        found = os.lstat(self.path)
        self._file = found.st_dev, found.st_ino
        os.chmod(self.path, self.mode)
        self.listen(socket.SOMAXCONN)
        self.setblocking(False)


class _Taken(OSError):
    """The path is in use; `strerror` says by what, and what to do."""


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from opening a socket in this directory meanwhile."""
    import fcntl  # imported late: Windows has none

    directory = os.open(path.parent, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def _remove_stale(path: Path) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise _Taken(errno.EEXIST, "there is a file that is no socket: it is left as it is. Give another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.setblocking(False)
        code = trial.connect_ex(os.fspath(path))
    if code != errno.ECONNREFUSED:
        raise _Taken(errno.EADDRINUSE, "another program listens there. Stop it first, or give another path")
    path.unlink()
