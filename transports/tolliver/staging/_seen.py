"""Messages that a stage has received, by sender, id and checksum (T-48).

A resent copy is not staged again, but a different message with the same id is. The set is exact, not a high-water mark,
because lower ids can arrive later (T-09, T-40, T-51). It covers the last segments: each closed segment has its
messages' keys in a file next to it, and is forgotten as a whole once later segments have enough. So what is staged and
what is remembered cannot disagree. Ids are nearly ascending, so they form few runs.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from tolliver_proto.layouts import Fields, Known, MessageSet
from tolliver_proto.node import Span

Key = tuple[int, int]
"""Id and checksum of a message."""

_YES = Known.YES
_MAGIC = b"TLVS"
_LAYOUT = 2
_WITHOUT_CHECKSUMS = 1
_HEAD = Fields("4s magic, H layout, Q frames, I senders")
_SENDER = Fields("16s sender, I spans")
_SPAN = Struct(">II")
_CHECKSUM = Struct(">I")


class Ids:
    """Ids and checksums of one segment's messages by sender, in order of arrival, as its file of ids has them.

    `frames` counts all messages of the segment, also those without an id. A file of the first layout has no checksums.
    """

    def __init__(self, layout: int = _LAYOUT) -> None:
        self.frames = 0
        self.count = 0
        """Number of messages with an id."""
        self._layout = layout
        self._senders: dict[UUID, tuple[array[int], array[int]]] = {}

    def __iter__(self) -> Iterator[tuple[UUID, int, int | None]]:
        for sender, (ids, checksums) in self._senders.items():
            for at, message_id in enumerate(ids):
                yield sender, message_id, checksums[at] if checksums else None

    def add(self, sender: UUID, messages: Sequence[Key], frames: int) -> None:
        """Add the ids and checksums of new messages of this sender, and `frames` to the count of messages."""
        self._add(sender, [message_id for message_id, _ in messages], [checksum for _, checksum in messages])
        self.frames += frames

    def _add(self, sender: UUID, ids: Sequence[int], checksums: Sequence[int]) -> None:
        if not ids:
            return
        columns = self._senders.get(sender)
        if columns is None:
            columns = self._senders[sender] = array("I"), array("I")
        columns[0].extend(ids)
        columns[1].extend(checksums)
        self.count += len(ids)

    def encode(self) -> bytes:
        """Content of a segment's file of ids."""
        parts = [_HEAD.struct.pack(_MAGIC, self._layout, self.frames, len(self._senders))]
        for sender, (ids, checksums) in self._senders.items():
            runs = _runs(ids)
            parts.append(_SENDER.struct.pack(sender.bytes, len(runs)))
            parts += [_SPAN.pack(*run) for run in runs]
            parts.append(_big_endian(checksums))
        data = b"".join(parts)
        return data + _CHECKSUM.pack(crc32(data))

    @classmethod
    def decode(cls, data: bytes) -> Ids | None:
        """Parse a file's content; None unless it is exactly what `encode` writes."""
        end = len(data) - _CHECKSUM.size
        if end < _HEAD.size or _CHECKSUM.unpack_from(data, end)[0] != crc32(memoryview(data)[:end]):
            return None
        magic, layout, frames, senders = _HEAD.struct.unpack_from(data)
        if magic != _MAGIC or layout not in (_WITHOUT_CHECKSUMS, _LAYOUT):
            return None
        ids, at = cls(layout), _HEAD.size
        for _ in range(senders):
            if at + _SENDER.size > end:
                return None
            sender, count = _SENDER.struct.unpack_from(data, at)
            start, at = at + _SENDER.size, at + _SENDER.size + count * _SPAN.size
            if at > end:
                return None
            runs = list(_SPAN.iter_unpack(memoryview(data)[start:at]))
            number = sum(last + 1 - first for first, last in runs)
            if ids.count + number > frames or any(first > last for first, last in runs):
                return None  # more ids than messages
            start, at = at, at + _CHECKSUM.size * number * (layout != _WITHOUT_CHECKSUMS)
            if at > end:
                return None
            expanded = array("I", (number for first, last in runs for number in range(first, last + 1)))
            ids._add(UUID(bytes=sender), expanded, _native(data[start:at]))
        ids.frames = frames
        return ids if ids.encode() == data else None  # else it is inconsistent


def _runs(ids: Iterable[int]) -> list[Span]:
    """The same ids in the same order, as runs (first, last) of consecutive ids."""
    runs: list[Span] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _big_endian(numbers: array[int]) -> bytes:
    return Struct(f">{len(numbers)}I").pack(*numbers)


def _native(data: bytes) -> array[int]:
    return array("I", Struct(f">{len(data) // _CHECKSUM.size}I").unpack(data))


class _Closed(NamedTuple):
    number: int
    messages: int


class Seen:
    """Ids and checksums of the messages in the last segments, by which copies are recognized: at least `size` of them
    if there are so many.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._known = MessageSet(size)
        self._closed: deque[_Closed] = deque()
        self._count = 0  # messages in closed segments
        self.ids_reused = 0
        """Number of messages that came under the id of a different message."""
        self.last_reused: tuple[UUID, int] | None = None

    @property
    def oldest(self) -> int | None:
        """Number of the oldest closed segment that is still needed; None without one."""
        return self._closed[0].number if self._closed else None

    def take(self, sender: UUID, messages: Sequence[tuple[int | None, int]]) -> list[int]:
        """Remember messages of this sender, each (id, checksum); returns the indexes of the new ones. A different
        message under a known id is new, and so is any message without an id.
        """
        add = self._known.add
        fresh: list[int] = []
        for at, (message_id, checksum) in enumerate(messages):
            if message_id is not None and (known := add(sender, message_id, checksum)):
                if known is _YES:
                    continue
                self.ids_reused += 1
                self.last_reused = sender, message_id
            fresh.append(at)
        return fresh

    def add(self, ids: Ids) -> None:
        """Add the ids of an earlier segment. Only those that no earlier segment has count as its own."""
        before = len(self._known)
        for one in ids:
            self._known.add(*one)
        ids.count = len(self._known) - before

    def close(self, number: int, ids: Ids) -> None:
        """Called when segment `number` is closed. Forgets the oldest segments that are no longer needed."""
        self._closed.append(_Closed(number, ids.count))
        self._count += ids.count
        while self._closed and self._count - self._closed[0].messages >= self._size:
            messages = self._closed.popleft().messages
            self._count -= messages
            for _ in range(messages):
                self._known.forget_oldest()
