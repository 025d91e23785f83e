"""Calls of streams with demand on Twisted.

Drawn by scripts/draw/facades.py from `anyio/streams.py`: change that.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from twisted.internet.defer import Deferred, maybeDeferred

from .._options.instance import Remote
from .._streams.channel import BaseStreamChannel
from .._streams.events import StreamsEvent
from .._streams.facade import BaseStreams
from .._streams.peers import BasePeer
from .._streams.publishing import Publication
from .._streams.sources import Source
from ..codecs._codec import AnyCodec
from .endpoint import Entered
from .events import Events
from .streams_core import StreamsCore
from .subscription import Subscription

T = TypeVar("T")


class Peer(BasePeer):
    """The other end of a connection, until it is over. Its calls are those of the streams, for this peer alone."""

    _core: StreamsCore[Peer]

    def subscribe(self, name: str, *, demand: int | None = None, prefetch: int | None = None) -> Subscription[bytes]:
        """As `Streams.subscribe`, at this peer."""
        return self._core.subscription(name, demand, prefetch, None, self)


class Streams(Entered[StreamsCore[Peer]], BaseStreams[Peer]):
    """Running streams, from `create_streams` to `close`. Its calls belong on the reactor's thread."""

    _core: StreamsCore[Peer]
    _peer = Peer

    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Deferred[Peer]:
        """Dial a peer ("host" is port 7012), and return its `Peer` when it has said hello.

        It is dialled once, and nothing is taken up again after it is lost (R-31): connect again, and subscribe again.
        Raises TimeoutError after `timeout` seconds (what was begun is given up), CertificateError, IdentityConflict,
        VersionMismatch, ConnectionLost, and ValueError for plaintext beyond this machine (D-15).
        """
        return maybeDeferred(lambda: self._core.connected(remote, timeout))

    def reload_tls(self) -> Deferred[None]:
        """Read the certificate files again: new connections show that certificate. Those that live stay, and are ended
        where the list of revoked certificates (`TLS(crl=...)`) has their peer's by now.

        A file that does not fit changes nothing. Raises CertificateError, and ConnectionClosing.
        """
        return maybeDeferred(lambda: self._core.reload_tls())

    def events(self) -> Events[StreamsEvent[Peer]]:
        """`async for event in streams.events()`: what happens from now on, until the streams are closed.

        `tolliver.events` has the types: who comes and goes, a `connect` that failed, our certificate's end.
        One that is read too slowly keeps the newest thousand and has EventsMissed in place of the others.
        """
        return Events(self._core, self._core.feed)

    @overload
    def channel(self, name: str) -> StreamChannel[bytes]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T]) -> StreamChannel[T]: ...

    def channel(self, name: str, *, codec: AnyCodec[Any] | None = None) -> StreamChannel[Any]:
        """`publish` and `subscribe` of one name, with elements that the codec makes bytes of, or makes of bytes.

        A codec is an object with `encode` and `decode`, or a protobuf message class. Without one, elements are bytes.
        Nothing is offered or asked for by this call. Raises TypeError where the codec is none.
        """
        return StreamChannel(self._core, name, codec)

    def publish(self, name: str, source: Source[bytes], *, element_size: int = 0) -> Publication:
        """Offer elements, bytes, under a name, to every peer, until the publication is closed.

        - `name`: exact, or a pattern with `*`, `?` and `[...]`, as file names have; exact names come first.
        - `source`: an iterable or an async iterable of elements; one that can be read only once, such as a generator,
          goes to the first subscriber. Or a function of the requested name that returns one, or an awaitable of one:
          each subscriber has its own. It is pulled from while its subscriber wants more and the connection takes it
          (R-32); what it raises ends the stream, and the peer sees type and text of it, no traceback (R-34).
        - `element_size`: bytes of each element, where all have the same: they then go packed, many in one frame.

        Raises TypeError, and ValueError where the name is taken.
        """
        return self._core.publication(name, source, None, element_size)

    def subscribe(
        self, name: str, *, demand: int | None = None, prefetch: int | None = None, peer: Peer | None = None
    ) -> Subscription[bytes]:
        """Ask a peer for the elements, bytes, under a name, and iterate over them.

        - `prefetch`: the window, in elements: so many may be on their way or wait here. When the application is
          through with half of them, the window is filled up again. 0: nothing is granted but by `request(count)`.
        - `demand`: what is granted with the subscription; the window, if it is not given. 0 is legal: the first grant
          then comes with the first element that is asked for. Given alone, it is the window too.
        - `peer`: whom to ask; where there is one connection, it need not be said.

        Iterating raises StreamError with the peer's text where the publisher fails or refuses, ConnectionClosed after
        a goodbye, ConnectionLost where the connection broke. Leaving the subscription's block, closing it or dropping
        it cancels the stream, once. Raises TypeError, ValueError, LookupError where no one peer is meant,
        OwnLimitExceeded, and ConnectionClosing where the peer is gone.
        """
        return self._core.subscription(name, demand, prefetch, None, peer)


class StreamChannel(BaseStreamChannel[T], Generic[T]):
    """The streams of one name, with elements of type T: `streams.channel(name, codec=codec)`."""

    _core: StreamsCore[Peer]

    def publish(self, source: Source[T], *, element_size: int = 0) -> Publication:
        """Offer elements, as `Streams.publish`."""
        return self._core.publication(self._name, source, self._codec, element_size)

    def subscribe(
        self, *, demand: int | None = None, prefetch: int | None = None, peer: Peer | None = None
    ) -> Subscription[T]:
        """Ask a peer for the elements, and iterate over them, as `Streams.subscribe`."""
        return self._core.subscription(self._name, demand, prefetch, self._codec, peer)
