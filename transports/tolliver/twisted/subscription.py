"""Streams on Twisted, in both directions: for Deferreds, callbacks and coroutines.

The classes are those of every event loop. Specific to Twisted: cancelling raises an Exception, and a single element can
be had as a Deferred.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred, DeferredLock

from .._driver.adapter import AwaitableWakeup
from .._streams.async_streams import AsyncOutboundStream
from .._streams.async_streams import Subscription as AsyncSubscription
from .._streams.subscribing import InboundStream

T = TypeVar("T")


class EndOfStream(Exception):
    """`Subscription.next` found no more elements: the stream has ended, without an error.

    No other code raises it. A codec could raise one of Python's own exceptions, and StopAsyncIteration would end the
    loops that it passes through.
    """


class OutboundStream(AsyncOutboundStream):
    """One stream from a publication of ours to a subscriber, fed by its source."""

    def fail(self, error: BaseException) -> None:
        """Fail the stream with `error`. Once it has ended, the exception comes from cancelling its source, and is
        ignored.
        """
        if not (self.over and isinstance(error, CancelledError)):
            super().fail(error)


class Subscription(AsyncSubscription[T]):
    """The elements of a stream: by `for_each`, by `next`, or in a coroutine by `async for element in subscription`.

    Several consumers may share one: each element goes to one of them. Use `async with` around a loop that may be left
    early: that cancels the stream at once.
    """

    def __init__(self, core: Any, stream: InboundStream, wakeup: AwaitableWakeup) -> None:
        super().__init__(core, stream, wakeup)
        self._yield_to_loop = core.yield_to_loop
        self._turns = DeferredLock()

    def next(self) -> Deferred[T]:
        """The next element. Several pending calls are answered in order, each in an iteration of the reactor.

        Fails with EndOfStream after the last element, and with the errors of iteration. If it is cancelled or times
        out, no element is lost: the next call returns it.
        """
        return self._turns.run(self._element)

    async def _element(self) -> T:
        await self._yield_to_loop()  # else a callback that calls `next` again would recurse without bound
        async for element in self:
            return element
        raise EndOfStream(f"{self._stream.name!r:.200} has no more elements: the stream is over")

    def for_each(  # type: ignore[override]  # a Deferred can be awaited, too
        self, handler: Callable[[T], object]
    ) -> Deferred[None]:
        """Call the handler with each element, one after the other; fires when the stream has ended.

        The handler may be plain, a coroutine function, or return a Deferred, which the next element waits for. Fails
        with the errors of iteration and of the handler. An error, and cancelling the Deferred, cancels the stream.
        """
        return Deferred.fromCoroutine(super().for_each(handler))
