"""Types of element sources, and conversion of elements by a codec."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
PlainSource = Iterable[T] | Callable[[str], Iterable[T]]
"""Elements of a publication: an iterable, or a function of the requested name that returns one."""

Elements = Iterable[T] | AsyncIterable[T]
Source = Elements[T] | Callable[[str], Elements[T] | Awaitable[Elements[T]]]
"""Like `PlainSource`, but the iterable, the function, or both may be asynchronous."""


def converted(convert: Callable[[Any], T], elements: Iterable[Any]) -> Iterator[T]:
    """Convert each element with a codec. StopIteration raised by the codec becomes an ordinary error."""
    for element in elements:
        try:
            yield convert(element)
        except StopAsyncIteration as error:  # Python itself converts a StopIteration
            raise RuntimeError(f"the codec raised {type(error).__name__}") from error
