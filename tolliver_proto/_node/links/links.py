"""Connections, from their transport to their end.

State: the table of connections by cid (`ConnectionTable`), the dials (`dialer`), probes and ages (`keepalive`),
admission (`gate`), and the effect of each kind of event (`on_event`, which `Node` fills, as handshakes are a part above
this one).

Invariants: `take_down` is the one place where a connection stops being its peer's live link, and the parts drop their
state of it in a fixed order (`_down`). It may run more than once for a link: at its end, when its peer is refused, and
when it is forgotten. A dial ends once per cid. One turn reads a bounded number of events of a connection, so that no
peer starves the others.

Reading never waits for writing (D-9): a peer that causes answers and does not read them is cut off at
`Limits.max_answers` bytes instead of being paused (D-12). Acks are collected and looked up in runs, because they come
in runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from ..._common.base_link import LinkSignal, LinkState
from ..._common.connection_table import HELLO_TIMEOUT, ConnectionTable
from ..._common.derived_ids import is_derived, prefix_of
from ..._common.dial_causes import DialCause
from ..._common.errors import (
    AccessDenied,
    CertificateError,
    ConnectionLost,
    LimitExceeded,
    RemoteProtocolError,
    SelfConnection,
    TolliverError,
)
from ..._common.handshake_limiter import ALL, HandshakeLimiter
from ..._common.transport import Abort, PeerIdentity, Remote, Role
from ..._wire.connection import Connection
from ..._wire.dialect import AS_EVERYBODY, Dialect
from ..._wire.events import Ack, Closed, Refusal, Subscription
from ..._wire.state import HANDSHAKING, State
from ..actions import Action, DialEnded, DialFailed, NoticeKind, PeerDown, PeerUp
from ..commits.commits import Commits
from ..context import Context
from ..inboxes.credit import Credit
from ..inboxes.settling import Settling
from ..link import Hold, Link, Peer, connection_of, peer_of
from ..lists.control_sync import ControlSync
from ..lists.own import OwnList
from ..lists.peers import PeerLists
from ..numbers import EndCause
from ..outboxes.connect_wait import ConnectWait
from ..outboxes.ledger import Ledger
from ..outboxes.routing import Routing
from ..outboxes.transmission import Transmission
from .admission import HandshakeGate
from .dialing import Dialer
from .duels import BRIEF, BRIEF_ENDS
from .keepalive import KeepAlive

_EVENTS_A_TURN = 256  # events of one connection before the next one has its turn


class Links(ConnectionTable[Link, Action]):
    """The table of connections, each peer's live link, and the dials of remotes."""

    _CLOSED = State.CLOSED
    write: ClassVar[Callable[[Links, Link], None]] = ConnectionTable._write

    def __init__(
        self,
        context: Context,
        commits: Commits,
        routing: Routing,
        ledger: Ledger,
        connect_wait: ConnectWait,
        transmission: Transmission,
        own: OwnList,
        peer_lists: PeerLists,
        credit: Credit,
        settling: Settling,
        speaks: Callable[[int], bool],
    ) -> None:
        self.limiter: HandshakeLimiter = HandshakeLimiter(
            context.limits.max_handshakes, context.limits.max_handshakes_per_address
        )
        make_link = partial(Link, control_per_second=context.limits.control_per_second)
        super().__init__(context, make_link, self.limiter, context.limits.handshake_timeout)
        # Effects of an event of a connection, by its kind.
        self.on_event: dict[type, Callable[[Link, Any], None]] = {}
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._peers = context.peers
        self._hooks = context.hooks
        self._commits = commits
        self._routing = routing
        self._ledger = ledger
        self._connect_wait = connect_wait
        self._transmission = transmission
        self._own = own
        self._peer_lists = peer_lists
        self._credit = credit
        self._settling = settling
        self._speaks = speaks
        self.gate: HandshakeGate = HandshakeGate(context)
        self.keepalive: KeepAlive = KeepAlive(
            context.policy, not is_derived(context.instance_id), context.rng.random, context.timers, context.counts
        )
        self.dialer: Dialer = Dialer(
            context.limits,
            context.rng.random,
            self._dial,
            self._redial_in,
            self._redial_due,
            self.is_live,
            context.counts,
        )
        # Parts drop their state of a link in this order when it stops being its peer's live link.
        self._down: tuple[Callable[[Link], None], ...] = (
            transmission.down,
            own.down,
            credit.down,
            settling.down,
        )
        context.due.update(
            {"probe": self._on_probe_timeout, "age": self._on_age_timeout, "redial": self._on_redial_timeout}
        )

    def _new_link(self, role: Role, remote: Remote | None) -> Link:
        link = super()._new_link(role, remote)
        link.began = self._context.now
        return link

    def _on_transmit(self, link: Link) -> None:
        link.answers = 0
        link.sent_at = self._context.now
        self._transmission.hand_over(link)
        self._counts["sent_bytes"] += link.in_transit
        if link.peer is not None:
            link.peer.counts.sent_bytes += link.in_transit

    def _pace(self, link: Link) -> None:
        """Pauses reading while the link waits and buffers more than a waiting connection should (D-9).

        Reading goes on only when the buffer is nearly empty, not as soon as the wait ends. Otherwise each small credit
        would let in more messages than it hands out.
        """
        full = bool(link.holding or _is_paced(link)) and _buffered(link) > self._limits.low_water
        if link.state is not LinkState.DRAINING:
            self._set_paused(link, full)

    def _on_acks(self, link: Link, wire_ids: Sequence[int], acked: dict[int, tuple[int, int]]) -> None:
        others = link.sending.window.take_acked(wire_ids, acked) if link.sending.window is not None else wire_ids
        for wire_id in others:
            self._on_other_ack(link, wire_id)

    def on_refusal(self, link: Link, frame: Refusal) -> None:
        """Handles a refused message: the peer received it and failed. It stays stored, blocks no other, and is resent
        later."""
        wire_id = frame.message_id
        is_message = link.sending.window is not None and link.sending.window.refused(wire_id)
        is_control = link.lists.control is not None and link.lists.control.frame(wire_id) is not None
        if not (is_message or is_control):
            self._on_other_ack(link, wire_id)
            return
        link.sending.exposure.acked(self._context.now)
        self._transmission.look_at_acks(link, link.sending.ack_watch.acked(self._context.now, waits=True))
        self._context.sendable[link] = None
        self._context.tally.add(
            NoticeKind.REFUSED_THERE,
            link.peer.uuid if link.peer else None,
            1,
            "messages were refused by this peer: they are kept, and sent again with growing pauses. Does its handler "
            "fail?",
            self._context.now,
        )

    def _on_other_ack(self, link: Link, wire_id: int) -> None:
        """Handles an ack of this wire id that belongs to no message of the outbox: it is of a control message, of a
        probe, or of nothing.
        """
        subscription = link.lists.control.acked(wire_id) if link.lists.control is not None else None
        if subscription is not None:
            assert link.lists.control is not None
            if link.lists.control.has_said(subscription) is False:
                self._own.unsubscribe_acked(subscription, link)
            self._own.sync_control(link, subscription)
        elif link.lists.control is not None and link.lists.control.answered(wire_id):
            self.keepalive.answered(link)
            self._on_alive(link)
        else:
            assert link.connection is not None
            if wire_id != link.connection.unreliable_id:
                self._counts["stray_acks"] += 1  # T-44

    def _on_alive(self, link: Link) -> None:
        """Records that the peer has answered a probe. If a newer connection of the same peer waits for that, it is
        decided now (T-70).
        """
        assert link.peer is not None
        duel = link.peer.links.duel
        if duel.waiting is not None and link.peer.link is link:
            duel.answered = True
            self._timers.set(("duel", link.peer.uuid), self._context.now)

    def _redial_in(self, remote: Remote, seconds: float) -> None:
        self._timers.set(("redial", remote), self._context.now + seconds)

    def _redial_due(self, remote: Remote) -> float | None:
        return self._timers.due(("redial", remote))

    def is_live(self, uuid: UUID) -> bool:
        peer = self._peers.get(uuid)
        return peer is not None and peer.link is not None and not peer.derived  # they may have several links (T-72a)

    def mute(self, control: ControlSync, peer: UUID) -> None:
        """Decides whether control messages go to the peer, and tells `control`; known once the link is up, as a
        remote's peer is unknown before.
        """
        control.mute = self.is_mute(peer)

    def is_mute(self, peer: UUID) -> bool:
        """True for a peer that gets no control messages (T-29), as its remotes say, whichever end dialled."""
        said = self.dialer.control_messages(peer)
        return (self.dialect(None, peer).control_messages if said is None else said) is False

    def dialect(self, remote: Remote | None, peer: UUID | None) -> Dialect:
        """Dialect of a connection: that of its remote, over that of its peer, over that of all peers (C6)."""
        said = AS_EVERYBODY if remote is None else self.dialer.dialect_of(remote)
        known = AS_EVERYBODY if peer is None else self._context.dialects.get(peer, AS_EVERYBODY)
        return said.over(known).over(self._context.dialect)

    def _dialect_on(self, remote: Remote | None, prefixes: Collection[str], claimed: UUID) -> Dialect:
        """Returns the dialect of a peer that has sent the UUID `claimed`; `prefixes` are the derive prefixes of its
        certificate. A derived identity has no UUIDv7: its certificate binds it (T-03).
        """
        dialect = self.dialect(remote, claimed)
        if is_derived(claimed) and prefix_of(claimed) in prefixes:
            return Dialect(strict_uuid7=False).over(dialect)
        return dialect

    def deny(self, link: Link, peer: UUID, denial: str) -> None:
        error = AccessDenied(f"{link.identity.address or 'the other end'} is {peer}, but {denial}")
        self._context.notice(NoticeKind.ACCESS_DENIED, peer, str(error))
        self.refuse(link, error)
        self._end_dial(link)  # now, so that a connect under other rules starts a new dial

    def _look_at_brief_end(self, link: Link, in_order: bool) -> None:
        """Reports a possible clone of this instance: the peer has ended several of our dials, each `in_order`, right
        after they were established.

        A peer that dialled us may just have had no more to send.
        """
        peer = peer_of(link)
        is_brief = in_order and link.role is Role.CLIENT and self._context.now - link.up_since < BRIEF
        peer.links.duel.brief_ends = peer.links.duel.brief_ends + 1 if is_brief else 0
        if peer.links.duel.brief_ends >= BRIEF_ENDS:
            self._context.tally.add(
                NoticeKind.DUPLICATE_IDENTITY,
                peer.uuid,
                peer.links.duel.brief_ends,
                f"connections running were ended by this peer right after they were made: is another instance with "
                f"our UUID {self._context.instance_id} connected to it, such as a copy of this machine? (T-70)",
                self._context.now,
            )

    def announce_up(self, link: Link, remote: Remote | None) -> None:
        self._actions.append(PeerUp(link.cid, peer_of(link).uuid, link.version, remote))

    def attach(self, link: Link, peer: Peer) -> None:
        """Makes the link the live one of its peer: the one on which messages are sent."""
        link.up_since = self._context.now
        peer.link = link
        peer.lists.keep_back(link)
        peer.links.identity = link.identity
        self._context.up[link.cid] = link
        if connection_of(link).revision is not self._context.revision or not peer.outbox.takes_reliable:
            self._context.foreign[link] = None

    def up(self, link: Link, peer: Peer) -> None:
        """Counts and reports the live link, and begins its probes."""
        self._counts["connects"] += 1
        peer.counts.connects += 1
        self.announce_up(link, link.remote)
        self.keepalive.begin(link, self._context.now)

    def on_closed(self, link: Link, event: Closed) -> None:
        before = link.state
        link.move(LinkSignal.CLOSED)
        link.error = link.error or event.error
        if isinstance(event.error, RemoteProtocolError) and before is not LinkState.DRAINING:
            uuid = link.peer.uuid if link.peer else None
            detail = f"{link.identity.address or 'a peer'}: {event.error}{look_of(link)}"
            self._context.notice(NoticeKind.PROTOCOL_ERROR, uuid, detail)
        if link.up:
            in_order = event.error is None and before is LinkState.OPEN
            self._look_at_brief_end(link, in_order)
            if in_order:
                self._transmission.suspect(link)
        self.take_down(link, link.error)
        self._writable[link] = None
        if before is LinkState.DRAINING:
            self._forget(link)

    def refuse(self, link: Link, error: TolliverError) -> None:
        """Ends the link without a frame of the protocol (T-67); callers that asked for the connection get `error`."""
        link.error = error
        self.end(link)

    def _refuse_flood(self, link: Link) -> None:
        """Ends a link whose peer causes answers and does not read them, as reading never waits for writing (D-9)."""
        error = LimitExceeded(
            "flood",
            f"over {self._limits.max_answers} bytes of acks and answers that were caused and are not read (D-12)",
        )
        uuid = link.peer.uuid if link.peer else None
        detail = f"{link.identity.address or 'a peer'}: {error}"
        self._context.notice(NoticeKind.PROTOCOL_ERROR, uuid, detail)
        self.refuse(link, error)

    def refuse_self(self, link: Link, what: str) -> None:
        """Refuses a peer with our own identity: a dial that leads back, or a copied instance (T-71). `what` says in the
        error which of the two it is."""
        error = SelfConnection(f"{link.identity.address or 'the other end'} {what}: dial somebody else (T-71)")
        self._context.notice(NoticeKind.SELF_CONNECTION, self._context.instance_id, str(error))
        self.refuse(link, error)

    def end(self, link: Link) -> None:
        """Closes the link in order; aborts one without a wire connection, which has nothing to send."""
        if link.connection is None:
            self._abort(link)
            return
        link.move(LinkSignal.END)
        link.connection.close(self._context.now)
        self._go_on(link)

    def _lost(self, link: Link, error: TolliverError | None) -> None:
        if link.role is Role.SERVER and isinstance(error, CertificateError):
            where = link.identity.address or self.limiter.address(link.cid) or "an unknown address"
            peer, ended = (link.peer.uuid, "closed") if link.peer is not None else (None, "refused")
            self._context.notice(
                NoticeKind.CERTIFICATE_REFUSED, peer, f"a connection from {where} was {ended}: {error}"
            )
        link.release(Hold.CREDIT)  # only buffered data is left, which credit need not bound
        super()._lost(link, error)
        if link.holding & Hold.DUEL and link.peer is not None:
            self._timers.set(("duel", link.peer.uuid), self._context.now)

    def take_down(self, link: Link, error: TolliverError | None) -> None:
        """Drops all state that belongs to the link as its peer's live one (T-49); `error` is None after an orderly
        end.
        """
        was_up = link.up
        for effect in self._down:
            effect(link)
        link.release(Hold.DUEL)
        if link.peer is None:
            return
        if was_up:
            self._leave_peer(link, link.peer, error)
        self._leave_list(link, link.peer)
        self.count_absence(link.peer)
        for pattern in self._hooks.peer_down:
            pattern.peer_down(link, was_up)
        if was_up:
            self._routing.on_move(link.peer)

    def _leave_peer(self, link: Link, peer: Peer, error: TolliverError | None) -> None:
        del self._context.up[link.cid]
        for counts in (self._counts, peer.counts.by):
            counts[f"disconnects_{EndCause.of(error)}"] += 1
        self._context.foreign.pop(link, None)
        peer.link = next((one for one in peer.lists.voices if one.up), None)  # a derived identity may have another link
        peer.links.duel.older_ended()
        if peer.links.duel.waiting is not None:
            self._timers.set(("duel", peer.uuid), self._context.now)
        self._actions.append(PeerDown(link.cid, peer.uuid, error))
        self.dialer.peer_left(peer.uuid, self._context.now)

    def _leave_list(self, link: Link, peer: Peer) -> None:
        if link in peer.lists.voices:
            self._peer_lists.end_voice(link, peer)
            if peer.derived:
                self.drop_derived(peer)

    def count_absence(self, peer: Peer) -> None:
        """Starts the timer after which the peer, which is away now, is forgotten, if it is in the store (T-77)."""
        after = self._policy.forget_after
        if after is not None and self._peers.get(peer.uuid) is peer and not (peer.derived or peer.is_owner):
            self._timers.set(("away", peer.uuid), self._context.now + after)

    def drop_derived(self, peer: Peer) -> None:
        """Forgets a derived identity when its last connection has ended."""
        if not peer.lists.voices and not peer.links.forgotten:
            self._peers.pop(peer.uuid, None)
            if peer.inbox.held:  # handlers still work on these
                self._credit.left_inboxes[peer.uuid] = peer.inbox

    def _forget(self, link: Link) -> None:
        super()._forget(link)
        self._context.sendable.pop(link, None)
        self._context.flooding.pop(link, None)
        for name in ("resend", "fetch", "rate", "probe", "age", "patience", "unacked"):
            self._timers.cancel((name, link.cid))
        self.take_down(link, link.error)
        if link in self._ledger.keeping:
            self._connect_wait.lose(link)
        self._end_dial(link)

    def _end_dial(self, link: Link) -> None:
        """Ends the dial of this link and reports it; once for each cid."""
        if link.remote is None:
            return
        ending = self.dialer.ended(link.remote, link.cid, link.error, link.first, link.fruitful, self._context.now)
        if ending is None:
            return
        failure, error = ending.failure, link.error
        if ending.is_final:
            self._connect_wait.stop_keeping(link.remote)
            text = f"{link.remote} is not dialled any more: {error}"
            self._context.notice(NoticeKind.DIAL_GAVE_UP, None, text, link.remote, failure.cause)
            self._actions.append(DialEnded(link.remote, error))
            return
        if ending.is_news:
            again = "every 1 to 5 minutes" if failure.cause.is_refusal else "again"
            text = f"{link.remote} is not connected, and dialled {again}: {failure}"
            self._context.notice(NoticeKind.DIAL_FAILED, ending.peer, text, link.remote, failure.cause)
        if self._context.tells_events and (ending.is_news or ending.ends_calls):
            told = error if ending.ends_calls else None
            self._actions.append(DialFailed(link.remote, failure.cause, str(failure), told, ending.is_news))

    def _on_refused(self, full: str | None) -> None:
        self._counts["refused_handshakes"] += 1
        if full is not None and self.limiter.is_news(full):
            whose = f"from {full}" if full != ALL else "in all"
            self._context.notice(
                NoticeKind.TOO_MANY_HANDSHAKES,
                None,
                f"{self.limiter.most(full)} connections {whose} have not finished their handshake: the oldest silent "
                "one of an address, or the least advanced one in all, makes room for the next, and where none is older "
                "than a second that is closed, until half are through (D-7). If they are your own, raise "
                "Limits.max_handshakes or max_handshakes_per_address",
            )

    def opened(self, cid: int, role: Role, identity: PeerIdentity | None = None, now: float | None = None) -> None:
        """Begins the handshake of the connection `cid`, whose transport stands; `identity` is what its certificate
        proves, None for a plain connection.
        """
        self._context.tick(now)
        link = self._links.get(cid)
        if link is None or link.state is not LinkState.CONNECTING:
            self._actions.append(Abort(cid))
            return
        link.role = role
        link.sending.exposure.round_trip, link.began = self._context.now - link.began, self._context.now
        link.identity = identity or PeerIdentity()
        denied = self.gate.denied(link.identity) if role is Role.CLIENT else None
        if denied is not None:
            self.deny(link, *denied)
            return
        own = tuple(self._own.entries)
        link.move(LinkSignal.OPENED)
        link.connection = self._make_connection(link, own)
        control = self._own.begin(link, link.connection, self._ledger.ids)
        if (
            self._context.instance_id in link.identity.uuids and not link.identity.prefixes
        ):  # else the handshake tells which identity it is
            self.refuse_self(link, "presents our own certificate")
        elif role is Role.CLIENT:
            control.announced(own)
            self._connect_wait.begin(link)
        self._writable[link] = None
        self._rearm(link)

    def _make_connection(self, link: Link, own: tuple[Subscription, ...]) -> Connection:
        return Connection(
            link.role,
            instance_id=self._context.instance_id,
            version=self._context.version,
            subscriptions=own,
            revision=self._context.revision,
            limits=self._limits,
            speaks=self._speaks,
            dialect=self.dialect(link.remote, None),
            dialect_of=partial(
                self._dialect_on, link.remote, link.identity.prefixes
            ),  # not the link itself, which would be a reference cycle
            now=self._context.now,
        )

    def _on_data(self, link: Link, size: int) -> None:
        link.last_received = self._context.now
        self._counts["received_bytes"] += size
        if link.peer is not None:
            link.peer.counts.received_bytes += size
        if link.holding:
            self._pace(link)

    def _on_sent(self, link: Link) -> None:
        self._transmission.taken(link)
        for pattern in self._hooks.sent:
            pattern.sent(link)

    def dial_failed(self, cid: int, error: TolliverError, now: float | None = None) -> None:
        """Reports that the Dial with this cid failed with `error`: DialEnded follows if it is not repeated, DialFailed
        says why (T-73).
        """
        self.lost(cid, error, now)

    def link_to(self, remote: Remote) -> Link | None:
        peer = self._peers.get(self.dialer.peer_of(remote) or self._context.instance_id)
        return None if peer is None else peer.link

    def read(self, link: Link) -> None:
        """Handles the events of a connection, in order, as many as one turn allows."""
        connection = link.connection
        assert connection is not None
        acked: dict[int, tuple[int, int]] = {}
        acks: list[int] = []  # a run that is not looked up yet
        on_event, next_event, ready = self.on_event, connection.next_event, connection.ready
        for _ in range(_EVENTS_A_TURN):
            if link.holding:
                break
            event = ready.pop() if ready else next_event()
            if event is None:
                break
            kind = type(event)
            if kind is Ack:
                acks.append(event.message_id)  # type: ignore[union-attr, arg-type]  # the test above is by type
                continue
            if acks:
                self._on_acks(link, acks, acked)
                acks = []
            if acked and kind is Closed:
                self._transmission.settle(link, acked)
                acked = {}
            on_event[kind](link, event)
        else:
            self._readable[link] = None
        if acks:
            self._on_acks(link, acks, acked)
        if acked:
            self._transmission.settle(link, acked)
        if link.state is not LinkState.FORGOTTEN:
            paced = connection.paced is not None
            if (paced or link.holding or link.paused) and link not in self._readable:
                self._pace(link)
            if paced or connection.close_deadline is not None or link.cid in self._timers.deadlines:
                self._rearm(link)

    def end_flood(self, link: Link) -> None:
        """Ends a link whose peer has caused more answers than it may leave unread; reading never waits for writing
        (D-9).
        """
        if link.answers > self._limits.max_answers and _is_live(link):
            self._refuse_flood(link)

    def on_link_timeout(self, link: Link) -> None:
        connection = link.connection
        is_late = link.role is Role.SERVER and (connection is None or connection.state in HANDSHAKING)
        where = link.identity.address or self.limiter.address(link.cid) or "an unknown address"
        self._counts["hurried"] += connection is not None and connection.paced is not None
        super()._on_link_timeout(link)
        if is_late and (connection is None or connection.state is State.CLOSED):  # else the timeout is that of a frame
            self._counts["handshakes_timed_out"] += 1
            self._context.tally.add(
                NoticeKind.HANDSHAKE_TIMEOUT,
                None,
                1,
                f"connections did not finish their handshake within {self._limits.handshake_timeout:g} s, or their "
                f"ClientHello within {HELLO_TIMEOUT:g} s, the last one from {where} (T-68){look_of(link)}",
                self._context.now,
            )

    def _on_redial_timeout(self, remote: Remote) -> None:
        self.dialer.retry(remote, self._context.now)
        link = self.link_to(remote)
        if link is not None:  # so it was not dialled, unless the peer has a derived identity: nothing is kept for that
            self._connect_wait.claim_kept(peer_of(link), remote)
            self._connect_wait.stop_keeping(remote)

    def _on_probe_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if not link.up or link.state is not LinkState.OPEN:
            return
        if self.keepalive.look(link, self._context.now):
            self._writable[link] = None
            return
        seconds = self._policy.probe_timeout
        self._context.tally.add(
            NoticeKind.PROBE_UNANSWERED,
            link.peer.uuid if link.peer else None,
            1,
            f"connections to {link.identity.address or 'it'} were dropped, as no probe was answered within {seconds:g} "
            "s: does its process hang, or is the line cut? (T-80)",
            self._context.now,
        )
        self._actions.append(Abort(cid))
        self._lost(link, ConnectionLost(f"the peer did not answer a probe within {seconds:g} s (T-80)"))

    def _on_age_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if link.up:
            self._counts["aged_out"] += 1
            self.end(link)


def _is_live(link: Link) -> bool:
    return link.connection is not None and link.connection.live


def look_of(link: Link) -> str:
    """Returns a text that names the protocol which the first bytes received on the link belong to, or "" if it is not
    recognized.
    """
    cause = DialCause.told_by(link.first)
    return f" ({cause.text})" if cause is not None else ""


def _buffered(link: Link) -> int:
    return link.connection.buffered_bytes if link.connection is not None else 0


def _is_paced(link: Link) -> bool:
    return link.connection is not None and link.connection.paced is not None
