"""Files to which `tolliver run` writes messages, one per line.

There is one writer for each file, even if several tables name it. All messages queued for a file are written and synced
together, and acknowledged then. Processes that append to the file under a lock (flock) wait for each other. A partly
written batch is cut off again, unless another process has written after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from errno import EWOULDBLOCK
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
    """Writers in use, one for each file."""

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
    """The only writer of a file."""

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
        """Queue a run. True if the caller must call `write`."""
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
        """Write and acknowledge the first batch of the queue; returns the error if it could not be written."""
        sizes = accumulate(sum(len(one.body) for one in run) for run, _ in self._queue)
        count = 1 + sum(size < _BATCH for size in sizes)
        batch, self._queue = self._queue[:count], self._queue[count:]
        self._written = anyio.Event()
        try:
            await anyio.to_thread.run_sync(append, self._file, [run for run, _ in batch])
        except OSError as error:
            self._queue = batch + self._queue
            return error
        else:
            for run, _ in batch:
                run.ack()
            return None
        finally:
            self._written.set()


def append(file: Path, runs: Iterable[Iterable[Delivery]]) -> None:
    """Write all lines to disk, or none. Raises OSError.

    The file is opened each time, so that it can be renamed meanwhile. A line torn by a loss of power is ended there:
    its message was not acknowledged.
    """
    lines = "".join(map(as_json, runs)).encode("utf-8", "backslashreplace")
    fd = open_private(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        _lock(fd)
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
        _sync_names_of(file.parent)


def _lock(fd: int) -> None:
    """Lock the file until its descriptor is closed. Raises BlockingIOError if another process has the lock."""
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process has locked it") from error
        except OSError:
            pass  # file systems without locks


def _take_back(fd: int, end: int, written: bytes) -> None:
    """Cut off what was written after `end`, if there is nothing else."""
    if os.fstat(fd).st_size == end + len(written) and os.pread(fd, len(written), end) == written:
        os.ftruncate(fd, end)


def _sync_names_of(directory: Path) -> None:
    """Sync the directory, so that a new file's name is on disk, too."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
