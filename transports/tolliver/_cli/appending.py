"""Files to which `tolliver run` writes messages, one per line.

There is one writer for each file, even if several tables name it. All messages queued for a file are written and synced
together, and acknowledged then. Processes that append to the file under a lock (flock) wait for each other. A partly
written batch is cut off again, unless another process has written after it.

A file that is full or old is renamed under its lock, before the write that begins the next one: all of its lines are on
the disk by then. A process that gets the lock of a file that was renamed meanwhile tries again. So a kill at any moment
loses nothing, and a file with a time in its name gets no more lines.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from errno import EWOULDBLOCK
from functools import partial
from itertools import accumulate
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from tolliver_proto import Delivery

from .._private import is_one_file, open_private
from ..anyio import Instance, Run
from . import words
from .destinations import Destination
from .listen import as_json

try:
    import fcntl
except ImportError:  # not POSIX: no flock
    fcntl = None  # type: ignore[assignment]

_RETRY = 1.0  # seconds between two tries to write a file
_TURN = 0.02  # seconds between two tries to take the lock
_BATCH = 2**20  # most bytes of bodies in one write, except a larger single run


class Files:
    """The files to which a service writes messages, with one _Writer for each."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._writers: list[_Writer] = []

    async def deliver(self, instance: Instance, destination: Destination, file: Path) -> None:
        """Write messages to the file until cancelled. Messages that wait then are not acknowledged, and are
        redelivered."""
        writer = self._writer_of(file)
        async with instance.message_runs(destination.channel, destination.key, subscribe=False) as runs:
            try:
                async for run in runs:
                    if writer.add(run, destination):
                        self._group.start_soon(writer.write)
            finally:
                await writer.withdraw(destination)

    def _writer_of(self, file: Path) -> _Writer:
        for one in self._writers:
            if one.is_of(file):
                return one
        writer = _Writer(file)
        self._writers.append(writer)
        return writer


class _Writer:
    """The only writer of one file: a queue of runs of messages, which are acknowledged once they are on disk."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._queue: list[tuple[Run, Destination]] = []
        self._at_work = False
        self._written = anyio.Event()  # set at the end of the current try
        self._written.set()

    def is_of(self, file: Path) -> bool:
        """True if this is the same file, even by another name."""
        return is_one_file(self._file, file)

    def add(self, run: Run, whose: Destination) -> bool:
        """Queue a run of messages for the destination `whose`. Returns True if the caller must call `write`, as no
        other task does so.
        """
        self._queue.append((run, whose))
        idle, self._at_work = not self._at_work, True
        return idle

    async def withdraw(self, whose: Destination) -> None:
        """Remove the destination's runs from the queue, and wait for those that are being written."""
        self._queue = [one for one in self._queue if one[1] != whose]
        with anyio.CancelScope(shield=True):
            await self._written.wait()
        self._queue = [one for one in self._queue if one[1] != whose]  # those returned to the queue by a failed write

    async def write(self) -> None:
        """Write until the queue is empty."""
        waited, told = 0.0, False
        try:
            while self._queue:
                error = await self._try()
                if error is None:
                    if told:
                        words.say(f"{self._file} is written again")
                    waited, told = 0.0, False
                    continue
                pause = _TURN if error.errno == EWOULDBLOCK else _RETRY
                waited += pause
                if not told and waited >= _RETRY:
                    words.say(words.line(f"{self._file} cannot be written, its messages wait: {error.strerror}"))
                    told = True
                await anyio.sleep(pause)
        finally:
            self._at_work = False

    async def _try(self) -> OSError | None:
        """Write and acknowledge the first batch of the queue; returns the error if it could not be written, else
        None.
        """
        sizes = accumulate(sum(len(one.body) for one in run) for run, _ in self._queue)
        count = 1 + sum(size < _BATCH for size in sizes)
        batch, self._queue = self._queue[:count], self._queue[count:]
        self._written = anyio.Event()
        try:
            _, whose = batch[0]  # all tables of one file say the same
            rotated = partial(append, rotate_size=whose.rotate_size, rotate_age=whose.rotate_age)
            await anyio.to_thread.run_sync(rotated, self._file, [run for run, _ in batch])
        except OSError as error:
            self._queue = batch + self._queue
            return error
        else:
            for run, _ in batch:
                run.ack()
            return None
        finally:
            self._written.set()


def append(
    file: Path, runs: Iterable[Iterable[Delivery]], *, rotate_size: int | None = None, rotate_age: float | None = None
) -> None:
    """Write all lines to disk, or none. Raises OSError.

    The file is opened each time, so that it can be renamed meanwhile. A line torn by a loss of power is ended there:
    its message was not acknowledged. Before the file has more than `rotate_size` bytes, and with each period of
    `rotate_age` s since 1970, it is renamed, and a new one begins.
    """
    lines = "".join(map(as_json, runs)).encode("utf-8", "backslashreplace")
    fd = _open(file)
    if _is_over(os.fstat(fd), len(lines) + 1, rotate_size, rotate_age):  # a torn line may get its end
        try:
            _put_aside(file, os.fstat(fd).st_mtime)
        finally:
            os.close(fd)
        fd = _open(file)
    try:
        end, written = os.fstat(fd).st_size, 0
        if end and os.pread(fd, 1, end - 1) != b"\n":
            lines = b"\n" + lines
        try:
            while written < len(lines):
                written += os.write(fd, memoryview(lines)[written:])
            os.fsync(fd)
        except OSError:
            _take_back(fd, end, lines[:written])
            raise
    finally:
        os.close(fd)
    if not end:
        _sync_names_of(Path(os.path.realpath(file)).parent)


def _open(file: Path) -> int:
    """Open and lock the file of this name; returns its descriptor. Raises BlockingIOError where another process has it,
    or has renamed it.
    """
    fd = open_private(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        _lock(fd)
        if not os.path.exists(file) or not os.path.samestat(os.fstat(fd), os.stat(file)):
            raise BlockingIOError(EWOULDBLOCK, "another process has just renamed it")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _is_over(found: os.stat_result, coming: int, rotate_size: int | None, rotate_age: float | None) -> bool:
    """True if `coming` more bytes must go to a new file: the present one, whose state is `found`, has `rotate_size`
    bytes by then, or is of an earlier period of `rotate_age` seconds. None is no limit.
    """
    full = rotate_size is not None and found.st_size + coming > rotate_size
    old = rotate_age is not None and found.st_mtime // rotate_age != time.time() // rotate_age
    return found.st_size > 0 and (full or old)


def _put_aside(file: Path, last: float) -> None:
    """Rename a full or old file: a unique name with the time of its last line, `last` in seconds since 1970, in UTC."""
    real = Path(os.path.realpath(file))
    stem = f"{real.stem}.{datetime.fromtimestamp(last, UTC):%Y%m%dT%H%M%S.%fZ}"
    new = real.with_name(f"{stem}{real.suffix}")
    while os.path.lexists(new):
        stem += "_"  # which is sorted behind a dot
        new = real.with_name(f"{stem}{real.suffix}")
    os.rename(real, new)


def _lock(fd: int) -> None:
    """Lock the file of the descriptor `fd` until that is closed. Raises BlockingIOError if another process has the
    lock.
    """
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process has locked it") from error
        except OSError:
            pass  # file systems without locks


def _take_back(fd: int, end: int, written: bytes) -> None:
    """Cut the file of the descriptor `fd` at byte `end`, after a failed write, if nothing but `written` follows
    there.
    """
    if os.fstat(fd).st_size == end + len(written) and os.pread(fd, len(written), end) == written:
        os.ftruncate(fd, end)


def _sync_names_of(directory: Path) -> None:
    """Sync the directory, so that a new file's name is on disk, too."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
