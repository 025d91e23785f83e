"""Codecs between an application's objects and the bytes of elements.

A codec is any object with `encode` and `decode`; a protobuf message class is taken as it is. Without one, elements are
bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Codec(Protocol[T]):
    """Makes bytes of an element, and an element of bytes."""

    def encode(self, value: T, /) -> bytes: ...

    def decode(self, data: bytes, /) -> T: ...


class MessageClass(Protocol[T_co]):
    """A protobuf message class, as far as a stream needs it."""

    @property
    def SerializeToString(self) -> Callable[..., bytes]: ...

    def FromString(self, data: bytes, /) -> T_co: ...


PlainSource = Iterable[T] | Callable[[str], Iterable[T]]
"""Elements of a publication: an iterable, or a function of the requested name that returns one."""

Elements = Iterable[T] | AsyncIterable[T]
Source = Elements[T] | Callable[[str], Elements[T] | Awaitable[Elements[T]]]
"""As `PlainSource`; any part of it may be asynchronous."""


def converted(convert: Callable[[Any], T], elements: Iterable[Any]) -> Iterator[T]:
    """Elements as a codec makes them. If that raises what ends an iteration, it is an error as any other."""
    for element in elements:
        try:
            yield convert(element)
        except StopAsyncIteration as error:  # of a StopIteration Python makes the same
            raise RuntimeError(f"the codec raised {type(error).__name__}") from error


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
