"""Interface of a codec.

Messages and streams accept the same codecs: any object with `encode` and `decode`, or a protobuf message class. Without
one, bodies and elements are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Codec(Protocol[T]):
    """Converts values to bytes and back. Both methods may raise any Exception for invalid input."""

    def encode(self, value: T, /) -> bytes:
        """The value as the body of a message, or as an element of a stream."""

    def decode(self, body: bytes, /) -> T:
        """The value of a body or element."""


class MessageClass(Protocol[T_co]):
    """The part of a protobuf message class that is used here."""

    @property
    def SerializeToString(self) -> Callable[..., bytes]: ...

    def FromString(self, data: bytes, /) -> T_co: ...


AnyCodec: TypeAlias = Codec[T] | MessageClass[T]
"""Everything that `codec=` accepts."""


class Coding(NamedTuple):
    """The two functions of a codec, to encode and to decode; None for bytes, which need no conversion."""

    encode: Callable[[Any], bytes] | None = None
    decode: Callable[[bytes], Any] | None = None


def coding_of(codec: object) -> Coding:
    """Functions of a codec object or protobuf message class; None means bytes. Raises TypeError for any other
    object."""
    if codec is None:
        return Coding()
    if isinstance(codec, type) and hasattr(codec, "SerializeToString") and hasattr(codec, "FromString"):
        return Coding(codec.SerializeToString, codec.FromString)
    encode, decode = getattr(codec, "encode", None), getattr(codec, "decode", None)
    if isinstance(codec, type) or not callable(encode) or not callable(decode):
        raise TypeError(
            f"codec is {codec!r:.100}: give an object with encode(value) -> bytes and decode(bytes) -> value, or a "
            "protobuf message class"
        )
    return Coding(encode, decode)


class _Bytes:
    """The codec that leaves bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, body: bytes) -> bytes:
        return body

    def __repr__(self) -> str:
        return "bytes"


BYTES: Codec[bytes] = _Bytes()
"""Default codec. It checks nothing, as the node itself validates bodies."""
