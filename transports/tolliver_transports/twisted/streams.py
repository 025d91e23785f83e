"""Streams with demand on Twisted: Deferreds, callbacks and coroutines.

Outbound streams and subscriptions are those of every loop that awaits. Twisted's own is that cancelling raises an
Exception, and that an element can be had as a Deferred.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar, overload

from twisted.internet.defer import CancelledError, Deferred, DeferredLock

from tolliver_proto import PeerIdentity

from .._driver.adapter import AwaitableWakeup
from .._driver.events import OnEvent, call_on_loop
from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.async_streams import AsyncOutboundStream
from .._streams.async_streams import Subscription as AsyncSubscription
from .._streams.events import StreamsEvent
from .._streams.facade import BaseStreams
from .._streams.loop_streams import LoopStreamsCore
from .._streams.peers import BasePeer
from .._streams.publishing import Publication
from .._streams.sources import Source
from .._streams.streams import Key
from .._streams.subscribing import InboundStream
from ..codecs._codec import AnyCodec, coding_of
from .endpoint import Endpoint
from .events import Events

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

    def __init__(self, core: StreamsCore, stream: InboundStream, wakeup: AwaitableWakeup) -> None:
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


class StreamsCore(Endpoint, LoopStreamsCore["Peer"]):
    """Running streams without their calls."""

    def outbound(self, key: Key, name: str, publication: Publication, grant: int) -> OutboundStream:
        return OutboundStream(self, key, name, publication, grant)

    def call_on_event(self, function: OnEvent) -> None:
        call_on_loop(self, self.feed, function)

    def make_peer(self, cid: int, identity: PeerIdentity, remote: Remote | None) -> Peer:
        return Peer(self, cid, identity, remote)

    def subscription(
        self, name: str, demand: int | None, prefetch: int | None, codec: object, peer: Peer | None
    ) -> Subscription[T]:
        wakeup = self.wakeup()
        return Subscription(self, self.subscribe(name, demand, prefetch, coding_of(codec), peer, wakeup), wakeup)

    async def reload_tls(self) -> None:
        self.check_open()
        pumps = await self._off_loop(self.read_tls)
        self.check_open()
        self.use_tls(pumps)


class Peer(BasePeer):
    """The other end of a connection, until it is over. Its calls are those of the streams, for this peer alone."""

    _core: StreamsCore

    @overload
    def subscribe(
        self, name: str, *, demand: int | None = None, prefetch: int | None = None, codec: None = None
    ) -> Subscription[bytes]: ...

    @overload
    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T],
    ) -> Subscription[T]: ...

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T] | None = None,
    ) -> Subscription[T] | Subscription[bytes]:
        """As `Streams.subscribe`, at this peer."""
        return self._core.subscription(name, demand, prefetch, codec, self)


class Streams(BaseStreams[Peer]):
    """Running streams, from `create_streams` to `close`. Its calls belong on the reactor's thread."""

    _core: StreamsCore

    def __init__(self, options: StreamsOptions, reactor: Any = None) -> None:
        super().__init__(StreamsCore(options, reactor))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def close(self) -> Deferred[None]:
        """End every connection in order, then close what else is open: at most `Limits.close_timeout` and a second.

        Calling it again waits for the same end. A reactor that is stopped calls it, and waits for it.
        """
        return self._core.close()

    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Deferred[Peer]:
        """Dial a peer ("host" is port 7012), and fire with its `Peer` when it has said hello.

        It is dialled once, and nothing is taken up again after it is lost (R-31): connect again, and subscribe again.
        Fails with TimeoutError after `timeout` seconds (what was begun is given up), CertificateError,
        IdentityConflict, VersionMismatch, ConnectionLost, and ValueError for plaintext beyond this machine (D-15).
        """
        return Deferred.fromCoroutine(self._connect(remote, timeout))

    async def _connect(self, remote: str | Remote, timeout: float | None) -> Peer:
        cid, call = self._core.connect(remote)
        try:
            return await self._core.wait(call, timeout)
        except BaseException:
            self._core.give_up(cid)
            raise

    def reload_tls(self) -> Deferred[None]:
        """Read the certificate files again: new connections show that certificate. Those that live stay, and are ended
        where the list of revoked certificates (`TLS(crl=...)`) has their peer's by now.

        A file that does not fit changes nothing. Fails with CertificateError, and ConnectionClosing.
        """
        return Deferred.fromCoroutine(self._core.reload_tls())

    def events(self) -> Events[StreamsEvent[Peer]]:
        """`async for event in streams.events()`: what happens from now on, until the streams are closed.

        `tolliver_transports.events` has the types: who comes and goes, a `connect` that failed, our certificate's end.
        One that is read too slowly keeps the newest thousand and has EventsMissed in place of the others.
        """
        return Events(self._core, self._core.feed)

    @overload
    def publish(
        self, name: str, source: Source[bytes], *, codec: None = None, element_size: int = 0
    ) -> Publication: ...

    @overload
    def publish(self, name: str, source: Source[T], *, codec: AnyCodec[T], element_size: int = 0) -> Publication: ...

    def publish(
        self,
        name: str,
        source: Source[T] | Source[bytes],
        *,
        codec: AnyCodec[T] | None = None,
        element_size: int = 0,
    ) -> Publication:
        """Offer elements under a name, to every peer, until the publication is closed.

        - `name`: exact, or a pattern with `*`, `?` and `[...]`, as file names have; exact names come first.
        - `source`: an iterable or an async iterable of elements; one that can be read only once, such as a generator,
          goes to the first subscriber. Or a function of the requested name that returns one, or an awaitable of one:
          each subscriber has its own. It is pulled from while its subscriber wants more and the connection takes it
          (R-32); what it raises ends the stream, and the peer sees type and text of it, no traceback (R-34).
        - `codec`: makes bytes of each element: an object with `encode` and `decode`, or a protobuf message class.
        - `element_size`: bytes of each element, where all have the same: they then go packed, many in one frame.

        Raises TypeError, and ValueError where the name is taken.
        """
        return self._core.publish(name, source, coding_of(codec), element_size)

    @overload
    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: None = None,
        peer: Peer | None = None,
    ) -> Subscription[bytes]: ...

    @overload
    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T],
        peer: Peer | None = None,
    ) -> Subscription[T]: ...

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T] | None = None,
        peer: Peer | None = None,
    ) -> Subscription[T] | Subscription[bytes]:
        """Ask a peer for the elements under a name, and iterate over them.

        - `prefetch`: the window, in elements: so many may be on their way or wait here. When the application is
          through with half of them, the window is filled up again. 0: nothing is granted but by `request(count)`.
        - `demand`: what is granted with the subscription; the window, if it is not given. 0 is legal: the first grant
          then comes with the first element that is asked for. Given alone, it is the window too.
        - `codec`: makes objects of the elements' bytes, as in `publish`.
        - `peer`: whom to ask; where there is one connection, it need not be said.

        Iterating raises StreamError with the peer's text where the publisher fails or refuses, ConnectionClosed after
        a goodbye, ConnectionLost where the connection broke. Leaving the subscription's block, closing it or dropping
        it cancels the stream, once. Raises TypeError, ValueError, LookupError where no one peer is meant,
        OwnLimitExceeded, and ConnectionClosing where the peer is gone.
        """
        return self._core.subscription(name, demand, prefetch, codec, peer)


def create_streams(options: StreamsOptions, reactor: Any = None) -> Deferred[Streams]:
    """Listens. `async with await create_streams(options) as streams:` closes in order.

    Fails with CertificateError, and ConnectionLost where it cannot listen. If the Deferred is cancelled, what was
    opened is closed again. `reactor`: None is the global one.
    """
    streams = Streams(options, reactor)
    return streams._core.open().addCallback(lambda _: streams)
