"""Headers before any codec's body, such as the context of a trace.

The protocol has no headers, and a body is the codec's bytes alone (P-40). A channel that needs headers wraps the codec,
on both sides.

Layout of a body: the length of the block in bytes, 16 bits, big-endian; the block, lines of `name: value`, each ended
by a line feed, in UTF-8; then the body of the codec within. Names of a trace are those of W3C Trace Context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Generic, TypeVar, cast

from ._codec import AnyCodec, coding_of

T = TypeVar("T")
_LENGTH = Struct(">H")
_LONGEST = 2**16 - 1
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


@dataclass(frozen=True, slots=True)
class Headed(Generic[T]):
    """A value with headers. Names are of lower-case letters, digits, "-" and "_"; values are one line of text."""

    value: T
    headers: Mapping[str, str] = field(default_factory=dict)


class Headers(Generic[T]):
    """Codec for `Headed` values, of which another codec, or none for bytes, has the values. All headers of a body take
    at most 65,535 bytes. Raises TypeError for an invalid codec.
    """

    def __init__(self, codec: AnyCodec[T] | None = None) -> None:
        self._codec = codec
        self._coding = coding_of(codec)

    def encode(self, value: Headed[T], /) -> bytes:
        if not isinstance(value, Headed):
            raise TypeError(f"the value is a {type(value).__name__}: give Headed(value, headers)")
        block = b"".join(_line(name, text) for name, text in value.headers.items())
        if len(block) > _LONGEST:
            raise ValueError(f"the headers take {len(block)} bytes, more than {_LONGEST}")
        encode = self._coding.encode
        body = cast(bytes, value.value) if encode is None else encode(value.value)
        return b"".join((_LENGTH.pack(len(block)), block, body))

    def decode(self, body: bytes, /) -> Headed[T]:
        if len(body) < _LENGTH.size:
            raise ValueError("the body is too short for a block of headers: does its sender use Headers, too?")
        end = _LENGTH.size + _LENGTH.unpack_from(body)[0]
        if len(body) < end:
            raise ValueError("the body ends within its headers: does its sender use Headers, too?")
        headers = _headers(body[_LENGTH.size : end])
        decode, rest = self._coding.decode, body[end:]
        return Headed(cast(T, rest) if decode is None else decode(rest), headers)

    def __repr__(self) -> str:
        return f"Headers({'' if self._codec is None else repr(self._codec)})"


def _line(name: str, text: str) -> bytes:
    if not name or not _NAME.issuperset(name):
        raise ValueError(f'the header {name!r:.100}: give a name of lower-case letters, digits, "-" and "_"')
    if not text.isprintable():
        raise ValueError(f"the header {name} is {text!r:.100}: give one line of text that can be printed")
    return f"{name}: {text}\n".encode()


def _headers(block: bytes) -> dict[str, str]:
    headers = {}
    for line in block.decode().split("\n")[:-1]:
        name, colon, text = line.partition(": ")
        if not colon or _line(name, text) != f"{line}\n".encode():
            raise ValueError(f"{line!r:.100} is no header")
        headers[name] = text
    if sum(len(_line(name, text)) for name, text in headers.items()) != len(block):
        raise ValueError("a header stands twice, or the last one has no end")
    return headers
