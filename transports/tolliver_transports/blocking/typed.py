"""Iterators over typed deliveries, for threads. A codec works outside the machine's lock, as a handler does."""

from __future__ import annotations

from typing import Generic, TypeVar

from .._messages.typed import Opening, TypedReceiver, TypedRun
from ..codecs._bodies import TypedDelivery
from ..codecs._codec import AnyCodec
from .iteration import BlockingIterator
from .iterators import Messages, Runs, ThreadCore

T = TypeVar("T")


class TypedMessages(TypedReceiver, BlockingIterator[TypedDelivery[T]], Generic[T]):
    """As Messages, with the `value` of each delivery. A body that does not decode is failed, told, and left out."""

    _closed_text = Messages._closed_text

    def __init__(
        self, core: ThreadCore, channel: str, key: str, subscribe: bool, timeout: float | None, codec: AnyCodec[T]
    ) -> None:
        self._opening = Opening(core, codec)  # which may refuse the codec
        source = Messages(core, channel, key, subscribe, timeout)
        super().__init__(source)
        self._timeout = timeout
        self._take_one = source._take

    def _take(self, timeout: float | None) -> TypedDelivery[T] | None:
        while (delivery := self._take_one(timeout)) is not None:
            if (typed := self._opening.of(delivery)) is not None:
                return typed
        return None


class TypedRuns(TypedReceiver, BlockingIterator[TypedRun[T]], Generic[T]):
    """As Runs, with the `value` of each delivery."""

    _closed_text = Runs._closed_text

    def __init__(
        self, core: ThreadCore, channel: str, key: str, subscribe: bool, timeout: float | None, codec: AnyCodec[T]
    ) -> None:
        self._opening = Opening(core, codec)
        source = Runs(core, channel, key, subscribe, timeout)
        super().__init__(source)
        self._timeout = timeout
        self._take_run = source._take

    def _take(self, timeout: float | None) -> TypedRun[T] | None:
        while (run := self._take_run(timeout)) is not None:
            if (typed := self._opening.of_run(run)) is not None:
                return typed
        return None
