"""Iterators over typed deliveries, for threads.

A codec works outside the machine's lock, as a handler does.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from .._messages.typed import Opening, TypedReceiver, TypedRun
from ..codecs._bodies import TypedDelivery
from .iteration import BlockingIterator
from .iterators import Messages, Runs

T = TypeVar("T")


class TypedMessages(TypedReceiver, BlockingIterator[TypedDelivery[T]], Generic[T]):
    """As Messages, with the `value` of each delivery. A body that does not decode is failed, told, and left out."""

    _closed_text = Messages._closed_text

    def __init__(self, opening: Opening[T], source: Messages) -> None:
        super().__init__(source)
        self._opening = opening
        self._timeout = source._timeout
        self._take_one = source._take

    def _take(self, timeout: float | None) -> TypedDelivery[T] | None:
        while (delivery := self._take_one(timeout)) is not None:
            if (typed := self._opening.of(delivery)) is not None:
                return typed
        return None


class TypedWork(TypedMessages[T]):
    """As Work, with the `value` of each job. One that does not decode is failed, told, and left out."""


class TypedRuns(TypedReceiver, BlockingIterator[TypedRun[T]], Generic[T]):
    """As Runs, with the `value` of each delivery."""

    _closed_text = Runs._closed_text

    def __init__(self, opening: Opening[T], source: Runs) -> None:
        super().__init__(source)
        self._opening = opening
        self._timeout = source._timeout
        self._take_run = source._take

    def _take(self, timeout: float | None) -> TypedRun[T] | None:
        while (run := self._take_run(timeout)) is not None:
            if (typed := self._opening.of_run(run)) is not None:
                return typed
        return None
