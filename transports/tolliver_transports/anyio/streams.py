"""Streams with demand on asyncio and trio: coroutines and async iterators."""

from __future__ import annotations

from types import TracebackType
from typing import Self, TypeVar, overload

from tolliver_proto import PeerIdentity

from .._driver.events import Events, OnEvent, call_on_loop
from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.async_streams import AsyncOutboundStream, Subscription
from .._streams.events import StreamsEvent
from .._streams.facade import BaseStreams
from .._streams.loop_streams import LoopStreamsCore
from .._streams.peers import BasePeer
from .._streams.publishing import Publication
from .._streams.sources import Source
from .._streams.streams import Key
from ..codecs._codec import AnyCodec, coding_of
from .endpoint import Endpoint
from .threads import off_loop

T = TypeVar("T")


class StreamsCore(Endpoint, LoopStreamsCore["Peer"]):
    """Running streams without their calls."""

    def outbound(self, key: Key, name: str, publication: Publication, grant: int) -> AsyncOutboundStream:
        return AsyncOutboundStream(self, key, name, publication, grant)

    def call_on_event(self, function: OnEvent) -> None:
        call_on_loop(self, self.feed, function)

    def make_peer(self, cid: int, identity: PeerIdentity, remote: Remote | None) -> Peer:
        return Peer(self, cid, identity, remote)

    def subscription(
        self, name: str, demand: int | None, prefetch: int | None, codec: object, peer: Peer | None
    ) -> Subscription[T]:
        wakeup = self.wakeup()
        return Subscription(self, self.subscribe(name, demand, prefetch, coding_of(codec), peer, wakeup), wakeup)


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
    """Running streams: use `async with create_streams(options) as streams`."""

    _core: StreamsCore

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(StreamsCore(options))

    async def __aenter__(self) -> Self:
        await self._core.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._core.close()

    async def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Peer:
        """Dial a peer ("host" is port 7012), and return its `Peer` when it has said hello.

        It is dialled once, and nothing is taken up again after it is lost (R-31): connect again, and subscribe again.
        Raises TimeoutError after `timeout` seconds (what was begun is given up), CertificateError, IdentityConflict,
        VersionMismatch, ConnectionLost, and ValueError for plaintext beyond this machine (D-15).
        """
        cid, call = self._core.connect(remote)
        try:
            return await self._core.wait(call, timeout)
        except BaseException:
            self._core.give_up(cid)
            raise

    async def reload_tls(self) -> None:
        """Read the certificate files again: new connections show that certificate. Those that live stay, and are ended
        where the list of revoked certificates (`TLS(crl=...)`) has their peer's by now.

        A file that does not fit changes nothing. Raises CertificateError, and ConnectionClosing.
        """
        self._core.check_open()
        pumps = await off_loop(self._core.read_tls)
        self._core.check_open()
        self._core.use_tls(pumps)

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


def create_streams(options: StreamsOptions) -> Streams:
    """`async with create_streams(options) as streams:` listens, and closes in order.

    Entering raises CertificateError, and ConnectionLost where it cannot listen.
    """
    return Streams(options)
