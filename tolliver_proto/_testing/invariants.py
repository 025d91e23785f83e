"""Invariants of a simulation, checked at every step (I1 to I6).

State: a `WireWitness` for each end of a connection decodes the bytes that leave and arrive; a `Ledger` for each
instance keeps, over all its lives, its sent messages with their recipients, the rows that its store took, the acks, and
the handled messages. Both get bytes and commits, and believe no node.

Invariants of the checks: each complaint names the ruling that was broken; a message counts as promised from its commit
on; an excuse (a quota, a hold that ended, a store that was rolled back) is noted at the event that causes it, and
excuses the messages of that event alone. `audit` compares a node's numbers with its store's whenever no commit is on
its way between the two. A comparison at the end of a run alone would find a failure far from its cause.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Protocol
from uuid import UUID

from .._common.derived_ids import is_derived
from .._common.errors import UndeliveredReason
from .._common.intervals import IntervalSet
from .._common.owner_ids import LATER, VALUES, is_keeper, is_queue
from .._node.actions import Delivery, Receipt
from .._node.node import Node
from .._node.policy import Policy, QuotaPolicy
from .._node.store import (
    AddDeadLetter,
    AddDeliveries,
    AddPeerSubscription,
    ForgetPeer,
    Found,
    Operation,
    ParkDelivery,
    RemoveDeliveries,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    StoreMessages,
)
from .._node.subscriptions import matching
from .._patterns.last_values import LastValues
from .._patterns.message_keys import KEEPERS, MessageKeys
from .._patterns.queues import Queues
from .._patterns.work import QueueWork
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
from .._wire.layouts import LAYOUTS
from .._wire.limits import Limits
from .inspection import inside
from .memory_store import MemoryStore

LATE = 10.0
"""Seconds by which a commit may come later than its decision."""

_OF_ONE_INSTANCE = (
    "receipts",
    "failed",
    "newest",
    "handled_in_this_life",
    "drops_in_this_life",
    "_bodies",
    "_held",
    "_holds_over",
    "knows",
    "forgetting",
)


class SimFailure(AssertionError):
    """A promise was broken. The text names the seed, and ends with the last lines of the trace."""


def check(condition: object, complaint: str, *shown: object) -> None:
    """Raises SimFailure if the condition is false. `complaint` is the text of the error, formatted with `shown`."""
    if not condition:
        raise SimFailure(complaint.format(*shown) if shown else complaint)


class Sent:
    """One message that the simulated application has sent, with its recipients and its fate."""

    __slots__ = (
        "body",
        "channel",
        "damaged",
        "due_to",
        "full_for",
        "index",
        "key",
        "lost_for",
        "routed_to",
        "stored",
        "waits",
    )

    def __init__(self, index: int, channel: str, key: str, body: bytes) -> None:
        self.index = index
        self.channel = channel
        self.key = key
        self.body = body
        self.waits = False  # the send waits for room, or for a handshake
        self.stored = False  # its Stored was reported
        self.damaged = False  # its row is unreadable: no delivery is promised
        self.routed_to: set[UUID] = set()  # peers that the sender knew as subscribers at the send
        self.due_to: set[UUID] = set()  # peers that must have handled the message at the end
        self.full_for: set[UUID] = set()  # peers at their quota, which may have been skipped (D-10)
        self.lost_for: set[UUID] = set()  # peers to which a store owed the message that is gone (D-13)

    def wanted_by(self, subscriptions: Iterable[Subscription]) -> bool:
        return not set(matching(self.channel, self.key)).isdisjoint(subscriptions)


class AnyWitness(Protocol):
    """Checker of the bytes that leave and reach one side of a connection; raises SimFailure for a broken rule."""

    def transmit(self, units: Sequence[bytes], now: float, resend_after: float) -> None: ...

    def taken(self, now: float) -> None: ...

    def receive(self, data: bytes) -> None: ...


class WireWitness:
    """Decoder and checker of the frames that leave and reach one side of a connection."""

    def __init__(self, ledger: Ledger, is_client: bool, revision: Revision) -> None:
        self._ledger = ledger
        self._is_client = is_client
        self._no_id = LAYOUTS[revision].unreliable_id
        self._outgoing = Decoder(revision)
        self._incoming = Decoder(revision)
        self._begun = False
        self._may_talk = False
        self.peer: UUID | None = None
        self.listed: frozenset[Subscription] = frozenset()  # the list of the peer's handshake
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
        """Notes that the socket has taken the bytes of the action Transmit that is outstanding."""
        for message_id in self._in_socket:
            self._sent_at[message_id] = now
        self._in_socket = []

    def receive(self, data: bytes) -> None:
        """Checks bytes that the node receives."""
        self._incoming.feed(data)
        for frame in _frames(self._incoming):
            if isinstance(frame, HandshakeRequest | HandshakeResponse):
                self.peer = frame.instance_id
                self.listed = frozenset(frame.subscriptions)
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
        if message_id == self._no_id:
            return  # a probe (T-80)
        frame = self._received.get(message_id)
        check(frame is not None, f"Ack {message_id} for nothing that came over this connection (T-49)")
        ledger = self._ledger  # with dedupe the first copy may have come on another connection, or in another life
        if not isinstance(frame, Message):
            return
        handled = ledger.handled if ledger.remembers else ledger.handled_in_this_life
        if message_id in self.acknowledged or frame.body in handled or frame.body in ledger.letters:
            return
        sender = ledger.others.get(self.peer) if self.peer is not None else None
        is_forgotten = sender is not None and (ledger.uuid, frame.body) in sender.forgotten
        wanted = ledger.always_wants(frame) and not is_forgotten
        check(not wanted, f"Ack {message_id} before a handler had succeeded (I2)")
        ledger.dropped.add(frame.body)
        ledger.drops_in_this_life += 1

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
    """Expected state of one instance over all its lives: sent messages, rows that its store took, acks, and handled
    messages; checks each change against it."""

    def __init__(self, uuid: UUID, permanent: Iterable[Subscription]) -> None:
        self.uuid = uuid
        self.permanent = frozenset(permanent)  # never unsubscribed: matching messages must be handled
        self.sent: dict[bytes, Sent] = {}
        self.receipts: dict[Receipt, list[Sent]] = {}
        self.stored_for: dict[bytes, set[UUID]] = {}
        self.acked: set[tuple[UUID, bytes]] = set()
        self.handled: Counter[bytes] = Counter()
        self.delivered: set[bytes] = set()
        self.handled_in_this_life: set[bytes] = set()
        self.remembers = False  # True if dedupe is durable
        self.policy = Policy()
        self.others: dict[UUID, Ledger] = {}
        self.letters: set[bytes] = set()  # kept as dead letters (T-47)
        self.dropped: set[bytes] = set()  # acknowledged without a handler (T-46, D-5, T-10)
        self.drops_in_this_life = 0
        self.left: set[Subscription] = set()  # entries that the application has ever subscribed to or unsubscribed
        self.given_up: set[tuple[UUID, bytes]] = set()  # without an ack: for newer ones (D-10), or not wanted (T-61)
        self.revived: set[tuple[UUID, bytes]] = set()  # given up, and owed again by a copy, after newer ones (D-13)
        self.forgotten: set[tuple[UUID, bytes]] = set()  # sent before `forget_peer` for that peer (T-77)
        self.forgot: set[UUID] = set()  # forgotten peers, whose handled messages are forgotten too
        self.forgetting: set[UUID] = set()  # peers whose ForgetPeer of this life is not committed yet
        self.told_to_drop: set[UUID] = set()  # peers for which `drop_parked` was called (T-09)
        self.clock_jumped = False  # the jump may have ended holds
        self.said_gone: set[tuple[UUID, Subscription]] = set()  # entries that peers in the store were told to drop
        self.rolled_back = False  # the instance has had more than one store
        self.knows: dict[UUID, set[Subscription]] = {}  # permanent entries that were heard from each peer
        self.largest = 2**31  # bytes of a body that the instance has always taken
        self._held: dict[tuple[UUID, Subscription], float] = {}  # start of each hold (T-61)
        self._holds_over: set[tuple[UUID, Subscription]] = set()  # holds that have ended
        self.set_aside: set[tuple[UUID, bytes]] = set()  # parked: they come later than newer messages (T-09)
        self.forked = False  # two stores have gone on from one, so that their messages come in any order
        self.failed: set[tuple[UUID, int]] = set()  # deliveries whose removal was in a failed commit
        self.newest: dict[UUID, int] = {}
        self.ordered = True
        self._bodies: dict[int, bytes] = {}

    def always_wants(self, message: Message) -> bool:
        return not self.permanent.isdisjoint(matching(message.channel, message.key))

    def applied(self, operations: Sequence[Operation], now: float = 0.0) -> list[tuple[UUID, bytes]]:
        """Notes a commit that the store took; returns the messages that it gives up without an ack, by peer."""
        given_up: list[tuple[UUID, bytes]] = []
        for operation in operations:
            if isinstance(operation, StoreMessages):
                for message, recipients in zip(operation.messages, operation.recipients, strict=True):
                    self._bodies[message.seq] = message.body
                    holders = {one for one in recipients if not is_keeper(one)}
                    self.stored_for.setdefault(message.body, set()).update(holders)
            elif isinstance(operation, AddDeliveries) and not is_keeper(operation.peer):
                for seq, _, _ in operation.deliveries:
                    self.stored_for[self._bodies[seq]].add(operation.peer)
            elif isinstance(operation, RemoveDeliveries) and not is_keeper(operation.peer):
                for first, last in operation.spans:
                    for seq in range(first, last + 1):
                        proof = (operation.peer, self._bodies.get(seq, b""))
                        if proof not in self.acked:
                            self._gives_up(operation.peer, seq, operations, now)
                            given_up.append(proof)
            elif isinstance(operation, ParkDelivery):
                self._parks(operation.peer, self._bodies[operation.seq])
            elif isinstance(operation, AddDeadLetter):
                self.letters.add(operation.letter.body)
            elif isinstance(operation, ReplacePeerSubscriptions):
                self._list_changed(operation, now)
                self._hears(operation.peer, operation.subscriptions)
            elif isinstance(operation, AddPeerSubscription):
                self._hears(operation.peer, [operation.subscription])
            elif isinstance(operation, RemovePeerSubscription):  # a subscribe that could not be stored there is undone
                self.knows.get(operation.peer, set()).discard(operation.subscription)
            elif isinstance(operation, ForgetPeer):
                self.knows.pop(operation.peer, None)
                self.forgetting.discard(operation.peer)
        return given_up

    def holds(self, store: MemoryStore, now: float = 0.0) -> None:
        """Notes that the instance goes on with another `store`, a copy or an empty one. A seq of that store may stand
        for another message; its holds are in force (T-61).
        """
        self._bodies.update((message.seq, message.body) for message in store.messages)
        self.knows, self._held = {}, {}
        for uuid, peer in store.load().peers.items():
            self._hears(uuid, [*peer.subscriptions, *peer.held])
            self._held.update(((uuid, one), now - age) for one, age in peer.held.items())

    def _hears(self, peer: UUID, subscriptions: Iterable[Subscription]) -> None:
        if peer in self.others and peer not in self.forgetting:
            self.knows.setdefault(peer, set()).update(self.others[peer].permanent.intersection(subscriptions))

    def routes_to(self, peer: UUID, now: float) -> set[Subscription]:
        """Returns the permanent entries that route to this peer, also entries that are held (T-61)."""
        self._look_at_holds(now)
        over = {subscription for uuid, subscription in self._holds_over if uuid == peer}
        return self.knows.get(peer, set()) - over

    def twin(self) -> Ledger:
        """Returns the ledger of a second instance of this identity, which shares the facts that peers see."""
        other = Ledger(self.uuid, self.permanent)
        own = {name: getattr(other, name) for name in _OF_ONE_INSTANCE}
        vars(other).update(vars(self), **own)
        return other

    def _gives_up(self, peer: UUID, seq: int, operations: Sequence[Operation], now: float) -> None:
        """Checks that the delivery of message `seq` to `peer`, which `operations` remove without an ack, has a reason:
        else the message is lost (I3).
        """
        body = self._bodies.get(seq, b"")
        sent = self.sent.get(body)
        reasons = [one for one in UndeliveredReason if sent is not None and self.may_give_up(peer, sent, one, now)]
        check(reasons, f"delivery {seq} removed without an ack of {peer} (I3)")
        if reasons == [UndeliveredReason.DROPPED_OLDEST]:
            # With a running commit the sends fail that wait for the next one, and room was made for these, too.
            has_failed = any(one in self.failed for one in _removed(operations) if one[0] == peer)
            is_displaced = has_failed or _stores_for(peer, operations)
            check(is_displaced, f"delivery {seq} to {peer} makes room for nothing that is stored with it (D-10)")
        self.given_up.add((peer, body))

    def may_give_up(self, peer: UUID, sent: Sent, reason: UndeliveredReason, now: float) -> bool:
        """True if a message may have been given up for this reason, as far as this ledger knows."""
        if reason is UndeliveredReason.FORGOTTEN:
            return (peer, sent.body) in self.forgotten
        if reason is UndeliveredReason.DROPPED:
            return peer in self.told_to_drop and (peer, sent.body) in self.set_aside
        if reason is UndeliveredReason.DROPPED_OLDEST:
            return self.policy.quota_of(peer) is QuotaPolicy.DROP_OLDEST
        if reason is UndeliveredReason.SKIPPED:
            return self.policy.quota_of(peer) is QuotaPolicy.SKIP and self.is_skipped(peer, sent)
        if reason is UndeliveredReason.UNSUBSCRIBED:
            return self.is_skipped(peer, sent) or self._is_left(peer, sent, now)
        return False

    def is_skipped(self, peer: UUID, sent: Sent) -> bool:
        """True if the message was not stored for the peer, which was at its quota (D-10)."""
        return peer in sent.full_for and peer not in self.stored_for.get(sent.body, ())

    def _is_left(self, peer: UUID, sent: Sent, now: float) -> bool:
        """True if the peer may not want the message: it has said so, or the hold has ended (T-61)."""
        if self.clock_jumped or (peer in self.others and sent.wanted_by(self.others[peer].left)):
            return True
        self._look_at_holds(now)
        return any((peer, pair) in self._holds_over for pair in matching(sent.channel, sent.key))

    def held_peers(self) -> set[UUID]:
        """Returns the peers of which the store holds subscriptions (T-61)."""
        return {peer for peer, _ in self._held}

    def may_hold_again(self) -> None:
        """Notes that a process has ended whose store had failed: where the end of a hold fails, the entry is held again
        for a second, and as long as any other if the process ends within that second (T-61).
        """
        for peer, other in self.others.items():
            other.said_gone.difference_update((self.uuid, entry) for one, entry in self._held if one == peer)

    def _look_at_holds(self, now: float) -> None:
        late = now + LATE - self.policy.unsubscribed_hold
        self._holds_over.update(hold for hold, since in self._held.items() if since <= late)

    def _list_changed(self, operation: ReplacePeerSubscriptions, now: float) -> None:
        self._look_at_holds(now)
        peer = operation.peer
        held = {(peer, one): self._held.get((peer, one), now) for one in operation.held}
        self._held = {hold: since for hold, since in self._held.items() if hold[0] != peer} | held

    def not_applied(self, operations: Sequence[Operation]) -> None:
        """Notes a failed commit: its removals are in a later commit."""
        self.failed.update(_removed(operations))

    def _parks(self, peer: UUID, body: bytes) -> None:
        """Checks that the message `body` may be parked for `peer`: its row is damaged, or the peer refuses its size
        (T-09, V9).
        """
        is_refused = peer in self.others and len(body) > self.others[peer].largest
        check(self.sent[body].damaged or is_refused, f"{body!r} is set aside for {peer}, which refuses it not (T-09)")
        self.set_aside.add((peer, body))

    def revive(self, peer: UUID, body: bytes) -> None:
        """Notes that a copy of the store owes the message again, although it was given up (D-13)."""
        if (peer, body) in self.given_up:
            self.given_up.discard((peer, body))
            self.revived.add((peer, body))

    def is_owed(self, sent: Sent, peer: UUID) -> bool:
        """True unless the message was skipped at the peer's quota (D-10), given up for a reason, or lost with a store
        (D-13)."""
        return not self.is_skipped(peer, sent) and (peer, sent.body) not in self.given_up and peer not in sent.lost_for

    def delivery(self, delivery: Delivery, senders: dict[UUID, Ledger]) -> None:
        """Checks a message that the node hands to its application. `senders` has the ledgers of all instances by
        UUID.
        """
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
            and (self.uuid, body) not in sender.revived
            and self.uuid in entry.routed_to
            and body not in self.delivered
            and self.always_wants(message)
        ):
            newest = self.newest.get(delivery.peer_id, -1)
            check(entry.index > newest, f"first copy of {body!r} after that of number {newest} (T-51)")
            self.newest[delivery.peer_id] = entry.index
        self.delivered.add(body)


def audit(node: Node, store: MemoryStore) -> None:
    """Compares the numbers that a node has of its messages with the rows of its store, while no commit is on its way
    between the two. Raises SimFailure for a difference.
    """
    loaded = store.load()
    stored = {message.seq for message in store.messages}
    owed = Counter({seq: number for first, last, number in loaded.owed for seq in range(first, last + 1)})
    kept = {one.message.seq: one for one in inside(node).ledger.keeping}
    kept_size = sum(one.message.size for one in kept.values())
    check(stored == owed.keys() | kept, "messages {} are in the store and nobody is owed them", stored - owed.keys())
    check(
        inside(node).ledger.keeping.size == kept_size,
        "{} bytes are kept, {} are counted",
        kept_size,
        inside(node).ledger.keeping.size,
    )
    check(all(owed[seq] == one.owed for seq, one in kept.items()), "kept: {} are owed, others are counted", owed)
    unowned = (seq for seq, one in kept.items() if not one.owners)  # a window delays no answer of others (T-62)
    waited = sorted({*owed, *unowned})
    for receipt, _ in inside(node).ledger.receipts.within(0, inside(node).ledger.next_seq):
        count = bisect_right(waited, receipt.last_seq) - bisect_left(waited, receipt.first_seq)
        check(receipt.unacked == count, "{} waits for {}, not {} messages", receipt, receipt.unacked, count)
    peers = {peer.uuid: peer for peer in node.peers()}
    for uuid, known in loaded.peers.items():
        if is_derived(uuid):
            continue  # stored for its handled messages and dead letters alone
        state = inside(node).context.peers[uuid]
        if state.is_owner:
            waiting = (state.outbox.pending, state.outbox.pending_bytes)
            stored_there = (known.pending, known.pending_bytes)
            check(
                waiting == stored_there, "owner {}: the node counts {}, its store holds {}", uuid, waiting, stored_there
            )
            continue
        peer = peers[uuid]
        counts = (peer.pending, peer.pending_bytes, peer.parked, peer.parked_bytes)
        mine = (*counts, state.lists.subscriptions, {*state.lists.held}, {*state.lists.unsaid})
        lists = (known.subscriptions, {*known.held}, {*known.unsaid})
        theirs = (known.pending, known.pending_bytes, known.parked, known.parked_bytes, *lists)
        check(mine == theirs, "peer {}: the node counts {}, its store holds {}", uuid, mine, theirs)
    for one in inside(node).context.peers.values():
        if one.link is not None:
            split = (one.lists.served, one.lists.kept_back)
            told = (one.link.lists.told, one.lists.subscriptions.union(one.lists.held) - one.link.lists.told)
            check(split == told, "peer {}: served and kept back {}, not {}", one.uuid, split, told)
        wanted = frozenset() if one.links.forgotten else one.lists.subscriptions.union(one.lists.held)
        granted = inside(node).context.acl.rights(one.uuid).granted(frozenset() if one.is_owner else wanted)
        check(
            one.outbox.routed == granted,
            "peer {} has routes for {}, it may have {} (D-4)",
            one.uuid,
            one.outbox.routed,
            granted,
        )
    routed = {(subscription, one) for one in inside(node).context.peers.values() for subscription in one.outbox.routed}
    targets = {(subscription, one) for subscription, peers in inside(node).routing.routes for one in peers}
    check(routed == targets, "the routes are {}, those of the peers {}", targets, routed)
    check(all(peers[uuid].pending == 0 for uuid in peers.keys() - loaded.peers.keys()), "pending for an unstored peer")
    work, queues = node.used(QueueWork), node.used(Queues)
    announced = {one for ours in work._works.values() for one in ours.announced} if work else set()
    check(set(node.subscriptions()) - announced == loaded.own_subscriptions, "own subscriptions differ from the stored")
    for queue in queues._queues.values() if queues else ():
        for peer_of, worker in queue.workers.items():
            rows = store.find(peer_of.uuid, 0, 2**31, 0.0)
            jobs = {one.seq for one in rows if one.channel == queue.channel and not one.parked}
            jobs = {seq for seq in jobs if inside(node).ledger.refcounts.count_of(seq) == 1}
            check(not worker.is_known or worker.jobs == jobs, "{} has {} and not {}", peer_of.uuid, jobs, worker.jobs)
    values = node.used(LastValues)
    rows = store.find(VALUES, 0, 2**31, 0.0)
    if values and values.index.is_known:
        index = {name: (one.seq, one.wire_id, one.size) for name, one in values.index.entries.items()}
        found = {(one.channel, one.key): (one.seq, one.wire_id, one.size) for one in rows}
        check(index == found, "last values: {} are in the index, {} in the store", index, found)
    in_memory = (values.index.count, values.index.bytes) if values else (0, 0)
    in_all = (len(rows), sum(one.size - inside(node).context.encoder.overhead for one in rows))
    check(in_memory == in_all, "last values and their bytes: {} counted, {} stored", in_memory, in_all)
    keys = node.used(MessageKeys)
    if keys and not keys._unread:
        noted = {(note.row, note.wire_id, note.size, KEEPERS[note.reason]) for note in keys._notes.values()}
        on_disk = {(one.seq, one.wire_id, one.size, one.peer) for one in _rows_of_keys(store)}
        check(noted == on_disk, "message keys: {} are known, {} stored", noted, on_disk)
    counted = {seq: number for first, last, number in inside(node).ledger.refcounts for seq in range(first, last + 1)}
    check(
        counted == owed + Counter(kept.keys()),
        "owed: {} counted, {} stored",
        inside(node).ledger.refcounts,
        loaded.owed,
    )
    live = IntervalSet(inside(node).ledger.ids.live)
    for link in inside(node).context.links.values():
        for wire_id in link.lists.control.under_way if link.lists.control else ():
            live.discard(wire_id, wire_id)
        if link.lists.control is not None and link.lists.control.probe_id is not None:
            live.discard(link.lists.control.probe_id, link.lists.control.probe_id)
    for held in kept.values():
        if not held.owed:
            live.discard(held.message.wire_id, held.message.wire_id)
    ids = list(live)
    check(ids == list(loaded.live_ids), "live ids: {} counted, {} stored", ids, loaded.live_ids)
    check(owed or kept or not inside(node).ledger._watched, "receipts are watched that nobody is owed")


def _rows_of_keys(store: MemoryStore) -> list[Found]:
    return [one for uuid in KEEPERS.values() for one in store.find(uuid, 0, 2**31, 0.0)]


def check_owners(store: MemoryStore, shared: Container[int]) -> None:
    """Checks that each job has one owner after every commit: a worker, or the queue. `shared` has the seqs of messages
    that were sent to several peers before the channel was a queue."""
    peers = store.load().peers
    queues = {one.channel for uuid in filter(is_queue, peers) for one in peers[uuid].subscriptions}
    if not queues:
        return
    owners = Counter(one.seq for one in store.find(None, 0, 2**31, 0.0) if one.channel in queues)
    keys = {one.seq for one in _rows_of_keys(store)} | {*store.deliveries(LATER)}
    for message in store.messages:
        if message.channel in queues and message.seq not in keys and message.seq not in shared:
            check(owners[message.seq] == 1, "job {} has {} owners", message.seq, owners[message.seq])


def check_memory(node: Node, limits: Limits) -> None:
    """Checks that the bodies in memory are within the windows (T-52)."""
    for link in inside(node).context.up.values():
        assert link.sending.window is not None
        count, size = link.sending.window.in_window
        fits = count <= limits.window_messages and (count <= 1 or size <= limits.window_bytes)
        check(fits, "{} messages of {} bytes in the window: more than T-52 allows", count, size)
        check(link.sending.window.in_backoff <= limits.backoff_messages, "the backoff set is over its bound (T-52)")
        check(
            link.peer is None or link.peer.inbox.count <= limits.inbox_messages,
            "more is handed out than the inbox takes (D-9)",
        )


def _stores_for(peer: UUID, operations: Sequence[Operation]) -> bool:
    stored = [operation for operation in operations if isinstance(operation, StoreMessages)]
    return any(peer in recipients for operation in stored for recipients in operation.recipients)


def _removed(operations: Sequence[Operation]) -> Iterator[tuple[UUID, int]]:
    """The deliveries that these operations remove, each as peer and seq."""
    for operation in operations:
        if isinstance(operation, RemoveDeliveries):
            for first, last in operation.spans:
                yield from ((operation.peer, seq) for seq in range(first, last + 1))


def _frames(decoder: Decoder) -> list[Decoded]:
    frames = []
    while (frame := decoder.next_frame()) is not None:
        frames.append(frame)
    return frames
