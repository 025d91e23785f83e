"""Invariants of a simulation, checked at every step (I1 to I6).

The witness believes no node. It reads the bytes that leave and arrive with a decoder of its own, sees what the stores
really hold, and keeps for every message who must have it. A node's own numbers are compared with its store's whenever
nothing is on its way between the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from uuid import UUID

from .._common.derived import is_derived
from .._node.actions import Delivery, Receipt
from .._node.ids import NO_ID
from .._node.intervals import IntervalSet
from .._node.node import Node
from .._node.policy import Policy, QuotaPolicy
from .._node.store import AddDeliveries, Operation, ParkDelivery, RemoveDeliveries, StoreMessages
from .._node.subscriptions import matching
from .._wire.events import (
    PROBE_CHANNEL,
    Ack,
    Decoded,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from .._wire.frames import Decoder
from .._wire.limits import Limits
from .memory import MemoryStore


class SimFailure(AssertionError):
    """A promise was broken. The text names the seed and ends with the last lines of the trace."""


def check(condition: object, complaint: str, *shown: object) -> None:
    """`shown` fills the places of the complaint: put into words only where there is one."""
    if not condition:
        raise SimFailure(complaint.format(*shown) if shown else complaint)


class Sent:
    """One message of the simulated application."""

    __slots__ = ("body", "channel", "damaged", "due_to", "full_for", "index", "key", "lost_for", "routed_to", "stored")

    def __init__(self, index: int, channel: str, key: str, body: bytes) -> None:
        self.index = index
        self.channel = channel
        self.key = key
        self.body = body
        self.stored = False  # its Stored was reported
        self.damaged = False  # its row is unreadable: nobody can be promised anything
        self.routed_to: set[UUID] = set()  # whom its sender knew to want it then
        self.due_to: set[UUID] = set()  # who must have handled it in the end
        self.full_for: set[UUID] = set()  # who may have been skipped, as its quota was used (D-10)
        self.lost_for: set[UUID] = set()  # to whom a store owed it that is not there any more (D-13)

    def wanted_by(self, subscriptions: Iterable[Subscription]) -> bool:
        return not set(matching(self.channel, self.key)).isdisjoint(subscriptions)


class WireWitness:
    """One end of one connection, as its bytes show it."""

    def __init__(self, ledger: Ledger, is_client: bool, revision: Revision) -> None:
        self._ledger = ledger
        self._is_client = is_client
        self._outgoing = Decoder(revision)
        self._incoming = Decoder(revision)
        self._begun = False
        self._may_talk = False
        self.peer: UUID | None = None
        self._received: dict[int, Decoded] = {}
        self.acknowledged: set[int] = set()
        self._bodies: dict[int, bytes] = {}
        self._in_socket: list[int] = []
        self._sent_at: dict[int, float] = {}

    def transmit(self, units: Sequence[bytes], now: float, resend_after: float) -> None:
        check(not self._in_socket or units, "a Transmit without units")
        riding: list[int] = []
        for unit in units:
            self._outgoing.feed(unit)
            frames = _frames(self._outgoing)
            check(not self._outgoing.buffered, "a write unit ends inside a frame (T-69)")
            for frame in frames:
                if isinstance(frame, HandshakeRequest | HandshakeResponse | HandshakeFinal):
                    check(len(frames) == 1, f"a handshake frame shares its write unit: {frames} (T-69)")
                    self._own_handshake(frame)
                    continue
                check(self._may_talk, f"{frame} before the handshake was over (T-63, T-64)")
                if isinstance(frame, Ack):
                    self._own_ack(frame.message_id)
                elif isinstance(frame, Message | Subscribe | Unsubscribe) and frame.message_id is not None:
                    self._reliable(frame, frame.message_id, now, resend_after, riding)
        self._in_socket = riding

    def taken(self, now: float) -> None:
        """The socket has it."""
        for message_id in self._in_socket:
            self._sent_at[message_id] = now
        self._in_socket = []

    def receive(self, data: bytes) -> None:
        """Bytes that the node was given."""
        self._incoming.feed(data)
        for frame in _frames(self._incoming):
            if isinstance(frame, HandshakeRequest | HandshakeResponse):
                self.peer = frame.instance_id
                if isinstance(frame, HandshakeResponse) and frame.status in (0, 1):
                    self._may_talk = True
            elif isinstance(frame, HandshakeFinal):
                self._may_talk = frame.compatible
            elif isinstance(frame, Ack):
                body = self._bodies.get(frame.message_id)
                if body is not None and self.peer is not None:
                    self._ledger.acked.add((self.peer, body))
            elif frame.message_id is not None:
                self._received[frame.message_id] = frame

    def _own_handshake(self, frame: Decoded) -> None:
        if isinstance(frame, HandshakeFinal):
            check(self._is_client and self._begun, "a final that nobody waits for")
            self._may_talk = frame.compatible
            return
        check(isinstance(frame, HandshakeRequest) is self._is_client, f"{frame} from the wrong side")
        check(not self._begun, f"a second {type(frame).__name__} (T-66)")
        self._begun = True
        if isinstance(frame, HandshakeResponse):
            self._may_talk = frame.status in (HandshakeStatus.SAME_VERSION, HandshakeStatus.NEWER_COMPATIBLE)

    def _own_ack(self, message_id: int) -> None:
        if message_id == NO_ID:
            return  # a probe (T-80)
        frame = self._received.get(message_id)
        check(frame is not None, f"Ack {message_id} for nothing that came over this connection (T-49)")
        if isinstance(frame, Message) and self._ledger.always_wants(frame):
            ledger = self._ledger  # with dedupe a copy may be of what another connection brought, or another life
            handled = ledger.handled if ledger.remembers else ledger.handled_in_this_life
            known = message_id in self.acknowledged or frame.body in handled
            check(known, f"Ack {message_id} before a handler had succeeded (I2)")

    def _reliable(
        self,
        frame: Message | Subscribe | Unsubscribe,
        message_id: int,
        now: float,
        resend_after: float,
        riding: list[int],
    ) -> None:
        check(0 < message_id < 2**31 - 1, f"id {message_id} on the wire (T-40)")
        check(message_id not in riding, f"id {message_id} twice in one Transmit (T-50)")
        sent_at = self._sent_at.get(message_id)
        if sent_at is not None:
            early = sent_at + resend_after - now
            check(early < 1e-6, f"id {message_id} sent again {early:.3f} s too early (T-50)")
        riding.append(message_id)
        if isinstance(frame, Message) and frame.channel == PROBE_CHANNEL:
            check(sent_at is None, f"probe {message_id} sent again (T-80)")
        elif isinstance(frame, Message):
            check(
                self._bodies.setdefault(message_id, frame.body) == frame.body, f"id {message_id} has two bodies (T-40)"
            )
            holders = self._ledger.stored_for.get(frame.body, ())
            check(self.peer in holders, f"{frame} to {self.peer} before the commit of its row (I1)")


class Ledger:
    """One instance over all its lives: what it sent, what its store took, who acknowledged, what it handled."""

    def __init__(self, uuid: UUID, permanent: Iterable[Subscription]) -> None:
        self.uuid = uuid
        self.permanent = frozenset(permanent)  # never unsubscribed: what matches must be handled
        self.sent: dict[bytes, Sent] = {}
        self.receipts: dict[Receipt, list[Sent]] = {}
        self.stored_for: dict[bytes, set[UUID]] = {}
        self.acked: set[tuple[UUID, bytes]] = set()
        self.handled: Counter[bytes] = Counter()
        self.delivered: set[bytes] = set()
        self.handled_in_this_life: set[bytes] = set()
        self.remembers = False  # dedupe is durable
        self.policy = Policy()
        self.others: dict[UUID, Ledger] = {}
        self.displaced: set[tuple[UUID, bytes]] = set()  # given up for newer ones (D-10)
        self.set_aside: set[tuple[UUID, bytes]] = set()  # they come later than what was sent after them (T-09)
        self.forked = False  # two stores have gone on from one: what one of them sent may come after the other's
        self.failed: set[tuple[UUID, int]] = set()  # was to be removed by a commit that failed
        self.newest: dict[UUID, int] = {}
        self.ordered = True
        self._bodies: dict[int, bytes] = {}

    def always_wants(self, message: Message) -> bool:
        return not self.permanent.isdisjoint(matching(message.channel, message.key))

    def applied(self, operations: Sequence[Operation]) -> None:
        """The store took these."""
        for operation in operations:
            if isinstance(operation, StoreMessages):
                for message, recipients in zip(operation.messages, operation.recipients, strict=True):
                    self._bodies[message.seq] = message.body
                    self.stored_for[message.body] = set(recipients)
            elif isinstance(operation, AddDeliveries):
                for seq, _, _ in operation.deliveries:
                    self.stored_for[self._bodies[seq]].add(operation.peer)
            elif isinstance(operation, RemoveDeliveries):
                for first, last in operation.spans:
                    for seq in range(first, last + 1):
                        proof = (operation.peer, self._bodies.get(seq, b""))
                        if proof not in self.acked:
                            self._displaced(operation.peer, seq, operations)
            elif isinstance(operation, ParkDelivery):
                self.set_aside.add((operation.peer, self._bodies[operation.seq]))

    def holds(self, store: MemoryStore) -> None:
        """This is its store now: the same number may be another message there."""
        self._bodies.update((message.seq, message.body) for message in store.messages)

    def _displaced(self, peer: UUID, seq: int, operations: Sequence[Operation]) -> None:
        """A delivery is removed that was not acknowledged: the peer may want it no more (T-61), or by its policy it
        makes room for newer ones of this commit (D-10)."""
        sent, other = self.sent.get(self._bodies.get(seq, b"")), self.others.get(peer)
        if sent is not None and other is not None and not sent.wanted_by(other.permanent):
            return
        check(
            self.policy.quota_of(peer) is QuotaPolicy.DROP_OLDEST,
            f"delivery {seq} removed without an ack of {peer} (I3)",
        )
        is_displaced = (peer, seq) in self.failed or _stores_for(peer, operations)
        check(is_displaced, f"delivery {seq} to {peer} makes room for nothing that is stored with it (D-10)")
        self.displaced.add((peer, self._bodies[seq]))

    def not_applied(self, operations: Sequence[Operation]) -> None:
        """A commit failed: what it was to remove for others' sake goes with a later one."""
        for operation in operations:
            if isinstance(operation, RemoveDeliveries):
                for first, last in operation.spans:
                    self.failed.update((operation.peer, seq) for seq in range(first, last + 1))

    def is_owed(self, sent: Sent, peer: UUID) -> bool:
        """True but for what a peer's policy at its quota has kept from it (D-10), and what went with a store (D-13)."""
        is_skipped = peer in sent.full_for and peer not in self.stored_for.get(sent.body, ())
        return not is_skipped and (peer, sent.body) not in self.displaced and peer not in sent.lost_for

    def delivery(self, delivery: Delivery, senders: dict[UUID, Ledger]) -> None:
        """A node hands a message to its application."""
        message, body = delivery.message, delivery.body
        sender = senders.get(delivery.peer_id)
        entry = sender.sent.get(body) if sender else None
        check(entry is not None, f"{delivery} was never sent by {delivery.peer_id}")
        assert entry is not None
        assert sender is not None
        check((entry.channel, entry.key) == (delivery.channel, delivery.key), f"{delivery} was sent otherwise: {entry}")
        if not delivery.reliable:
            check(body not in self.delivered, f"unreliable {body!r} delivered twice")
        elif (
            self.ordered
            and not sender.forked
            and (self.uuid, body) not in sender.set_aside
            and self.uuid in entry.routed_to
            and body not in self.delivered
            and self.always_wants(message)
        ):
            newest = self.newest.get(delivery.peer_id, -1)
            check(entry.index > newest, f"first copy of {body!r} after that of number {newest} (T-51)")
            self.newest[delivery.peer_id] = entry.index
        self.delivered.add(body)


def audit(node: Node, store: MemoryStore) -> None:
    """The node's numbers against its store, at an instant when nothing is between the two.

    This runs thousands of times in a life.
    """
    loaded = store.load()
    stored = {message.seq for message in store.messages}
    owed = {seq for first, last, _ in loaded.owed for seq in range(first, last + 1)}
    check(stored == owed, "messages {} are in the store and nobody is owed them", stored - owed)
    peers = {peer.uuid: peer for peer in node.peers()}
    for uuid, known in loaded.peers.items():
        if is_derived(uuid):
            continue  # there for the sake of its handled messages and dead letters
        peer = peers[uuid]
        state = node._peers[uuid]
        counts = (peer.pending, peer.pending_bytes, peer.parked, peer.parked_bytes)
        mine = (*counts, state.subscriptions, {*state.held}, {*state.unsaid})
        lists = (known.subscriptions, {*known.held}, {*known.unsaid})
        theirs = (known.pending, known.pending_bytes, known.parked, known.parked_bytes, *lists)
        check(mine == theirs, "peer {}: the node counts {}, its store holds {}", uuid, mine, theirs)
    for one in node._peers.values():
        granted = node._gate.acl.rights(one.uuid).granted(one.subscriptions.union(one.held))
        check(one.routed == granted, "peer {} has routes for {}, it may have {} (D-4)", one.uuid, one.routed, granted)
    routed = {(subscription, one) for one in node._peers.values() for subscription in one.routed}
    targets = {(subscription, one) for subscription, peers in node._routes for one in peers}
    check(routed == targets, "the routes are {}, those of the peers {}", targets, routed)
    check(all(peers[uuid].pending == 0 for uuid in peers.keys() - loaded.peers.keys()), "pending for an unstored peer")
    check(set(node.subscriptions()) == loaded.own_subscriptions, "own subscriptions differ from the stored ones")
    counted = list(node._refcounts)
    check(counted == list(loaded.owed), "owed: {} counted, {} stored", counted, loaded.owed)
    live = IntervalSet(node._ids.live)
    for link in node._links.values():
        for wire_id in link.control.under_way if link.control else ():
            live.discard(wire_id, wire_id)
        if link.control is not None and link.control.probe_id is not None:
            live.discard(link.control.probe_id, link.control.probe_id)
    ids = list(live)
    check(ids == list(loaded.live_ids), "live ids: {} counted, {} stored", ids, loaded.live_ids)
    check(loaded.owed or not node._watched, "receipts are watched that nobody is owed")


def check_memory(node: Node, limits: Limits) -> None:
    """Bodies in memory stay within the windows (T-52)."""
    for link in node._up.values():
        assert link.window is not None
        count, size = link.window.in_window
        fits = count <= limits.window_messages and (count <= 1 or size <= limits.window_bytes)
        check(fits, "{} messages of {} bytes in the window: more than T-52 allows", count, size)
        check(link.window.in_backoff <= limits.backoff_messages, "the backoff set is over its bound (T-52)")
        check(
            link.peer is None or link.peer.inbox.count <= limits.inbox_messages,
            "more is handed out than the inbox takes (D-9)",
        )


def _stores_for(peer: UUID, operations: Sequence[Operation]) -> bool:
    stored = [operation for operation in operations if isinstance(operation, StoreMessages)]
    return any(peer in recipients for operation in stored for recipients in operation.recipients)


def _frames(decoder: Decoder) -> list[Decoded]:
    frames = []
    while (frame := decoder.next_frame()) is not None:
        frames.append(frame)
    return frames
