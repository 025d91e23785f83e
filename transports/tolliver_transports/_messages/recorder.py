"""Recorder: writes connections to files without making the loop wait.

The loop hands over bytes that it has anyway and goes on; one thread finds the frames, packs the blocks and writes. The
thread's backlog is bounded, and where the bound or the disk is reached the loop is not held up and nothing is left out
of the middle of a direction: the connection concerned is no longer recorded at all.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple
from uuid import UUID

from tolliver_proto import Revision, StoreError
from tolliver_proto.recording import (
    INDEX_SUFFIX,
    SUFFIX,
    BlockHeader,
    Direction,
    Indexer,
    claimed_id,
    encode_block,
    whole_frames,
)

from .._driver.threads import start

_MIB = 2**20
_BYTES_A_WRITE = _MIB  # bytes that are written in one go where so many wait
_OBJECT = 128  # bytes that a part costs beside its own: small ones must not pass the bound


class _Chunk(NamedTuple):
    """Bytes of one call. Without a direction: nothing more of this connection is recorded."""

    cid: int
    direction: Direction | None
    time_ns: int
    parts: Sequence[bytes]
    cost: int


class Recorder:
    """Records the connections of an instance. All calls come from one thread (the loop's), but for `close`.

    No call but the constructor and `close` waits or raises. Losses are told to `on_problem(text)`, which is called from
    within `received`, `sent` or `close`, in the thread of that call: once when the queue is full, once when writing
    fails. After a failure of the disk nothing more is recorded. When the queue is full, the connection whose bytes came
    then is no longer recorded, to its end; the others are.
    """

    def __init__(
        self,
        directory: Path,
        local: UUID,
        revision: Revision,
        on_problem: Callable[[str], None],
        *,
        file_bytes: int = 128 * _MIB,
        queue_bytes: int = 64 * _MIB,
    ) -> None:
        """Makes the directory (mode 0700) and the first file (0600): call it off the loop.

        `file_bytes`: a file that would become larger ends, and another begins. `queue_bytes`: what may wait to be
        written, beginnings of frames included. Raises StoreError where nothing can be written there, and OutOfThreads.
        """
        self._on_problem = on_problem
        self._queue_bytes = queue_bytes
        self._queue: SimpleQueue[_Chunk | None] = SimpleQueue()
        self._given = 0  # bytes, counted by the loop
        self._stopped: set[int] = set()
        self._told_full = self._told_failed = self._closed = False
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = _Files(directory, local, file_bytes)
        except OSError as error:
            raise StoreError(
                f"{directory} takes no recordings: {error.strerror}. Give a directory that we may write to"
            ) from error
        self._writer = _Writer(self._queue, files, local, revision)
        try:
            start(self._writer)
        except BaseException:  # no thread left, or Ctrl-C
            self._queue.put(None)
            files.abandon()
            raise

    @property
    def waiting(self) -> int:
        """Bytes that are held and not written yet, with what their objects take."""
        return self._given - self._writer.done

    def received(self, cid: int, plaintext: bytes) -> None:
        """These bytes came in, cut anywhere."""
        self._give(cid, Direction.IN, (plaintext,))

    def sent(self, cid: int, units: Sequence[bytes]) -> None:
        """These bytes go out. The sequence must not change afterwards."""
        self._give(cid, Direction.OUT, units)

    def ended(self, cid: int) -> None:
        """The connection is over. A frame that is not whole by now is left out."""
        self._stopped.discard(cid)
        self._put(cid)

    def close(self) -> None:
        """Write what waits, end the file, write its index. Blocks: call it off the loop, when no other call comes."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)
            self._writer.join()
            self._tell_failure()

    def _give(self, cid: int, direction: Direction, parts: Sequence[bytes]) -> None:
        if self._closed or cid in self._stopped:
            return
        cost = sum(map(len, parts)) + _OBJECT * (1 + len(parts))
        if self._writer.failure is not None:
            self._tell_failure()
        elif self.waiting + cost > self._queue_bytes:
            self._stop(cid)
        else:
            self._given += cost
            self._queue.put(_Chunk(cid, direction, time.time_ns(), parts, cost))

    def _stop(self, cid: int) -> None:
        self._stopped.add(cid)
        self._put(cid)
        if not self._told_full:
            self._told_full = True
            self._on_problem(
                f"{self._queue_bytes} bytes wait to be recorded: connection {cid}, and each whose bytes come at such a "
                "time, is not recorded from here to its end. Is the disk too slow?"
            )

    def _put(self, cid: int) -> None:
        if not self._closed and self._writer.failure is None:
            self._queue.put(_Chunk(cid, None, 0, (), 0))

    def _tell_failure(self) -> None:
        if self._writer.failure is not None and not self._told_failed:
            self._told_failed = True
            self._on_problem(
                f"recording has ended: {self._writer.failure}. Make room or repair, and start the instance again"
            )


class _Tail:
    """Bytes of a direction that are no whole frame yet."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.wanted: int | None = 1  # bytes; None where no frame begins here, and so nothing can be recorded any more


class _Writer(threading.Thread):
    """The thread. `done` counts what no longer waits; `failure` says why it ended before it was told to."""

    def __init__(self, queue: SimpleQueue[_Chunk | None], files: _Files, local: UUID, revision: Revision) -> None:
        super().__init__(name="tolliver-recorder", daemon=True)
        self.done = 0
        self.failure: str | None = None
        self._queue = queue
        self._files = files
        self._local = local
        self._revision = revision
        self._taken = self._held = 0  # bytes: from the queue, and of those what is in tails
        self._tails: dict[tuple[int, Direction], _Tail] = {}
        self._peers: dict[int, UUID] = {}

    def run(self) -> None:
        try:
            for run in self._runs():
                self._files.write([block for chunk in run for block in self._blocks(chunk)])
                self._taken += sum(chunk.cost for chunk in run)
                self.done = self._taken - self._held
            self._files.close()
        except Exception as error:  # of any kind: a recording must not end unsaid
            self.failure = str(error)
            self._files.abandon()
            with suppress(Empty):
                while True:
                    self._queue.get_nowait()

    def _runs(self) -> Iterator[list[_Chunk]]:
        """Chunks that wait, some at a time, until the end is asked for."""
        while (chunk := self._queue.get()) is not None:
            run, size = [chunk], chunk.cost
            while size < _BYTES_A_WRITE and not self._queue.empty():
                chunk = self._queue.get()
                if chunk is None:
                    yield run
                    return
                run.append(chunk)
                size += chunk.cost
            yield run

    def _blocks(self, chunk: _Chunk) -> Iterator[bytes]:
        """The block of the frames that the chunk made whole, if it did."""
        if chunk.direction is None:
            self._forget(chunk.cid)
            return
        tail = self._tails.setdefault((chunk.cid, chunk.direction), _Tail())
        if tail.wanted is None:
            return
        before = len(tail.data)
        tail.data += b"".join(chunk.parts)
        if len(tail.data) >= tail.wanted:
            found = whole_frames(tail.data, self._revision)
            payload = bytes(memoryview(tail.data)[: found.end])
            del tail.data[: found.end if found.wanted is not None else None]
            tail.wanted = found.wanted
            if payload:
                yield encode_block(self._header(chunk, chunk.direction, payload, found.frames), payload)
        self._held += len(tail.data) - before

    def _header(self, chunk: _Chunk, direction: Direction, payload: bytes, frames: int) -> BlockHeader:
        if direction is Direction.IN and chunk.cid not in self._peers:
            peer = claimed_id(payload, self._revision)
            if peer is not None:
                self._peers[chunk.cid] = peer
        return BlockHeader(
            chunk.time_ns, self._local, self._peers.get(chunk.cid), chunk.cid, direction, self._revision, frames
        )

    def _forget(self, cid: int) -> None:
        self._peers.pop(cid, None)
        for direction in Direction:
            tail = self._tails.pop((cid, direction), None)
            self._held -= len(tail.data) if tail is not None else 0


class _Files:
    """The recordings of one run, one after the other. Every method may raise OSError."""

    def __init__(self, directory: Path, local: UUID, file_bytes: int) -> None:
        self._directory = directory
        self._local = local
        self._file_bytes = file_bytes
        self._stamp = 0
        self._open()

    def write(self, blocks: Sequence[bytes]) -> None:
        """Whole blocks, in order: none is cut by the end of a file."""
        fitting: list[bytes] = []
        length = self._indexer.length
        for block in blocks:
            if length and length + len(block) > self._file_bytes:
                self._append(fitting)
                self.close()
                self._open()
                fitting, length = [], 0
            fitting.append(block)
            length += len(block)
        self._append(fitting)

    def close(self) -> None:
        """End the file that is open. Its index says that it was. One that holds nothing is removed."""
        self._file.close()
        if not self._indexer.length:
            self._path.unlink()
            return
        with _create(self._path.with_name(self._path.name + INDEX_SUFFIX)) as sidecar:
            sidecar.write(self._indexer.index().encode())

    def abandon(self) -> None:
        """After a failure: leave what is whole."""
        with suppress(OSError, ValueError):  # ValueError: it is closed already
            self._file.truncate(self._indexer.length)
        with suppress(OSError):
            self.close()

    def _open(self) -> None:
        self._stamp = max(time.time_ns(), self._stamp + 1)  # the names are in order though the clock may not be
        seconds, nanoseconds = divmod(self._stamp, 10**9)
        when = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"
        self._path = self._directory / f"{when}-{self._local}{SUFFIX}"
        self._file = _create(self._path)
        self._indexer = Indexer()

    def _append(self, blocks: list[bytes]) -> None:
        rest = memoryview(b"".join(blocks))
        while rest:
            rest = rest[self._file.write(rest) :]
        for block in blocks:
            self._indexer.add(block, len(block))


def _create(path: Path) -> io.FileIO:
    """A new file that only its owner may read (D-14)."""
    return io.FileIO(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600))
