"""Protocol of a codec, and the functions of one.

Messages and streams have this one notion of it: any object with `encode` and `decode`, or a protobuf message class as
it is. Without one, bodies and elements are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Codec(Protocol[T]):
    """Bytes out of a value, and a value out of bytes. Both raise any Exception for what they do not take."""

    def encode(self, value: T, /) -> bytes:
        """The body of a message, or an element of a stream."""

    def decode(self, body: bytes, /) -> T:
        """The value that such bytes are of."""


class MessageClass(Protocol[T_co]):
    """A protobuf message class, as far as it is needed here."""

    @property
    def SerializeToString(self) -> Callable[..., bytes]: ...

    def FromString(self, data: bytes, /) -> T_co: ...


AnyCodec: TypeAlias = Codec[T] | MessageClass[T]
"""All that `codec=` takes."""


class Coding(NamedTuple):
    """The functions of a codec; None where nothing is to be done."""

    encode: Callable[[Any], bytes] | None = None
    decode: Callable[[bytes], Any] | None = None


def coding_of(codec: object) -> Coding:
    """The functions of an object or of a protobuf message class; None is bytes as they are. Raises TypeError."""
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
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, body: bytes) -> bytes:
        return body

    def __repr__(self) -> str:
        return "bytes"


BYTES: Codec[bytes] = _Bytes()
"""The codec of a channel or queue that was given none: the node itself says what is wrong with a body."""
