"""Recorder: writes connections to files without making the loop wait.

The loop passes on the bytes that it reads and writes, and continues. A thread wakes when enough bytes wait, or once a
second; it finds the complete frames of each direction of each connection, and writes all of them together as one group.
So a file always holds what had happened on all connections up to some moment. The queue of the thread is bounded. When
it is full, or the disk fails, the loop is not held up and no direction gets a gap in its middle: instead, recording of
the connection concerned ends.
"""

from __future__ import annotations

import io
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple
from uuid import UUID

from tolliver_proto import Revision, StoreError
from tolliver_proto.layouts import OPENING
from tolliver_proto.recording import (
    INDEX_SUFFIX,
    SUFFIX,
    Codec,
    Direction,
    Gathered,
    Indexer,
    Runs,
    claimed_id,
    claimed_opening,
    encode_group,
    frame_sizes,
)

from .._driver.threads import start
from .._private import make_directory, open_private

_MIB = 2**20
_GROUP_BYTES = _MIB  # bytes that wait before a group is written
_GROUP_SECONDS = 1.0  # most seconds that bytes wait
_STEP = 256  # chunks after which other threads get the interpreter
_ENDLESS = 2**62  # bytes: a file of streams must begin with its connections
_OBJECT = 128  # overhead of a part in bytes, so that many small parts count

_Chunk = tuple[int, Direction | Revision | None, int, Sequence[bytes], int, int]
"""Input of one call: cid, direction, time in ns, parts, their bytes, bytes with overhead.

A chunk with a Revision or None instead of a direction has no bytes: it gives the connection's revision, or its end.
"""


class Recorder:
    """Records the connections of an instance. All calls but `close` come from one thread, the loop's.

    Only the constructor and `close` may wait or raise. Losses are reported to `on_problem(text)`, which is called from
    within `received`, `sent` or `close`: once when the queue is full, once when writing fails. After a disk failure
    recording ends. When the queue is full, the connection whose bytes arrived then is not recorded any more; the others
    are.
    """

    def __init__(
        self,
        directory: Path,
        local: UUID,
        revision: Revision | None,
        on_problem: Callable[[str], None],
        *,
        revisions: Mapping[UUID, Revision] = MappingProxyType({}),
        codec: Codec = Codec.NONE,
        file_bytes: int = 128 * _MIB,
        group_bytes: int = _GROUP_BYTES,
        queue_bytes: int = 64 * _MIB,
    ) -> None:
        """Create the directory (mode 0700) and the first file (0600). Blocks: run off the loop.

        - `revision`: None records streams: runs of bytes instead of frames, in one file.
        - `revisions`: by UUID, revisions of peers that dial us, if they differ from `revision` (C6).
        - `file_bytes`: a file that would become larger ends, and another begins.
        - `group_bytes`: about the number of bytes written at once.
        - `queue_bytes`: most bytes that may wait, including incomplete frames.

        Raises StoreError if the directory cannot be written to, and OutOfThreads.
        """
        self._on_problem = on_problem
        self._queue_bytes = queue_bytes
        self._given = 0  # bytes passed to the thread; counted on the loop
        self._stopped: set[int] = set()
        self._told_full = self._told_failed = self._closed = False
        try:
            make_directory(directory)
            files = _Files(directory, local, _ENDLESS if revision is None else file_bytes)
        except OSError as error:
            raise StoreError(
                f"{directory} takes no recordings: {error.strerror}. Give a directory that we may write to"
            ) from error
        kinds = None if revision is None else _Revisions(revision, revisions)
        self._writer = _Writer(files, local, kinds, codec, group_bytes)
        try:
            start(self._writer)
        except BaseException:  # OutOfThreads, or Ctrl-C
            self._writer.end()
            files.abandon()
            raise

    @property
    def waiting(self) -> int:
        """Bytes that were recorded and are not written yet, with overhead."""
        return self._given - self._writer.done

    def speaks(self, cid: int, revision: Revision) -> None:
        """Set the revision of the connection `cid`, which we dial. Call it before the connection's first byte if it is
        not the default.
        """
        self._put(cid, revision)

    def received(self, cid: int, plaintext: bytes) -> None:
        """Record bytes that arrived on the connection `cid`, in pieces of any size."""
        self._give(cid, Direction.IN, (plaintext,), len(plaintext))

    def sent(self, cid: int, units: Sequence[bytes]) -> None:
        """Record bytes that go out on the connection `cid`. The sequence must not change afterwards."""
        self._give(cid, Direction.OUT, units, sum(map(len, units)))

    def ended(self, cid: int) -> None:
        """Note the end of the connection `cid`. An incomplete frame at its end is not recorded."""
        self._stopped.discard(cid)
        self._put(cid)

    def close(self) -> None:
        """Write all that waits, end the file and write its index. Blocks: run off the loop, after the last of other
        calls."""
        if not self._closed:
            self._closed = True
            self._writer.end()
            self._writer.join()
            self._tell_failure()

    def _give(self, cid: int, direction: Direction, parts: Sequence[bytes], size: int) -> None:
        if not size or self._closed or cid in self._stopped:
            return
        cost = size + _OBJECT * (1 + len(parts))
        if self._writer.failure is not None:
            self._tell_failure()
        elif self.waiting + cost > self._queue_bytes:
            self._stop(cid)
        else:
            self._given += cost
            self._writer.put((cid, direction, time.time_ns(), parts, size, cost))

    def _stop(self, cid: int) -> None:
        self._stopped.add(cid)
        self._put(cid)
        if not self._told_full:
            self._told_full = True
            self._on_problem(
                f"{self._queue_bytes} bytes wait to be recorded: connection {cid}, and each whose bytes come at such a "
                "time, is not recorded from here to its end. Is the disk too slow?"
            )

    def _put(self, cid: int, revision: Revision | None = None) -> None:
        if not self._closed and self._writer.failure is None:
            self._writer.put((cid, revision, 0, (), 0, 0))

    def _tell_failure(self) -> None:
        if self._writer.failure is not None and not self._told_failed:
            self._told_failed = True
            self._on_problem(
                f"recording has ended: {self._writer.failure}. Make room or repair, and start the instance again"
            )


class _Stream:
    """Bytes of one direction of a connection that are not written to the recording, and the pieces (runs) in which they
    arrived, each with its time.
    """

    def __init__(self, cid: int, direction: Direction) -> None:
        self.cid = cid
        self.direction = direction
        self.parts: list[bytes] = []
        self.size = 0
        self.wanted: int | None = 1  # bytes needed for the next frame; None: data is invalid, stop recording
        self.runs = Runs([], [], [])

    def add(self, time_ns: int, parts: Sequence[bytes], size: int, end: int) -> None:
        """Add a run of bytes, `parts` of `size` bytes in all, that came at `time_ns`, in nanoseconds since 1970. `end`
        is how many bytes of all connections were recorded up to the last one of these.
        """
        self.parts += parts
        self.size += size
        lengths, ends, times = self.runs
        lengths.append(size)
        ends.append(end)
        times.append(time_ns)

    @property
    def is_enough(self) -> bool:
        """True if the bytes may have a complete frame."""
        return self.wanted is not None and self.size >= self.wanted

    def data(self) -> bytes:
        """All bytes since the last complete frame."""
        self.parts = [b"".join(self.parts)]
        return self.parts[0]

    def take(self, revision: Revision) -> _Taken:
        """Remove and return the complete frames. The beginning of an incomplete one stays."""
        data, runs = self.data(), self.runs
        sizes, found = frame_sizes(data, revision)
        self.wanted = found.wanted
        rest = b"" if found.wanted is None else data[found.end :]
        self.parts, self.size = ([rest], len(rest)) if rest else ([], 0)
        self.keep()
        _cut(runs, found.end)
        return _Taken(data[: found.end], sizes, runs)

    def take_all(self) -> _Taken:
        """Remove and return all bytes, with the sizes of their runs."""
        taken = _Taken(self.data(), [*self.runs.lengths], self.runs)
        self.parts, self.size, self.runs = [], 0, Runs([], [], [])
        return taken

    def keep(self) -> None:
        """Merge the remaining bytes, an incomplete frame, into one run with the time of the last."""
        if self.parts:
            self.runs = Runs([self.size], self.runs.ends[-1:], self.runs.times[-1:])
        else:
            self.runs = Runs([], [], [])


class _Taken(NamedTuple):
    """Complete frames of one direction, with their sizes in bytes, and the runs in which they arrived."""

    payload: bytes
    sizes: list[int]
    runs: Runs


def _cut(runs: Runs, size: int) -> None:
    """Shorten `runs` to their first `size` bytes."""
    lengths, ends, times = runs
    over = sum(lengths) - size
    while lengths and over >= lengths[-1]:
        over -= lengths.pop()
        ends.pop()
        times.pop()
    if over:
        lengths[-1] -= over
        ends[-1] -= over


class _Revisions:
    """Protocol revision and peer of each recorded connection (C6)."""

    def __init__(self, own: Revision, by_peer: Mapping[UUID, Revision]) -> None:
        self.peers: dict[int, UUID] = {}
        self.by_cid: dict[int, Revision] = {}
        self._own = own
        self._by_peer = dict(by_peer)

    def of(self, stream: _Stream) -> Revision | None:
        """Revision of the stream's connection, by its remote or by the UUID in a dialling peer's request.

        None if that request has not arrived yet.
        """
        known = self.by_cid.get(stream.cid)
        if known is not None or not self._by_peer or stream.direction is Direction.OUT or stream.cid in self.peers:
            return known or self._own
        data = stream.data()
        peer = claimed_opening(data)
        if peer is None and data[0] == 0 and len(data) < OPENING.size:
            stream.wanted = OPENING.size
            return None
        if peer is None:
            return self._own
        revision = self.by_cid[stream.cid] = self._by_peer.get(peer, self._own)
        return revision

    def learn(self, stream: _Stream, payload: bytes, revision: Revision) -> None:
        """Learn the peer's UUID from the first frames of a connection."""
        if stream.direction is Direction.IN and stream.cid not in self.peers:
            peer = claimed_id(payload, revision)
            if peer is not None:
                self.peers[stream.cid] = peer

    def forget(self, cid: int) -> None:
        self.peers.pop(cid, None)
        self.by_cid.pop(cid, None)


class _Writer(threading.Thread):
    """The thread that writes. `done` counts the bytes that no longer wait; `failure` is set if it failed."""

    def __init__(
        self, files: _Files, local: UUID, revisions: _Revisions | None, codec: Codec, group_bytes: int
    ) -> None:
        super().__init__(name="tolliver-recorder", daemon=True)
        self.done = 0
        self.failure: str | None = None
        self._files = files
        self._local = local
        self._revisions = revisions
        self._codec = codec
        self._group_bytes = group_bytes
        self._chunks: deque[_Chunk] = deque()
        self._some = threading.Event()  # set when a chunk waits
        self._enough = threading.Event()  # set when a whole group waits
        self._ending = False
        self._taken = 0  # bytes taken from the queue, with overhead
        self._offered = self._position = 0  # numbers of the last byte put into and taken from the queue
        self._streams: dict[tuple[int, Direction], _Stream] = {}
        self._ended: list[_Stream] = []
        self._gone: list[int] = []  # cids of connections that have ended

    def put(self, chunk: _Chunk) -> None:
        """Queue a chunk. Called on the loop."""
        self._offered += chunk[4]
        self._chunks.append(chunk)
        if len(self._chunks) == 1:
            self._some.set()
        if self._offered - self._position >= self._group_bytes and not self._enough.is_set():
            self._enough.set()

    def end(self) -> None:
        """Write all that waits, and end the file."""
        self._ending = True
        self._some.set()
        self._enough.set()

    def run(self) -> None:
        try:
            while self._wait():
                begin = self._position
                self._take()
                self._write(begin)
            self._files.close()
        except Exception as error:  # any error: the end of a recording must be reported
            self.failure = str(error)
            self._files.abandon()
            self._chunks.clear()

    def _wait(self) -> bool:
        """Wait until there is something to write; False if the recording ends."""
        if not self._chunks and not self._ending:
            self._some.wait()
        self._some.clear()
        if not self._ending and self._offered - self._position < self._group_bytes:
            self._enough.wait(_GROUP_SECONDS)
        return bool(self._chunks) or not self._ending

    def _take(self) -> None:
        """Move the queued chunks of one group, pieces of bytes and marks, to the streams that they belong to."""
        self._enough.clear()
        chunks, streams = self._chunks, self._streams
        most, step = self._position + self._group_bytes, 0
        while chunks and self._position < most:
            step += 1
            if step % _STEP == 0:
                time.sleep(0)
            cid, direction, time_ns, parts, size, cost = chunks.popleft()
            if not isinstance(direction, Direction):
                self._mark(cid, direction)
                continue
            self._taken += cost
            self._position += size
            stream = streams.get((cid, direction))
            if stream is None:
                stream = streams[cid, direction] = _Stream(cid, direction)
            if stream.wanted is not None:
                stream.add(time_ns, parts, size, self._position)

    def _mark(self, cid: int, revision: Revision | None) -> None:
        """Process a mark for the connection `cid`: its revision, or its end for None."""
        if revision is not None:
            if self._revisions is not None:
                self._revisions.by_cid[cid] = revision
            return
        self._gone.append(cid)
        found = (self._streams.pop((cid, direction), None) for direction in Direction)
        self._ended += [stream for stream in found if stream is not None]

    def _write(self, begin: int) -> None:
        """Write the complete frames as one group, if there are any. `begin` is the number of the byte before the
        group."""
        blocks: list[Gathered] = []
        # Inbound streams first: they identify the peer, and so the revision of both directions.
        for stream in sorted((*self._ended, *self._streams.values()), key=lambda stream: stream.direction):
            if self._revisions is None:
                payload, sizes, runs = stream.take_all()
                if payload:
                    blocks.append(Gathered(stream.cid, None, stream.direction, None, sizes, runs, payload))
                continue
            revision = self._revisions.of(stream) if stream.is_enough else None
            if revision is None:
                stream.keep()
                continue
            payload, sizes, runs = stream.take(revision)
            if sizes:
                self._revisions.learn(stream, payload, revision)
                peer = self._revisions.peers.get(stream.cid)
                blocks.append(Gathered(stream.cid, peer, stream.direction, revision, sizes, runs, payload))
        if blocks:
            self._files.write(lambda base: encode_group(self._local, blocks, base=base, codec=self._codec), begin)
        if self._revisions is not None:
            for cid in self._gone:
                self._revisions.forget(cid)
        self._ended, self._gone = [], []
        self.done = self._taken - sum(stream.size for stream in self._streams.values())


class _Files:
    """Recording files of one run of the program, one after the other. Every method may raise OSError."""

    def __init__(self, directory: Path, local: UUID, file_bytes: int) -> None:
        self._directory = directory
        self._local = local
        self._file_bytes = file_bytes
        self._stamp = 0
        self._open(0)

    def write(self, group: Callable[[int], bytes], begin: int) -> None:
        """Write a whole group. `group(base)` encodes it relative to the file's first byte number; a new file begins at
        `begin`."""
        data = group(self._base)
        if self._indexer.length and self._indexer.length + len(data) > self._file_bytes:
            self.close()
            self._open(begin)
            data = group(self._base)
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        self._indexer.add(data, len(data))

    def close(self) -> None:
        """End the open file: write the index that marks it as complete. A file without groups is removed."""
        self._file.close()
        if not self._indexer.length:
            self._path.unlink()
            return
        with _create(self._path.with_name(self._path.name + INDEX_SUFFIX)) as sidecar:
            sidecar.write(self._indexer.index().encode())

    def abandon(self) -> None:
        """Close the file after a failure, with the groups that are complete."""
        with suppress(OSError, ValueError):  # ValueError: it is closed already
            self._file.truncate(self._indexer.length)
        with suppress(OSError):
            self.close()

    def _open(self, base: int) -> None:
        self._base = base
        self._stamp = max(time.time_ns(), self._stamp + 1)  # file names ascend even when the clock steps back
        seconds, nanoseconds = divmod(self._stamp, 10**9)
        when = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"
        self._path = self._directory / f"{when}-{self._local}{SUFFIX}"
        self._file = _create(self._path)
        self._indexer = Indexer()


def _create(path: Path) -> io.FileIO:
    """Create a file that only its owner may read (D-14)."""
    return io.FileIO(path, "x", opener=open_private)
