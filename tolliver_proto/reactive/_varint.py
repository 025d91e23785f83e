"""Varints as in Protobuf, without its tags (R-02 to R-04).

A byte carries seven bits, the lowest first; its top bit is set if more bytes follow. Ten bytes carry 64 bits. Encodings
that are longer than needed are read and never written (R-03).
"""

from __future__ import annotations

_MOST_BITS = 7 * 10  # bits of ten bytes
MAX_NUMBER = 2**64 - 1
MAX_LONG = 2**63 - 1
_SHORT = [bytes([number]) for number in range(0x80)]


class Short(Exception):
    """The bytes end too early: at least `end` bytes are needed. The codec catches this exception."""

    def __init__(self, end: int) -> None:
        self.end = end


class TooLong(Exception):
    """The number has more than 64 bits. The codec catches this exception."""


def write(number: int) -> bytes:
    """Returns the shortest encoding of a number from 0 to 2^64-1."""
    if number < 0x80:
        return _SHORT[number]
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read(data: bytes, pos: int) -> tuple[int, int]:
    """Returns the number that is written at `data[pos:]`, and the offset behind it. Raises Short or TooLong."""
    number = shift = 0
    try:
        byte = data[pos]
        if byte < 0x80:
            return byte, pos + 1
        while byte >= 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift == _MOST_BITS:
                raise TooLong
            pos += 1
            byte = data[pos]
    except IndexError:
        raise Short(len(data) + 1) from None
    number |= byte << shift
    if number > MAX_NUMBER:
        raise TooLong
    return number, pos + 1


def to_long(number: int) -> int:
    """Returns the int64 that an unsigned number stands for (R-04)."""
    return number - 2**64 if number > MAX_LONG else number


def from_long(number: int) -> int:
    """Returns the unsigned number that is written for an int64 (R-04)."""
    return number & MAX_NUMBER
