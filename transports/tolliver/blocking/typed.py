"""Blocking iterators over typed deliveries.

Decoding is application code, so it happens without the machine's lock, as a handler's call does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tolliver_proto import Delivery

from .._messages.typed import Opening, TypedReceiver, TypedRun
from ..codecs._bodies import TypedDelivery, TypedJob
from ..codecs._codec import AnyCodec
from .iteration import BlockingIterator
from .iterators import Item, Messages, Runs, ThreadIterator

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")


def _opened(source: ThreadIterator[Item], opened: Callable[[Item], V | None], timeout: float | None) -> V | None:
    """The next item of `source` that `opened` decodes; None when the iterator was closed. Raises TimeoutError after
    `timeout` seconds.
    """
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
    """Like Messages; each delivery has a decoded `value`. A body that does not decode is failed, with a notice, and
    skipped."""

    _source: Messages
    _closed_text = Messages._closed_text

    def __init__(self, codec: AnyCodec[T], source: Messages) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._timeout = source._timeout

    def _take(self, timeout: float | None) -> TypedDelivery[T] | None:
        return _opened(self._source, self._opening.of, timeout)


class TypedWork(TypedReceiver, BlockingIterator[TypedJob[T, R]], Generic[T, R]):
    """Like Work; each job has a decoded `value`, and `answer(value)`. A job that does not decode is failed, with a
    notice, and skipped."""

    _source: Messages
    _closed_text = Messages._closed_text

    def __init__(self, codec: AnyCodec[T], reply_codec: AnyCodec[R], source: Messages) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._reply_codec = reply_codec
        self._timeout = source._timeout

    def _take(self, timeout: float | None) -> TypedJob[T, R] | None:
        return _opened(self._source, self._job, timeout)

    def _job(self, delivery: Delivery) -> TypedJob[T, R] | None:
        job = self._opening.of(delivery)
        return None if job is None else TypedJob(delivery, job.value, self._reply_codec)


class TypedRuns(TypedReceiver, BlockingIterator[TypedRun[T]], Generic[T]):
    """Like Runs; each delivery has a decoded `value`."""

    _source: Runs
    _closed_text = Runs._closed_text

    def __init__(self, codec: AnyCodec[T], source: Runs) -> None:
        super().__init__(source)
        self._opening = Opening(codec, source)
        self._timeout = source._timeout

    def _take(self, timeout: float | None) -> TypedRun[T] | None:
        return _opened(self._source, self._opening.of_run, timeout)
