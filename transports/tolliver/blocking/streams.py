"""Calls of streams with demand on threads, which block.

Drawn by scripts/draw/facades.py from `anyio/streams.py`: change that.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar, overload

from .._options.instance import Remote
from .._streams.channel import BaseStreamChannel
from .._streams.events import StreamsEvent
from .._streams.facade import BaseStreams
from .._streams.peers import BasePeer
from .._streams.publishing import Publication
from .._streams.sources import PlainSource as Source
from ..codecs._codec import AnyCodec
from .endpoint import Entered
from .events import Events
from .interrupts import made
from .streams_core import StreamsCore
from .subscription import Subscription

T = TypeVar("T")


class Peer(BasePeer):
    """A connected peer. Its calls are those of the streams, for this peer alone."""

    _core: StreamsCore[Peer]

    def subscribe(
        self, name: str, *, demand: int | None = None, prefetch: int | None = None, timeout: float | None = None
    ) -> Subscription[bytes]:
        """Like `Streams.subscribe`, at this peer."""
        return self._core.subscription(name, demand, prefetch, None, self, timeout)


class Streams(Entered[StreamsCore[Peer]], BaseStreams[Peer]):
    """Running streams: use `with create_streams(options) as streams`, from any thread.

    A loop over an iterator also ends after `timeout` seconds without an item.
    """

    _core: StreamsCore[Peer]
    _peer = Peer

    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Peer:
        """Dial a peer ("host" means port 7012), and return its `Peer` when it has said hello.

        It is dialled once. A lost connection is not restored (R-31): connect again, and subscribe again. Raises
        TimeoutError after `timeout` seconds (and stops dialling), CertificateError, IdentityConflict, VersionMismatch,
        ConnectionLost, and ValueError for plaintext to another machine (D-15).
        """
        return self._core.connected(remote, timeout)

    def reload_tls(self) -> None:
        """Load the certificate files again, for new connections. Existing connections stay open, except to peers whose
        certificate is now on the revocation list (`TLS(crl=...)`).

        A file with an error changes nothing. Raises CertificateError and ConnectionClosing.
        """
        self._core.reload_tls()

    def events(self, *, timeout: float | None = None) -> Events[StreamsEvent[Peer]]:
        """Iterate over events from now on: `for event in streams.events()`. Ends when the streams are closed.

        `tolliver.events` has the types: peers that connect and disconnect, a failed `connect`, the expiry of our
        certificate. An iterator that is read too slowly keeps the newest 1000, and yields EventsMissed in place of the
        others.
        """
        return made(lambda: Events(self._core, self._core.feed, timeout), Events.close)

    @overload
    def channel(self, name: str) -> StreamChannel[bytes]: ...

    @overload
    def channel(self, name: str, *, codec: AnyCodec[T]) -> StreamChannel[T]: ...

    def channel(self, name: str, *, codec: AnyCodec[Any] | None = None) -> StreamChannel[Any]:
        """`publish` and `subscribe` for one name, with elements that the codec encodes and decodes.

        A codec is an object with `encode` and `decode`, or a protobuf message class. Without one, elements are bytes.
        Nothing is published or subscribed to by this call. Raises TypeError for an invalid codec.
        """
        return StreamChannel(self._core, name, codec)

    def publish(self, name: str, source: Source[bytes], *, element_size: int = 0) -> Publication:
        """Publish elements (bytes) under a name, for every peer, until the publication is closed.

        - `name`: exact, or a pattern with `*`, `?` and `[...]`, as file names have; an exact name is preferred.
        - `source`: an iterable of elements. If it can be read only once, as a generator, the first
          subscriber gets it. Or a function that is called for each subscriber with the requested name, and returns an
          iterable. Elements are pulled while the subscriber wants more and the connection takes
          them (R-32). An exception ends the stream, and the peer gets its type and text, without traceback (R-34).
        - `element_size`: bytes of each element, if all have the same size: they are then packed, many in one frame.

        Raises TypeError, and ValueError if the name is taken.
        """
        return self._core.publication(name, source, None, element_size)

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        peer: Peer | None = None,
        timeout: float | None = None,
    ) -> Subscription[bytes]:
        """Subscribe to elements (bytes) under a name at a peer, and iterate over them.

        - `prefetch`: the window: most elements in flight or waiting here. When the application has processed half of
          them, the window is filled again. 0: elements are granted only by `request(count)`.
        - `demand`: the first grant; by default the window. With 0 the first grant follows when the first element is
          asked for. Given without `prefetch`, it is the window too.
        - `peer`: the publisher; may be left out if there is one connection.

        Iterating raises StreamError with the peer's text if the publisher fails or refuses, ConnectionClosed after a
        goodbye, and ConnectionLost if the connection broke. Leaving the subscription's block, closing it or dropping it
        cancels the stream. Raises TypeError, ValueError, LookupError if it is not clear which peer is meant,
        OwnLimitExceeded, and ConnectionClosing if the peer is not connected.
        """
        return self._core.subscription(name, demand, prefetch, None, peer, timeout)


class StreamChannel(BaseStreamChannel[T], Generic[T]):
    """Streams of one name, with elements of type T: `streams.channel(name, codec=codec)`."""

    _core: StreamsCore[Peer]

    def publish(self, source: Source[T], *, element_size: int = 0) -> Publication:
        """Publish elements, like `Streams.publish`."""
        return self._core.publication(self._name, source, self._codec, element_size)

    def subscribe(
        self,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        peer: Peer | None = None,
        timeout: float | None = None,
    ) -> Subscription[T]:
        """Subscribe to the elements, and iterate over them, like `Streams.subscribe`."""
        return self._core.subscription(self._name, demand, prefetch, self._codec, peer, timeout)
