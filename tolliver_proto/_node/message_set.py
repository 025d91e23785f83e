"""Compact set of messages, in the order in which they came.

A message is its sender, its id and a checksum: an id alone is not enough, since a sender whose database was restored
from a copy gives its ids to other messages (T-48). A million tuples would take 200 MB. Here each message is a row of a
few numeric columns, and takes less than 17 bytes with its share of the index, for any sequence of ids.

The rows are a ring: removing the oldest takes constant time. The index is a table of chains. A message is in the chain
of its peer and id; when another message comes under that id, the earlier one moves aside, into the chain of peer, id
and checksum: else a peer that uses one id for everything would make one chain as long as the set.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import ClassVar
from uuid import UUID
from zlib import crc32

from .._wire.events import Message

Handled = tuple[UUID, int, int | None]
"""Peer, id, checksum. None comes from an old layout without checksums: any message of that id is the same."""

_LENGTHS = Struct(">II")
_NAMES_KNOWN = 4096
_SALT = hash("tolliver")  # differs in each process, so that no peer can choose ids that share a chain
_LEAST = 64  # rows
_COLUMNS = ("_peers", "_ids", "_checksums", "_nexts")
_MOST_PEERS = 2**15  # in 16 bits with a flag
_PEERS_UNSEEN = 512  # numbers that may be in use without a row


def checksum_of(message: Message) -> int:
    """Returns the crc32 of the lengths of channel and key, four bytes each, then channel, key and body."""
    return crc32(message.body, _names_checksum(message.channel, message.key))


@lru_cache(_NAMES_KNOWN)
def _names_checksum(channel: str, key: str) -> int:
    names = channel.encode(), key.encode()
    return crc32(b"".join((_LENGTHS.pack(*map(len, names)), *names)))


class Known(IntEnum):
    """Result of looking up a message: known, another message with its id, or neither."""

    NOT = 0
    BY_ID = 1  # another message of that id
    YES = 2


_NOT, _BY_ID, _YES = Known


class MessageSet:
    """Set of messages that were received, each as sender, wire id and checksum, oldest first. `room` is the expected
    number of messages: up to it the index is never rebuilt.
    """

    def __init__(self, room: int = 0, messages: Iterable[Handled] = ()) -> None:
        self.room = room
        # Peers are even numbers; the last bit says that there is no checksum.
        self._numbers: dict[UUID, int] = {}
        self._uuids: list[UUID | None] = []  # index is half the number; None if free or forgotten
        self._free: list[int] = []
        self._look_at = _PEERS_UNSEEN
        # Columns. Row 0 is no message: it ends a chain.
        self._peers = array("H", (0,))
        self._ids = array("I", (0,))
        self._checksums = array("I", (0,))
        self._nexts = array("I", (0,))
        self._heads = array("I", (0,)) * (room * 5 // 8 + 1)
        self._size = 0  # capacity in rows
        self._first = 1
        self._count = 0
        self._aside = 0  # rows in chains by checksum
        for message in messages:
            self.add(*message)

    def __len__(self) -> int:
        """Number of messages, with those of forgotten peers, whose rows are removed when they are the oldest."""
        return self._count

    def __iter__(self) -> Iterator[Handled]:
        end = self._first + self._count
        for rows in range(self._first, min(end, self._size + 1)), range(1, end - self._size):
            for row in rows:
                peer = self._peers[row]
                uuid = self._uuids[peer >> 1]
                if uuid is not None:
                    yield uuid, self._ids[row], None if peer & 1 else self._checksums[row]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageSet) and [*self] == [*other]

    __hash__: ClassVar[None]  # type: ignore[assignment]  # it changes: the class has no hash, as it has an `__eq__`

    def peers(self) -> list[UUID]:
        """Returns the senders of the messages in the set; a few whose messages were removed may be among them."""
        return list(self._numbers)

    def find(self, peer: UUID, message_id: int, checksum: int) -> Known:
        """Looks a message up by sender, wire id and checksum. Returns whether the set has this message, another one of
        its id, or neither.
        """
        number = self._numbers.get(peer)
        if number is None:
            return _NOT
        heads, nexts, ids = self._heads, self._nexts, self._ids
        row = heads[hash((_SALT, number, message_id)) % len(heads)]
        while row:
            if ids[row] == message_id and self._peers[row] & ~1 == number:
                return self._compared(row, checksum)
            row = nexts[row]
        return _NOT

    def add(self, peer: UUID, message_id: int, checksum: int | None) -> Known:
        """Adds the message as the newest, unless it is known; a `checksum` of None stands for any. Returns what was
        known before.
        """
        while self._count == self._size:
            self._grow()
        number = self._numbers.get(peer)
        if number is None:
            number = self._new_number(peer)
        heads, nexts, ids = self._heads, self._nexts, self._ids
        at = hash((_SALT, number, message_id)) % len(heads)
        known, other = _NOT, heads[at]
        while other:
            if ids[other] == message_id and self._peers[other] & ~1 == number:
                known = self._compared(other, checksum)
                if known is _YES:
                    return _YES
                self._put_aside(other, at)
                break
            other = nexts[other]
        row = self._first + self._count
        if row > self._size:
            row -= self._size
        try:
            ids[row] = message_id
        except OverflowError:
            self._ids = array("Q", ids)
            self._ids[row] = message_id
        self._peers[row] = number if checksum is not None else number | 1
        self._checksums[row] = checksum or 0
        nexts[row] = heads[at]
        heads[at] = row
        self._count += 1
        return known

    def forget_oldest(self) -> None:
        """Removes the oldest message."""
        row, heads = self._first, self._heads
        at = hash((_SALT, self._peers[row] & ~1, self._ids[row])) % len(heads)
        if heads[at] == row:
            heads[at] = self._nexts[row]
        elif not self._unlink(row, at):
            self._unlink(row, self._aside_at(row))
            self._aside -= 1
        self._first = row + 1 if row < self._size else 1
        self._count -= 1

    def forget(self, peer: UUID) -> None:
        """Forgets all messages of this peer."""
        number = self._numbers.pop(peer, None)
        if number is not None:
            self._uuids[number >> 1] = None

    # Peers.

    def _new_number(self, peer: UUID) -> int:
        if len(self._uuids) >= self._look_at and not self._free:
            self._look_for_free()
        if self._free:
            at = self._free.pop()
            self._uuids[at] = peer
        else:
            at = len(self._uuids)
            self._uuids.append(peer)
            if at == _MOST_PEERS:
                self._peers = array("I", self._peers)
        self._numbers[peer] = number = at << 1
        return number

    def _look_for_free(self) -> None:
        """Frees the small numbers that stand for peers of which no message is left."""
        used = {number >> 1 for number in set(self._peers)}
        self._free = [at for at in range(len(self._uuids)) if at not in used]
        for at in self._free:
            uuid, self._uuids[at] = self._uuids[at], None
            if uuid is not None:
                del self._numbers[uuid]
        self._look_at = 2 * len(used) + _PEERS_UNSEEN

    # Chains.

    def _compared(self, newest: int, checksum: int | None) -> Known:
        """Compares the checksum with that of the message at row `newest`, the newest of its id, and with those of
        earlier ones of the id.
        """
        number, message_id = self._peers[newest], self._ids[newest]
        if number & 1 or checksum in (None, self._checksums[newest]):
            return _YES
        row = self._heads[hash((_SALT, number, message_id, checksum)) % len(self._heads)] if self._aside else 0
        while row:
            if self._checksums[row] == checksum and self._ids[row] == message_id and self._peers[row] == number:
                return _YES
            row = self._nexts[row]
        return _BY_ID

    def _aside_at(self, row: int) -> int:
        return hash((_SALT, self._peers[row], self._ids[row], self._checksums[row])) % len(self._heads)

    def _put_aside(self, row: int, at: int) -> None:
        self._unlink(row, at)
        at = self._aside_at(row)
        self._nexts[row] = self._heads[at]
        self._heads[at] = row
        self._aside += 1

    def _unlink(self, row: int, at: int) -> bool:
        """Takes a row, by its position in the ring, out of the index's chain number `at`; returns False if it is not in
        there."""
        nexts = self._nexts
        before, one = 0, self._heads[at]
        while one != row:
            if not one:
                return False
            before, one = one, nexts[one]
        if before:
            nexts[before] = nexts[row]
        else:
            self._heads[at] = nexts[row]
        return True

    def _grow(self) -> None:
        """Makes space for more rows: exactly `room` rows at most, while that is enough."""
        if self._first != 1 or self._size == self.room:
            room = self.room if self._size < self.room else max(_LEAST, self._size * 5 // 4)
            self.__dict__ = MessageSet(room, self).__dict__
            return
        more = min(max(_LEAST, self._size), self.room - self._size)
        for name in _COLUMNS:
            column = getattr(self, name)
            setattr(self, name, column + array(column.typecode, (0,)) * more)
        self._size += more
