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

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar, cast
from uuid import UUID

from .._common.certificates import CertificateWatch
from .._common.derived import is_derived
from .._common.errors import ConnectionClosing, ConnectionLost, TolliverError
from .._common.handshake_limiter import ALL
from .._common.histogram import Histogram
from .._common.link import LinkSignal, LinkState
from .._common.transport import Abort, PeerIdentity, Remote, Role
from .._wire.connection import Connection
from .._wire.dialect import AS_EVERYBODY, Dialect
from .._wire.events import (
    Ack,
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
from .._wire.state import HANDSHAKING, State
from .access import Acl
from .actions import Action, DialEnded, Handler, NoticeKind, PeersMoved
from .dialing import Dialer, RemoteInfo
from .flushing import Flushing
from .handshakes import look_of
from .ids import Randomness
from .link import ControlSync, Hold, Link, Peer
from .pattern import Pattern
from .peer_info import PeerInfo, PeerNumbers
from .policy import Policy
from .services import Services
from .stats import NodeStats
from .store import Loaded
from .tally import Subject

_LOOK_AGAIN = 1.0  # seconds
_OURS = "make a new one with the same UUID, and call reload_tls()"
_THEIRS = "it needs a new one with the same UUID"
_EVENTS_A_TURN = 256  # events of one connection before the next one has its turn


P_co = TypeVar("P_co", bound=Pattern, covariant=True)
P = TypeVar("P", bound=Pattern)
T = TypeVar("T")


class PatternKind(Protocol[P_co]):
    """A class of patterns: how one is made for a node, and whether the store has something of it."""

    def __call__(self, node: Node, services: Services) -> P_co: ...

    def is_stored(self, services: Services) -> bool: ...


def _speaks_no_other(_version: int) -> bool:
    return False


class Node(Flushing):
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
        super().__init__(
            instance_id,
            rng,
            limits or Limits(),
            loaded or Loaded(),
            version,
            revision,
            speaks,
            retry_interval,
            policy or Policy(),
            acl or Acl(),
            subscriptions is not None,
            now,
        )
        self._tells_events = tell_events
        self._dialer = Dialer(
            self.limits, rng.random, self._dial, self._redial_in, self._redial_due, self._is_live, self._counts
        )
        self._certificates = CertificateWatch(self._timers)
        self._on_event: dict[type, Callable[[Link, Any], None]] = {
            Message: self._on_message if self._gate.acl.is_open else self._on_guarded_message,
            Ignored: self._on_ignored,
            Refusal: self._on_refusal,
            Subscribe: self._on_control,
            Unsubscribe: self._on_control,
            SubscribeMany: self._on_controls,
            UnsubscribeMany: self._on_controls,
            HandshakeRequest: self._on_request,
            HandshakeResponse: self._on_response,
            HandshakeFinal: self._on_final,
            Established: self._on_established,
            Closed: self._on_closed,
        }
        self._on_timer: dict[str, Callable[[Any], None]] = {
            "clock": self._on_clock_timeout,
            "hold": self._on_hold_timeout,
            "away": self._on_away_timeout,
            "calls": self._on_calls_timeout,
            "handlers": self._on_handlers_timeout,
            "subscriptions": self._on_subscriptions_timeout,
            "resend": self._on_resend_timeout,
            "fetch": self._on_fetch_timeout,
            "rate": self._on_rate_timeout,
            "probe": self._on_probe_timeout,
            "unacked": self._on_unacked_timeout,
            "certificate": self._on_certificate_timeout,
            "age": self._on_age_timeout,
            "deferred": self._on_deferred_timeout,
            "patience": self._on_patience_timeout,
            "window": self._on_window_timeout,
            "duel": self._on_duel_timeout,
            "expire": self._on_expire_timeout,
            "due": self._on_due_timeout,
            "redial": self._on_redial_timeout,
            "removals": self._on_removals_timeout,
            "tally": self._on_tally_timeout,
            "drops": self._on_drops_timeout,
            "handled": self._on_handled_timeout,
            "again": self._on_again_timeout,
            "withheld": self._on_withheld_timeout,
        }
        self._services = Services(self, self._on_timer)
        self._patterns: dict[object, Pattern] = {}
        for kind in patterns:
            if kind.is_stored(self._services):
                self.use(kind)
        for peer in [*self._peers.values()]:
            self._count_absence(peer)
            if peer.held:
                self._hold(peer, peer.held)
            if peer.unsaid:
                self._watch_clock()
        self._schedule_expiry()
        if loaded is not None and loaded.expires_in is not None:
            self._look_at_due(max(0.0, loaded.expires_in))
        self._on_handled_timeout(None)
        for channel, key, handler in handlers:
            self.register(channel, key, handler)
        for channel, key in subscriptions or ():
            if self._checked(channel, key) not in self._own:
                self.subscribe(channel, key)

    def __repr__(self) -> str:
        count, state = len(self._links), ", closing" if self.closing else ""
        return f"<{type(self).__name__} {self.instance_id}, {count} connections{state}>"

    def use(self, kind: PatternKind[P]) -> P:
        """This pattern of the node; its first call makes it. A pattern that the store has something of (`is_stored`)
        must be used from the opening on: give it in `patterns`."""
        known = self._patterns.get(kind)
        if known is None:
            known = self._patterns[kind] = kind(self, self._services)
            self._hooks.add(known)
            self._verdicts.clear()
        return cast(P, known)

    def used(self, kind: PatternKind[P]) -> P | None:
        """The same where it is in use already."""
        return cast("P | None", self._patterns.get(kind))

    # Connections: what the adapter reports.

    def _on_refused(self, full: str | None) -> None:
        self._counts["refused_handshakes"] += 1
        if full is not None and self._limiter.is_news(full):
            whose = f"from {full}" if full != ALL else "in all"
            self._notice(
                NoticeKind.TOO_MANY_HANDSHAKES,
                None,
                f"{self._limiter.most(full)} connections {whose} have not finished their handshake: the oldest silent "
                "one of an address makes room for the next, and where none is silent that is closed, until half are "
                "through (D-7). If they are your own, raise Limits.max_handshakes or max_handshakes_per_address",
            )

    def opened(self, cid: int, role: Role, identity: PeerIdentity | None = None, now: float | None = None) -> None:
        """The transport stands and has proved who is there."""
        self._tick(now)
        link = self._links.get(cid)
        if link is None or link.state is not LinkState.CONNECTING:
            self._actions.append(Abort(cid))
            return
        link.role = role
        link.exposure.round_trip, link.began = self._now - link.began, self._now
        link.identity = identity or PeerIdentity()
        denied = self._gate.denied(link.identity) if role is Role.CLIENT else None
        if denied is not None:
            self._deny(link, *denied)
            return
        own = tuple(self._own)
        link.move(LinkSignal.OPENED)
        link.connection = self._make_connection(link, own)
        link.control = ControlSync(link.connection, self._ids)
        if self.instance_id in link.identity.uuids and not link.identity.prefixes:  # else who it is shows later
            self._refuse_self(link, "presents our own certificate")
        elif role is Role.CLIENT:
            link.control.announced(own)
            self._keep(link)
        self._writable[link] = None
        self._rearm(link)

    def _make_connection(self, link: Link, own: tuple[Subscription, ...]) -> Connection:
        dialect = self._dialect(link.remote, None).over(self._own_dialect)
        assert dialect.version is not None
        return Connection(
            link.role,
            instance_id=self.instance_id,
            version=dialect.version,
            subscriptions=own,
            revision=self.revision if dialect.revision is None else dialect.revision,
            limits=self.limits,
            speaks=self._speaks,
            strict_uuid7=bool(dialect.strict_uuid7),
            accept_either=bool(dialect.accept_either),
            unreliable_id=dialect.unreliable_id,
            dialect_of=partial(self._dialect_on, link.remote, link.identity.prefixes),  # the link itself: a circle
            now=self._now,
        )

    def _on_data(self, link: Link, size: int) -> None:
        link.last_received = self._now
        self._counts["bytes_received"] += size
        if link.peer is not None:
            link.peer.counts.bytes_received += size
        if link.holding:
            self._pace(link)

    def _on_sent(self, link: Link) -> None:
        if link.window is None:
            link.in_flight = []
        elif link.in_flight or link.above_high_water or not (link.window.idle and link.exposure.empty):
            control_ids = link.control.under_way if link.control is not None else ()
            link.window.transmitted(link.in_flight, control_ids, self._now)
            if link.in_flight and not link.window.is_in_flight(link.timed_id):
                link.timed_id, link.timed_at = link.in_flight[-1], self._now
            link.exposure.taken(self._now)
            if link.window.in_window[0] or link.window.in_backoff:
                self._look_at_acks(link, link.ack_watch.sent(self._now))
            self._sendable[link] = None
            link.in_flight = []
        for pattern in self._hooks.sent:
            pattern.sent(link)

    def dial_failed(self, cid: int, error: TolliverError, now: float | None = None) -> None:
        """The Dial came to nothing: DialEnded says that it is not made again, DialFailed why (T-73)."""
        self.lost(cid, error, now)

    # Connections: what the application wants.

    def connect(
        self,
        remote: Remote,
        now: float | None = None,
        *,
        control_messages: bool = True,
        dialect: Dialect = AS_EVERYBODY,
        keep_trying: bool = True,
    ) -> None:
        """Keep a connection to this remote, now and after every loss (T-76), until `disconnect`.

        Without `control_messages` its peer is sent none, as `Policy.no_control_messages` says of peers; `dialect` is
        how it speaks, over what `Policy.dialects` says of its peer (C6). Without `keep_trying` the dialling of a remote
        that was never up ends with a refusal, by either side, of a certificate, a version, an identity or by access
        rules, and with an answer that is no handshake of this protocol, or contradicts itself. Else it is dialled on,
        after a refusal every 1 to 5 minutes, and DialFailed tells (T-73). A remote that was refused and is asked for
        again is dialled at once. Raises ValueError and OwnLimitExceeded for a revision that cannot carry what there is.
        PeerUp with this remote tells when it stands, DialEnded when it never will (T-73).
        """
        self._tick(now)
        if self.closing:
            raise ConnectionClosing("the instance is closing: make a new one to connect")
        self._check_revision(dialect)
        self._gate.unblock(remote)
        link = self._link_to(remote)
        if link is not None:
            self._announce_up(link, remote)
        if self._dialer.add(remote, not control_messages, dialect, keep_trying, self._now):
            self._keep_for(remote)

    def peer_at(self, remote: Remote) -> UUID | None:
        """Peer that this remote led to last, if it is connected, over whichever connection."""
        return None if self._link_to(remote) is None else self._dialer.peer_of(remote)

    def _link_to(self, remote: Remote) -> Link | None:
        peer = self._peers.get(self._dialer.peer_of(remote) or self.instance_id)
        return None if peer is None else peer.link

    def disconnect(self, remote: Remote, now: float | None = None, block: bool = False) -> None:
        """Stop dialling and close the connection to its peer; what waits for that peer stays (T-77).

        With `block` the peer that this remote last led to may not connect to us either, until `connect(remote)` or a
        restart: it is remembered in memory. If the remote is not dialled now, or never led to anybody, nobody is
        blocked; to keep a peer out by its UUID there is `set_acl`.
        """
        self._tick(now)
        dialled = self._dialer.remove(remote)
        if dialled is None:
            return
        self._timers.cancel(("redial", remote))
        self._stop_keeping(remote)
        links = [self._links.get(dialled.cid or 0)]
        if dialled.peer is not None and self._is_live(dialled.peer):
            links.append(self._peers[dialled.peer].link)
        if block and dialled.peer is not None:
            self._gate.block(remote, dialled.peer)
            links += [one for one in self._links.values() if self._is_shut_out(one)]
        for link in dict.fromkeys(links):
            if link is not None:
                self._end(link)
        self._actions.append(DialEnded(remote, None))

    def _is_shut_out(self, link: Link) -> bool:
        return link.peer is not None and self._gate.denial(link.role, link.peer.uuid) is not None

    def set_acl(self, acl: Acl, now: float | None = None) -> None:
        """Other access rules, from now on (D-4, D-5, D-8).

        Messages that a peer may no longer have are not routed to it any more; what waits for it already stays, until
        `forget_peer`. Its stored subscriptions stay too, and count again if later rules allow them. Connections of
        peers whose rights are other ones are closed: their next handshake brings their whole lists. Remotes that were
        refused are dialled at once (T-73).
        """
        self._tick(now)
        self._dialer.dial_refused(self._now)
        before, self._gate.acl = self._gate.acl, acl
        self._on_event[Message] = self._on_message if acl.is_open else self._on_guarded_message
        for uuid, peer in self._peers.items():
            if acl.rights(uuid) != before.rights(uuid):
                self._reroute(peer)
        for link in list(self._links.values()):
            if link.peer is None or acl.rights(link.peer.uuid) == before.rights(link.peer.uuid):
                continue
            denial = self._gate.denial(link.role, link.peer.uuid)
            if denial is not None:
                self._deny(link, link.peer.uuid, denial)
            else:
                self._end(link)

    def dial_refused(self, now: float | None = None) -> None:
        """Dial the remotes that were refused at once: our certificate, say, is another one now (T-73)."""
        self._tick(now)
        self._dialer.dial_refused(self._now)

    def close(self, now: float | None = None) -> None:
        """End every connection in order and dial no more. The node is `idle` when all of it is done and stored."""
        self._tick(now)
        self.closing = True
        for pattern in self._hooks.closing:
            pattern.closing()
        self._end_waiting([*self._again])
        for remote in self._dialer.remotes():
            self.disconnect(remote)
        for link in list(self._links.values()):
            self._end(link)
        self._removals_due = True

    @property
    def idle(self) -> bool:
        """Nothing connected, nothing being stored, nothing to do."""
        busy = self._links or self._running or self._actions or self._blocked or self._room.busy or self._searches.busy
        return not (busy or any(pattern.busy() for pattern in self._hooks.busy)) and self._batch.empty

    @property
    def gathers(self) -> bool:
        """True if a commit runs and there is nothing else to do: `next_action` gives nothing before that is reported,
        and what is asked for until then goes into one commit."""
        return self._running is not None and not (
            self._actions or self._readable or self._sendable or self._writable or self._turns or self._has_moved
        )

    # The next thing to do.

    def next_action(self) -> Action | None:
        """One thing to do, or None: then nothing is to be done before the next input."""
        while True:
            self._run = None
            if self._actions:
                return self._actions.popleft()
            if self._readable:
                self._read(_pop(self._readable))
            elif self._sendable:
                self._pump(_pop(self._sendable))
                if not self._sendable:
                    self._frames.clear()
            elif self._turns:
                _pop(self._turns).turn()
            elif self._has_moved:
                self._has_moved = False
                if self._tells_events:
                    self._actions.append(PeersMoved())
            elif self._writable:
                self._write(_pop(self._writable))
            elif self._running is None and (
                self._batch.urgent or self._removals_due or (self._apart and self._waits_alone)
            ):
                self._begin_commit()
            elif not (self._flushes and self._end_flushes()):
                return None

    def _read(self, link: Link) -> None:
        """Take events from the connection, as many as one turn allows."""
        connection = link.connection
        assert connection is not None
        acked: dict[int, tuple[int, int]] = {}
        acks: list[int] = []  # not looked up yet: they come in runs
        on_event, next_event, ready = self._on_event, connection.next_event, connection.ready
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
                self._settle(link, acked)
                acked = {}
            on_event[kind](link, event)
        else:
            self._readable[link] = None
        if acks:
            self._on_acks(link, acks, acked)
        if acked:
            self._settle(link, acked)
        if link.state is not LinkState.FORGOTTEN:
            if link not in self._readable:
                self._pace(link)
            self._rearm(link)

    def _write(self, link: Link) -> None:
        if link.answers > self.limits.max_answers and link.state is not LinkState.DRAINING and _is_live(link):
            self._refuse_flood(link)
        super()._write(link)

    # Time.

    @property
    def timeout_reason(self) -> str | None:
        """Purpose of the next timeout, to read while debugging."""
        first = self._timers.earliest()
        if first is None:
            return None
        return f"connection {first[1]}" if isinstance(first[1], int) else repr(first[1])

    def handle_timeout(self, now: float | None = None) -> None:
        """Do what is due. At another time it does nothing."""
        self._tick(now)
        while (key := self._timers.pop_due(self._now)) is not None:
            if isinstance(key, int):
                self._on_link_timeout(self._links[key])
                continue
            name, subject = key if isinstance(key, tuple) else (key, None)
            self._on_timer[name](subject)

    def _on_link_timeout(self, link: Link) -> None:
        connection = link.connection
        is_late = link.role is Role.SERVER and (connection is None or connection.state in HANDSHAKING)
        where = link.identity.address or self._limiter.address(link.cid) or "an unknown address"
        self._counts["hurried"] += connection is not None and connection.paced
        super()._on_link_timeout(link)
        if is_late and (connection is None or connection.state is State.CLOSED):  # else a frame's turn has come
            self._counts["handshakes_timed_out"] += 1
            self._tally.add(
                NoticeKind.HANDSHAKE_TIMEOUT,
                None,
                1,
                f"connections did not finish their handshake within {self.limits.handshake_timeout:g} s, the last one "
                f"from {where} (T-68){look_of(link)}",
                self._now,
            )

    def _on_resend_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if link.window is None:
            return
        self._resend_control(link, link.window.fall_due(self._now))
        if link.window.full:
            self._notice(
                NoticeKind.BACKOFF_FULL,
                link.peer.uuid if link.peer else None,
                f"{self.limits.backoff_messages} messages wait for a late ack: sends to this peer pause (T-52)",
            )
        self._sendable[link] = None

    def _on_redial_timeout(self, remote: Remote) -> None:
        self._dialer.retry(remote, self._now)

    def _on_fetch_timeout(self, cid: int) -> None:
        self._sendable[self._links[cid]] = None

    def _on_rate_timeout(self, cid: int) -> None:
        link = self._links[cid]
        self._release_hold(link, Hold.RATE)

    def _on_probe_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if not link.up or link.state is not LinkState.OPEN:
            return
        if self._keepalive.look(link, self._now):
            self._writable[link] = None
            return
        seconds = self._policy.probe_timeout
        self._tally.add(
            NoticeKind.PROBE_UNANSWERED,
            link.peer.uuid if link.peer else None,
            1,
            f"connections to {link.identity.address or 'it'} were dropped, as no probe was answered within {seconds:g} "
            "s: does its process hang, or is the line cut? (T-80)",
            self._now,
        )
        self._actions.append(Abort(cid))
        self._lost(link, ConnectionLost(f"the peer did not answer a probe within {seconds:g} s (T-80)"))

    def _on_unacked_timeout(self, cid: int) -> None:
        """Acks that we do not read, as our own handlers have enough, are no silence of the peer's."""
        link = self._links[cid]
        oldest = link.window.oldest() if link.window is not None else None
        if oldest is None or link.window is None:
            return
        if link.holding or link.paused:
            self._timers.set(("unacked", cid), self._now + _LOOK_AGAIN)
            return
        seconds, due = link.ack_watch.look(self._now)
        self._look_at_acks(link, due)
        if seconds is not None:
            self._notice_silence(link, link.window.in_backoff + link.window.in_window[0], seconds, *oldest)

    def _notice_silence(self, link: Link, count: int, seconds: float, message_id: int, name: tuple[str, str]) -> None:
        self._notice(
            NoticeKind.UNACKNOWLEDGED,
            link.peer.uuid if link.peer else None,
            f"it is connected, and has acknowledged none of {count} messages for {seconds:.0f} s; the oldest is "
            f"{message_id} on {name[0]!r:.100} {name[1]!r:.100}: do its handlers hang, or does it not read? (unacknowledged_after)",
        )

    # Certificates.

    def watch_certificate(
        self, seconds_left: float, what: str, now: float | None = None, peer: UUID | None = None
    ) -> None:
        """A certificate is valid for so many seconds: it is told when that are 30 days, and each day from then on.

        It is our own, and `what` its file; or `what` is the name in that of a connected `peer`, told for as long as
        that is connected. A derived identity's is that of many, and not told.
        """
        self._tick(now)
        if peer is not None and is_derived(peer):
            return
        name, remedy = (f"our certificate {what}", _OURS) if peer is None else (f"the certificate of {what}", _THEIRS)
        self._certificates.watch(peer, self._now + seconds_left, name, remedy, self._now)

    def _on_certificate_timeout(self, peer: UUID | None) -> None:
        if peer is not None and not self._is_live(peer):
            self._certificates.forget(peer)
            return
        told = self._certificates.look(peer, self._now)
        if told is None:
            return
        self._notice(NoticeKind.CERTIFICATE_ENDS, peer, told.text)
        if self._tells_events:
            self._actions.append(told)

    def _on_age_timeout(self, cid: int) -> None:
        link = self._links[cid]
        if link.up:
            self._counts["aged_out"] += 1
            self._end(link)

    def _on_tally_timeout(self, subject: Subject) -> None:
        self._tally.fall_due(subject, self._now)

    def _on_drops_timeout(self, subject: Subject) -> None:
        self._drops.fall_due(subject, self._now)

    def _on_removals_timeout(self, _subject: None) -> None:
        self._removals_due = True

    # Introspection.

    def stats(self) -> NodeStats:
        """Counters since the start, and sizes now."""
        return NodeStats.of(
            self._counts,
            connections=len(self._links),
            peers=sum(not peer.is_owner for peer in self._peers.values()),
            peers_up=len({link.peer for link in self._up.values()}),
            pending=sum(peer.outbox.pending for peer in self._peers.values()),
            pending_bytes=sum(peer.outbox.pending_bytes for peer in self._peers.values()),
            parked=sum(peer.outbox.parked for peer in self._peers.values()),
            dead_letters=len(self._letters),
            own_subscriptions=len(self._own),
            peer_subscriptions=len(self._routes),
            stuck_handlers=len(self._stuck),
            held_subscriptions=sum(len(peer.held) for peer in self._peers.values()),
            **{name: size for pattern in self._hooks.stats for name, size in pattern.stats().items()},
        )

    def peers(self) -> list[PeerInfo]:
        """Every peer that is known, connected or not."""
        return [_info(peer) for peer in self._peers.values() if not peer.is_owner]

    def numbers(self, now: float | None = None) -> list[PeerNumbers]:
        """The same with each one's counters and ages."""
        self._tick(now)
        return [self._numbers_of(peer) for peer in self._peers.values() if not peer.is_owner]

    def _numbers_of(self, peer: Peer) -> PeerNumbers:
        window, inbox = peer.window, peer.inbox
        backoff = 0 if window is None else window.in_backoff
        return PeerNumbers(
            _info(peer),
            0 if window is None else window.in_window[0] + backoff,
            backoff,
            self._age_of_oldest(peer),
            peer.round_trip,
            self._quota.used(peer.outbox),
            peer.outbox.full,
            {**peer.counts.as_dict(), "delivered": inbox.delivered, "dead_letters": inbox.letters},
        )

    def _age_of_oldest(self, peer: Peer) -> float | None:
        """Seconds since it was stored. Messages that are held count from when they may be sent (T-61)."""
        outbox, window = peer.outbox, peer.window
        if not outbox.pending:
            return None
        seq = outbox.waits_from if window is None else max(outbox.waits_from, window.oldest_seq())
        stored_at = self._stored_times.of(seq)
        return None if stored_at is None else max(0.0, self._now - stored_at)

    @property
    def round_trips(self) -> Histogram:
        """Seconds from when the socket took a message to its acknowledgement: of one at a time for each connection."""
        return self._round_trips

    def identity_of(self, peer: UUID) -> PeerIdentity:
        """Address and certificate of a peer, as it was connected last; empty where it never was."""
        known = self._peers.get(peer)
        return known.identity if known is not None else PeerIdentity()

    def remotes(self, now: float | None = None) -> list[RemoteInfo]:
        """Every remote that is dialled, or was until trying again was no use (T-73), and why it is not connected."""
        self._tick(now)
        return self._dialer.states(self._now)

    def subscriptions(self) -> list[Subscription]:
        """Our own, as the next handshake will list them."""
        return list(self._own)

    def __reduce__(self) -> NoReturn:
        """A copy would hand out the ids of its original, and both would answer for one UUID (D-16, T-40, T-79)."""
        raise TypeError(
            f"the node of {self.instance_id} cannot be pickled or copied: the copy would give other messages the same "
            "ids. Load another one from the store when this one is closed (D-16)"
        )


def _info(peer: Peer) -> PeerInfo:
    return PeerInfo(
        peer.uuid,
        peer.link is not None,
        peer.link.identity.address if peer.link else "",
        tuple(sorted(peer.routed & peer.subscriptions)),
        peer.outbox.pending,
        peer.outbox.pending_bytes,
        peer.outbox.parked,
        peer.outbox.parked_bytes,
        tuple(sorted(peer.held)),
    )


def _is_live(link: Link) -> bool:
    return link.connection is not None and link.connection.live


def _pop(ready: dict[T, None]) -> T:
    first = next(iter(ready))
    del ready[first]
    return first
