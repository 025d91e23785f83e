"""Streams with demand on threads: every call blocks until it is answered.

As for an instance, calls may come from any thread, and a call takes the machine's lock for the moment in which it says
what it wants, and waits without it. Each stream that is given has a thread for its source, so sources may block; so may
whoever takes elements, on whatever thread it likes. None of the application's code runs on the thread of the sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from tolliver_proto import ConnectionClosing, PeerIdentity
from tolliver_proto.reactive import OnError, Subscribe

from .._driver.events import OnEvent
from .._driver.pending import PendingCall
from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._streams.events import StreamsEvent
from .._streams.facade import BaseStreams
from .._streams.peers import BasePeer
from .._streams.publishing import Catalogue, Publication
from .._streams.sources import PlainSource
from .._streams.streams import BaseStreamsCore, Key
from ..codecs._codec import AnyCodec, coding_of
from .endpoint import Endpoint, Worker
from .events import Events, call_on_thread
from .feed import ThreadOutboundStream, is_async
from .interrupts import made, undisturbed
from .process import thread_of
from .subscription import Subscription

T = TypeVar("T")
_FRAMES_WAITING = 1000  # of extensions, for the application


class _Refused(Exception):
    """The subscriber is told so."""


class _Names(Catalogue):
    """A catalogue that any thread may withdraw a publication from."""

    def __init__(self, owner: Endpoint) -> None:
        super().__init__()
        self._owner = owner

    def remove(self, publication: Publication) -> None:
        with self._owner.lock:
            super().remove(publication)


class _Frames:
    """Frames of extensions on their way to the application, which has a thread for them."""

    def __init__(self, hand_over: Callable[[Peer, Any], None]) -> None:
        self._hand_over = hand_over
        self._waiting: SimpleQueue[tuple[Peer, Any] | None] = SimpleQueue()
        self._stopped = False

    def put(self, peer: Peer, frame: Any) -> bool:
        """False where too many wait."""
        if self._waiting.qsize() >= _FRAMES_WAITING:
            return False
        self._waiting.put((peer, frame))
        return True

    def run(self) -> None:
        while (one := self._waiting.get()) is not None and not self._stopped:
            self._hand_over(*one)

    def stop(self) -> None:
        self._stopped = True
        self._waiting.put(None)


class StreamsCore(Endpoint, BaseStreamsCore["Peer"]):
    """Running streams without their calls, and the threads that read sources."""

    max_feeds = 256

    def __init__(self, options: StreamsOptions) -> None:  # for the type: an endpoint takes any options
        super().__init__(options)
        self._catalogue = _Names(self)
        self._sources = 0  # threads
        self._frames: _Frames | None = None

    def call_on_event(self, function: OnEvent) -> None:
        call_on_thread(self, self.feed, function)

    def make_peer(self, cid: int, identity: PeerIdentity, remote: Remote | None) -> Peer:
        return Peer(self, cid, identity, remote)

    def connect_and_wait(self, remote: str | Remote, timeout: float | None) -> Peer:
        cids: list[int] = []

        def begin() -> PendingCall[Peer]:
            cid, call = self.connect(remote)
            cids.append(cid)
            return call

        with undisturbed:
            try:
                return self.ask(begin, timeout)
            except BaseException:
                with self.lock:
                    for cid in cids:
                        self.give_up(cid)
                raise

    def subscription(
        self,
        name: str,
        demand: int | None,
        prefetch: int | None,
        codec: object,
        peer: Peer | None,
        timeout: float | None,
    ) -> Subscription[T]:
        coding = coding_of(codec)

        def begin() -> Subscription[T]:
            with self.lock:
                wakeup = self.wakeup()
                stream = self.subscribe(name, demand, prefetch, coding._replace(decode=None), peer, wakeup)
            return Subscription(self, stream, wakeup, coding, timeout)

        return made(begin, Subscription.cancel)

    def outbound(self, key: Key, name: str, publication: Publication, grant: int) -> ThreadOutboundStream:
        if self._sources >= self.max_feeds:
            over = self._sources - len(self._outbound)
            left = f" ({over} to subscribers that left, as their sources have not returned)" if over else ""
            raise _Refused(
                f"{self.max_feeds} streams are given here at once{left}, which is the limit: ask again later"
            )
        stream = ThreadOutboundStream(self, key, name, publication, grant)
        try:
            thread_of(f"reads {name!r:.100}", lambda: self._run(stream), self._fail).start()
        except RuntimeError as error:
            raise _Refused("there is no room for another thread here: ask again later") from error
        self._sources += 1
        return stream

    def _run(self, stream: ThreadOutboundStream) -> None:
        try:
            stream.run()
        finally:
            with self._lock:
                self._sources -= 1

    def _on_subscribe(self, cid: int, event: Subscribe) -> None:
        try:
            super()._on_subscribe(cid, event)
        except _Refused as refusal:
            self.hub.error(cid, event.subscriber_id, f"{event.name!r:.200} is not given: {refusal} (R-14)")

    def flush_soon(self, stream: Any) -> None:
        self._unflushed.append(stream)
        self._loop.wake()  # from a source's thread, without the lock: so whatever turn is running may not see it

    def _more_workers(self) -> dict[str, Worker]:
        return {}

    def _start_work(self) -> None:
        super()._start_work()
        if self.options.on_frame is not None:
            self._frames = _Frames(super().hand_over)
            thread_of("frames of extensions", self._frames.run, self._fail).start()

    def hand_over(self, peer: Peer, frame: Any) -> None:
        assert self._frames is not None
        if not self._frames.put(peer, frame):
            self.hub.goodbye(peer.cid, "frames of extensions are not taken")

    def _end_work(self) -> None:
        if self._frames is not None:
            self._frames.stop()
        if self.hub.closing:
            return  # each connection's end is that of its streams
        for outbound in self._outbound.values():
            outbound.cancelled()
        error = ConnectionClosing("the streams have failed, as the log says: report this")
        for inbound in list(self._inbound.values()):
            inbound.on_error(OnError(inbound.key[1], str(error), error))


class Peer(BasePeer):
    """The other end of a connection, until it is over. Its calls are those of the streams, for this peer alone."""

    _core: StreamsCore

    @overload
    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: None = None,
        timeout: float | None = None,
    ) -> Subscription[bytes]: ...

    @overload
    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T],
        timeout: float | None = None,
    ) -> Subscription[T]: ...

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T] | None = None,
        timeout: float | None = None,
    ) -> Subscription[T] | Subscription[bytes]:
        """As `Streams.subscribe`, at this peer."""
        return self._core.subscription(name, demand, prefetch, codec, self, timeout)


class Streams(BaseStreams[Peer]):
    """Running streams: use `with create_streams(options) as streams`."""

    _core: StreamsCore

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(self._make_core(options))

    def _make_core(self, options: StreamsOptions) -> StreamsCore:
        return StreamsCore(options)

    @property
    def max_feeds(self) -> int:
        """The number of threads that read from sources at once, one for each stream that is given; it can be set.

        A subscription beyond it is refused with an error (R-14). A source that blocks keeps its thread after a cancel,
        too, until it returns.
        """
        return self._core.max_feeds

    @max_feeds.setter
    def max_feeds(self, count: int) -> None:
        self._core.max_feeds = count

    def __enter__(self) -> Self:
        self._core.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._core.close()

    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Peer:
        """Dial a peer ("host" is port 7012), and return its `Peer` when it has said hello.

        It is dialled once, and nothing is taken up again after it is lost (R-31): connect again, and subscribe again.
        Raises TimeoutError after `timeout` seconds (what was begun is given up), CertificateError, IdentityConflict,
        VersionMismatch, ConnectionLost, and ValueError for plaintext beyond this machine (D-15).
        """
        return self._core.connect_and_wait(remote, timeout)

    def close(self) -> None:
        """End every connection in order, and then everything else: what leaving the `with` block does.

        Takes at most `Limits.close_timeout` and a second. A second call, or one from a forked child, does nothing.
        """
        self._core.close()

    def reload_tls(self) -> None:
        """Read the certificate files again: new connections show that certificate. Those that live stay, and are ended
        where the list of revoked certificates (`TLS(crl=...)`) has their peer's by now.

        A file that does not fit changes nothing. Raises CertificateError, and ConnectionClosing.
        """
        self._core.check_open()
        pumps = self._core.read_tls()
        with self._core.lock:
            self._core.check_open()
            self._core.use_tls(pumps)

    def events(self, *, timeout: float | None = None) -> Events[StreamsEvent[Peer]]:
        """`for event in streams.events()`: what happens from now on, until the streams are closed.

        `tolliver_transports.events` has the types: who comes and goes, a `connect` that failed, our certificate's end.
        The loop ends, too, after `timeout` seconds without one. One that is read too slowly keeps the newest thousand
        and has EventsMissed in place of the others.
        """
        return made(lambda: Events(self._core, self._core.feed, timeout), Events.close)

    @overload
    def publish(
        self, name: str, source: PlainSource[bytes], *, codec: None = None, element_size: int = 0
    ) -> Publication: ...

    @overload
    def publish(
        self, name: str, source: PlainSource[T], *, codec: AnyCodec[T], element_size: int = 0
    ) -> Publication: ...

    def publish(
        self,
        name: str,
        source: PlainSource[T] | PlainSource[bytes],
        *,
        codec: AnyCodec[T] | None = None,
        element_size: int = 0,
    ) -> Publication:
        """Offer elements under a name, to every peer, until the publication is closed.

        - `name`: exact, or a pattern with `*`, `?` and `[...]`, as file names have; exact names come first.
        - `source`: an iterable of elements; one that can be read only once, such as a generator,
          goes to the first subscriber. Or a function of the requested name that returns one: each
          subscriber has its own. It is pulled from while its subscriber wants more and the connection takes it
          (R-32); what it raises ends the stream, and the peer sees type and text of it, no traceback (R-34).
          A source is closed when its stream is over: one that waits for a subscription or for messages at once, any
          other when it returns; see `still_wanted`.
        - `codec`: makes bytes of each element: an object with `encode` and `decode`, or a protobuf message class.
        - `element_size`: bytes of each element, where all have the same: they then go packed, many in one frame.

        Raises TypeError, for an async source too, and ValueError where the name is taken.
        """
        if is_async(source):
            raise TypeError(
                f"the source of {name!r:.100} is async: give a plain iterable or function, it may block; or use the "
                "adapter of your event loop"
            )
        coding = coding_of(codec)

        def publish() -> Publication:
            with self._core.lock:
                return self._core.publish(name, source, coding, element_size)

        return made(publish, Publication.close)

    @overload
    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: None = None,
        peer: Peer | None = None,
        timeout: float | None = None,
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
        timeout: float | None = None,
    ) -> Subscription[T]: ...

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: AnyCodec[T] | None = None,
        peer: Peer | None = None,
        timeout: float | None = None,
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

        A loop over it ends when no element has come for `timeout` seconds.
        """
        return self._core.subscription(name, demand, prefetch, codec, peer, timeout)


def create_streams(options: StreamsOptions) -> Streams:
    """`with create_streams(options) as streams:` listens, and closes in order.

    Entering raises CertificateError, and ConnectionLost where it cannot listen.
    """
    return Streams(options)
