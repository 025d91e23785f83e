"""Batch of messages, as one row of the database.

A row for each message would cost the database more than the message itself. So the messages of a commit share a row,
which has a directory and the concatenated bodies; the directory gives each message's offset. Every message has a
checksum of its directory entry and body, so that a flipped bit there damages only that message. A flipped bit in shared
data, the head and the names, damages all messages that use it. Nothing is repaired: a guess may be wrong (D-13).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, repeat
from operator import itemgetter
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple
from zlib import crc32

from tolliver_proto.store import CorruptMessage, StoredMessage

PIECE = 2**18
"""Most bytes of bodies in a batch. A larger message has a batch of its own."""

_CHECK = Struct("<I")  # checksum of the rest of the directory
_HEAD = Struct("<QQQII")  # first and last seq, time of storing, number of messages, bytes of names
_ONE = Struct("<IQIIIII")  # index from the first seq, id, size, offset, length, checksum, index of the name
_NAME = Struct("<II")  # lengths of channel and key in bytes
_LITTLE = sys.byteorder == "little"


class Messages(NamedTuple):
    """Messages of consecutive seqs, the first of which is `first_seq`, as columns: a sequence for each field."""

    first_seq: int
    ids: Sequence[int]
    sizes: Sequence[int]
    channels: Sequence[str]
    keys: Sequence[str]
    bodies: Sequence[bytes]

    @classmethod
    def of(cls, message: StoredMessage) -> Messages:
        """Columns with a single message."""
        seq, wire_id, size = message.seq, message.wire_id, message.size
        return cls(seq, (wire_id,), (size,), (message.channel,), (message.key,), (message.body,))

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.ids) - 1

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Index ranges (start, stop) of these messages that become one batch each."""
        ends = [*accumulate(map(len, self.bodies))]
        start = begun = 0
        while start < len(ends):
            stop = max(start + 1, bisect_right(ends, begun + PIECE, start))
            yield start, stop
            start, begun = stop, ends[stop - 1]

    def part(self, start: int, stop: int) -> Messages:
        if (start, stop) == (0, len(self.ids)):
            return self
        return Messages(self.first_seq + start, *(column[start:stop] for column in self[1:]))  # type: ignore[arg-type]


def in_columns(messages: Sequence[StoredMessage]) -> Iterator[tuple[int, Messages]]:
    """Runs of messages with consecutive seqs, as columns, each after the index of its first."""
    first, count = messages[0].seq, len(messages)
    if messages[-1].seq - first == count - 1:  # as seqs ascend, they are consecutive
        yield 0, _columns(messages)
        return
    start = 0
    for at in range(1, count + 1):
        if at == count or messages[at].seq != messages[at - 1].seq + 1:
            yield start, _columns(messages[start:at])
            start = at


def _columns(messages: Sequence[StoredMessage]) -> Messages:
    return Messages(
        messages[0].seq,
        [message.wire_id for message in messages],  # a list for each column: half the time of a single pass
        [message.size for message in messages],
        [message.channel for message in messages],
        [message.key for message in messages],
        [message.body for message in messages],
    )


@lru_cache(1024)
def _name(channel: str, key: str) -> tuple[bytes, int]:
    """Channel and key as the directory stores them, and their checksum, which is mixed into those of their messages."""
    one, other = channel.encode(), key.encode()
    text = _NAME.pack(len(one), len(other)) + one + other
    return text, crc32(text)


_ROWS = array("I", range(4096))


def _places(count: int) -> array[int]:
    return _ROWS[:count] if count <= len(_ROWS) else array("I", range(count))


def _mixed(*columns: array[int]) -> array[int]:
    """Row-wise XOR of columns of 32 bits. Each column is treated as one long integer, as there may be thousands of
    rows."""
    mixed = 0
    for column in columns:
        mixed ^= int.from_bytes(column.tobytes(), "little")
    return array("I", mixed.to_bytes(4 * len(columns[0]), "little"))


def _written(column: array[int]) -> bytes:
    """Bytes of a column, in the byte order of the directory."""
    if not _LITTLE:
        column = column[:]
        column.byteswap()
    return column.tobytes()


def _offsets(lengths: array[int]) -> array[int]:
    return array("I", [0, *accumulate(lengths)][:-1])


def _directory(first: int, last: int, stored_at: int, count: int, names: bytes, columns: Iterable[bytes]) -> bytes:
    said = b"".join((_HEAD.pack(first, last, stored_at, count, len(names)), names, *columns))
    return _CHECK.pack(crc32(said)) + said


def pack(messages: Messages, stored_at: int) -> tuple[bytes, bytes]:
    """Directory and bodies of a batch of these messages, as the table `batch` stores them. `stored_at` is in seconds
    since 1970.
    """
    first_seq, ids, sizes, channels, keys, bodies = messages
    count = len(ids)
    if count == 1:
        return _pack_one(messages, stored_at)
    if channels.count(channels[0]) == count and keys.count(keys[0]) == count:  # the usual case
        names, mix = _name(channels[0], keys[0])
        numbers, mixes = array("I", bytes(4 * count)), array("I", [mix]) * count
    else:
        known: dict[tuple[str, str], int] = {}
        numbers = array("I", [known.setdefault(name, len(known)) for name in zip(channels, keys, strict=True)])
        parts = [_name(*name) for name in known]
        names = b"".join(text for text, _ in parts)
        mixes = array("I", map([mix for _, mix in parts].__getitem__, numbers))
    places, packed_sizes, lengths = _places(count), array("I", sizes), array("I", map(len, bodies))
    seeds = _mixed(array("I", _all_short(ids)), packed_sizes, mixes, places)
    checks = array("I", map(crc32, bodies, seeds))
    table = (places, array("Q", ids), packed_sizes, _offsets(lengths), lengths, checks, numbers)
    return _directory(first_seq, messages.last_seq, stored_at, count, names, map(_written, table)), b"".join(bodies)


def _pack_one(messages: Messages, stored_at: int) -> tuple[bytes, bytes]:
    """Directory and bodies of a batch with a single message, as `pack` makes them: without columns, which is faster."""
    seq, (wire_id,), (size,), (channel,), (key,), (body,) = messages
    names, mix = _name(channel, key)
    columns = _ONE.pack(0, wire_id, size, 0, len(body), crc32(body, _short(wire_id) ^ size ^ mix), 0)
    return _directory(seq, seq, stored_at, 1, names, (columns,)), bytes(body)


def _short(wire_id: int) -> int:
    """A number of 32 bits for the id, into which all of its bits are folded."""
    return (wire_id ^ wire_id >> 32) & 0xFFFFFFFF


def _all_short(ids: Sequence[int]) -> Sequence[int]:
    return ids if max(ids) < 2**32 else [*map(_short, ids)]


class Directory:
    """List of a batch's messages, as stored: their ids, names, offsets in the bodies, and checksums. `whole` is False
    if the directory is damaged.
    """

    first_seq: int
    last_seq: int
    stored_at: int  # seconds since 1970
    count: int

    __slots__ = (
        *("count", "first_seq", "last_seq", "names", "stored_at", "whole"),
        *("crcs", "ids", "lengths", "numbers", "offsets", "places", "sizes"),
    )

    def __init__(self, data: bytes) -> None:
        """Parse a directory. Raises ValueError if it cannot be read."""
        check, said = int.from_bytes(data[:4], "little"), data[4:]
        self.whole = crc32(said) == check
        try:
            self.first_seq, self.last_seq, self.stored_at, self.count, size = _HEAD.unpack_from(said)
            start = _HEAD.size + size
            columns = said[start:]
            if len(columns) != _ONE.size * self.count:
                raise ValueError("columns of another length than the directory says")
            self.names = list(_names(said[_HEAD.size : start]))
        except struct_error as error:
            raise ValueError(f"a directory that ends too soon: {error}") from error
        self.places, self.ids, self.sizes, self.offsets, self.lengths, self.crcs, self.numbers = _unpacked(columns)

    def at(self, place: int) -> int | None:
        """Index in the columns of the message `place` seqs after the batch's first; None if the batch has none
        there.
        """
        if place < self.count and self.places[place] == place:
            return place
        try:
            return self.places.index(place)
        except ValueError:
            return None

    def names_at(self, place: int) -> tuple[str, str] | None:
        """Channel and key of the message `place` seqs after the batch's first; None if they cannot be read."""
        at = self.at(place)
        if at is None or self.numbers[at] >= len(self.names):
            return None
        channel, key, _ = self.names[self.numbers[at]]
        return channel, key

    def message(self, at: int, bodies: bytes) -> StoredMessage | CorruptMessage:
        """The message at the column index `at`, with its body out of the batch's `bodies`; a CorruptMessage if its
        checksum is wrong (V9)."""
        seq, wire_id, size, place = self.first_seq + self.places[at], self.ids[at], self.sizes[at], self.places[at]
        body = bodies[self.offsets[at] : self.offsets[at] + self.lengths[at]]
        if self.numbers[at] < len(self.names):
            channel, key, mix = self.names[self.numbers[at]]
            if crc32(body, _short(wire_id) ^ size ^ mix ^ place) == self.crcs[at]:
                return StoredMessage(seq, wire_id, channel, key, body, size)
        return CorruptMessage(seq, wire_id, size)

    def messages(self, indexes: Sequence[int], bodies: bytes) -> list[StoredMessage | CorruptMessage]:
        """Like `message`, for several indexes."""
        good = self._all_good(indexes, bodies) if len(indexes) > 1 else None
        return good or [self.message(at, bodies) for at in indexes]

    def _all_good(self, indexes: Sequence[int], bodies: bytes) -> list[StoredMessage | CorruptMessage] | None:
        places, ids, sizes, offsets, lengths, crcs, numbers = self._rows(indexes)
        if max(numbers) >= len(self.names):
            return None
        channels, keys, mixes = self._names_of(numbers)
        parts = [bodies[at : at + length] for at, length in zip(offsets, lengths, strict=True)]
        seeds = _mixed(array("I", _all_short(ids)), sizes, mixes, places)
        if array("I", map(crc32, parts, seeds)) != crcs:
            return None
        seqs = map(self.first_seq.__add__, places)
        return [*map(StoredMessage, seqs, ids, channels, keys, parts, sizes)]

    def _names_of(self, numbers: array[int]) -> tuple[Iterable[str], Iterable[str], array[int]]:
        if len(self.names) == 1:  # the usual case
            channel, key, mix = self.names[0]
            return repeat(channel), repeat(key), array("I", [mix]) * len(numbers)
        names = [self.names[number] for number in numbers]
        channels, keys, mixes = zip(*names, strict=True)
        return channels, keys, array("I", mixes)

    def only(self, indexes: Sequence[int], bodies: bytes) -> tuple[bytes, bytes]:
        """Directory and bodies of a batch of only these messages, out of the `bodies` of this one. Checksums are
        copied, so a damaged message is still detected."""
        places, ids, sizes, offsets, lengths, crcs, numbers = self._rows(indexes)
        table = (places, ids, sizes, _offsets(lengths), lengths, crcs, numbers)
        names = b"".join(_name(channel, key)[0] for channel, key, _ in self.names)
        directory = _directory(self.first_seq, self.last_seq, self.stored_at, len(indexes), names, map(_written, table))
        return directory, b"".join(bodies[at : at + length] for at, length in zip(offsets, lengths, strict=True))

    def _rows(self, indexes: Sequence[int]) -> Sequence[array[int]]:
        columns = (self.places, self.ids, self.sizes, self.offsets, self.lengths, self.crcs, self.numbers)
        first, count = indexes[0] if indexes else 0, len(indexes)
        if not indexes or indexes[-1] - first == count - 1:  # the usual case
            return [column[first : first + count] for column in columns]
        take = itemgetter(*indexes)
        return [array(column.typecode, take(column)) for column in columns]


def _names(texts: bytes) -> Iterator[tuple[str, str, int]]:
    at = 0
    while at < len(texts):
        channel_size, key_size = _NAME.unpack_from(texts, at)
        middle = at + _NAME.size + channel_size
        end = middle + key_size
        channel, key = texts[at + _NAME.size : middle], texts[middle:end]
        yield channel.decode(), key.decode(), crc32(texts[at:end])
        at = end


def _unpacked(columns: bytes) -> Iterator[array[int]]:
    count, start = len(columns) // _ONE.size, 0
    for code in "IQIIIII":
        column = array(code)
        size = count * column.itemsize
        column.frombytes(columns[start : start + size])
        if not _LITTLE:
            column.byteswap()
        start += size
        yield column
