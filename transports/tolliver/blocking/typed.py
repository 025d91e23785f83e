"""Iterators over typed deliveries, for threads.

A codec works outside the machine's lock, as a handler does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from .._messages.typed import Opening, TypedReceiver, TypedRun
from ..codecs._bodies import TypedDelivery
from ..codecs._codec import AnyCodec
from .iteration import BlockingIterator
from .iterators import Item, Messages, Runs, ThreadIterator

T = TypeVar("T")
V = TypeVar("V")


def _opened(source: ThreadIterator[Item], opened: Callable[[Item], V | None], timeout: float | None) -> V | None:
    """The next that its codec can read; None when it was closed."""
    item = None
    try:
        while (item := source._take(timeout)) is not None:
            if (typed := opened(item)) is not None:
                return typed
            item = None
        return None
    except KeyboardInterrupt:
        if item is not None:
            source.put_back(item)
        raise


class TypedMessages(TypedReceiver, BlockingIterator[TypedDelivery[T]], Generic[T]):
    """As Messages, with the `value` of each delivery. A body that does not decode is failed, told, and left out."""

    _source: Messages
    _closed_text = Messages._closed_text

    def __init__(self, codec: AnyCodec[T], source: Messages) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._timeout = source._timeout

    def _take(self, timeout: float | None) -> TypedDelivery[T] | None:
        return _opened(self._source, self._opening.of, timeout)


class TypedWork(TypedMessages[T]):
    """As Work, with the `value` of each job. One that does not decode is failed, told, and left out."""


class TypedRuns(TypedReceiver, BlockingIterator[TypedRun[T]], Generic[T]):
    """As Runs, with the `value` of each delivery."""

    _source: Runs
    _closed_text = Runs._closed_text

    def __init__(self, codec: AnyCodec[T], source: Runs) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._timeout = source._timeout

    def _take(self, timeout: float | None) -> TypedRun[T] | None:
        return _opened(self._source, self._opening.of_run, timeout)
