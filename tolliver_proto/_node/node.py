"""Node: many connections, one durable outbox, without I/O.

The node is told what happened (bytes, ends of connections, commits, time, calls of the application) and returns, one
action at a time, what to do about it. It has no clock, no thread and no disk. A change that must be on disk before it
is true waits in the running batch (`batch`); a message for a peer waits in its window (`outbox`); all other work is
done when `next_action` comes to it: first received data, then messages to send, last the commit, so that one commit and
one Transmit carry everything of a turn.

Promises, held by tests and by the simulator:
I1  `Stored` and the first Transmit of a reliable message come only after the commit of its row.
I2  An Ack for a delivered message goes out only after `acknowledge()`; the node itself acknowledges control, ignored
    and unwanted messages.
I3  A delivery leaves the outbox only by a commit caused by that peer's ack of that id, or by `forget_peer`, by
    `drop_parked`, by the end of a hold, or by the policy: an expiry, the oldest at the quota, or a peer that is away
    for too long.
I4  After a crash at any instant and a restart from the committed store, every delivery that is not
    acknowledged, parked or held is sent again.
I5  `next_action()` with nothing to do is O(1): ready sets and a heap, never a walk over the peers.
I6  Routing a message costs four dictionary look-ups and its recipients, however many subscriptions exist.

Composition: `parts` makes the parts, each given those below it. The methods here pass a call to its part; the node
itself decides only across parts: the order of a turn, and the effects of a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar, cast
from uuid import UUID

from .._common.derived_ids import is_derived
from .._common.errors import TolliverError
from .._common.histogram import Histogram
from .._common.owner_ids import is_keeper
from .._common.timers import Timers
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
from .actions import Action, Delivery, Handler, NoticeKind, PeersMoved, Receipt
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
from .store import DeadLetter, Found, Loaded, Row

P_co = TypeVar("P_co", bound=Pattern, covariant=True)
P = TypeVar("P", bound=Pattern)
T = TypeVar("T")


def _speaks_no_other(_version: int) -> bool:
    return False


class Node:
    """One instance: durable outbox, subscriptions, peers, and the connections to them.

    Every input takes `now`, monotonic seconds; None means the last value, and time never runs backwards. After any
    input, take `next_action()` until None; call `handle_timeout()` at `next_timeout()`. Calls with an unknown cid are
    ignored, as the connection may have ended before the adapter knew.
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
        retry_interval: float = 10.0,
        policy: Policy | None = None,
        dialect: Dialect = AS_EVERYBODY,
        dialects: Mapping[UUID, Dialect] | None = None,
        acl: Acl | None = None,
        tell_events: bool = False,
        patterns: Iterable[PatternKind[Pattern]] = (),
        now: float | None = None,
    ) -> None:
        """`loaded` is the result of `Store.load`, `retry_interval` the seconds before the first resend (T-50), `acl`
        the access rules: by default every member of the CA may do everything (D-4). `dialect` is how all peers speak,
        without a revision and a version, and `dialects` has those of single peers, by UUID, over it (C6).

        `subscriptions` are added to the stored ones; messages that match none are dropped from the start (T-46). With
        `tell_events` the actions include SubscriptionsChanged, PeersMoved, DialFailed and CertificateExpires. Those of
        the `patterns` that have data in the store are used from the start, the others from their first call (`use`).
        Raises as `subscribe` does.
        """
        limits, loaded, policy = limits or Limits(), loaded or Loaded(), policy or Policy()
        self.instance_id: UUID = instance_id
        self.limits: Limits = limits
        self.retry_interval: float = retry_interval
        self.version: int = version
        self.revision: Revision = revision
        context = self._context = Context(
            instance_id,
            rng,
            limits,
            version,
            revision,
            retry_interval,
            policy,
            dialect,
            dialects or {},
            acl or Acl(),
            tell_events,
            now,
        )
        self.timers: Timers = context.timers
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
        self._room, self._expiry, self._sender, self._flushes = parts.room, parts.expiry, parts.sender, parts.flushes
        self._transmission, self._own, self._peer_lists = parts.transmission, parts.own, parts.peer_lists
        self._credit, self._delivering, self._letters = parts.credit, parts.delivering, parts.letters
        self._settling = parts.settling
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
        # The order of effects of a commit, by what its batch has, and of one that failed.
        parts.commits.lead_to(
            done=(
                ("runs", parts.transmission.on_stored),
                ("linked", parts.connect_wait.on_linked),
                ("handled", parts.settling.learn),
                ("peer_lists", parts.peer_lists.on_stored),
                ("lists", parts.peer_lists.on_lists_stored),
            ),
            undone=(parts.peer_lists.restore_lists, parts.connect_wait.take_back, parts.sender.take_back),
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
        """Makes the peers that the store knows, with their lists in the routes."""
        context, dedupe = self._context, self._delivering.dedupe
        for uuid in (*loaded.peers, *dedupe.peers()):
            dedupe.use(uuid, context.now)
        for uuid, known in loaded.peers.items():
            if is_derived(uuid):
                continue  # stored for its handled messages and dead letters only
            context.peers[uuid] = peer = Peer(uuid, known)
            self._peer_lists.load(peer, known)
            self._routing.load(peer)

    def _begin_commit(self) -> None:
        if self._commits.apart and self._sender.waits_alone:
            self._sender.store_blocked()
        for call in self._commits.batch.at_begin:
            call()
        batch = self._commits.take()
        if batch.empty:
            return
        if self._ledger.ids.needs_reserve:
            batch.operations.append(self._ledger.ids.reserve())
            batch.undo["reserve"] = self._ledger.ids.forget_reserve
        self._commits.begin(batch)

    def committed(self, batch_id: int, now: float | None = None) -> None:
        """Reports that the action Commit with this id is durable."""
        self._commits.committed(batch_id, now)
        if self._sender.blocked or self._hooks.room_is_back:
            self._sender.unblock()

    def store_failed(self, batch_id: int, error: TolliverError, now: float | None = None) -> None:
        """Reports that the Commit with this id was not applied because of `error`: all of it is undone, and removals
        are tried again later.

        If the disk was too full for messages, everything else goes in commits without messages until there is room
        again: acknowledged messages are removed at once, and connecting peers are not refused (D-13).
        """
        if self._commits.failed(batch_id, error, now):
            self._sender.fail_blocked(error)
        self._sender.unblock()

    def notice(self, kind: NoticeKind, detail: str, peer: UUID | None = None, now: float | None = None) -> None:
        """Reports an event of this kind, of a store or an adapter, to the operator: counted, and handed out as a
        Notice.
        """
        self._context.tick(now)
        self._context.notice(kind, peer, detail)

    def __repr__(self) -> str:
        count, state = len(self._context.links), ", closing" if self._context.closing else ""
        return f"<{type(self).__name__} {self.instance_id}, {count} connections{state}>"

    def use(self, kind: PatternKind[P]) -> P:
        """The node's pattern of this kind; the first call makes it. A pattern with data in the store (`is_stored`) must
        be used from the opening on: give it in `patterns`."""
        known = self._patterns.get(kind)
        if known is None:
            known = self._patterns[kind] = kind(self, self._services)
            self._hooks.add(known)
            self._context.judgements.clear()
        return cast(P, known)

    def used(self, kind: PatternKind[P]) -> P | None:
        """The node's pattern of this kind, None if it is not in use."""
        return cast("P | None", self._patterns.get(kind))

    def close(self, now: float | None = None) -> None:
        """Ends every connection in order and dials no more. The node is `idle` when everything is done and stored."""
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
        """True if nothing is connected, being stored, or to be done."""
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
    def committing(self) -> Sequence[Receipt] | None:
        """The receipts that the running commit answers; None if no commit runs."""
        return None if self._commits.running is None else self._commits.running[1].tokens

    @property
    def uncommitted(self) -> bool:
        """True if changes wait for the next commit."""
        return not self._commits.batch.empty

    @property
    def gathers(self) -> bool:
        """True if a commit runs and there is nothing else to do: `next_action` returns None until the commit is
        reported, and calls until then go into one commit."""
        return self._commits.running is not None and not (
            self._actions
            or self._context.readable
            or self._context.sendable
            or self._context.writable
            or self._context.turns
            or self._context.moved
        )

    def next_action(self) -> Action | None:
        """The next thing to do; None if there is nothing to do before the next input."""
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
        """Returns the purpose of the next timeout, for debugging."""
        first = self.timers.earliest()
        if first is None:
            return None
        return f"connection {first[1]}" if isinstance(first[1], int) else repr(first[1])

    def handle_timeout(self, now: float | None = None) -> None:
        """Does everything that is due; does nothing at another time."""
        self._context.tick(now)
        while (key := self.timers.pop_due(self._context.now)) is not None:
            if isinstance(key, int):
                self._links.on_link_timeout(self._context.links[key])
                continue
            name, subject = key if isinstance(key, tuple) else (key, None)
            self._context.due[name](subject)

    def stats(self) -> NodeStats:
        """Counters since the start, and current sizes."""
        waiting = [peer.outbox for peer in self._peers.values() if not is_keeper(peer.uuid)]
        return NodeStats.of(
            self._counts,
            connections=len(self._context.links),
            peers=sum(not peer.is_owner for peer in self._peers.values()),
            peers_up=len({link.peer for link in self._context.up.values()}),
            pending=sum(outbox.pending for outbox in waiting),
            pending_bytes=sum(outbox.pending_bytes for outbox in waiting),
            parked=sum(peer.outbox.parked for peer in self._peers.values()),
            dead_letters=len(self._letters.numbers),
            own_subscriptions=len(self._own.entries),
            peer_subscriptions=len(self._routing.routes),
            stuck_handlers=len(self._credit.stuck),
            held_subscriptions=sum(len(peer.lists.held) for peer in self._peers.values()),
            **{name: size for pattern in self._hooks.stats for name, size in pattern.stats().items()},
        )

    def peers(self) -> list[PeerInfo]:
        """Every known peer, connected or not."""
        return [_info(peer) for peer in self._peers.values() if not peer.is_owner]

    def numbers(self, now: float | None = None) -> list[PeerNumbers]:
        """Every known peer with its counters and ages."""
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
        """Seconds since the peer's oldest message was stored, None without one. Held messages count from when they may
        be sent (T-61).
        """
        outbox, window = peer.outbox, peer.window
        if not outbox.pending:
            return None
        seq = outbox.waits_from if window is None else max(outbox.waits_from, window.oldest_seq())
        stored_at = self._ledger.stored_times.of(seq)
        return None if stored_at is None else max(0.0, self._context.now - stored_at)

    def identity_of(self, peer: UUID) -> PeerIdentity:
        """Address and certificate of a peer's last connection; empty if it was never connected."""
        known = self._peers.get(peer)
        return known.links.identity if known is not None else PeerIdentity()

    def __reduce__(self) -> NoReturn:
        """Raises TypeError: a copy would hand out the ids of its original, and both would use one UUID (D-16, T-40,
        T-79)."""
        raise TypeError(
            f"the node of {self.instance_id} cannot be pickled or copied: the copy would give other messages the same "
            "ids. Load another one from the store when this one is closed (D-16)"
        )

    def found(
        self, search_id: int, rows: Sequence[Found], error: TolliverError | None = None, now: float | None = None
    ) -> None:
        """Takes the result of the action Find with this id: its rows, or the error of the store."""
        self._commits.found(search_id, rows, error, now)

    def subscribed(self, channel: str, key: str, is_connected: bool = False) -> int:
        """Number of peers that a reliable message with these names goes to now, as `require_recipients` counts them;
        with `is_connected` only the connected ones. Raises ReservedChannel, OwnLimitExceeded, LocalProtocolError."""
        self._sizes.checked(channel, key)
        return self._routing.subscribed(channel, key, is_connected)

    def unwatch(self, receipt: Receipt) -> None:
        """Ends `watch` for this receipt: no Acked names it any more."""
        self._ledger.unwatch(receipt)

    def watch(self, receipt: Receipt) -> bool:
        """Has `Acked` name this receipt once every recipient has acknowledged all messages, or some message is given
        up.

        If some messages had no recipients, Acked reports that once all others are acknowledged. Returns True if the
        result is there at once.
        """
        return self._ledger.watch(receipt)

    def retry(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Sends the messages that were set aside for this peer again (T-09). `receipt.counts` has their number, once
        `Stored`."""
        return self._ledger.retry(uuid, now)

    def drop_parked(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Gives up the messages that were set aside for this peer. `receipt.counts` has their number, once `Stored`."""
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
        """Stores a message for every peer that subscribes to it. The arguments are those of `send_many`, which gets one
        item.
        """
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
        """Stores messages, all or none, for every peer that subscribes to each. `Stored` names the receipt.

        `to` narrows the recipients to one peer or several (P-25): those that do not subscribe get nothing. Messages
        that are not acknowledged within `expire_after` seconds of their commit are given up, after a restart too
        (P-27).

        Raises, before anything changes, TypeError, ValueError, ReservedChannel (T-27), LocalProtocolError (also for a
        peer in `to` that sends no acks), OwnLimitExceeded (T-06, T-07), OutboxFull (D-10), and TooFewRecipients if a
        message has fewer recipients than required. The send waits inside while the messages kept for a connecting peer
        are at their limit (T-62), while the disk is full (D-13), or while the node searches for deliveries to drop for
        room (D-10).
        """
        return self._sender.send_many(
            items, now, require_recipients=require_recipients, to=to, expire_after=expire_after
        )

    def unreliable_send(self, channel: str, key: str, body: bytes, now: float | None = None, *, to: To = None) -> int:
        """Sends to connected subscribers without storing; returns how many. Drops the message where the buffer is full
        (T-55).

        `to` narrows the recipients as in `send_many`.
        """
        return self._sender.unreliable_send(channel, key, body, now, to=to)

    def fetched(self, peer: UUID, rows: Sequence[Row], now: float | None = None) -> None:
        """Takes the rows that the action Fetch for this peer has read; in the order of the fetches."""
        self._transmission.fetched(peer, rows, now)

    def fetch_failed(self, peer: UUID, error: TolliverError, now: float | None = None) -> None:
        """Reports that the action Fetch for this peer failed with `error`; the node repeats it after a second."""
        self._transmission.fetch_failed(peer, error, now)

    @property
    def round_trips(self) -> Histogram:
        """Histogram of the seconds from the socket's taking a message to its ack, one message at a time per
        connection."""
        return self._transmission.round_trips

    def flush(self, now: float | None = None) -> Receipt:
        """Begins a flush. `Stored` names the receipt when the sockets of the connected peers have taken all messages
        sent so far, unreliable ones too. A connection that ends meanwhile is not waited for.

        Raises ConnectionClosing if the instance is closing.
        """
        return self._flushes.flush(now)

    def unflushed(self, receipt: Receipt) -> list[UUID]:
        """Returns the peers that this flush still waits for."""
        return self._flushes.unflushed(receipt)

    def subscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """Subscribes to all peers, across restarts; "" is a wildcard (T-24). `Stored` names the receipt.

        Raises ReservedChannel (T-27), OwnLimitExceeded if peers would refuse the longer list (T-19), or
        LocalProtocolError if this instance is a derived identity, which only writes (T-72a).
        """
        return self._own.subscribe(channel, key, now)

    def unsubscribe(self, channel: str, key: str, now: float | None = None) -> Receipt:
        """Ends exactly this subscription (T-26); a missing one is no error. `Stored` names the receipt."""
        receipt = self._own.unsubscribe(channel, key, now)
        self._delivering.unsubscribed(channel, key)
        return receipt

    def subscriptions(self) -> list[Subscription]:
        """Our subscriptions, as the next handshake lists them."""
        return self._own.subscriptions()

    def begin(self, handler: Handler, deliveries: Iterable[Delivery], now: float | None = None) -> bool:
        """Records that the handler works on these deliveries from now on: it was called, or an iterator yielded them
        (D-9, T-48).

        A handler without this call is never stuck. Returns True if `next_timeout` may have changed.
        """
        return self._credit.begin(handler, deliveries, now)

    def end(
        self, handler: Handler, deliveries: Iterable[Delivery], now: float | None = None, left: Delivery | None = None
    ) -> bool:
        """Records that the handler has finished with these deliveries, settled or not; skips those that were not begun.

        `left` is a delivery that waits for it now, as for `leave`. Returns True if `next_timeout` may have changed.
        """
        return self._credit.end(handler, deliveries, left, now)

    def leave(self, handler: Handler, delivery: Delivery, now: float | None = None) -> bool:
        """Records that this delivery waits for an iterator that has nothing in hand and takes nothing: it is stuck
        after as long as one that does not end (D-9). Returns True if `next_timeout` may have changed."""
        return self._credit.leave(handler, delivery, now)

    def take_up(self, handler: Handler, now: float | None = None) -> bool:
        """Records that the iterator takes what waits for it again, after `leave`; `begin` does so, too. Returns True if
        `next_timeout` may have changed."""
        return self._credit.take_up(handler, now)

    def hand_out_once(self, handler: Handler) -> None:
        """Gives this handler no copy of a message it holds, even where `handling_timeout` is 0; ends with
        `unregister`."""
        self._delivering.hand_out_once(handler)

    def register(self, channel: str, key: str, handler: Handler, pending: int | None = None) -> None:
        """Delivers matching messages to this handler; "" is a wildcard. Does not subscribe (T-57).

        `pending` bounds the handler's unsettled messages, over all senders; each sender's credit is a bound in any case
        (D-9, P-24). Raises ReservedChannel, TypeError, and ValueError for a `pending` below 1.
        """
        self._delivering.register(channel, key, handler, pending)

    def unregister(self, channel: str, key: str, handler: Handler) -> None:
        """Removes the handler. Messages that it holds must still be settled."""
        self._delivering.unregister(channel, key, handler)

    def drop_dead_letters(self, letters: Iterable[DeadLetter | int], now: float | None = None) -> Receipt:
        """Removes these dead letters, given as letters or by number. `receipt.counts` has the number of letters
        removed, once `Stored`."""
        return self._letters.drop_dead_letters(letters, now)

    def replay(self, letters: Iterable[DeadLetter]) -> int:
        """Delivers dead letters to the handlers that match now; returns how many. A letter that is handled is
        removed."""
        return self._letters.replay(letters)

    def acknowledge(self, deliveries: Iterable[Delivery], now: float | None = None, is_judged: bool = True) -> None:
        """Acknowledges messages that all matching handlers handled (T-45); skips settled ones. For a lost connection
        only the copies that came on other connections are acknowledged (T-49). With `is_judged=False`, on receipt:
        `judge` then says of each how its handler has ended."""
        self._settling.acknowledge(deliveries, now, is_judged)

    def judge(self, is_well: bool) -> None:
        """Counts a message that was acknowledged on receipt as handled or failed."""
        self._settling.judge(is_well)

    def fail(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """Records a failed try: no ack, so that the peer resends the message (T-45); the last allowed try makes a dead
        letter."""
        self._settling.fail(deliveries, now)

    def let_go(self, deliveries: Iterable[Delivery], now: float | None = None) -> None:
        """Returns messages that no handler has begun: their senders resend them, and no try is counted (D-9)."""
        self._settling.let_go(deliveries, now)

    def handle_again(self, deliveries: Iterable[Delivery], seconds: float, now: float | None = None) -> None:
        """Delivers failed messages to all matching handlers again after a pause of `seconds` (P-22).

        Each try counts (T-47). Acts like `fail` for the last allowed try and for a lost connection.
        """
        self._settling.handle_again(deliveries, seconds, now)

    def give_up(self, deliveries: Iterable[Delivery], reason: str, now: float | None = None) -> None:
        """Makes each message a dead letter, and acknowledges it once that is stored (T-47, P-23).

        Acts like `fail` for an unreliable message, and while the disk has no room for letters.
        """
        self._settling.give_up(deliveries, reason, now)

    def opened(self, cid: int, role: Role, identity: PeerIdentity | None = None, now: float | None = None) -> None:
        """Begins the handshake of the connection, whose transport stands; `identity` is what its certificate proves,
        None for a plain connection.
        """
        self._links.opened(cid, role, identity, now)

    @property
    def closing(self) -> bool:
        """True from the call of `close` on."""
        return self._context.closing

    def new_cid(self, now: float | None = None, address: str = "") -> int | None:
        """A cid for an accepted connection, whose time for TLS starts now (T-68).

        `address` is the peer's host, without a port. None: close the connection at once, because the node is closing,
        or too many handshakes are in progress, in all or from this address (D-7), and none from this address is silent.
        """
        return self._links.new_cid(now, address)

    def shaking(self, cid: int, greeted: bool, now: float | None = None) -> None:
        """Reports that TLS of an accepted connection waits for the peer; `greeted`: its first message, the ClientHello,
        is whole. Until then the connection has 2 s, after it the rest of the time for TLS (D-7). Needless without TLS.
        """
        self._links.shaking(cid, greeted, now)

    def receive_data(self, cid: int, data: bytes, now: float | None = None) -> None:
        """Takes bytes that the socket of the connection `cid` has read."""
        self._links.receive_data(cid, data, now)

    def receive_eof(self, cid: int, now: float | None = None) -> None:
        """Reports that the peer has closed its sending half of the connection in order."""
        self._links.receive_eof(cid, now)

    def sent(self, cid: int, now: float | None = None) -> None:
        """Reports that the socket has taken all bytes of the connection's outstanding Transmit."""
        self._links.sent(cid, now)

    def lost(self, cid: int, error: TolliverError | None = None, now: float | None = None) -> None:
        """Reports that the transport of the connection has ended: with `error`, or in order for None. Bytes received
        before are still handled.
        """
        self._links.lost(cid, error, now)

    def next_timeout(self) -> float | None:
        """Time to call `handle_timeout`, in the seconds of `now`; None if there is no timer."""
        return self._links.next_timeout()

    def dial_failed(self, cid: int, error: TolliverError, now: float | None = None) -> None:
        """Reports that the action Dial with this cid failed with `error`: DialEnded follows if it is not repeated,
        DialFailed says why (T-73).
        """
        self._links.dial_failed(cid, error, now)

    def forget_peer(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Purges the messages owed to the peer, its subscriptions and its pin (T-77). `Stored` names the receipt.

        The peer's connection is closed; the peer may return, as a new one, after the purge. A message owed to no other
        peer leaves the store; dead letters from the peer stay. An unknown peer is no error.
        """
        return self._handshakes.forget_peer(uuid, now)

    def repin(self, uuid: UUID, spki_sha256: bytes | None = None, now: float | None = None) -> Receipt:
        """Pins this key to the peer, or, if None, the key that it presents next (D-3). `Stored` names the receipt.

        A connection with another key is closed. For a peer that is being forgotten the pin is set after the purge,
        which would remove it otherwise (T-77).
        """
        return self._handshakes.repin(uuid, spki_sha256, now)

    def revision_to(self, remote: Remote) -> Revision:
        """The wire layout of dials to this remote (C6)."""
        return self._remotes.revision_to(remote)

    def connect(
        self,
        remote: Remote,
        now: float | None = None,
        *,
        dialect: Dialect = AS_EVERYBODY,
        keep_trying: bool = True,
    ) -> None:
        """Keeps a connection to this remote, after each loss too (T-76), until `disconnect`.

        `dialect` is its peer's dialect, over the node's `dialects` and `dialect` (C6). Without `keep_trying`,
        dialling a remote that was never up ends with a refusal by either side (certificate, version, identity, access
        rules), and with an answer that is no handshake of this protocol or contradicts itself. With it, dialling goes
        on, after a refusal every 1 to 5 minutes, and DialFailed reports (T-73). Connecting to a refused remote again
        dials at once.

        PeerUp with this remote reports the connection, DialEnded that there will be none (T-73). Raises
        ConnectionClosing on a closing node, ValueError for a revision that cannot carry names and bodies as large as
        our limits, and OwnLimitExceeded for one in which our subscription list is too long.
        """
        self._remotes.connect(remote, now, dialect=dialect, keep_trying=keep_trying)

    def peer_at(self, remote: Remote) -> UUID | None:
        """The connected peer that this remote led to last, over whichever connection; None if it is not connected."""
        return self._remotes.peer_at(remote)

    def disconnect(self, remote: Remote, now: float | None = None, block: bool = False) -> None:
        """Stops dialling and closes the connection to its peer; messages for that peer stay stored (T-77).

        With `block` the peer that this remote led to last may not connect to us either, until `connect(remote)` or a
        restart: the block is in memory only. Without a known peer there is no block; to keep a peer out by its UUID use
        `set_acl`.
        """
        self._remotes.disconnect(remote, now, block)

    def set_acl(self, acl: Acl, now: float | None = None) -> None:
        """Applies other access rules from now on (D-4, D-5, D-8).

        Messages that a peer may no longer have are not routed to it any more; messages stored for it stay, until
        `forget_peer`. Its stored subscriptions stay too, and count again if later rules allow them. Connections of
        peers whose rights change are closed: their next handshake brings their whole lists. Refused remotes are dialled
        at once (T-73).
        """
        self._remotes.set_acl(acl, now)

    def dial_refused(self, now: float | None = None) -> None:
        """Dials refused remotes at once, such as after a change of our certificate (T-73)."""
        self._remotes.dial_refused(now)

    def watch_certificate(
        self,
        seconds_left: float,
        what: str,
        now: float | None = None,
        peer: UUID | None = None,
        has_uuid: bool = True,
    ) -> None:
        """Reports a certificate that is valid for `seconds_left`: when 30 days are left, and each day from then on.

        Without `peer` the certificate is our own and `what` is its file; else it is that of a connected peer and `what`
        is its name, watched while the peer is connected. Those of derived identities are not watched, as many share
        one. The text asks for one with the same UUID where the certificate `has_uuid`.
        """
        self._remotes.watch_certificate(seconds_left, what, now, peer, has_uuid)

    def remotes(self, now: float | None = None) -> list[RemoteInfo]:
        """Every remote that is dialled, or was given up (T-73), and why it is not connected."""
        return self._remotes.remotes(now)


class PatternKind(Protocol[P_co]):
    """A class of patterns: makes one for a node, and tells whether the store has data of it."""

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
