"""Notes of the messages that handlers have begun, beside the database (T-45, T-47).

A handler that ends the process leaves nothing behind that says for which message. So messages are noted as their
handlers begin, and the note is taken back when they have settled them. Messages that are noted at the next opening were
in hand when the process died: they are suspects. If that was one message, it is guilty of one death more.

The notes are memory that is mapped to a file and never synced: a note costs about a microsecond, and the system
keeps it when a process is killed. After a loss of power it may be anything, so notes of another boot are void; the
table of suspects, written at an opening and synced, stays. The blocks are allocated before they are mapped, as a write
to a block for which the disk has no room would end the process. An orderly close removes the file, but for one with
suspects that no handler has settled since: a deploy in between must not forget their deaths, nor that one became a dead
letter, as its acknowledgement may be lost.

Layout: head, table of suspects, notes. A note has a peer, how many ids, and the ids; 0 ids is no note.

Rejected: `pwrite`, of which a call costs up to 4 us; a commit for each message, 1,000 times as much.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from struct import Struct
from uuid import UUID

from .._private import give_to_owner_of, open_private
from .clock import boot_id

_HEAD = Struct("=8s16s16sI")  # magic, the instance's UUID, boot id, messages in hand for which there was no note left
_MAGIC = b"tollhand"
_UNNOTED = Struct("=I")
_UNNOTED_AT = _HEAD.size - _UNNOTED.size
_SUSPECT = Struct("=16sQI")  # peer, wire id (0: none), deaths
SUSPECTS = 1024
"""Suspects that are remembered, the newest."""
_NOTE = Struct("=16sI")  # peer, number of ids
_COUNT = Struct("=I")
_COUNT_AT = _NOTE.size - _COUNT.size
RUN = 256
"""Most messages of one note."""
NOTES = 256
"""Most notes at a time."""
_TABLE_AT = 64
_NOTES_AT = _TABLE_AT + SUSPECTS * _SUSPECT.size
_NOTE_SIZE = _NOTE.size + RUN * 8  # some layouts have ids of 64 bits
_SIZE = _NOTES_AT + NOTES * _NOTE_SIZE
_IDS = [Struct(f"={count}Q") for count in range(RUN + 1)]

Message = tuple[UUID, int]
"""Peer and wire id of a reliable message."""


class Begun:
    """Notes next to the database `path` of the instance with this UUID. Use it from one thread at a time, but for
    `forget`.

    `suspects` are the messages that were in hand when an earlier run died, with the deaths of which each is guilty.
    """

    def __init__(self, path: str, instance_id: UUID) -> None:
        """Makes the file, or takes over what an earlier run has left there. Raises OSError."""
        self.path = path
        self._places: dict[Message, int] = {}  # of the suspects in the table
        self._free = list(range(NOTES))
        self._unnoted = 0
        self._is_over = False
        boot = boot_id() or bytes(16)
        file = open_private(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0))
        try:
            give_to_owner_of(path.removesuffix(SUFFIX), file)
            is_ours = os.fstat(file).st_size == _SIZE and _is_ours(os.read(file, _HEAD.size), instance_id)
            if not is_ours:
                _allocate(file)
            self._map = mmap.mmap(file, _SIZE)
            try:
                self.suspects: dict[Message, int] = self._take_over(boot) if is_ours else {}
                self._begin(instance_id, boot)
                if self.suspects:
                    os.fsync(file)
            except BaseException:
                self._map.close()
                raise
        finally:
            os.close(file)

    def _take_over(self, boot: bytes) -> dict[Message, int]:
        """Suspects that the last run has left, and messages that were in hand when it died."""
        suspects = dict(self._table())
        _, _, noted_in, unnoted = _HEAD.unpack_from(self._map)
        in_hand = dict.fromkeys(self._notes()) if noted_in == boot else {}
        was_alone = len(in_hand) == 1 and not unnoted
        for one in in_hand:
            suspects[one] = suspects.pop(one, 0) + was_alone  # the newest last
        return dict([*suspects.items()][-SUSPECTS:])

    def _table(self) -> Iterator[tuple[Message, int]]:
        for place in range(SUSPECTS):
            peer, wire_id, deaths = _SUSPECT.unpack_from(self._map, _TABLE_AT + place * _SUSPECT.size)
            if wire_id:
                yield (UUID(bytes=peer), wire_id), deaths

    def _notes(self) -> Iterator[Message]:
        for place in range(NOTES):
            at = _NOTES_AT + place * _NOTE_SIZE
            peer, count = _NOTE.unpack_from(self._map, at)
            if 0 < count <= RUN:
                yield from ((UUID(bytes=peer), one) for one in _IDS[count].unpack_from(self._map, at + _NOTE.size))

    def _begin(self, instance_id: UUID, boot: bytes) -> None:
        """Writes the table of suspects, and takes all notes back."""
        _HEAD.pack_into(self._map, 0, _MAGIC, instance_id.bytes, boot, 0)
        self._end_all()
        self._map[_TABLE_AT:_NOTES_AT] = bytes(_NOTES_AT - _TABLE_AT)
        for place, ((peer, wire_id), deaths) in enumerate(self.suspects.items()):
            self._places[peer, wire_id] = place
            _SUSPECT.pack_into(self._map, _TABLE_AT + place * _SUSPECT.size, peer.bytes, wire_id, deaths)

    def _end_all(self) -> None:
        _UNNOTED.pack_into(self._map, _UNNOTED_AT, 0)
        for place in range(NOTES):
            _COUNT.pack_into(self._map, _NOTES_AT + place * _NOTE_SIZE + _COUNT_AT, 0)

    def note(self, peer: UUID, ids: Sequence[int]) -> int:
        """Notes that handlers begin messages of this peer, at most `RUN`; returns the number of the note."""
        if not self._free:
            self._count_unnoted(1)
            return -1
        place = self._free.pop()
        at, count = _NOTES_AT + place * _NOTE_SIZE, len(ids)
        _IDS[count].pack_into(self._map, at + _NOTE.size, *ids)
        _NOTE.pack_into(self._map, at, peer.int.to_bytes(16), count)
        return place

    def end(self, place: int) -> None:
        """Takes a note back."""
        if self._map.closed:
            return
        if place < 0:
            self._count_unnoted(-1)
            return
        _COUNT.pack_into(self._map, _NOTES_AT + place * _NOTE_SIZE + _COUNT_AT, 0)
        self._free.append(place)

    def _count_unnoted(self, more: int) -> None:
        self._unnoted += more
        if not self._map.closed:
            _UNNOTED.pack_into(self._map, _UNNOTED_AT, self._unnoted)

    def forget(self, peer: UUID, wire_id: int) -> None:
        """Ends the suspicion of a message, which was settled. May be called from any thread."""
        place = self._places.pop((peer, wire_id), None)
        if place is not None:
            _SUSPECT.pack_into(self._map, _TABLE_AT + place * _SUSPECT.size, bytes(16), 0, 0)

    def end_in_order(self) -> None:
        """Says that the process ends in order: `close` takes all notes back, and removes the file if no suspect is
        left."""
        self._is_over = True

    def close(self) -> None:
        """Closes the file: nothing is noted any more. Never raises."""
        if self._places and self._is_over:
            self._end_all()
        is_empty = self._is_over and not self._places
        self._places.clear()
        self._free.clear()
        self._map.close()
        if is_empty:
            with suppress(OSError):
                os.unlink(self.path)


SUFFIX = ".begun"
"""Ending of the file's name, behind that of the database."""


def _is_ours(head: bytes, instance_id: UUID) -> bool:
    return len(head) == _HEAD.size and _HEAD.unpack(head)[:2] == (_MAGIC, instance_id.bytes)


def _allocate(file: int) -> None:
    os.ftruncate(file, 0)
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, _SIZE)
    else:
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, bytes(_SIZE))
