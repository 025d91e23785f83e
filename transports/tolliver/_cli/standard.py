"""Standard streams of a command.

They are pipes that may stand still, break, or not be there. Nothing that runs on a loop reads or writes one in place: a
reader as slow as `less` would hold the connections, and signals. Output is written by a thread and waited for, so it
holds back the messages alone. Words on standard error wait in a queue that is bounded, and are left out and counted
where that is full. The threads use the descriptors and not Python's streams, whose locks a thread that stands still
would keep when the process ends.
"""

from __future__ import annotations

import errno
import io
import os
import queue
import stat
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import TextIO, TypeVar

import anyio

try:
    import fcntl

    _KNOWS_MODES = True
except ImportError:  # not POSIX
    _KNOWS_MODES = False

from .._driver.threads import start
from ..anyio.threads import loop_caller

T = TypeVar("T")
PIECE = 2**18  # bytes at once: a pipe has less, and of a file it is more lines than go in one commit
_LINES = 1000  # lines that wait for standard error
_LAST = 1.0  # seconds for the last of them
_REMEDY = {
    "standard input": "give it a file or a pipe, or < /dev/null",
    "standard output": "give it a file or a pipe, or > /dev/null",
}


_UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)


class StreamClosed(OSError):
    """The command was started without the standard stream that it needs, or with one for the other direction."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is closed or of the wrong direction: {_REMEDY[name]}")


class _Closed(io.RawIOBase):
    """A stream that the command was started without."""

    def __init__(self, name: str, fd: int) -> None:
        self._name, self._fd = name, fd

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> bool:
        return self._fd == 0

    def writable(self) -> bool:
        return self._fd != 0

    def readinto(self, _buffer: object) -> int:
        raise StreamClosed(self._name)

    def write(self, _data: object) -> int:
        raise StreamClosed(self._name)


def fill_gaps() -> None:
    """Each descriptor that is closed leads nowhere from now on: else the next file that is opened would be one.

    Words for standard error are lost then; who needs another one raises StreamClosed, also where standard input can
    only be written, or standard output only be read.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free is this one
    if _has_mode(0, os.O_WRONLY):
        sys.stdin = None  # as Python says of one that is not there
    if _has_mode(1, os.O_RDONLY):
        sys.stdout = None
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed("standard input", 0)))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed("standard output", 1), write_through=True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # for as long as the process lives


def _has_mode(fd: int, mode: int) -> bool:
    """True where the descriptor is for that direction alone. Not known on Windows."""
    return _KNOWS_MODES and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == mode


def words_of_stream(error: OSError) -> str | None:
    """Words on what standard output could not take; None for any other error."""
    if error.errno not in _UNWRITABLE or error.filename is not None:
        return None
    return (
        f"standard output cannot be written ({os.strerror(error.errno)}): make room where it goes, or send it elsewhere"
    )


def _raw(stream: TextIO) -> io.RawIOBase:
    """The stream beneath the locks and buffers of Python. A stand-in without a descriptor has its buffer alone."""
    buffer = stream.buffer
    raw = getattr(buffer, "raw", buffer)
    if isinstance(raw, _Closed):
        return raw
    try:
        return io.FileIO(stream.fileno(), stream.mode if stream.mode in ("r", "w") else "w", closefd=False)
    except (OSError, ValueError, AttributeError):
        return buffer  # type: ignore[return-value]


async def in_thread(call: Callable[[], T]) -> T:
    """Result or error of the call. A daemon makes it, so that one that never ends does not keep the process."""
    ended, outcome, in_loop = anyio.Event(), Future[T](), loop_caller()

    def work() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)
        in_loop(ended.set)

    start(threading.Thread(target=work, name="tolliver works", daemon=True))
    await ended.wait()
    return outcome.result()


# In.


def standard_input() -> io.RawIOBase:
    """It is read in pieces, as they come. Raises StreamClosed where there is none."""
    raw = _raw(sys.stdin)
    if isinstance(raw, _Closed):
        raise StreamClosed("standard input")
    return raw


async def pieces(file: io.RawIOBase) -> AsyncGenerator[bytes, None]:
    """The bytes of the file as they come, to its end. A wait for them that is cancelled loses none."""
    waits = _has_to_be_waited_for(file)
    while True:
        if waits:
            await anyio.wait_readable(file.fileno())
        piece = file.read(PIECE)
        if piece is None:  # somebody else has read it, of a pipe that does not block
            continue
        if not piece:
            return
        yield piece


def _has_to_be_waited_for(file: io.RawIOBase) -> bool:
    try:
        mode = os.fstat(file.fileno()).st_mode
    except OSError:  # it has no descriptor: what stands in for one in tests
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


# Out.


def _write_all(raw: io.RawIOBase, data: bytes) -> None:
    """Raises OSError."""
    rest = memoryview(data)
    while rest:
        written = raw.write(rest)
        if written is None:  # it does not block, as whoever has it too wants it so
            with suppress(OSError):
                os.set_blocking(raw.fileno(), True)
            continue
        rest = rest[written:]
    raw.flush()


class Output:
    """Standard output of a command on a loop: a thread writes, so that the loop goes on where nobody reads."""

    def __init__(self) -> None:
        sys.stdout.flush()
        """Raises StreamClosed where there is none."""
        self._raw, self._encoding = _raw(sys.stdout), sys.stdout.encoding or "utf-8"
        if isinstance(self._raw, _Closed):
            raise StreamClosed("standard output")
        self._turn = threading.Lock()

    def encoded(self, text: str) -> bytes:
        """As it is written there; characters that it does not have are escaped."""
        return text.encode(self._encoding, "backslashreplace")

    async def write(self, data: bytes) -> None:
        """Returns once it is written. One that is cancelled may be written, or a part of it. Raises OSError."""
        await in_thread(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        with self._turn:
            _write_all(self._raw, data)


# Words for people.


class _Words:
    """A queue of lines for standard error, and the thread that writes them."""

    def __init__(self) -> None:
        self._raw, self._encoding = _raw(sys.stderr), sys.stderr.encoding or "utf-8"
        self._lines: queue.Queue[str | None] = queue.Queue(_LINES)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write, name="tolliver says", daemon=True)
        start(self._thread)

    def put(self, line: str) -> None:
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._left_out += 1

    def end(self) -> None:
        """All that is written soon."""
        with suppress(queue.Full):
            self._lines.put_nowait(None)
            self._thread.join(_LAST)

    def _write(self) -> None:
        while (line := self._lines.get()) is not None:
            left_out, self._left_out = self._left_out, 0
            more = f"tolliver: {left_out} lines are left out here: nobody read\n" if left_out else ""
            with suppress(OSError):
                _write_all(self._raw, f"{more}{line}\n".encode(self._encoding, "backslashreplace"))


_words: list[_Words] = []


@contextmanager
def off_the_loop() -> Iterator[None]:
    """Words on standard error are written by a thread, for the length of the block."""
    sys.stderr.flush()
    words = _Words()
    _words.append(words)
    try:
        yield
    finally:
        _words.remove(words)
        words.end()


def complain(line: str) -> None:
    """A line on standard error. It never fails: there is nobody else to tell."""
    if _words:
        _words[-1].put(line)
        return
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
