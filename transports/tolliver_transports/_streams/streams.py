"""The streams of a program, without the waiting: every call, explained once.

The idea: a hub (`tolliver_proto.reactive`) has the connections, this has names and sources on one side, intakes on the
other, and passes each event to the feed or the intake that it is for. An adapter says in its signatures how one waits,
and brings `feed`, the loop that pulls from a source.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from time import monotonic
from typing import Any, cast

from tolliver_proto import AccessDenied, PeerIdentity, Rights, Subscription
from tolliver_proto.reactive import (
    ALPN,
    Cancel,
    ConnectionClosed,
    Drained,
    Elements,
    Happened,
    Hub,
    OnComplete,
    OnError,
    PeerDown,
    PeerUp,
    Request,
    Subscribe,
    Subscribed,
)

from .._driver.driver import Driver
from .._driver.endpoint import BaseEndpoint
from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .codecs import codec_of
from .publishing import Catalogue, OutboundStream, Publication, check_name
from .subscribing import InboundStream

log = logging.getLogger("tolliver")
Key = tuple[int, int]
"""A connection's cid, and the subscriber id of a stream on it."""


class Peer:
    """The other end of a connection, until it is over. Its calls are those of the streams, for this peer alone."""

    def __init__(self, streams: BaseStreams, cid: int, identity: PeerIdentity, remote: Remote | None) -> None:
        self.cid = cid
        self.identity = identity
        """What its certificate proves, and its address."""
        self.remote = remote
        """What was dialled; None where the peer dialled us."""
        self.connected = True
        self._streams = streams

    def subscribe(
        self, name: str, *, demand: int | None = None, prefetch: int | None = None, codec: Any = None, **more: Any
    ) -> Any:
        """As `Streams.subscribe`, at this peer; `more` is what the adapter's own takes beside, such as a timeout."""
        return self._streams.subscribe(name, demand=demand, prefetch=prefetch, codec=codec, peer=self, **more)

    def goodbye(self, reason: str = "") -> None:
        """End the connection in order, and every stream on it; the peer sees the reason (R-28, R-29)."""
        self._streams.goodbye(self, reason)

    def __repr__(self) -> str:
        return f"Peer({self.identity.address}, {'connected' if self.connected else 'gone'})"


class BaseStreams(BaseEndpoint):
    """Publications and subscriptions of one program, over any number of connections."""

    made_by = "create_streams"
    options: StreamsOptions
    hub: Hub

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(options)
        self._catalogue = Catalogue()
        self._peers: dict[int, Peer] = {}
        self._feeds: dict[Key, OutboundStream] = {}
        self._intakes: dict[Key, InboundStream] = {}
        self._unflushed: list[OutboundStream] = []
        self._on_event: dict[type, Callable[[int, Any], None]] = {
            Subscribe: self._on_subscribe,
            Request: self._on_request,
            Cancel: self._on_cancel,
            Subscribed: self._on_signal(InboundStream.on_subscribed),
            Elements: self._on_signal(InboundStream.on_elements),
            OnComplete: self._on_signal(InboundStream.on_complete),
            OnError: self._on_signal(InboundStream.on_error),
        }

    # What the adapter brings beside an endpoint's.

    @abstractmethod
    def feed(self, key: Key, name: str, publication: Publication, grant: int) -> OutboundStream:
        """A feed whose work has begun: it pulls from the publication."""

    # The calls.

    @abstractmethod
    def connect(self, remote: str | Remote, *, timeout: float | None = None) -> Any:
        """Dial a peer ("host" is port 7012), and return its `Peer` when it has said hello.

        It is dialled once, and nothing is taken up again after it is lost (R-31): connect again, and subscribe again.
        Raises TimeoutError after `timeout` seconds (what was begun is given up), CertificateError, IdentityConflict,
        VersionMismatch, ConnectionLost, and ValueError for plaintext beyond this machine (D-15).
        """

    def _dial(self, remote: str | Remote) -> tuple[int, Any]:
        """The cid of the connection that is being made, and a promise of its peer."""
        self.check_open()
        cid = self.hub.connect(self.options.remote(remote), monotonic())
        promise = self._driver.promises.of((PeerUp, cid))
        self.turn()
        return cid, promise

    def _give_up(self, cid: int) -> None:
        """Nobody waits for that connection any more."""
        self.hub.goodbye(cid, "given up", monotonic())
        self.turn()

    def publish(self, name: str, source: Any, *, codec: Any = None, element_size: int = 0) -> Publication:
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
        self.check_open()
        publication = Publication(name, source, codec, element_size, self._catalogue.remove)
        self._catalogue.add(publication)
        return publication

    def subscribe(
        self,
        name: str,
        *,
        demand: int | None = None,
        prefetch: int | None = None,
        codec: Any = None,
        peer: Peer | None = None,
    ) -> Any:
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
        self.check_open()
        check_name(name)
        intake = InboundStream(self, self._one_peer(peer).cid, name, demand, prefetch, codec_of(codec))
        self._intakes[intake.key] = intake
        self.turn()
        return intake

    def goodbye(self, peer: Peer, reason: str = "") -> None:
        """End a connection in order, and every stream on it (R-28, R-29)."""
        self.turn()  # what sources have yielded goes out before
        self.hub.goodbye(peer.cid, reason, monotonic())
        self.turn()

    def peers(self) -> list[Peer]:
        """Who is connected, and has said hello."""
        return list(self._peers.values())

    def stats(self) -> dict[str, int]:
        """Counters since the start, and sizes now."""
        return {
            **self.hub.stats(),
            "peers": len(self._peers),
            "streams_given": len(self._feeds),
            "streams_taken": len(self._intakes),
        }

    def _one_peer(self, peer: Peer | None) -> Peer:
        if peer is not None:
            return peer
        if len(self._peers) != 1:
            raise LookupError(f"{len(self._peers)} peers are connected: connect(remote) returns one, subscribe at it")
        (only,) = self._peers.values()
        return only

    # What the hub tells.

    def _on_peer_up(self, action: PeerUp) -> None:
        peer = Peer(self, action.cid, action.identity, cast(Remote | None, action.remote))
        if not self._rights(action.identity).connect:
            denied = AccessDenied(f"{action.identity.address}: the access rules keep this peer out (D-4)")
            log.warning("%s", denied)
            self._driver.promises.keep((PeerUp, action.cid), None, denied)
            self.hub.goodbye(action.cid, "access denied", monotonic())
            return
        self._peers[action.cid] = peer
        self._driver.promises.keep((PeerUp, action.cid), peer)

    def _on_peer_down(self, action: PeerDown) -> None:
        peer = self._peers.pop(action.cid, None)
        if peer is not None:
            peer.connected = False
        error = action.error or ConnectionClosed(action.reason)
        log.info("the connection %d is over: %s", action.cid, error)
        self._driver.promises.keep((PeerUp, action.cid), None, error)

    def _on_drained(self, action: Drained) -> None:
        for (cid, _), feed in self._feeds.items():
            if cid == action.cid:
                feed.bell.ring()

    def _on_happened(self, action: Happened) -> None:
        self._on_event[type(action.event)](action.cid, action.event)

    def _on_signal(self, put: Callable[[InboundStream, Any], None]) -> Callable[[int, Any], None]:
        def on_signal(cid: int, event: Any) -> None:
            intake = self._intakes.get((cid, event.subscriber_id))
            if intake is not None:
                put(intake, event)

        return on_signal

    def _on_subscribe(self, cid: int, event: Subscribe) -> None:
        key, name = (cid, event.subscriber_id), event.name
        publication = self._catalogue.find(name)
        peer = self._peers.get(cid)
        if peer is None or not self._rights(peer.identity).may_subscribe(Subscription(name, "")):
            self.hub.error(*key, f"the access rules do not let you subscribe to {name!r:.200} (D-4)")
        elif publication is None:
            self.hub.error(*key, f"nothing is published here as {name!r:.200} (R-14)")
        else:
            self._feeds[key] = self.feed(key, name, publication, event.initial_demand)

    def _on_request(self, cid: int, event: Request) -> None:
        feed = self._feeds.get((cid, event.subscriber_id))
        if feed is not None:
            feed.requested(event.count)

    def _on_cancel(self, cid: int, event: Cancel) -> None:
        feed = self._feeds.pop((cid, event.subscriber_id), None)
        if feed is not None:
            feed.cancelled()

    def _rights(self, identity: PeerIdentity) -> Rights:
        """Of the one UUID that the certificate names; of everybody, where it names none."""
        acl = self.options.acl
        if len(identity.uuids) != 1:
            return acl.default
        (uuid,) = identity.uuids
        return acl.rights(uuid)

    # What feeds and intakes tell.

    def flush_soon(self, feed: OutboundStream) -> None:
        self._unflushed.append(feed)
        self.turn_soon()

    def feed_over(self, feed: OutboundStream) -> None:
        if self._feeds.get(feed.key) is feed:
            del self._feeds[feed.key]

    def intake_over(self, intake: InboundStream) -> None:
        if self._intakes.get(intake.key) is intake:
            del self._intakes[intake.key]

    # The life of it.

    def turn(self) -> None:
        while self._unflushed:
            self._unflushed.pop().flush()
        super().turn()

    def _prepare(self) -> None:
        self._pumps = self.make_pumps(self.options.tls, alpn=ALPN)
        self.hub = Hub(limits=self.options.limits, now=monotonic())
        self._machine = self.hub
        self._driver = Driver(self.hub, self)
        self._driver.register_handlers(
            {
                PeerUp: self._on_peer_up,
                PeerDown: self._on_peer_down,
                Happened: self._on_happened,
                Drained: self._on_drained,
            }
        )

    def _start_work(self) -> None:
        pass

    def _begin_close(self) -> None:
        self.turn()  # as in `goodbye`
        super()._begin_close()

    def _end_work(self) -> None:
        pass

    def _finish(self) -> None:
        pass

    def __str__(self) -> str:
        return "this `Streams`"
