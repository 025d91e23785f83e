"""Writer of a stage: each message once, synced in batches.

Messages wait in memory until a sync has put all of them on disk. If anything fails on the way, the segment is cut back
to its known good length, and the same messages are written again. The remembered ids are read from the segments when
the stage is opened, so after a kill at any moment it is as before, with at most a torn tail, which is cut.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import FileIO
from typing import NamedTuple
from uuid import UUID

from tolliver_proto import Limits, Message, OwnLimitExceeded, ProtocolError, Revision, StoreError, decode, encode
from tolliver_proto.layouts import checksum_of
from tolliver_proto.recording import (
    BLOCK,
    INDEX_SUFFIX,
    MAX_LENGTH,
    SUFFIX,
    Block,
    BlockHeader,
    Direction,
    Indexer,
    encode_block,
    read_blocks,
)

from .._private import DRAFT_SUFFIX, open_private
from ._errors import StageFull, StageLost
from ._folder import (
    HEAD,
    IDS_SUFFIX,
    Position,
    Segment,
    StageFolder,
    encode_head,
    in_place,
    segment_name,
    segments_in,
    sync_directory,
    sync_file,
    write_whole,
)
from ._incarnations import INCARNATIONS, Incarnations
from ._options import FolderOptions
from ._seen import Ids, Key, Seen

BLOCK_MESSAGES = 1024
BLOCK_BYTES = 2**20
RETRY = 1.0
"""Seconds between two tries when the disk accepts no data."""

_LOOK = 0.2  # seconds between two checks for deletions by readers
_CHUNK = 2**20  # bytes read at once
_FORMAT = Limits.format()


class _Source(NamedTuple):
    """Sender, connection and revision common to all messages of a block."""

    sender: UUID
    cid: int
    revision: Revision


class _Block(NamedTuple):
    data: bytes
    sender: UUID
    messages: list[Key]  # keys of messages with an id
    frames: int


class StageWriter:
    """Writes into a stage, as its only receiver. Not thread-safe.

    `local` is the receiver's UUID for the recordings; by default the stage's. `end` is the position before the first
    message that is not synced yet.
    """

    def __init__(self, options: FolderOptions, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the stage's lock, and read the ids of the last segments.

        Raises UnknownStage, StageInUse, StageLost if acknowledged messages are missing, and StoreError.
        """
        self._options = options
        self._clock = clock
        self._failing: tuple[float, OSError] | None = None  # monotonic seconds of the first failure, and the error
        self._looked = self._retained = -_LOOK
        self._waiting: deque[_Block] = deque()
        self._source: _Source | None = None
        self._frames: list[bytes] = []  # of the current block
        self._keys: list[Key] = []
        self._gathered = 0  # bytes of the current block
        self.waiting_bytes: int = 0
        """Bytes added since the last sync."""
        self.messages: int = 0
        self.bytes: int = 0
        self.duplicates: int = 0
        self.folder: StageFolder
        self.folder, self._lock = StageFolder.make(options.directory, options.lock_timeout)
        self.local: UUID = self.folder.stage
        self._head: int | None = None
        self._noted = False
        self._open: _Segment | None = None
        self._seen = Seen(options.dedupe)
        self._staged = 0
        self.end: Position = Position(0, 0, 0)
        try:
            self._recover()
        except OSError as error:
            self.close()
            raise StoreError(
                f"the stage {options.directory} cannot be opened: {error.strerror}. May we write there, and is there "
                "space?"
            ) from error
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.folder.directory}, {self.waiting_bytes} bytes not synced>"

    def close(self) -> None:
        """Release the stage. Messages not synced are dropped; they are not acknowledged. A second call does nothing."""
        if self._open is not None:
            self._open.close()
            self._open = None
        if self._head is not None:
            os.close(self._head)
            self._head = None
        self._lock.close()

    # Adding messages.

    def add(self, sender: UUID, cid: int, revision: Revision, messages: Sequence[Message]) -> int:
        """Add messages of one sender, in order; returns the number of new ones. They may be acknowledged after the next
        sync.

        That is also true of a copy: it is not staged, but its original may not be synced yet. A different message under
        a known id is not a copy (T-48). Raises LocalProtocolError if a message cannot be encoded; then none is added.
        """
        frames = [encode(message, revision) for message in messages]
        longest = max(map(len, frames), default=0)
        if longest > MAX_LENGTH:
            raise OwnLimitExceeded(
                "too_long", f"a frame of {longest} bytes: the limit is {MAX_LENGTH}, send it in parts"
            )
        keys = [(message.message_id, checksum_of(message)) for message in messages]
        fresh = self._seen.take(sender, keys)
        self.duplicates += len(messages) - len(fresh)
        source = _Source(sender, cid, revision)
        for at in fresh:
            frame, (message_id, checksum) = frames[at], keys[at]
            if (
                source != self._source
                or len(self._frames) >= BLOCK_MESSAGES
                or self._gathered + len(frame) > BLOCK_BYTES
            ):
                self._finish_block()
                self._source = source
            self._frames.append(frame)
            self._gathered += len(frame)
            if message_id is not None and message_id <= _MOST_IN_FILES:
                self._keys.append((message_id, checksum))
            self.waiting_bytes += len(frame)
        return len(fresh)

    def _finish_block(self) -> None:
        if self._source is not None and self._frames:
            sender, cid, revision = self._source
            header = BlockHeader(time.time_ns(), self.local, sender, cid, Direction.IN, revision, len(self._frames))
            data = encode_block(header, b"".join(self._frames))
            self._waiting.append(_Block(data, sender, self._keys, len(self._frames)))
        self._source, self._frames, self._keys, self._gathered = None, [], [], 0

    # Writing to disk.

    def sync(self) -> bool:
        """Write what was added to the disk. Returns True if all is there now; if not, it still waits: call again in
        `RETRY` seconds.

        Raises StageFull once the disk has accepted no data for `full_timeout` seconds.
        """
        self._finish_block()
        try:
            while self._waiting:
                self._write(self._writable())
        except OSError as error:
            self._on_failure(error)
            return False
        self._failing = None
        with suppress(OSError):  # the messages are on disk; the next sync tries this again
            if self._open is not None and self._open.length >= self._options.segment_bytes:
                self._close_segment(self._open)
                self._next_segment()
        return True

    @property
    def ids_reused(self) -> int:
        """Number of messages that came under an id that their sender had used for a different message."""
        return self._seen.ids_reused

    @property
    def last_reused(self) -> tuple[UUID, int] | None:
        """Sender and id of the last reused id; None without one."""
        return self._seen.last_reused

    @property
    def failing(self) -> str | None:
        """Reason why the last sync failed; None if it did not."""
        return None if self._failing is None else str(self._failing[1].strerror)

    def has_room(self) -> bool:
        """True while less than `max_staged_bytes` is staged. Deletions by readers are noticed with a delay."""
        if self._staged + self.waiting_bytes < self._options.max_staged_bytes:
            return True
        now = self._clock()
        if now - self._looked < _LOOK:
            return False
        self._looked = now
        with suppress(StoreError):
            self._staged = self.folder.used_bytes()
        return self._staged + self.waiting_bytes < self._options.max_staged_bytes

    def retain(self) -> None:
        """Delete what `keep_for` and `keep_bytes` say, read or not. Looks from time to time; a file that cannot be
        deleted stays until the next look.
        """
        options, now = self._options, self._clock()
        if (options.keep_for is None and options.keep_bytes is None) or now - self._retained < _LOOK:
            return
        self._retained = now
        held = self._open
        with suppress(OSError, StoreError):
            if options.keep_for is not None and held is not None and held.length and held.age() > options.keep_for:
                self._close_segment(held)
                self._next_segment()
            if self.folder.retain(options.keep_for, options.keep_bytes):
                self._staged = self.folder.used_bytes()

    @property
    def staged_bytes(self) -> int:
        """Size of the segments in bytes, as last seen."""
        return self._staged

    def _on_failure(self, error: OSError) -> None:
        now = self._clock()
        since = now if self._failing is None else self._failing[0]
        self._failing = since, error
        if now - since >= self._options.full_timeout:
            raise StageFull(
                f"the stage {self.folder.directory} could not be written for {self._options.full_timeout:g} s: "
                f"{error.strerror}. Nothing is lost, the peers keep what was not acknowledged: free some space and "
                "start again"
            ) from error

    def _write(self, segment: _Segment) -> None:
        """Write as many waiting blocks as fit into the segment: all of them are on disk afterwards, or all still
        wait."""
        count = 0
        length = segment.length
        for block in self._waiting:
            if length and length + len(block.data) > self._options.segment_bytes:
                break
            length += len(block.data)
            count += 1
        if not count:
            self._close_segment(segment)
            return
        self._note_incarnation()
        blocks = [self._waiting[at] for at in range(count)]
        segment.append(blocks)
        if not (self._lock.is_in_place() and segment.is_in_place()):
            raise StageLost(
                f"the stage {self.folder.directory}: another one was put in its place while it was received into. "
                "Start the receiver again, and end it before a backup is restored"
            )
        for block in blocks:
            self._waiting.popleft()
            self.messages += block.frames
            self.bytes += len(block.data)
            self._staged += len(block.data)
        self.waiting_bytes = sum(len(block.data) for block in self._waiting)
        self.end = segment.end
        self._tell_head()

    def _note_incarnation(self) -> None:
        """Store the UUID of this opening before its first message, so that a backup restored later can be told from
        this stage.
        """
        if self._noted:
            return
        directory = self.folder.directory
        notes = Incarnations(directory, self.folder.stage).with_another(self.end.frames)
        write_whole(directory / INCARNATIONS, notes)
        self._noted = True

    def _writable(self) -> _Segment:
        return self._open if self._open is not None else self._next_segment()

    def _next_segment(self) -> _Segment:
        number, frames = self.end.segment + 1, self.end.frames
        path = self.folder.segments_directory / (segment_name(number, frames) + SUFFIX)
        self._open = _Segment(Segment(number, frames, path))
        self.end = self._open.end
        self._tell_head()
        return self._open

    def _close_segment(self, segment: _Segment) -> None:
        """Close the segment: write its ids to disk before the next segment exists, and so before a reader may delete
        this one."""
        path = segment.at.path
        write_whole(path.with_suffix(IDS_SUFFIX), segment.ids.encode())
        with suppress(OSError):  # the head is only a hint
            write_whole(path.with_name(path.name + INDEX_SUFFIX), segment.indexer.index().encode())
        self._seen.close(segment.at.number, segment.ids)
        segment.close()
        self._open = None
        self._sweep()

    def _sweep(self) -> None:
        """Delete files of ids whose segments were deleted by readers and are no longer needed."""
        directory = self.folder.segments_directory
        there = {segment.number for segment in segments_in(directory)}
        oldest = self._seen.oldest
        for suffix in (IDS_SUFFIX, SUFFIX + INDEX_SUFFIX):
            for other in segments_in(directory, suffix):
                needed = suffix == IDS_SUFFIX and oldest is not None and other.number >= oldest
                if other.number not in there and not needed:
                    with suppress(OSError):
                        other.path.unlink()

    def _tell_head(self) -> None:
        """Write the head file, which tells readers up to where to read. It is not synced, as its position may lie
        before the end; if writing fails, readers see less for a while."""
        with suppress(OSError):
            if self._head is None:
                self._head = open_private(self.folder.directory / HEAD, os.O_WRONLY | os.O_CREAT)
            os.pwrite(self._head, encode_head(self.end), 0)

    # Existing segments.

    def _recover(self) -> None:
        """Read the existing segments, and continue at their end. Raises OSError, StageLost, StoreError."""
        directory = self.folder.segments_directory
        for name in os.listdir(directory):
            if name.endswith(DRAFT_SUFFIX):
                (directory / name).unlink()
        segments = {segment.number: segment for segment in segments_in(directory)}
        closed = {segment.number: segment for segment in segments_in(directory, IDS_SUFFIX)}
        numbers = sorted(segments.keys() | closed.keys())
        head = self.folder.head()
        if head is not None and head.segment > max(numbers, default=0):
            raise StageLost(
                f"segment {head.segment} of the stage {self.folder.directory} is gone, and what it had was "
                f"acknowledged: put it back, or remove {HEAD} to go on without it"
            )
        for number, after in zip(numbers, [*numbers[1:], None], strict=False):
            segment = segments.get(number)
            ids = _read_ids(closed[number], segment) if number in closed else None
            if segment is not None and ids is None:
                held = self._read_again(segment, head, None if after is None else segments.get(after))
                self._seen.add(held.ids)
                self._open, self.end = held, held.end
                if after is not None:
                    self._close_segment(held)
            elif ids is not None:
                self._seen.add(ids)
                self._seen.close(number, ids)
                self.end = Position(number, 0, (segment or closed[number]).frames + ids.frames)
        if self._open is None:
            self._next_segment()
        self._sweep()
        self._staged = self.folder.used_bytes()
        self._tell_head()

    def _read_again(self, segment: Segment, head: Position | None, after: Segment | None) -> _Segment:
        """Open a segment that was not closed: reads the ids from its blocks, and cuts a torn block at its end. `head`
        is the position up to which all is on disk, if known; `after` is the next segment, if there is one.
        """
        held = _Segment(segment)
        try:
            detail = held.read_again()
            told = head is not None and head.segment == segment.number and held.end < head
            if told or (after is not None and held.end.frames != after.frames):
                raise StageLost(
                    f"{segment.path}: byte {held.length}: {detail}, and what stands there was acknowledged. Put a copy "
                    f"back, or move the stage away and begin another one"
                )
            held.cut()
        except BaseException:
            held.close()
            raise
        return held


def _read_ids(closed: Segment, segment: Segment | None) -> Ids | None:
    """Ids of a closed segment, from the file `closed`; None if that is damaged and the segment can be read instead."""
    ids = Ids.decode(closed.path.read_bytes())
    if ids is None and segment is None:
        raise StoreError(
            f"{closed.path} is damaged: it says which messages were staged already. Put a copy back, or remove it to "
            "go on: those of them that come again are then staged twice"
        )
    return ids


_MOST_IN_FILES = 2**32 - 1
"""Largest id that a file of ids can hold. Copies of messages with larger ids are recognized only until the stager
ends."""


def _chunks(file: FileIO) -> Iterator[bytes]:
    while data := file.read(_CHUNK):
        yield data


def _keys_of(block: Block) -> list[Key] | None:
    """Ids and checksums of the messages in a block that a stage wrote; None for any other block."""
    try:
        messages = decode(block.payload, block.header.revision, _FORMAT)
    except ProtocolError:
        return None
    keys = [(one.message_id, checksum_of(one)) for one in messages if isinstance(one, Message)]
    if len(keys) != block.header.frames or len(messages) != len(keys) or block.header.peer is None:
        return None
    return [(number, checksum) for number, checksum in keys if number is not None and number <= _MOST_IN_FILES]


class _Segment:
    """The open recording at the end of the stage, to which blocks are appended, and the ids of its messages. Methods
    raise OSError.
    """

    def __init__(self, at: Segment) -> None:
        """Open or create the file of the segment `at`, and sync its name to disk."""
        self.at = at
        self.indexer = Indexer()
        self.ids = Ids()
        self._begun = time.monotonic()
        self._fd = open_private(at.path, os.O_RDWR | os.O_CREAT)
        try:
            sync_directory(at.path.parent)
        except BaseException:
            self.close()
            raise

    @property
    def length(self) -> int:
        return self.indexer.length

    @property
    def end(self) -> Position:
        return Position(self.at.number, self.length, self.at.frames + self.ids.frames)

    def age(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self._begun

    def append(self, blocks: Sequence[_Block]) -> None:
        """Write blocks to disk. After an error, none of them counts as written.

        Even bytes that the system accepted do not count then: a failed sync may have dropped them.
        """
        try:
            at, rest = self.length, memoryview(b"".join([block.data for block in blocks]))
            while rest:
                written = os.pwrite(self._fd, rest, at)
                at, rest = at + written, rest[written:]
            sync_file(self._fd)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._fd, self.length)
            raise
        for block in blocks:
            self.indexer.add(block.data, len(block.data))
            self.ids.add(block.sender, block.messages, block.frames)

    def is_in_place(self) -> bool:
        """True while the file has its name: False once another file has it, so that readers would not see what is
        written here.
        """
        return in_place(self._fd, self.at.path)

    def read_again(self) -> str:
        """Read the ids of its blocks, up to the first invalid one; returns what is wrong with that one."""
        with FileIO(self._fd, closefd=False) as file:
            for block in read_blocks(_chunks(file)):
                if not isinstance(block, Block):
                    return block.detail
                keys, sender = _keys_of(block), block.header.peer
                if keys is None or sender is None:
                    return "this is no block of a stage"
                self.indexer.add(os.pread(self._fd, BLOCK.size, block.offset), BLOCK.size + len(block.payload))
                self.ids.add(sender, keys, block.header.frames)
        return "the file ends"

    def cut(self) -> None:
        """Remove everything after the last complete block, and write the rest to the disk."""
        os.ftruncate(self._fd, self.length)
        sync_file(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
