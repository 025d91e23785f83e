"""Reactive Streams on Twisted: the calls in the form that Deferreds and coroutines know.

The idea: feeds and subscriptions are those of every loop that awaits (`_async_streams`). What is Twisted's own is here:
a Deferred for what has to be waited for, and that cancelling raises an Exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred, DeferredLock

from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.async_streams import AsyncOutboundStream
from .._streams.async_streams import Subscription as AsyncSubscription
from .._streams.publishing import Publication
from .._streams.streams import BaseStreams, Key, Peer
from .._streams.subscribing import InboundStream
from .endpoint import Endpoint


class EndOfStream(Exception):
    """`Subscription.next` was asked for an element, and there are no more: the stream is over, without an error.

    Nothing else raises it: an exception of Python's own could be the codec's too, and an iteration's would end the
    loops that it passes through.
    """


class OutboundStream(AsyncOutboundStream):
    """One stream that is given."""

    def fail(self, error: BaseException) -> None:
        """Where the stream is over, its source was cancelled: what that raises is an Exception, and no failure."""
        if not (self.over and isinstance(error, CancelledError)):
            super().fail(error)


class Subscription(AsyncSubscription):
    """The elements of a stream: by `for_each`, by `next`, or in a coroutine by `async for element in subscription`.

    One of them at a time. Use `async with` around a loop that may be left early: that cancels the stream at once.
    """

    def __init__(self, streams: Streams, intake: InboundStream) -> None:
        super().__init__(streams, intake)
        self._breathe = streams.breathe
        self._turns = DeferredLock()

    def next(self) -> Deferred[Any]:
        """The next element. Those that are asked for together come in order, each in a turn of the reactor's own.

        Fails with EndOfStream where there are no more, and with what iterating raises. Where it is cancelled, or its
        timeout is over, the element is not lost: the next call has it.
        """
        return self._turns.run(self._element)

    async def _element(self) -> Any:
        await self._breathe()  # or who asks for another one in a callback would do so deeper and deeper
        async for element in self:
            return element
        raise EndOfStream(f"{self._its.name!r:.200} has no more elements: the stream is over")

    def for_each(  # type: ignore[override]  # a Deferred can be awaited, too
        self, handler: Callable[[Any], Any]
    ) -> Deferred[None]:
        """Call the handler with each element, one after the other; fires when the stream has ended.

        It may be plain, a coroutine function, or return a Deferred: then the next element waits for that. Fails with
        what iterating or the handler raises; that, and cancelling it, cancels the stream.
        """
        return Deferred.fromCoroutine(super().for_each(handler))


class Streams(Endpoint, BaseStreams):
    """Running streams, from `create_streams` to `close`. Its calls belong on the reactor's thread."""

    # The calls, each explained where BaseStreams has it.

    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Deferred[Peer]:
        """As BaseStreams has it: what it raises is the Deferred's failure. Cancelled, it gives up what was begun."""
        return Deferred.fromCoroutine(self._connect(remote, timeout))

    async def _connect(self, remote: str | Remote, timeout: float | None) -> Peer:
        cid, promise = self._dial(remote)
        try:
            return cast(Peer, await promise.wait(timeout))
        except BaseException as error:
            self._give_up(cid)
            if not isinstance(error, TimeoutError):
                raise
            raise TimeoutError(f"{remote} said no hello within {timeout:g} s and was given up: try again") from error

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: Any = None,
        peer: Peer | None = None,
    ) -> Subscription:
        intake = super().subscribe(name, demand=demand, prefetch=prefetch, codec=codec, peer=peer)
        return Subscription(self, intake)

    def feed(self, key: Key, name: str, publication: Publication, grant: int) -> OutboundStream:
        return OutboundStream(self, key, name, publication, grant)


def create_streams(options: StreamsOptions, reactor: Any = None) -> Deferred[Streams]:
    """Listens. `async with await create_streams(options) as streams:` closes in order.

    Fails with CertificateError, and ConnectionLost where it cannot listen. Where the Deferred is cancelled, what was
    opened is closed again. `reactor`: None is the global one.
    """
    return Streams(options, reactor)._start()
