"""Sources of elements, and elements as a codec makes them."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
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
