"""Core of a program's streams, common to all loops: publications, subscriptions, peers.

A hub (`tolliver_proto.reactive`) has the protocol state. This core has the publications and the inbound streams, and
passes each event of the hub to its stream. An adapter implements `outbound`, the loop that pulls from a source; its
public `Streams` holds a core and documents each call.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import closing
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from uuid import UUID

from tolliver_proto import (
    ConnectionLost,
    PeerIdentity,
    RemoteProtocolError,
    Rights,
    Subscription,
    TolliverError,
    Transmit,
)
from tolliver_proto.errors import AccessDenied
from tolliver_proto.node import DialCause, check_type
from tolliver_proto.reactive import (
    ALPN,
    Cancel,
    CertificateExpires,
    ConnectionClosed,
    DialFailure,
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

from .._driver import logs
from .._driver.adapter import LoopAdapter, Transport, Wakeup
from .._driver.driver import Driver, Machine
from .._driver.endpoint import BaseEndpoint
from .._driver.ends import is_interrupt
from .._driver.events import OnEvent
from .._driver.pending import PendingCall, as_it_is
from .._options.instance import Remote
from .._options.streams import StreamsOptions
from .._tls.policy import Pumps
from ..codecs._codec import Coding, coding_of
from .events import StreamsDialFailed, StreamsPeerDown, StreamsPeerUp
from .peers import BasePeer
from .publishing import Catalogue, OutboundStream, Publication, check_name
from .stats import StreamsStats
from .subscribing import InboundStream

if TYPE_CHECKING:
    from .._messages.recorder import Recorder

_NOBODY = UUID(int=0)
P = TypeVar("P", bound=BasePeer)
Key = tuple[int, int]
"""(cid, subscriber id): the connection of a stream, and the stream's number on it."""


class RecordingDriver(Driver):
    """Driver that records the bytes of every connection."""

    def __init__(self, machine: Machine, world: LoopAdapter, recorder: Recorder) -> None:
        super().__init__(machine, world)
        self._recorder = recorder
        self.register_handlers({Transmit: self._on_wire(self._transmit)})

    def received(self, cid: int, plaintext: bytes) -> None:
        self._recorder.received(cid, plaintext)
        super().received(cid, plaintext)

    def _transmit(self, wire: Transport, action: Transmit) -> None:
        self._recorder.sent(action.cid, action.units)
        wire.transmit(action.units)


class BaseStreamsCore(BaseEndpoint, Generic[P]):
    """Running streams on any kind of loop, without the waiting: owns the hub, the publications, and the streams of all
    connections.
    """

    made_by = "create_streams"
    options: StreamsOptions
    hub: Hub
    make_peer: Callable[[int, PeerIdentity, Remote | None], P]
    """Creates the public object for a connected peer, from (cid, identity, remote)."""

    def __init__(self, options: StreamsOptions) -> None:
        super().__init__(options)
        self._catalogue = Catalogue()
        self._recorder: Recorder | None = None
        self._peers: dict[int, P] = {}
        self._outbound: dict[Key, OutboundStream] = {}
        self._inbound: dict[Key, InboundStream] = {}
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

    # Implemented by the adapter, in addition to the endpoint's.

    @abstractmethod
    def outbound(self, key: Key, name: str, publication: Publication, grant: int) -> OutboundStream:
        """Create the stream `name` from the publication to a subscriber, who wants `grant` elements, and start
        pulling.
        """

    @abstractmethod
    def call_on_event(self, function: OnEvent) -> None:
        """Have the function called for each event."""

    # Calls.

    def connect(self, remote: str | Remote) -> tuple[int, PendingCall[P]]:
        """Start a dial; returns the cid of its connection, and the pending call that waits for its peer."""
        self.check_open()
        wanted = self.options.remote(remote)
        cid = self.hub.connect(wanted, monotonic())
        call: PendingCall[P] = self._driver.calls.of((PeerUp, cid), as_it_is)
        call.late = lambda: f"there is no connection to {wanted} ({self.hub.why_not_up(cid)}): it is given up"
        self.run_actions()
        return cid, call

    def give_up(self, cid: int) -> None:
        """Abandon the connection `cid`, which is being made, because its caller stopped waiting."""
        self.hub.give_up(cid, monotonic())
        self.run_actions()

    def publication(self, name: str, source: object, codec: object, element_size: int) -> Publication:
        self.check_open()
        publication = Publication(name, source, coding_of(codec), element_size, self._catalogue.remove)
        self._catalogue.add(publication)
        return publication

    def subscribe(
        self, name: str, demand: int | None, prefetch: int | None, coding: Coding, peer: P | None, wakeup: Wakeup
    ) -> InboundStream:
        self.check_open()
        check_name(name)
        stream = InboundStream(self, self._one_peer(peer).cid, name, demand, prefetch, coding, wakeup)
        self._inbound[stream.key] = stream
        self.run_actions()
        return stream

    def goodbye(self, peer: BasePeer, reason: str) -> None:
        self.run_actions()  # send the elements pulled so far first
        self.hub.goodbye(peer.cid, reason, monotonic())
        self.run_actions()

    def send(self, peer: BasePeer, frame: object) -> None:
        self.check_open()
        self.hub.send(peer.cid, frame)
        self.run_actions()

    def peers(self) -> list[P]:
        return list(self._peers.values())

    def read_tls(self) -> Pumps:
        """Load the certificate files again. Blocks: run off the loop, and pass the result to `use_tls`."""
        return Pumps.renewed(self.options.tls, alpn=ALPN)

    def stats(self) -> StreamsStats:
        return StreamsStats.of(
            self.hub.stats(),
            peers=len(self._peers),
            streams_given=len(self._outbound),
            streams_taken=len(self._inbound),
        )

    def describe(self, name: str) -> str:
        """Text for `repr` of the object of the class `name`: listening addresses and connected peers."""
        if not self._open:
            return f"<{name}, not open>"
        return f"<{name}{self._reach(len(self._peers))}>"

    def _one_peer(self, peer: P | None) -> P:
        if peer is not None:
            check_type("peer", peer, BasePeer, "a Peer, as `connect` returns it")
            if self._peers.get(peer.cid, peer) is not peer:
                raise ValueError(f"peer={peer}: it is a peer of other streams, subscribe at it")
            return peer
        if len(self._peers) != 1:
            raise LookupError(f"{len(self._peers)} peers are connected: connect(remote) returns one, subscribe at it")
        (only,) = self._peers.values()
        return only

    # Actions of the hub.

    def _on_peer_up(self, action: PeerUp) -> None:
        peer = self.make_peer(action.cid, action.identity, cast(Remote | None, action.remote))
        if not self._rights(action.identity).connect:
            denied = AccessDenied(f"{action.identity.address}: the access rules keep this peer out (D-4)")
            logs.tls.warning("%s", denied, extra=logs.fields(address=action.identity.address, cause=DialCause.ACCESS))
            self._driver.calls.settle((PeerUp, action.cid), None, denied)
            if action.remote is not None:
                self._tell_failure(action.remote, DialFailure(DialCause.ACCESS, str(denied)))
            self.hub.goodbye(action.cid, "access denied", monotonic())
            return
        peer.extensions = action.extensions
        self._peers[action.cid] = peer
        self._driver.calls.settle((PeerUp, action.cid), peer)
        self.feed.tell(StreamsPeerUp(peer))

    def _on_peer_down(self, action: PeerDown) -> None:
        peer = self._peers.pop(action.cid, None)
        error = action.error or ConnectionClosed(action.reason)
        if peer is not None:
            peer.connected = False
            self.feed.tell(StreamsPeerDown(peer, error))
        address = None if peer is None else peer.identity.address
        extra = logs.fields(connection=action.cid, address=address)
        logs.streams.info("the connection %d is over: %s", action.cid, error, extra=extra)
        if action.failure is not None:
            error = _explained(error, action.failure)
            self._tell_failure(action.remote, action.failure)
        self._driver.calls.settle((PeerUp, action.cid), None, error)

    def _tell_failure(self, remote: object, failure: DialFailure) -> None:
        extra = logs.fields(remote=remote, cause=failure.cause)
        logs.dial.warning("%s is not connected: %s", remote, failure, extra=extra)
        self.feed.tell(StreamsDialFailed(cast(Remote, remote), failure.cause, str(failure)))

    def _on_certificate_expires(self, action: CertificateExpires) -> None:
        logs.tls.warning("%s", action.text)
        self.feed.tell(action)

    def _on_drained(self, action: Drained) -> None:
        for (cid, _), stream in self._outbound.items():
            if cid == action.cid:
                stream.set()

    def _on_happened(self, action: Happened) -> None:
        self._on_event.get(type(action.event), self._on_frame)(action.cid, action.event)

    def _on_frame(self, cid: int, frame: Any) -> None:
        """Pass a frame of an extension, received on the connection `cid`, to the application (R-27)."""
        peer = self._peers.get(cid)
        if peer is not None and self.options.on_frame is not None:
            self.hand_over(peer, frame)

    def hand_over(self, peer: P, frame: Any) -> None:
        """Pass a frame of an extension to the application. An error of its callback is logged; the connection stays
        open."""
        assert self.options.on_frame is not None
        try:
            self.options.on_frame(peer, frame)
        except BaseException as error:
            if is_interrupt(error):
                raise
            extra = logs.fields(address=peer.identity.address)
            logs.streams.exception("on_frame failed with %s of %s", type(frame).__name__, peer, extra=extra)

    def _on_signal(self, put: Callable[[InboundStream, Any], None]) -> Callable[[int, Any], None]:
        def on_signal(cid: int, event: Any) -> None:
            stream = self._inbound.get((cid, event.subscriber_id))
            if stream is not None:
                put(stream, event)

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
            self._outbound[key] = self.outbound(key, name, publication, event.initial_demand)

    def _on_request(self, cid: int, event: Request) -> None:
        stream = self._outbound.get((cid, event.subscriber_id))
        if stream is not None:
            stream.requested(event.count)

    def _on_cancel(self, cid: int, event: Cancel) -> None:
        stream = self._outbound.pop((cid, event.subscriber_id), None)
        if stream is not None:
            stream.cancelled()

    def _rights(self, identity: PeerIdentity) -> Rights:
        """Access rights for the single UUID in the peer's certificate; without one, those of everybody."""
        acl = self.options.acl
        if len(identity.uuids) != 1:
            return acl.default
        (uuid,) = identity.uuids
        return acl.rights(uuid)

    # Called by streams.

    def flush_soon(self, stream: OutboundStream) -> None:
        self._unflushed.append(stream)
        self.run_at_end()

    def outbound_over(self, stream: OutboundStream) -> None:
        if self._outbound.get(stream.key) is stream:
            del self._outbound[stream.key]

    def inbound_over(self, stream: InboundStream) -> None:
        if self._inbound.get(stream.key) is stream:
            del self._inbound[stream.key]

    # Life cycle.

    def run_actions(self) -> None:
        while self._unflushed:
            self._unflushed.pop().flush()
        super().run_actions()

    def _prepare(self) -> None:
        self._pumps = Pumps(self.options.tls, alpn=ALPN)
        self.hub = Hub(extensions=self.options.extensions, limits=self.options.limits, now=monotonic())
        self._machine = self.hub
        self._recorder = self._open_recorder()
        self._driver = (
            Driver(self.hub, self) if self._recorder is None else RecordingDriver(self.hub, self, self._recorder)
        )
        self._watch_certificate()
        self._driver.register_handlers(
            {
                PeerUp: self._on_peer_up,
                PeerDown: self._on_peer_down,
                Happened: self._on_happened,
                Drained: self._on_drained,
                CertificateExpires: self._on_certificate_expires,
            }
        )

    def _open_recorder(self) -> Recorder | None:
        if self.options.record is None:
            return None
        from .._messages.recorder import Recorder  # imported late: most programs never need it

        uuids = self._pumps.identity.uuids
        local = next(iter(uuids)) if len(uuids) == 1 else _NOBODY
        recorder = Recorder(self.options.record, local, None, lambda text: logs.streams.warning("%s", text))
        return self._opened.enter_context(closing(recorder))

    def _lost(self, cid: int, error: TolliverError | None) -> None:
        if self._recorder is not None:
            self._recorder.ended(cid)
        super()._lost(cid, error)

    def _start_work(self) -> None:
        if self.options.on_event is not None:
            self.call_on_event(self.options.on_event)

    def _begin_close(self) -> None:
        self.run_actions()  # send the elements pulled so far first
        super()._begin_close()

    def _end_work(self) -> None:
        pass

    def __str__(self) -> str:
        return "this `Streams`"


def _explained(error: TolliverError, failure: DialFailure) -> TolliverError:
    """The error, with the cause of the failed dial added if its class and text do not say it."""
    if isinstance(error, ConnectionLost):
        return ConnectionLost(str(failure), failure.cause)
    if isinstance(error, RemoteProtocolError):
        return type(error)(error.code, f"{failure.cause.text}: {error.detail}", frame=error.frame, offset=error.offset)
    return error
