"""Node: many connections, one durable outbox, without I/O.

The idea: the node is told what happened (bytes, ends, commits, time, calls of the application) and says, one action at
a time, what is to be done about it. It has no clock, no thread and no disk. A change that must be on disk before it is
true waits in the running batch (`batch`); a message for a peer waits in its window (`outbox`); everything else is done
when `next_action` comes to it: first what was received, then what may be sent, last the commit, so that one commit and
one Transmit carry all that a turn brought.

Promises, held by tests and by the simulator:
I1  `Stored` and the first Transmit of a reliable message come only after the commit of its row.
I2  An Ack for a delivered message goes out only after `acknowledge()`; control, ignored and unwanted messages are the
    node's own to acknowledge.
I3  A delivery leaves the outbox only by a commit caused by that peer's ack of that id, or by `forget_peer`, by
    `drop_parked`, by the end of a hold, or by what the policy asks for: an expiry, the oldest at the quota, or a peer
    that is away for too long.
I4  After a crash at any instant and a restart from the committed store, every delivery that is not
    acknowledged, parked or held is sent again.
I5  `next_action()` with nothing to do is O(1): ready sets and a heap, never a walk over the peers.
I6  Routing a message costs four dictionary look-ups and its recipients, however many subscriptions exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar, cast
from uuid import UUID

from .._common.derived import is_derived
from .._common.errors import DiskFull, TolliverError, Unconfirmed
from .._common.histogram import Histogram
from .._common.transport import PeerIdentity, Remote, Role
from .._wire.dialect import AS_EVERYBODY, Dialect
from .._wire.events import (
    Closed,
    Established,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    Ignored,
    Message,
    Refusal,
    Revision,
    Subscribe,
    SubscribeMany,
    Subscription,
    Unsubscribe,
    UnsubscribeMany,
)
from .._wire.limits import Limits
from .access import Acl
from .actions import Action, Delivery, Handler, NoticeKind, PeersMoved, Receipt, Stored, SubscriptionsChanged
from .commits.batch import Batch
from .commits.commits import STORE_RETRY
from .context import Context
from .link import Peer
from .links.dialing import RemoteInfo
from .numbers import NodeStats, PeerInfo, PeerNumbers
from .outboxes.ids import Randomness
from .outboxes.sender import To
from .parts import Parts
from .pattern import Pattern
from .policy import Policy
from .services import Services
from .sizes import Item
from .store import DeadLetter, Found, Loaded, RememberHandled, Row

P_co = TypeVar("P_co", bound=Pattern, covariant=True)
P = TypeVar("P", bound=Pattern)
T = TypeVar("T")


def _speaks_no_other(_version: int) -> bool:
    return False


class Node:
    """One instance: durable outbox, subscriptions, peers, and the connections to them.

    Every input takes `now`, monotonic seconds; None means the last one seen, and it never runs backwards. After any
    input, take `next_action()` until None; call `handle_timeout()` at `next_timeout()`. Calls with an unknown cid are
    ignored: the connection ended before the adapter knew.
    """

    def __init__(
        self,
        *,
        instance_id: UUID,
        rng: Randomness,
        limits: Limits | None = None,
        loaded: Loaded | None = None,
        handlers: Iterable[tuple[str, str, Handler]] = (),
        subscriptions: Iterable[tuple[str, str]] | None = None,
        version: int = 1,
        revision: Revision = Revision.DRAFT_2,
        speaks: Callable[[int], bool] = _speaks_no_other,
        retry_interval: float | None = None,
        policy: Policy | None = None,
        acl: Acl | None = None,
        tell_events: bool = False,
        patterns: Iterable[PatternKind[Pattern]] = (),
        now: float | None = None,
    ) -> None:
        """`loaded` is what `Store.load` returned, `retry_interval` the seconds before the first resend (T-50), `acl`
        who may do what: every member of the CA everything, if it is not given (D-4).

        `subscriptions` are wanted beside the stored ones; what matches none is dropped from the start (T-46). With
        `tell_events` the actions have SubscriptionsChanged, DialFailed and CertificateExpires among them. Of the
        `patterns` those are used from the start of which the store has something, the others from their first call
        (`use`). Raises as `subscribe` does.
        """
        limits, loaded, policy = limits or Limits(), loaded or Loaded(), policy or Policy()
        self.instance_id, self.limits = instance_id, limits
        self.version, self.revision = version, revision
        context = self._context = Context(
            instance_id,
            rng,
            limits,
            version,
            revision,
            retry_interval,
            policy,
            acl or Acl(),
            tell_events,
            now,
        )
        self._policy = context.policy
        self.timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        parts = self._parts = Parts(context, loaded, subscriptions is not None, speaks)
        self._sizes, self._commits, self._routing, self._ledger = (
            parts.sizes,
            parts.commits,
            parts.routing,
            parts.ledger,
        )
        self._room, self._expiry, self._sender, self._connect_wait = (
            parts.room,
            parts.expiry,
            parts.sender,
            parts.connect_wait,
        )
        self._transmission, self._flushes, self._own, self._peer_lists = (
            parts.transmission,
            parts.flushes,
            parts.own,
            parts.peer_lists,
        )
        self._credit, self._delivering, self._letters, self._settling = (
            parts.credit,
            parts.delivering,
            parts.letters,
            parts.settling,
        )
        links = self._links = parts.links
        handshakes = self._handshakes = parts.handshakes
        self._remotes = parts.remotes
        delivering, peer_lists = parts.delivering, parts.peer_lists
        self._load_peers(loaded)
        links.on_event.update(
            {
                Message: delivering.on_message if context.acl.is_open else delivering.on_guarded_message,
                Ignored: delivering.on_ignored,
                Refusal: links.on_refusal,
                Subscribe: peer_lists.on_control,
                Unsubscribe: peer_lists.on_control,
                SubscribeMany: peer_lists.on_controls,
                UnsubscribeMany: peer_lists.on_controls,
                HandshakeRequest: handshakes.on_request,
                HandshakeResponse: handshakes.on_response,
                HandshakeFinal: handshakes.on_final,
                Established: handshakes.on_established,
                Closed: links.on_closed,
            }
        )
        # The order of effects: one ready connection, pattern or peer at a time, and a commit after all of them.
        self._steps: tuple[tuple[dict[Any, None], Callable[[Any], None]], ...] = (
            (context.readable, links.read),
            (context.sendable, parts.transmission.pump),
            (context.turns, _take_turn),
            (context.moved, self._tell_moved),
            (context.flooding, links.end_flood),
            (context.writable, links.write),
        )
        self._services = Services(parts)
        self._patterns: dict[object, Pattern] = {}
        for kind in patterns:
            if kind.is_stored(self._services):
                self.use(kind)
        for peer in [*self._peers.values()]:
            self._links.count_absence(peer)
            if peer.lists.held:
                self._peer_lists.hold(peer, peer.lists.held)
            if peer.lists.unsaid:
                self._expiry.watch_clock()
        self._expiry._schedule_expiry()
        if loaded.expires_in is not None:
            self._expiry.look_at_due(max(0.0, loaded.expires_in))
        self._settling._on_handled_timeout(None)
        for channel, key, handler in handlers:
            self._delivering.register(channel, key, handler)
        for channel, key in subscriptions or ():
            if self._sizes.checked(channel, key) not in self._own.entries:
                self._own.subscribe(channel, key)

    def _load_peers(self, loaded: Loaded) -> None:
        """Peers that the store knows, with their lists in the routes."""
        context, dedupe = self._context, self._delivering.dedupe
        for uuid in (*loaded.peers, *dedupe.peers()):
            dedupe.use(uuid, context.now)
        for uuid, known in loaded.peers.items():
            if is_derived(uuid):
                continue  # there for the sake of its handled messages and dead letters
            context.peers[uuid] = peer = Peer(uuid, known)
            self._peer_lists.load(peer, known)
            self._routing.load(peer)

    def _begin_commit(self) -> None:
        if self._commits.apart and self._sender.waits_alone:
            self._sender.store_blocked()
        batch = self._commits.take_next()
        if batch.empty:
            return
        if batch.handled:
            batch.operations.append(RememberHandled(batch.handled, self._policy.dedupe))
        if self._ledger.ids.needs_reserve:
            batch.operations.append(self._ledger.ids.reserve())
        self._commits.begin(batch)

    def committed(self, batch_id: int, now: float | None = None) -> None:
        """The Commit is durable."""
        batch = self._commits.finish(batch_id, now)
        if batch is None:
            return
        if self._commits.apart:
            self._commits.end_apart(batch)
        if batch.runs:
            self._ledger.stored_times.stored(batch.runs[-1][1][-1].seq, self._context.now)
        for recipients, messages in batch.runs:
            for peer in recipients.peers:
                self._transmission.committed_for(peer, messages)
        for peer, linked in batch.linked:
            self._ledger.read_again(peer, linked[0].message.seq, linked[-1].message.seq)
        if batch.lists:
            self._peer_lists.on_stored(batch.lists)
        for one in batch.put_away:
            self._peers[one.peer].outbox.removed(one.spans)
        if batch.tokens:
            self._actions.append(Stored(batch.tokens))
        for link, message_ids in batch.acks.items():
            self._commits.ack(link, message_ids)
        for handled in batch.handled:
            self._settling.learn(handled)
        for peer, (before, _) in batch.peer_lists.items():
            if self._context.tells_events and peer.lists.subscriptions != before:
                self._actions.append(SubscriptionsChanged(peer.uuid, peer.lists.subscriptions))
        for go_on in batch.then:
            go_on(None)
        if self._sender.blocked or self._hooks.room_is_back:
            self._sender.unblock()

    def store_failed(self, batch_id: int, error: TolliverError, now: float | None = None) -> None:
        """The Commit was not applied. Nothing of it is true; what was acknowledged is removed later.

        Where the disk was too full for its messages, all else goes in commits without any until there is room again:
        what peers acknowledge is removed at once, and who connects is not turned away (D-13).
        """
        batch = self._commits.finish(batch_id, now)
        if batch is None:
            return
        self._ledger.ids.forget_reserve()
        sure = "" if isinstance(error, Unconfirmed) else ", nothing of it was stored"
        self._context.notice(NoticeKind.STORE_ERROR, None, f"a commit failed{sure}: {error}")
        no_room = batch.stores and isinstance(error, DiskFull)
        if no_room:
            self._commits.go_apart()
            self._letters.pause(self._context.now + STORE_RETRY)
            if self._commits.batch.stores:  # it would fail as well
                self._fail(self._commits.take(), error)
        self._fail(batch, error)
        if self._commits.apart and not no_room:
            self._sender.fail_blocked(error)
        if no_room and self._commits.batch.putting_away:
            self._commits.remove_now()
        self._sender.unblock()

    def _fail(self, batch: Batch, error: TolliverError) -> None:
        self._peer_lists.restore_lists(batch)
        for peer, linked in batch.linked:
            self._ledger.unlink_kept(peer, linked)
            if peer.lists.voices:  # another connection of this peer has left them to the one that fails now
                self._ledger.link_kept(peer, linked)
            else:
                self._connect_wait.disclaim(peer, linked)
        self._sender.take_back(batch)
        self._letters.numbers.take_back(batch.letters_added, batch.letters_gone)
        self._commits.batch.follow(batch)
        if self._commits.batch.putting_away:
            self.timers.set("removals", self._context.now + STORE_RETRY)
        if batch.tokens:
            self._actions.append(Stored(batch.tokens, error))
        for go_on in batch.then:
            go_on(error)

    def notice(self, kind: NoticeKind, detail: str, peer: UUID | None = None, now: float | None = None) -> None:
        """Tell an operator something of a store or an adapter: counted, and handed out as a Notice."""
        self._context.tick(now)
        self._context.notice(kind, peer, detail)

    def __repr__(self) -> str:
        count, state = len(self._context.links), ", closing" if self._context.closing else ""
        return f"<{type(self).__name__} {self.instance_id}, {count} connections{state}>"

    def use(self, kind: PatternKind[P]) -> P:
        """This pattern of the node; its first call makes it. A pattern that the store has something of (`is_stored`)
        must be used from the opening on: give it in `patterns`."""
        known = self._patterns.get(kind)
        if known is None:
            known = self._patterns[kind] = kind(self, self._services)
            self._hooks.add(known)
            self._context.verdicts.clear()
        return cast(P, known)

    def used(self, kind: PatternKind[P]) -> P | None:
        """The same where it is in use already."""
        return cast("P | None", self._patterns.get(kind))

    def close(self, now: float | None = None) -> None:
        """End every connection in order and dial no more. The node is `idle` when all of it is done and stored."""
        self._context.tick(now)
        self._context.begin_to_close()
        for pattern in self._hooks.closing:
            pattern.closing()
        self._settling.end_waiting([*self._settling.again])
        for remote in self._links.dialer.remotes():
            self._remotes.disconnect(remote)
        for link in list(self._context.links.values()):
            self._links.end(link)
        self._commits.remove_now()

    @property
    def idle(self) -> bool:
        """Nothing connected, nothing being stored, nothing to do."""
        busy = (
            self._context.links
            or self._commits.running
            or self._actions
            or self._sender.blocked
            or self._commits.room_searches.busy
            or self._commits.searches.busy
        )
        return not (busy or any(pattern.busy() for pattern in self._hooks.busy)) and self._commits.batch.empty

    @property
    def gathers(self) -> bool:
        """True if a commit runs and there is nothing else to do: `next_action` gives nothing before that is reported,
        and what is asked for until then goes into one commit."""
        return self._commits.running is not None and not (
            self._actions
            or self._context.readable
            or self._context.sendable
            or self._context.writable
            or self._context.turns
            or self._context.moved
        )

    def next_action(self) -> Action | None:
        """One thing to do, or None: then nothing is to be done before the next input."""
        context, actions, commits = self._context, self._actions, self._commits
        while True:
            context.run = None
            if actions:
                return actions.popleft()
            for ready, step in self._steps:
                if ready:
                    first = next(iter(ready))
                    del ready[first]
                    step(first)
                    break
            else:
                batch = commits.batch
                if commits.running is None and (
                    batch.urgent or commits.removals_due or (commits.apart and self._sender.waits_alone)
                ):
                    self._begin_commit()
                elif not (self._flushes.waiting and self._flushes.end_flushes()):
                    return None

    def _tell_moved(self, _peer: Peer) -> None:
        self._context.moved.clear()
        if self._context.tells_events:
            self._actions.append(PeersMoved())

    @property
    def timeout_reason(self) -> str | None:
        """Purpose of the next timeout, to read while debugging."""
        first = self.timers.earliest()
        if first is None:
            return None
        return f"connection {first[1]}" if isinstance(first[1], int) else repr(first[1])

    def handle_timeout(self, now: float | None = None) -> None:
        """Do what is due. At another time it does nothing."""
        self._context.tick(now)
        while (key := self.timers.pop_due(self._context.now)) is not None:
            if isinstance(key, int):
                self._links.on_link_timeout(self._context.links[key])
                continue
            name, subject = key if isinstance(key, tuple) else (key, None)
            self._context.due[name](subject)

    def stats(self) -> NodeStats:
        """Counters since the start, and sizes now."""
        return NodeStats.of(
            self._counts,
            connections=len(self._context.links),
            peers=sum(not peer.is_owner for peer in self._peers.values()),
            peers_up=len({link.peer for link in self._context.up.values()}),
            pending=sum(peer.outbox.pending for peer in self._peers.values()),
            pending_bytes=sum(peer.outbox.pending_bytes for peer in self._peers.values()),
            parked=sum(peer.outbox.parked for peer in self._peers.values()),
            dead_letters=len(self._letters.numbers),
            own_subscriptions=len(self._own.entries),
            peer_subscriptions=len(self._routing.routes),
            stuck_handlers=len(self._credit.stuck),
            held_subscriptions=sum(len(peer.lists.held) for peer in self._peers.values()),
            **{name: size for pattern in self._hooks.stats for name, size in pattern.stats().items()},
        )

    def peers(self) -> list[PeerInfo]:
        """Every peer that is known, connected or not."""
        return [_info(peer) for peer in self._peers.values() if not peer.is_owner]

    def numbers(self, now: float | None = None) -> list[PeerNumbers]:
        """The same with each one's counters and ages."""
        self._context.tick(now)
        return [self._numbers_of(peer) for peer in self._peers.values() if not peer.is_owner]

    def _numbers_of(self, peer: Peer) -> PeerNumbers:
        window, inbox = peer.window, peer.inbox
        backoff = 0 if window is None else window.in_backoff
        return PeerNumbers(
            _info(peer),
            0 if window is None else window.in_window[0] + backoff,
            backoff,
            self._age_of_oldest(peer),
            peer.outbox.round_trip,
            self._room.quota.used(peer.outbox),
            peer.outbox.full,
            {**peer.counts.as_dict(), "delivered": inbox.delivered, "dead_letters": inbox.letters},
        )

    def _age_of_oldest(self, peer: Peer) -> float | None:
        """Seconds since it was stored. Messages that are held count from when they may be sent (T-61)."""
        outbox, window = peer.outbox, peer.window
        if not outbox.pending:
            return None
        seq = outbox.waits_from if window is None else max(outbox.waits_from, window.oldest_seq())
        stored_at = self._ledger.stored_times.of(seq)
        return None if stored_at is None else max(0.0, self._context.now - stored_at)

    def identity_of(self, peer: UUID) -> PeerIdentity:
        """Address and certificate of a peer, as it was connected last; empty where it never was."""
        known = self._peers.get(peer)
        return known.links.identity if known is not None else PeerIdentity()

    def __reduce__(self) -> NoReturn:
        """A copy would hand out the ids of its original, and both would answer for one UUID (D-16, T-40, T-79)."""
        raise TypeError(
            f"the node of {self.instance_id} cannot be pickled or copied: the copy would give other messages the same "
            "ids. Load another one from the store when this one is closed (D-16)"
        )

    def found(
        self, search_id: int, rows: Sequence[Found], error: TolliverError | None = None, now: float | None = None
    ) -> None:
        """Take the result of a Find."""
        self._commits.found(search_id, rows, error, now)

    def subscribed(self, channel: str, key: str, is_connected: bool = False) -> int:
        """Peers that a reliable message with these names would go to now, as `require_recipients` counts them; where
        `is_connected` those of them alone that are."""
        return self._routing.subscribed(channel, key, is_connected)

    def unwatch(self, receipt: Receipt) -> None:
        """Nobody waits for it any more."""
        self._ledger.unwatch(receipt)

    def watch(self, receipt: Receipt) -> bool:
        """`Acked` will name this receipt when every recipient has acknowledged all of it, or some of it is given up.

        Where some of it had no recipients, that is the answer when all else is acknowledged. Returns True where the
        answer comes at once.
        """
        return self._ledger.watch(receipt)

    def retry(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Send what was set aside for this peer once more (T-09). `receipt.counts` has how many, once `Stored`."""
        return self._ledger.retry(uuid, now)

    def drop_parked(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Give up what was set aside for this peer. `receipt.counts` has how many, once `Stored`."""
        return self._ledger.drop_parked(uuid, now)

    def send(
        self,
        channel: str,
        key: str,
        body: bytes,
        now: float | None = None,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Receipt:
        """Store a message for every peer that subscribes to it. As `send_many` with one item."""
        return self._sender.send(
            channel, key, body, now, require_recipients=require_recipients, to=to, expire_after=expire_after
        )

    def send_many(
        self,
        items: Iterable[Item],
        now: float | None = None,
        *,
        require_recipients: int = 0,
        to: To = None,
        expire_after: float | None = None,
    ) -> Receipt:
        """Store messages, all or none, for every peer that subscribes to each. `Stored` names the receipt.

        `to` narrows them to one peer, or to some (P-25): those of them that do not subscribe get nothing.
        `expire_after` seconds after they were stored those that are not acknowledged are given up, after a restart too
        (P-27).

        Raises, before anything changes, TypeError, ValueError, ReservedChannel (T-27), LocalProtocolError (of a peer in
        `to` that acknowledges nothing too), OwnLimitExceeded (T-06, T-07), OutboxFull (D-10), and TooFewRecipients
        where one of them is for fewer peers than are required. While a connecting peer's share of kept messages is full
        (T-62), or the disk (D-13), or deliveries are looked for that are to make room (D-10), the send waits inside.
        """
        return self._sender.send_many(
            items, now, require_recipients=require_recipients, to=to, expire_after=expire_after
        )

    def unreliable_send(self, channel: str, key: str, body: bytes, now: float | None = None, *, to: To = None) -> int:
        """Send to connected subscribers, unstored; returns how many. Dropped where the buffer is full (T-55).

        `to` narrows them as with `send_many`.
        """
        return self._sender.unreliable_send(channel, key, body, now, to=to)

    def fetched(self, peer: UUID, rows: Sequence[Row], now: float | None = None) -> None:
        """Take the result of a Fetch, in order."""
        self._transmission.fetched(peer, rows, now)

    def fetch_failed(self, peer: UUID, error: TolliverError, now: float | None = None) -> None:
        """The Fetch brought nothing; it is tried again in a second."""
        self._transmission.fetch_failed(peer, error, now)

    @property
    def round_trips(self) -> Histogram:
        """Seconds from when the socket took a message to its acknowledgement: of one at a time for each connection."""
        return self._transmission.round_trips

    def flush(self, now: float | None = None) -> Receipt:
        """`Stored` names the receipt when what was sent until now, unreliable messages too, is given to the sockets of
        the peers that are connected. One that is gone by then is not waited for."""
        return self._flushes.flush(now)

    def unflushed(self, receipt: Receipt) -> list[UUID]:
        """Peers that this flush waits for still."""
        return self._flushes.unflushed(receipt)

    def subscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """Want this from every peer, now and after a restart; "" is a wildcard (T-24). `Stored` names the receipt.

        Raises ReservedChannel (T-27), OwnLimitExceeded where no peer would take so long a list (T-19), or
        LocalProtocolError where this instance is a derived identity, which only writes (T-72a).
        """
        return self._own.subscribe(channel, key, now)

    def unsubscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """No longer. Removes exactly this entry (T-26); one that is not there is no error."""
        receipt = self._own.unsubscribe(channel, key, now)
        self._delivering.unsubscribed(channel, key)
        return receipt

    def subscriptions(self) -> list[Subscription]:
        """Our own, as the next handshake will list them."""
        return self._own.subscriptions()

    def begin(self, handler: Handler, deliveries: Iterable[Delivery], now: float | None = None) -> bool:
        """This handler is at these from now on: it was called, or an iterator has handed them out (D-9, T-48).

        A handler of which this is never said is never stuck. Returns True where `next_timeout` may be another one now.
        """
        return self._credit.begin(handler, deliveries, now)

    def end(self, handler: Handler, deliveries: Iterable[Delivery], now: float | None = None) -> bool:
        """It is at these no more, whether or not they are settled. Those that were not begun are passed over.

        Returns True where `next_timeout` may be another one now.
        """
        return self._credit.end(handler, deliveries, now)

    def hand_out_once(self, handler: Handler) -> None:
        """This handler gets no copy of what it has, also where `handling_timeout` is 0; until it is unregistered."""
        self._delivering.hand_out_once(handler)

    def register(self, channel: str, key: str, handler: Handler, pending: int | None = None) -> None:
        """Deliver what matches to this handler; "" is a wildcard. Does not subscribe (T-57). Raises ReservedChannel.

        `pending` is how many messages it may have at once that are not settled; the credit of each sender is the bound
        in any case (D-9, P-24). Raises ValueError.
        """
        self._delivering.register(channel, key, handler, pending)

    def unregister(self, channel: str, key: str, handler: Handler) -> None:
        """No longer. Messages that it was given already must still be settled."""
        self._delivering.unregister(channel, key, handler)

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int], now: float | None = None) -> Receipt:
        """Give up these dead letters, named by themselves or by their numbers. `receipt.counts` has how many were
        there, once `Stored`."""
        return self._letters.drop_dead_letters(letters, now)

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        """Give dead letters to the handlers that match now; returns how many. One that is handled well is removed."""
        return self._letters.replay(letters)

    def acknowledge(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """All matching handlers succeeded (T-45). A message that is settled is passed over; where its connection is
        gone, the copies that came on others are acknowledged (T-49)."""
        self._settling.acknowledge(deliveries, now)

    def fail(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """A handler failed: no ack, so the peer sends it again (T-45); after too many times it is a dead letter."""
        self._settling.fail(deliveries, now)

    def let_go(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """No handler has begun them, and none will: they come again, and that is no attempt (D-9)."""
        self._settling.let_go(deliveries, now)

    def handle_again(self, deliveries: Iterable[Delivery], seconds: float, now: float | None = None) -> None:
        """A handler failed, and all that match are to have the message again after so many seconds (P-22).

        Each try counts (T-47). It is as `fail` where this was the last one, and where the connection is gone.
        """
        self._settling.handle_again(deliveries, seconds, now)

    def give_up(self, deliveries: Iterable[Delivery], reason: str, now: float | None = None) -> None:
        """Trying again is no use: each is a dead letter, and acknowledged when that is stored (T-47, P-23).

        An unreliable one is gone. Where the disk has no room for letters it is as `fail`.
        """
        self._settling.give_up(deliveries, reason, now)

    def opened(self, cid: int, role: Role, identity: PeerIdentity | None = None, now: float | None = None) -> None:
        """The transport stands and has proved who is there."""
        self._links.opened(cid, role, identity, now)

    @property
    def closing(self) -> bool:
        """True from `close` on."""
        return self._context.closing

    def new_cid(self, now: float | None = None, address: str = "") -> int | None:
        """A cid for a connection that was accepted. From here its time for TLS runs (T-68).

        `address` is the peer's host, without a port. None: close the connection at once. Everything is being closed,
        or too many handshakes are in progress, of all or of that address (D-7), and none of that address is silent.
        """
        return self._links.new_cid(now, address)

    def receive_data(self, cid: int, data: bytes, now: float | None = None) -> None:
        """Bytes that came in."""
        self._links.receive_data(cid, data, now)

    def receive_eof(self, cid: int, now: float | None = None) -> None:
        """The peer ended its half in order."""
        self._links.receive_eof(cid, now)

    def sent(self, cid: int, now: float | None = None) -> None:
        """The socket has taken the Transmit that was outstanding."""
        self._links.sent(cid, now)

    def lost(self, cid: int, error: TolliverError | None = None, now: float | None = None) -> None:
        """The transport is gone. Bytes received before are still handed out."""
        self._links.lost(cid, error, now)

    def next_timeout(self) -> float | None:
        """Time to call `handle_timeout`, or None."""
        return self._links.next_timeout()

    def dial_failed(self, cid: int, error: TolliverError, now: float | None = None) -> None:
        """The Dial came to nothing: DialEnded says that it is not made again, DialFailed why (T-73)."""
        self._links.dial_failed(cid, error, now)

    def forget_peer(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Purge what waits for it, its subscriptions and its pin (T-77). `Stored` names the receipt.

        Its connection is closed, and it may come back, as a new one, when all is purged. A message owed to nobody else
        leaves the store; dead letters that came from it stay. An unknown peer is no error.
        """
        return self._handshakes.forget_peer(uuid, now)

    def repin(self, uuid: UUID, spki_sha256: bytes | None = None, now: float | None = None) -> Receipt:
        """The peer has a new key: this one, or, if None, the one that it shows next (D-3). `Stored` names the receipt.

        A connection that stands on another key than this one is closed. Of a peer that is being forgotten it becomes
        the pin once that is done, or the pin would be forgotten too (T-77).
        """
        return self._handshakes.repin(uuid, spki_sha256, now)

    def revision_to(self, remote: Remote) -> Revision:
        """The wire layout that a dial to this remote speaks (C6)."""
        return self._remotes.revision_to(remote)

    def connect(
        self,
        remote: Remote,
        now: float | None = None,
        *,
        dialect: Dialect = AS_EVERYBODY,
        keep_trying: bool = True,
    ) -> None:
        """Keep a connection to this remote, now and after every loss (T-76), until `disconnect`.

        `dialect` is how its peer speaks, over `Policy.dialects` and `Policy.dialect` (C6). Without `keep_trying` the
        dialling of a remote that was never up ends with a refusal, by either side, of a certificate, a version, an
        identity or by access rules, and with an answer that is no handshake of this protocol, or contradicts itself.
        Else it is dialled on, after a refusal every 1 to 5 minutes, and DialFailed tells (T-73). A remote that was
        refused and is asked for again is dialled at once. Raises ValueError and OwnLimitExceeded for a revision that
        cannot carry what there is. PeerUp with this remote tells when it stands, DialEnded when it never will (T-73).
        """
        self._remotes.connect(remote, now, dialect=dialect, keep_trying=keep_trying)

    def peer_at(self, remote: Remote) -> UUID | None:
        """Peer that this remote led to last, if it is connected, over whichever connection."""
        return self._remotes.peer_at(remote)

    def disconnect(self, remote: Remote, now: float | None = None, block: bool = False) -> None:
        """Stop dialling and close the connection to its peer; what waits for that peer stays (T-77).

        With `block` the peer that this remote last led to may not connect to us either, until `connect(remote)` or a
        restart: it is remembered in memory. If the remote is not dialled now, or never led to anybody, nobody is
        blocked; to keep a peer out by its UUID there is `set_acl`.
        """
        self._remotes.disconnect(remote, now, block)

    def set_acl(self, acl: Acl, now: float | None = None) -> None:
        """Other access rules, from now on (D-4, D-5, D-8).

        Messages that a peer may no longer have are not routed to it any more; what waits for it already stays, until
        `forget_peer`. Its stored subscriptions stay too, and count again if later rules allow them. Connections of
        peers whose rights are other ones are closed: their next handshake brings their whole lists. Remotes that were
        refused are dialled at once (T-73).
        """
        self._remotes.set_acl(acl, now)

    def dial_refused(self, now: float | None = None) -> None:
        """Dial the remotes that were refused at once: our certificate, say, is another one now (T-73)."""
        self._remotes.dial_refused(now)

    def watch_certificate(
        self, seconds_left: float, what: str, now: float | None = None, peer: UUID | None = None
    ) -> None:
        """A certificate is valid for so many seconds: it is told when that are 30 days, and each day from then on.

        It is our own, and `what` its file; or `what` is the name in that of a connected `peer`, told for as long as
        that is connected. A derived identity's is that of many, and not told.
        """
        self._remotes.watch_certificate(seconds_left, what, now, peer)

    def remotes(self, now: float | None = None) -> list[RemoteInfo]:
        """Every remote that is dialled, or was until trying again was no use (T-73), and why it is not connected."""
        return self._remotes.remotes(now)


class PatternKind(Protocol[P_co]):
    """A class of patterns: how one is made for a node, and whether the store has something of it."""

    def __call__(self, node: Node, services: Services) -> P_co: ...

    def is_stored(self, services: Services) -> bool: ...


def _take_turn(pattern: Pattern) -> None:
    pattern.turn()


def _info(peer: Peer) -> PeerInfo:
    return PeerInfo(
        peer.uuid,
        peer.link is not None,
        peer.link.identity.address if peer.link else "",
        tuple(sorted(peer.outbox.routed & peer.lists.subscriptions)),
        peer.outbox.pending,
        peer.outbox.pending_bytes,
        peer.outbox.parked,
        peer.outbox.parked_bytes,
        tuple(sorted(peer.lists.held)),
    )
