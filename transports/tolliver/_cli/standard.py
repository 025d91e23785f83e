"""Standard streams of a command.

They may be pipes that block, break, or do not exist. Code on a loop never reads or writes them directly: a reader as
slow as `less` would hold up connections and signals. Output is written by a thread and awaited, so that only messages
are held up. Lines for standard error wait in a bounded queue; when it is full they are dropped and counted. The threads
use descriptors instead of Python's streams, whose locks a blocked thread would keep when the process ends.
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
from typing import Any, TextIO, TypeVar

import anyio

try:
    import fcntl

    _KNOWS_MODES = True
except ImportError:  # not POSIX
    _KNOWS_MODES = False

from .._driver.threads import start
from ..anyio.threads import loop_caller

T = TypeVar("T")
PIECE = 2**18  # bytes read at once: more than a pipe has, and more lines than one commit
_LINES = 1000  # most lines that wait for standard error
_LAST = 1.0  # seconds to write the last lines at the end
_REMEDY = {
    "standard input": "give it a file or a pipe, or < /dev/null",
    "standard output": "give it a file or a pipe, or > /dev/null",
}


_UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO)


class StreamClosed(OSError):
    """The command was started without a standard stream that it needs, or with one for the wrong direction."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is closed or of the wrong direction: {_REMEDY[name]}")


class _Closed(io.RawIOBase):
    """A stream that was closed when the command was started."""

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


class _Output(io.FileIO):
    """Standard output, whose errors bear its name: a disk may be full for another file, too."""

    NAME = "standard output"

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]  # any buffer
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.NAME) from None


def fill_gaps() -> None:
    """Open /dev/null for each closed standard descriptor; else the next opened file would get its number.

    Lines for standard error are then lost; using another stream raises StreamClosed. So does standard input that can
    only be written, or standard output that can only be read.
    """
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, this one
    if _has_mode(0, os.O_WRONLY):
        sys.stdin = None  # as Python does for a closed one
    if _has_mode(1, os.O_RDONLY):
        sys.stdout = None
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed("standard input", 0)))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed("standard output", 1), write_through=True)
    else:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(1, "w", closefd=False)),
            encoding=sys.stdout.encoding,
            errors=sys.stdout.errors,
            line_buffering=bool(sys.stdout.line_buffering),
        )
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # for as long as the process lives


def _has_mode(fd: int, mode: int) -> bool:
    """True if the descriptor `fd` is open for one direction only: `mode`, such as os.O_RDONLY. False on Windows, where
    that is unknown.
    """
    return _KNOWS_MODES and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == mode


def words_of_stream(error: OSError) -> str | None:
    """Text about `error` if writing to standard output failed; None for any other error."""
    if error.errno not in _UNWRITABLE or error.filename != _Output.NAME:
        return None
    return (
        f"standard output cannot be written ({os.strerror(error.errno)}): make room where it goes, or send it elsewhere"
    )


def _raw(stream: TextIO) -> io.RawIOBase:
    """The stream without Python's locks and buffers. A replacement without a descriptor only has its buffer."""
    buffer: Any = stream.buffer
    raw: io.RawIOBase = getattr(buffer, "raw", buffer)
    return raw


async def in_thread(call: Callable[[], T]) -> T:
    """Result of a call in a daemon thread, so that a call that never ends does not keep the process running."""
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
    """Standard input, to be read in pieces as they arrive. Raises StreamClosed if there is none."""
    raw = _raw(sys.stdin)
    if isinstance(raw, _Closed):
        raise StreamClosed("standard input")
    return raw


async def pieces(file: io.RawIOBase) -> AsyncGenerator[bytes, None]:
    """Pieces of the file as they arrive, to its end. Cancelling a wait loses none."""
    waits = _has_to_be_waited_for(file)
    while True:
        if waits:
            await anyio.wait_readable(file.fileno())
        piece = file.read(PIECE)
        if piece is None:  # a non-blocking pipe whose data another process has read
            continue
        if not piece:
            return
        yield piece


def _has_to_be_waited_for(file: io.RawIOBase) -> bool:
    try:
        mode = os.fstat(file.fileno()).st_mode
    except OSError:  # a replacement without descriptor, as in tests
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


# Out.


def _write_all(raw: io.RawIOBase, data: bytes) -> None:
    """Write all data. Raises OSError."""
    rest = memoryview(data)
    while rest:
        written = raw.write(rest)
        if written is None:  # non-blocking, as set by another process that shares it
            with suppress(OSError):
                os.set_blocking(raw.fileno(), True)
            continue
        rest = rest[written:]
    raw.flush()


class Output:
    """Standard output of a command on a loop. A thread writes, so that a blocked reader does not hold up the loop."""

    def __init__(self) -> None:
        """Raises StreamClosed where there is none."""
        sys.stdout.flush()
        self._raw, self._encoding = _raw(sys.stdout), sys.stdout.encoding or "utf-8"
        if isinstance(self._raw, _Closed):
            raise StreamClosed("standard output")
        self._turn = threading.Lock()

    def encoded(self, text: str) -> bytes:
        """Text in the stream's encoding; characters that it lacks are escaped."""
        return text.encode(self._encoding, "backslashreplace")

    async def write(self, data: bytes) -> None:
        """Write data; returns once it is written. A cancelled write may be done in full or in part. Raises OSError."""
        await in_thread(partial(self._write, data))

    def _write(self, data: bytes) -> None:
        with self._turn:
            _write_all(self._raw, data)


# Messages on standard error.


class _Words:
    """Queue of text lines for standard error, and the thread that writes them."""

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
        """Write all lines that wait, within a short time."""
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
    """Context manager: lines for standard error are written by a thread."""
    sys.stderr.flush()
    words = _Words()
    _words.append(words)
    try:
        yield
    finally:
        _words.remove(words)
        words.end()


def complain(line: str) -> None:
    """Write a line to standard error. Never fails, as there is no other place to report to."""
    if _words:
        _words[-1].put(line)
        return
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
