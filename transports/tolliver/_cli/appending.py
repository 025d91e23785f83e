"""Files that messages of `tolliver run` go to, a line for each.

There is one writer for each file, however many tables name it: messages that are queued for it go in one write and one
sync, and are acknowledged then. Processes that append to the file under a lock (flock) wait for each other. Lines that
could be written in part only are cut off again, unless somebody else has written behind them.
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
except ImportError:  # not POSIX: there is no such lock
    fcntl = None  # type: ignore[assignment]

_RETRY = 1.0  # seconds between two tries to write a file
_TURN = 0.02  # seconds between two looks at whether another process has let go of it
_BATCH = 2**20  # bytes of bodies in one write, or one run if that has more


class Files:
    """The writers at work, one for each file."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._writers: list[_Writer] = []

    async def deliver(self, instance: Instance, destination: Destination, file: Path) -> None:
        """Until it is cancelled. Messages that wait then are not acknowledged, and come again."""
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
    """The one writer of a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._queue: list[tuple[Run, Destination]] = []
        self._at_work = False
        self._written = anyio.Event()  # of the try that is under way
        self._written.set()

    def is_of(self, file: Path) -> bool:
        """True if it is this file, by this name or another."""
        return is_one_file(self._file, file)

    def add(self, run: Run, whose: Destination) -> bool:
        """True where `write` is to be called."""
        self._queue.append((run, whose))
        idle, self._at_work = not self._at_work, True
        return idle

    async def withdraw(self, whose: Destination) -> None:
        """Its runs in the queue are not written any more, and those that are being written are settled."""
        self._queue = [one for one in self._queue if one[1] != whose]
        with anyio.CancelScope(shield=True):
            await self._written.wait()
        self._queue = [one for one in self._queue if one[1] != whose]  # that could not be written

    async def write(self) -> None:
        """Until nothing is queued."""
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
        """Write and acknowledge the first of what is queued. The error, if it could not be written."""
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
    """All of the lines, or none; they are on the disk then. Raises OSError.

    The file is opened each time, so that it may be moved away meanwhile. A line that a loss of power has torn ends
    where it is torn: its message was not acknowledged.
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
    """Until the descriptor is closed. Raises BlockingIOError where another one of the file has the lock."""
    if fcntl is not None:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another process has locked it") from error
        except OSError:
            pass  # a file system without locks


def _take_back(fd: int, end: int, written: bytes) -> None:
    """Cut off what was written behind that end, if that and nothing else is there."""
    if os.fstat(fd).st_size == end + len(written) and os.pread(fd, len(written), end) == written:
        os.ftruncate(fd, end)


def _sync_names_of(directory: Path) -> None:
    """A new file has its name on the disk, too."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
