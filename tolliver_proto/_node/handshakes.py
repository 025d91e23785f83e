"""Handshakes, the one live link of a peer, and its end.

The wire's machine knows when a handshake may go on, this module knows what must be true before it does: the claimed
UUID fits the certificate (D-3), and the peer's list is in the routes and in the store before the answer goes out (T-61)
or the connection is reported (T-34). Of two connections to one peer one survives, and both sides pick the same (T-70).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from uuid import UUID

from .._common.causes import DialCause
from .._common.derived import is_derived, prefix_of
from .._common.errors import (
    AccessDenied,
    CertificateError,
    ConnectionLost,
    IdentityConflict,
    LimitExceeded,
    RemoteProtocolError,
    SelfConnection,
    TolliverError,
    UnexpectedFrame,
)
from .._common.link import LinkSignal, LinkState
from .._common.queue_ids import is_queue
from .._common.transport import PeerIdentity, Remote, Role
from .._wire.connection import Connection
from .._wire.dialect import AS_EVERYBODY, Dialect
from .._wire.events import (
    RESERVED_CHANNEL,
    Ack,
    Closed,
    Established,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Revision,
    Subscription,
)
from .._wire.state import HOLDING, State
from .ack_watch import AckWatch
from .actions import DialEnded, DialFailed, NoticeKind, PeerDown, PeerUp
from .again import HandlingAgain
from .dialing import Dialer
from .duels import ANSWER_WITHIN, BRIEF, BRIEF_ENDS
from .ends import EndCause
from .link import ControlSync, Hold, Link, Peer
from .outbox import Window
from .poison import ALONE_AFTER_UP
from .store import LoadedPeer, PinPeer, ReplacePeerSubscriptions, UnpinPeer


class Handshakes(HandlingAgain):
    """The life of links: made, identified, established, retired, forgotten."""

    _dialer: Dialer

    def _redial_in(self, remote: Remote, seconds: float) -> None:
        self._timers.set(("redial", remote), self._now + seconds)

    def _redial_due(self, remote: Remote) -> float | None:
        return self._timers.due(("redial", remote))

    def _is_live(self, uuid: UUID) -> bool:
        peer = self._peers.get(uuid)
        return peer is not None and peer.link is not None and not peer.derived  # T-70 is not for those (T-72a)

    # The handshake's frames.

    def _on_request(self, link: Link, frame: HandshakeRequest) -> None:
        connection = _connection(link)
        if not link.up and (not self._admit(link, frame.instance_id) or self._stands_back(link, frame)):
            return
        answer = connection.answer
        if answer is HandshakeStatus.NEWER_INCOMPATIBLE:
            self._accept(link)  # says so and closes; the list is discarded (T-61)
        elif connection.awaits_final and not link.up:
            link.held_list = self._listed(link, frame)
            self._keep(link)
            self._accept(link)
        else:
            self._store_list(link, self._listed(link, frame))

    def _on_response(self, link: Link, frame: HandshakeResponse) -> None:
        connection = _connection(link)
        if connection.state is State.CLOSED or not self._admit(link, frame.instance_id):
            return
        if connection.unsent_bytes:
            self._writable[link] = None  # the final, where one follows every response
        link.exposure.round_trip = self._now - link.began
        if link.remote is not None:
            self._dialer.answered(link.remote, frame.instance_id)
            self._on_move(_peer(link))  # it may be connected already, the other way round
        if self._stands_back(link, frame):
            return
        if connection.state is State.CONFIRMING and connection.answer is HandshakeStatus.NEWER_INCOMPATIBLE:
            self._accept(link)
        else:
            self._store_list(link, self._listed(link, frame))

    def _listed(self, link: Link, frame: HandshakeRequest | HandshakeResponse) -> tuple[Subscription, ...]:
        """Subscriptions of the peer: as it says or, where its layout has no lists, as they are known of it."""
        if _connection(link).has_lists:
            return frame.subscriptions
        return self._dialect(link.remote, frame.instance_id).subscriptions or ()

    def _on_final(self, link: Link, frame: HandshakeFinal) -> None:
        if frame.compatible and self._admit(link, _peer(link).uuid):  # again: much may have changed since its request
            self._store_list(link, link.held_list)

    def _admit(self, link: Link, claimed: UUID) -> bool:
        """True if the peer may be who it says it is (D-3, T-71, T-72, T-72a)."""
        if claimed == self.instance_id:
            if link.role is Role.SERVER:
                self._accept(link)  # so that the other end, which is us, learns whom it has reached
            self._refuse_self(link, "is this instance itself, or a copy of it")
            return False
        if is_queue(claimed):
            self._refuse(link, IdentityConflict(f"{link.identity.address} claims the UUID of a queue, {claimed}"))
            return False
        known = self._peers.get(claimed)
        if known is not None and known.forgotten:
            self._refuse(link, ConnectionLost(f"peer {claimed} is being forgotten here: try again in a moment"))
            return False
        conflict = self._gate.conflict(link.identity, claimed)
        if conflict is not None:
            error = IdentityConflict(f"{link.identity.address} claims to be {claimed}, but {conflict} (D-3, T-72)")
            self._notice(NoticeKind.IDENTITY_MISMATCH, claimed, str(error))
            self._refuse(link, error)
            return False
        denial = self._gate.denial(link.role, claimed)
        if denial is not None:
            self._deny(link, claimed, denial)
            return False
        link.peer = known or Peer(claimed, LoadedPeer())  # known from when its list is stored
        self._set_takes_reliable(link.peer, _connection(link).can_send(Ack))
        assert link.control is not None
        self._mute(link.control, claimed)
        if link.peer.derived:
            link.peer.inbox = self._left_inboxes.get(claimed, link.peer.inbox)
            self._peers[claimed] = link.peer
            link.peer.voices[link] = None  # it is known by this alone: nothing of it is stored
        return True

    def _mute(self, control: ControlSync, peer: UUID) -> None:
        """Of a remote it is known which peer it leads to once that is up."""
        control.mute = peer in self._policy.no_control_messages or self._dialer.is_mute(peer)

    def _dialect(self, remote: Remote | None, peer: UUID | None) -> Dialect:
        """Dialect of a connection: as said of its remote, or else of its peer (C6)."""
        said = AS_EVERYBODY if remote is None else self._dialer.dialect_of(remote)
        return said.over(AS_EVERYBODY if peer is None else self._policy.dialects.get(peer, AS_EVERYBODY))

    def _dialect_on(self, remote: Remote | None, prefixes: Collection[str], claimed: UUID) -> Dialect:
        """That of a peer that says who it is. A derived identity has no UUIDv7: its certificate binds it (T-03)."""
        dialect = self._dialect(remote, claimed)
        if is_derived(claimed) and prefix_of(claimed) in prefixes:
            return Dialect(strict_uuid7=False).over(dialect)
        return dialect

    def revision_to(self, remote: Remote) -> Revision:
        """The wire layout that a dial to this remote speaks (C6)."""
        said = self._dialer.dialect_of(remote).revision
        return self.revision if said is None else said

    def _deny(self, link: Link, peer: UUID, denial: str) -> None:
        error = AccessDenied(f"{link.identity.address or 'the other end'} is {peer}, but {denial}")
        self._notice(NoticeKind.ACCESS_DENIED, peer, str(error))
        self._refuse(link, error)
        self._end_dial(link)  # now: who connects again, under other rules, begins anew

    def _store_list(self, link: Link, subscriptions: tuple[Subscription, ...]) -> None:
        """Routes change now; the handshake goes on when the list is stored (T-30, T-61), and with it what patterns have
        for the peer."""
        peer, batch = _peer(link), self._batch
        if peer.derived:
            self._let_write(link, peer, subscriptions)
            return
        may_have = self._gate.acl.rights(peer.uuid).may_subscribe  # D-4
        wanted = tuple(one for one in subscriptions if one.channel != RESERVED_CHANNEL and may_have(one))  # T-27
        listed = frozenset(wanted)
        if self._waits_for_patterns(link, peer.uuid, listed, partial(self._store_list_later, link, subscriptions)):
            return
        self._peers.setdefault(peer.uuid, peer)
        peer.voices[link] = None
        self._counts["refused_subscriptions"] += len(subscriptions) - len(wanted)
        if not peer.takes_reliable:
            self._note_list(link, peer, listed)
            return
        if self._is_stored(peer, link, wanted):
            self._set_told(link, frozenset(wanted))
            self._look_for_wildcard(link)
            if not self._claim_kept(link, peer):
                self._on_list_stored(link, None)
                return
        else:
            self._hear(link, ReplacePeerSubscriptions(peer.uuid, wanted))
            batch.lists[peer] = None
            self._pin(peer, link.identity)
            self._claim_kept(link, peer)
            self._store_with_list(peer)
        link.holding |= Hold.LIST
        batch.then.append(partial(self._on_list_stored, link))

    def _note_list(self, link: Link, peer: Peer, listed: frozenset[Subscription]) -> None:
        """Nothing waits for a peer that acknowledges nothing: what it wants counts while it is connected."""
        self._set_told(link, listed)
        self._look_for_wildcard(link)
        self._want_while_connected(peer)
        self._pin(peer, link.identity)
        self._on_list_stored(link, None)

    def _want_while_connected(self, peer: Peer) -> None:
        peer.subscriptions = self._wanted_by(peer)
        peer.keep_back()
        self._reroute(peer)

    def _store_list_later(
        self, link: Link, subscriptions: tuple[Subscription, ...], error: TolliverError | None
    ) -> None:
        """Much may have changed since it came."""
        if link.state is LinkState.FORGOTTEN:
            return
        self._release_hold(link, Hold.LIST)
        if link.state is not LinkState.OPEN:
            self._end(link)
        elif error is not None:
            self._refuse(link, error)
        elif link.up or self._admit(link, _peer(link).uuid):
            self._store_list(link, subscriptions)

    def _let_write(self, link: Link, peer: Peer, subscriptions: tuple[Subscription, ...]) -> None:
        """A derived identity: nothing of it is stored, so the handshake waits for nothing (T-72a)."""
        if subscriptions:
            error = UnexpectedFrame(
                "write_only",
                f"{link.identity.address or 'a peer'} is the derived identity {peer.uuid} and subscribes: it must send "
                "an empty list (T-72a)",
            )
            self._notice(NoticeKind.PROTOCOL_ERROR, peer.uuid, str(error))
            self._refuse(link, error)
            return
        self._on_list_stored(link, None)

    def _is_stored(self, peer: Peer, link: Link, wanted: Iterable[Subscription]) -> bool:
        """The store has this list and this pin, and nothing is on its way there: a full disk is no obstacle (D-13)."""
        if self._is_list_changing(peer) or any(("pin", peer) in batch.undo for batch in self._batches()):
            return False
        said = frozenset(wanted).union(*(other.told for other in peer.voices if other is not link))
        return said == peer.subscriptions and self._new_pin(peer, link.identity) is None

    def _new_pin(self, peer: Peer, proved: PeerIdentity) -> bytes | None:
        """The key that a certificate binds to this UUID, or else the first one that it is seen with, if it is new
        (D-3)."""
        key, known = proved.spki_sha256, peer.spki_sha256
        return None if key == known or (known is not None and not proved.uuids) else key

    def _pin(self, peer: Peer, proved: PeerIdentity) -> None:
        key = self._new_pin(peer, proved)
        if key is not None:
            self._change_pin(peer, key)

    def _change_pin(self, peer: Peer, key: bytes | None) -> None:
        self._batch.undo.setdefault(("pin", peer), partial(setattr, peer, "spki_sha256", peer.spki_sha256))
        self._batch.operations.append(UnpinPeer(peer.uuid) if key is None else PinPeer(peer.uuid, key))
        peer.spki_sha256 = key

    def _on_list_stored(self, link: Link, error: TolliverError | None) -> None:
        link.holding &= ~Hold.LIST
        if link.state is LinkState.FORGOTTEN:
            return
        if error is not None:
            self._refuse(link, error)
        elif link.state is LinkState.DRAINING:
            self._end(link)
        elif _connection(link).state in HOLDING:
            self._accept(link)
        self._readable[link] = None

    def _accept(self, link: Link) -> None:
        """Answer the handshake, with the list that is true now (T-29)."""
        connection = _connection(link)
        own = tuple(self._own)
        if link.control is not None and connection.state is not State.CONFIRMING:
            link.control.announced(own)
        before = connection.unsent_bytes
        connection.accept(own, self._now)
        link.answers += connection.unsent_bytes - before
        self._readable[link] = None
        self._writable[link] = None

    # Established, and which of two.

    def _on_established(self, link: Link, event: Established) -> None:
        self._establish(link, event)
        for pattern in self._hooks.peer_up:
            pattern.peer_up(link)
        self._on_move(_peer(link))

    def _establish(self, link: Link, event: Established) -> None:
        peer = _peer(link)
        self._limiter.remove(link.cid)
        self._keeping.regain(link)
        self._stop_keeping(link, link.remote)
        if link.remote is not None:
            self._dialer.established(link.remote, peer.uuid, self._now)
        old = peer.link
        if old is not None and not peer.derived:
            loser = link if self._keeps(old, link) else old
            if old.role is link.role:
                peer.duel.replaced(self._now)
            self._notice(
                NoticeKind.DUPLICATE_CLOSED,
                peer.uuid,
                f"two connections to one peer: closed the {loser.role} one at {loser.identity.address or 'unknown'}",
            )
            self._take_down(loser, None)
            self._end(loser)
            if loser is link:
                if link.remote is not None:
                    self._announce_up(old, link.remote)
                return
        link.up_since = self._now
        link.version = event.version
        peer.link = link
        peer.withheld.clear()  # it sends all again
        peer.keep_back()
        self._up[link.cid] = link
        if _connection(link).revision is not self.revision or not peer.takes_reliable:
            self._foreign[link] = None
        peer.identity = link.identity
        link.ack_watch = AckWatch(self._policy.unacknowledged_after)
        link.window = Window(peer.outbox, self.limits, self._resend_first, self._rng.random)
        self._sendable[link] = None
        if peer.inbox.exhausted:
            link.holding |= Hold.CREDIT
        if peer.outbox.poison.alone:
            link.window.deferred = True
            self._timers.set(("deferred", link.cid), self._now + ALONE_AFTER_UP)
        self._counts["connects"] += 1
        peer.counts.connects += 1
        self._announce_up(link, link.remote)
        self._keepalive.begin(link, self._now)
        assert link.control is not None
        self._mute(link.control, peer.uuid)
        if self._dialect(link.remote, peer.uuid).over(self._own_dialect).announce_after_handshake:
            link.control.doubt(self._own)
        self._insist(link, peer)
        for subscription in sorted(link.control.differing(self._own)):
            self._sync_control(link, subscription)

    def _keeps(self, old: Link, new: Link) -> bool:
        """T-70: newest wins, but of crossing dials the one by the lower UUID, so that both ends keep the same."""
        if old.role is new.role or self._now - old.up_since > self.limits.crossing_dial_window:
            return False
        return self._dialled_by(old) < self._dialled_by(new)

    # Two live instances of one UUID (T-70).

    def _stands_back(self, link: Link, said: HandshakeRequest | HandshakeResponse) -> bool:
        """True if it has to wait for another connection of its peer, or is closed because of one."""
        peer = _peer(link)
        duel, older = peer.duel, peer.link
        if older is None or peer.derived or older.role is not link.role:
            return False
        if duel.is_shut(self._now):
            self._refuse_clone(link)
            return True
        if not duel.is_due(self._now):
            return False
        duel.begin(link, said, self._now)
        link.holding |= Hold.DUEL
        self._keepalive.ask(older, self._now)
        self._writable[older] = None
        self._timers.set(("duel", peer.uuid), self._now + ANSWER_WITHIN)
        return True

    def _refuse_clone(self, link: Link) -> None:
        uuid = _peer(link).uuid
        self._tally.add(
            NoticeKind.DUPLICATE_IDENTITY,
            uuid,
            1,
            f"connections, the last one from {link.identity.address or 'an unknown address'}, were closed, as another "
            "instance with this UUID is connected and alive: give each its own certificate and database (T-70)",
            self._now,
        )
        self._refuse(link, ConnectionLost(f"another instance with the UUID {uuid} is connected here, and alive (T-70)"))

    def _on_duel_timeout(self, uuid: UUID) -> None:
        """The older one has answered, or has ended, or had its time."""
        peer = self._peers.get(uuid)
        waiting = peer.duel.end() if peer is not None else None
        if peer is None or waiting is None:
            return
        link, said = waiting
        if link.state is LinkState.FORGOTTEN:
            return
        link.holding &= ~Hold.DUEL
        self._readable[link] = None
        if link.state is not LinkState.OPEN:
            self._end(link)
        elif peer.link is not None and peer.duel.is_alive(peer.link.last_received, self._keepalive.is_mute(peer.link)):
            peer.duel.shut(self._now)
            self._refuse_clone(link)
        elif isinstance(said, HandshakeRequest):
            self._on_request(link, said)
        else:
            self._on_response(link, said)

    def _look_at_brief_end(self, link: Link, in_order: bool) -> None:
        """Its peer may have another connection from our UUID. A peer that dials us may have had no more to say."""
        peer = _peer(link)
        is_brief = in_order and link.role is Role.CLIENT and self._now - link.up_since < BRIEF
        peer.duel.brief_ends = peer.duel.brief_ends + 1 if is_brief else 0
        if peer.duel.brief_ends >= BRIEF_ENDS:
            self._tally.add(
                NoticeKind.DUPLICATE_IDENTITY,
                peer.uuid,
                peer.duel.brief_ends,
                f"connections running were ended by this peer right after they were made: is another instance with "
                f"our UUID {self.instance_id} connected to it, such as a copy of this machine? (T-70)",
                self._now,
            )

    def _dialled_by(self, link: Link) -> UUID:
        return self.instance_id if link.role is Role.CLIENT else _peer(link).uuid

    def _announce_up(self, link: Link, remote: Remote | None) -> None:
        self._actions.append(PeerUp(link.cid, _peer(link).uuid, link.version, remote))

    # The end.

    def _on_closed(self, link: Link, event: Closed) -> None:
        before = link.state
        link.move(LinkSignal.CLOSED)
        link.error = link.error or event.error
        if isinstance(event.error, RemoteProtocolError) and before is not LinkState.DRAINING:
            uuid = link.peer.uuid if link.peer else None
            detail = f"{link.identity.address or 'a peer'}: {event.error}{look_of(link)}"
            self._notice(NoticeKind.PROTOCOL_ERROR, uuid, detail)
        if link.up:
            in_order = event.error is None and before is LinkState.OPEN
            self._look_at_brief_end(link, in_order)
            if in_order:
                self._suspect(link)
        self._take_down(link, link.error)
        self._writable[link] = None
        if before is LinkState.DRAINING:
            self._forget(link)

    def _on_deferred_timeout(self, cid: int) -> None:
        """The peer has been up for long enough: it gets the message that it may close for (T-09)."""
        link = self._links[cid]
        assert link.window is not None
        link.window.deferred = False
        self._sendable[link] = None

    def _suspect(self, link: Link) -> None:
        """The peer ended it in order: perhaps because of what it cannot take (T-09)."""
        peer = _peer(link)
        sizes = link.window.sizes_of(link.exposure.at(self._now)) if link.window is not None else {}
        seq = peer.outbox.poison.ended([*sizes])
        if seq is None:
            return
        self._park(peer.outbox, peer.uuid, seq, sizes[seq])
        self._notice(
            NoticeKind.PARKED,
            peer.uuid,
            f"message {seq} was set aside, as the peer closes whenever it gets it; the next ones go. Is it larger "
            "than the peer's limit? `retry` sends it again, `drop_parked` gives it up (T-09)",
        )

    def _refuse(self, link: Link, error: TolliverError) -> None:
        """End it without a frame (T-67): `error` is what whoever asked for the connection will see."""
        link.error = error
        self._end(link)

    def _refuse_flood(self, link: Link) -> None:
        """It makes us say more and more and reads nothing: reading never waits for writing (D-9), so this ends it."""
        error = LimitExceeded(
            "flood",
            f"over {self.limits.max_answers} bytes of acks and answers that were caused and are not read (D-12)",
        )
        uuid = link.peer.uuid if link.peer else None
        detail = f"{link.identity.address or 'a peer'}: {error}"
        self._notice(NoticeKind.PROTOCOL_ERROR, uuid, detail)
        self._refuse(link, error)

    def _refuse_self(self, link: Link, what: str) -> None:
        """The other end has our identity: a dial that came back, or an instance that was copied (T-71)."""
        error = SelfConnection(f"{link.identity.address or 'the other end'} {what}: dial somebody else (T-71)")
        self._notice(NoticeKind.SELF_CONNECTION, self.instance_id, str(error))
        self._refuse(link, error)

    def _end(self, link: Link) -> None:
        """Close in order. Without a connection there is nothing to say."""
        if link.connection is None:
            self._abort(link)
            return
        link.move(LinkSignal.END)
        link.connection.close(self._now)
        self._go_on(link)

    def _lost(self, link: Link, error: TolliverError | None) -> None:
        if link.role is Role.SERVER and isinstance(error, CertificateError):
            where = link.identity.address or self._limiter.address(link.cid) or "an unknown address"
            peer, ended = (link.peer.uuid, "closed") if link.peer is not None else (None, "refused")
            self._notice(NoticeKind.CERTIFICATE_REFUSED, peer, f"a connection from {where} was {ended}: {error}")
        link.holding &= ~Hold.CREDIT  # nothing more will come than what is here
        super()._lost(link, error)
        if link.holding & Hold.DUEL and link.peer is not None:
            self._timers.set(("duel", link.peer.uuid), self._now)

    def _take_down(self, link: Link, error: TolliverError | None) -> None:
        """It is no longer its peer's live link: what only lived with it is gone (T-49)."""
        was_up = link.up
        self._take_from_peer(link, error)
        for pattern in self._hooks.peer_down:
            pattern.peer_down(link, was_up)
        if was_up and link.peer is not None:
            self._on_move(link.peer)

    def _take_from_peer(self, link: Link, error: TolliverError | None) -> None:
        link.early = None
        link.holding &= ~(Hold.CREDIT | Hold.DUEL)
        window, link.window = link.window, None
        if link.control is not None:
            link.control.drop()
        peer = link.peer
        if peer is None:
            return
        peer.inbox.lose(link.cid)
        self._end_waiting_on(link)
        if window is not None:
            del self._up[link.cid]
            peer.outbox.left(window)
            for counts in (self._counts, peer.counts.by):
                counts[f"disconnects_{EndCause.of(error)}"] += 1
            self._foreign.pop(link, None)
            peer.link = next((one for one in peer.voices if one.up), None)  # a derived identity may have another
            self._timers.cancel(("deferred", link.cid))
            peer.duel.older_ended()
            if peer.duel.waiting is not None:
                self._timers.set(("duel", peer.uuid), self._now)
            self._actions.append(PeerDown(link.cid, peer.uuid, error))
            self._dialer.peer_left(peer.uuid, self._now)
        if link in peer.voices:
            del peer.voices[link]
            if peer.derived:
                self._drop_derived(peer)
            elif not peer.takes_reliable:
                self._want_while_connected(peer)
            elif peer.voices:  # else what it said last stays: messages queue for it (T-32)
                self._route_to(peer)
                self._batch.lists[peer] = None
                self._timers.set_earlier("removals", self._now + self.limits.removal_delay)
        self._count_absence(peer)

    def _count_absence(self, peer: Peer) -> None:
        """From now on it is away, if it is known at all: after some time it is forgotten (T-77)."""
        after = self._policy.forget_after
        if after is not None and self._peers.get(peer.uuid) is peer and not (peer.derived or peer.is_owner):
            self._timers.set(("away", peer.uuid), self._now + after)

    def _drop_derived(self, peer: Peer) -> None:
        """Nothing is kept of it when its last connection is over."""
        if not peer.voices and not peer.forgotten:
            self._peers.pop(peer.uuid, None)
            if peer.inbox.held:  # handlers are still at these
                self._left_inboxes[peer.uuid] = peer.inbox

    def _forget(self, link: Link) -> None:
        super()._forget(link)
        self._sendable.pop(link, None)
        for name in ("resend", "fetch", "rate", "probe", "age", "patience", "unacked"):
            self._timers.cancel((name, link.cid))
        self._take_down(link, link.error)
        if link in self._keeping:
            self._keeping.lose(link)
            self._stop_keeping(link)
        self._end_dial(link)

    def _end_dial(self, link: Link) -> None:
        """The dial for this remote is over; once for each cid."""
        if link.remote is None:
            return
        ending = self._dialer.ended(link.remote, link.cid, link.error, link.first, link.fruitful, self._now)
        if ending is None:
            return
        failure, error = ending.failure, link.error
        if ending.is_final:
            self._stop_keeping(link.remote)
            text = f"{link.remote} is not dialled any more: {error}"
            self._notice(NoticeKind.DIAL_GAVE_UP, None, text, link.remote, failure.cause)
            self._actions.append(DialEnded(link.remote, error))
            return
        if ending.is_news:
            again = "every 1 to 5 minutes" if failure.cause.is_refusal else "again"
            text = f"{link.remote} is not connected, and dialled {again}: {failure}"
            self._notice(NoticeKind.DIAL_FAILED, ending.peer, text, link.remote, failure.cause)
        if self._tells_events and (ending.is_news or ending.ends_calls):
            told = error if ending.ends_calls else None
            self._actions.append(DialFailed(link.remote, failure.cause, str(failure), told, ending.is_news))


def look_of(link: Link) -> str:
    """Words about what came first, if that is known for something else."""
    cause = DialCause.told_by(link.first)
    return f" ({cause.text})" if cause is not None else ""


def _connection(link: Link) -> Connection:
    assert link.connection is not None
    return link.connection


def _peer(link: Link) -> Peer:
    assert link.peer is not None
    return link.peer
