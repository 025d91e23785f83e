"""Streams that are given and taken on Twisted: Deferreds, callbacks and coroutines.

Outbound streams and subscriptions are those of every loop that awaits. Twisted's own is that cancelling raises an
Exception, and that an element can be had as a Deferred.
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
    """`Subscription.next` was asked for an element, and there are no more: the stream is over, without an error.

    Nothing else raises it: an exception of Python's own could be the codec's too, and an iteration's would end the
    loops that it passes through.
    """


class OutboundStream(AsyncOutboundStream):
    """One stream that is given."""

    def fail(self, error: BaseException) -> None:
        """If the stream is over, its source was cancelled: what that raises is an Exception, and no failure."""
        if not (self.over and isinstance(error, CancelledError)):
            super().fail(error)


class Subscription(AsyncSubscription[T]):
    """The elements of a stream: by `for_each`, by `next`, or in a coroutine by `async for element in subscription`.

    Several may take from one: each element goes to one of them. Use `async with` around a loop that may be left early:
    that cancels the stream at once.
    """

    def __init__(self, core: Any, stream: InboundStream, wakeup: AwaitableWakeup) -> None:
        super().__init__(core, stream, wakeup)
        self._yield_to_loop = core.yield_to_loop
        self._turns = DeferredLock()

    def next(self) -> Deferred[T]:
        """The next element. Those that are asked for together come in order, each in a turn of the reactor's own.

        Fails with EndOfStream where there are no more, and with what iterating raises. If it is cancelled, or its
        timeout is over, the element is not lost: the next call has it.
        """
        return self._turns.run(self._element)

    async def _element(self) -> T:
        await self._yield_to_loop()  # or who asks for another one in a callback would do so deeper and deeper
        async for element in self:
            return element
        raise EndOfStream(f"{self._stream.name!r:.200} has no more elements: the stream is over")

    def for_each(  # type: ignore[override]  # a Deferred can be awaited, too
        self, handler: Callable[[T], object]
    ) -> Deferred[None]:
        """Call the handler with each element, one after the other; fires when the stream has ended.

        It may be plain, a coroutine function, or return a Deferred: then the next element waits for that. Fails with
        what iterating or the handler raises; that, and cancelling it, cancels the stream.
        """
        return Deferred.fromCoroutine(super().for_each(handler))
