"""Ids of the messages that a stage has had, by sender (T-48).

A copy that is sent again is not staged again. The set is exact, never a high-water mark, because lower ids do come
later (T-09, T-40, T-51). It is that of the last segments: each closed one has its ids in a file beside it, and is
forgotten as a whole once the segments after it have enough. So what is staged and what is remembered cannot disagree.
Ids come nearly in order: spans are few.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple
from uuid import UUID
from zlib import crc32

from tolliver_proto import Span
from tolliver_proto.layouts import Fields, IntervalSet

_MAGIC = b"TLVS"
_LAYOUT = 1
_HEAD = Fields("4s magic, H layout, Q frames, I senders")
_SENDER = Fields("16s sender, I spans")
_SPAN = Struct(">II")
_CHECKSUM = Struct(">I")


class Ids:
    """Senders and ids of a segment's messages; `frames` counts all of its messages, those without an id too."""

    def __init__(self) -> None:
        self.frames = 0
        self.count = 0
        self._spans: dict[UUID, IntervalSet] = {}

    def __iter__(self) -> Iterator[tuple[UUID, IntervalSet]]:
        return iter(self._spans.items())

    def add(self, sender: UUID, spans: Iterable[Span], frames: int) -> None:
        """More messages, none of which is known here."""
        known = self._spans.get(sender)
        for first, last in spans:
            if known is None:
                known = self._spans[sender] = IntervalSet()
            known.add(first, last)
            self.count += last + 1 - first
        self.frames += frames

    def encode(self) -> bytes:
        """As they stand in the file."""
        parts = [_HEAD.struct.pack(_MAGIC, _LAYOUT, self.frames, len(self._spans))]
        for sender, known in self:
            spans = [*known]
            parts.append(_SENDER.struct.pack(sender.bytes, len(spans)))
            parts += [_SPAN.pack(*span) for span in spans]
        data = b"".join(parts)
        return data + _CHECKSUM.pack(crc32(data))

    @classmethod
    def decode(cls, data: bytes) -> Ids | None:
        """From the file's bytes; None if they are not such ids, whole and as `encode` writes them."""
        end = len(data) - _CHECKSUM.size
        if end < _HEAD.size or _CHECKSUM.unpack_from(data, end)[0] != crc32(memoryview(data)[:end]):
            return None
        magic, layout, frames, senders = _HEAD.struct.unpack_from(data)
        if (magic, layout) != (_MAGIC, _LAYOUT):
            return None
        ids, at, left = cls(), _HEAD.size, frames
        for _ in range(senders):
            if at + _SENDER.size > end:
                return None
            sender, count = _SENDER.struct.unpack_from(data, at)
            start, at = at + _SENDER.size, at + _SENDER.size + count * _SPAN.size
            if at > end:
                return None
            spans = list(_SPAN.iter_unpack(memoryview(data)[start:at]))
            left -= sum(last + 1 - first for first, last in spans)
            if left < 0 or any(first > last for first, last in spans):
                return None  # no messages have so many ids
            ids.add(UUID(bytes=sender), spans, 0)
        ids.frames = frames
        return ids if ids.encode() == data else None  # else its numbers do not fit each other


class _Closed(NamedTuple):
    number: int
    messages: int
    data: bytes  # encoded: what is forgotten some day need not be at hand


class Seen:
    """The ids of the last segments, which have `size` messages or more; while there are fewer, of all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[UUID, IntervalSet] = {}
        self._closed: deque[_Closed] = deque()
        self._count = 0  # in closed segments

    @property
    def oldest(self) -> int | None:
        """The first segment whose ids are still needed; None where no closed one's are."""
        return self._closed[0].number if self._closed else None

    def take(self, sender: UUID, ids: Sequence[int | None]) -> list[int]:
        """Places in the list of those that are new; they are known from now on. None is always new."""
        known = self._known.get(sender)
        if known is None:
            known = IntervalSet()
        fresh: list[int] = []
        first = last = -1  # a run of new ids that is not in the set yet
        for at, number in enumerate(ids):
            if number is not None:
                if first >= 0 and number == last + 1 and number not in known:
                    last = number
                else:
                    if first >= 0:
                        known.add(first, last)
                        first = -1
                    if number in known:
                        continue
                    first = last = number
            fresh.append(at)
        if first >= 0:
            known.add(first, last)
        if known:
            self._known[sender] = known
        return fresh

    def add(self, ids: Ids) -> None:
        """Those of a segment that was there before."""
        for sender, spans in ids:
            known = self._known.setdefault(sender, IntervalSet())
            for first, last in spans:
                known.add(first, last)

    def close(self, number: int, ids: Ids) -> None:
        """No more come to this segment, whose ids are known. Forgets the oldest segments where the others suffice."""
        self._closed.append(_Closed(number, ids.count, ids.encode()))
        self._count += ids.count
        while self._closed and self._count - self._closed[0].messages >= self._size:
            self._forget(self._closed.popleft())

    def _forget(self, closed: _Closed) -> None:
        self._count -= closed.messages
        for sender, spans in Ids.decode(closed.data) or ():
            known = self._known[sender]
            for first, last in spans:
                known.discard(first, last)
            if not known:
                del self._known[sender]
