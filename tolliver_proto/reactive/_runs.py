"""Codec of runs: elements of one stream, many at a time.

Nearly all bytes of a connection are elements, and the frames of one stream differ in their elements alone. So the head
of these frames is made once, and each element takes one step of a loop. A run takes only whole frames that are within
the limits and the demand, and ends before any other bytes. The decoder reads those as a single frame, in its own turn:
errors are found there alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from . import _varint
from ._limits import Limits

_AT_ONCE = 64  # elements of a fixed size that one call cuts
_DOUBTFUL = (_varint.Short, _varint.TooLong, IndexError)


class Heads(NamedTuple):
    """First bytes of a stream's frames, all before the element: those of a frame with one element (`plain`), and of one
    with several (`packed`). Without a stream they are the type numbers alone; for one stream, its id follows.
    """

    plain: bytes
    packed: bytes

    def of(self, subscriber_id: int) -> Heads:
        """Returns a copy whose first bytes also have the id of one stream, from those with the type numbers alone."""
        number = _varint.write(subscriber_id)
        return Heads(self.plain + number, self.packed + number)


# Writing.


def write(heads: Heads, size: int, elements: Sequence[bytes], limits: Limits) -> bytes:
    """Returns the frames of elements. `size` is the stream's element size; with 0 each element has a length."""
    if size:
        return b"".join(_fixed_parts(heads, elements, max(1, limits.max_packed // size)))
    return b"".join(_free_parts(heads.plain, elements))


def _free_parts(head: bytes, elements: Sequence[bytes]) -> list[bytes]:
    lengths = list(map(len, elements))
    heads = {length: head + _varint.write(length) for length in set(lengths)}
    parts = [head] * (2 * len(lengths))
    parts[::2] = map(heads.__getitem__, lengths)
    parts[1::2] = elements
    return parts


def _fixed_parts(heads: Heads, elements: Sequence[bytes], most: int) -> list[bytes]:
    """Returns the pieces of packed frames, each of at most `most` elements of one size; a frame for a single element is
    not packed.
    """
    parts: list[bytes] = []
    for start in range(0, len(elements), most):
        some = elements[start : start + most]
        parts.append(heads.packed + _varint.write(len(some)) if len(some) > 1 else heads.plain)
        parts += some
    return parts


# Reading.


def read(heads: Heads, data: bytes, pos: int, size: int, room: int, limits: Limits) -> tuple[list[bytes], int]:
    """Returns the whole elements of a stream that stand one after the other at `data[pos:]`, at most `room`, and the
    offset behind the last one. `size` is the stream's element size in bytes; with 0 each element has a length.
    """
    if size:
        return _read_fixed(heads, data, pos, size, room, limits.max_packed)
    return _read_free(heads.plain, data, pos, room, limits.max_element)


def _read_free(head: bytes, data: bytes, pos: int, room: int, most: int) -> tuple[list[bytes], int]:
    found: list[bytes] = []
    try:
        size, width = len(data), len(head)
        for _ in range(room):
            at = pos + width
            if data[pos:at] != head:
                break
            length = data[at]
            if length < 0x80:
                at += 1
            else:
                length, at = _varint.read(data, at)
            end = at + length
            if end > size or length > most:
                break
            found.append(data[at:end])
            pos = end
    except _DOUBTFUL:
        pass
    return found, pos


def _read_fixed(heads: Heads, data: bytes, pos: int, size: int, room: int, most: int) -> tuple[list[bytes], int]:
    found: list[bytes] = []
    try:
        plain, packed = heads
        while room:
            if data.startswith(packed, pos):
                count, at = _varint.read(data, pos + len(packed))
                if not 0 < count * size <= most:
                    break
            elif data.startswith(plain, pos):
                count, at = 1, pos + len(plain)
            else:
                break
            end = at + count * size
            if end > len(data) or count > room:
                break
            found += cut(data, at, end, size)
            pos = end
            room -= count
    except _DOUBTFUL:
        pass
    return found, pos


def cut(data: bytes, start: int, end: int, size: int) -> list[bytes]:
    """Cuts `data[start:end]` into elements of `size` bytes each."""
    found: list[bytes] = []
    stride = size * _AT_ONCE
    while end - start >= stride:
        found += _cutter(size).unpack_from(data, start)
        start += stride
    return found + [data[at : at + size] for at in range(start, end, size)]


@lru_cache(maxsize=16)
def _cutter(size: int) -> Struct:
    return Struct(f"{size}s" * _AT_ONCE)
