"""Handshakes, and the one live link of a peer.

State: a link waits here for the commit of its peer's list (`Hold.LIST`) or for the answer of an older connection
(`Hold.DUEL`). The wire's machine knows when a handshake may go on; this module knows what must be true before.

Steps: admit the peer (its UUID fits the certificate and the pin, D-3, and the access rules let it in, D-4); resolve
crossing dials and clones (T-70); put its list into the routes and the store; accept, with our own list as it is then
(T-29); make the link the peer's live one.

Invariants: the peer's list is in the routes and in the store before the answer goes out (T-61) or the connection is
reported (T-34). Of two connections to one peer one stays, and both sides pick the same. A link that waited is admitted
again, since access rules, pins and other connections may have changed meanwhile.

Rejected: one path for derived identities. Nothing of them is stored and each may have many connections, so their
handshakes wait for no commit and replace no connection (T-72a).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from uuid import UUID

from ..._common.arguments import Unchecked, check_peer, check_type
from ..._common.base_link import LinkState
from ..._common.derived_ids import is_derived
from ..._common.errors import ConnectionLost, IdentityConflict, TolliverError, UndeliveredReason, UnexpectedFrame
from ..._common.owner_ids import is_owner
from ..._common.transport import PeerIdentity, Role
from ..._wire.events import (
    RESERVED_CHANNEL,
    Ack,
    Established,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Subscription,
)
from ..._wire.state import HOLDING, State
from ..actions import NoticeKind, Receipt, Stored
from ..commits.commits import Commits
from ..context import Context
from ..inboxes.credit import Credit
from ..inboxes.delivering import Delivering
from ..inboxes.inbox import Inbox
from ..link import Hold, Link, Peer, connection_of, peer_of
from ..lists.own import OwnList
from ..lists.peers import PeerLists
from ..outboxes.connect_wait import ConnectWait
from ..outboxes.ledger import Ledger
from ..outboxes.routing import Routing
from ..outboxes.transmission import Transmission
from ..store import ForgetPeer, Found, LoadedPeer, NamePeer, PinPeer, ReplacePeerSubscriptions, UnpinPeer
from .duels import ANSWER_WITHIN
from .links import Links

_PIN_SIZE = 32
_NAME_KEPT = 64  # characters of a certificate's name that are stored
_A_PIN = "the SHA-256 of a key, 32 bytes, or None for the key that it shows next"


class Handshakes:
    """Carries handshakes through: admits a peer, stores its list and its key, establishes the link; and forgets
    peers.
    """

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
        delivering: Delivering,
        links: Links,
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        self._commits = commits
        self._routing = routing
        self._ledger = ledger
        self._connect_wait = connect_wait
        self._own = own
        self._peer_lists = peer_lists
        self._credit = credit
        self._delivering = delivering
        self._links = links
        # Effects of a link that becomes its peer's live one, in this order.
        self._up: tuple[Callable[[Link, Peer], None], ...] = (
            links.attach,
            transmission.up,
            credit.up,
            links.up,
            self._tell_own_list,
        )
        context.due.update({"away": self._on_away_timeout, "duel": self._on_duel_timeout})

    def on_request(self, link: Link, frame: HandshakeRequest) -> None:
        connection = connection_of(link)
        if not link.up and (not self._admit(link, frame.instance_id) or self._stands_back(link, frame)):
            return
        answer = connection.answer
        if answer is HandshakeStatus.NEWER_INCOMPATIBLE:
            self._accept(link)  # answers with that status and closes; the list is discarded (T-61)
        elif connection.awaits_final and not link.up:
            self._peer_lists.keep_list(link, self._listed(link, frame))
            self._connect_wait.begin(link)
            self._accept(link)
        else:
            self._store_list(link, self._listed(link, frame))

    def on_response(self, link: Link, frame: HandshakeResponse) -> None:
        connection = connection_of(link)
        if connection.state is State.CLOSED or not self._admit(link, frame.instance_id):
            return
        if connection.unsent_bytes:
            self._context.writable[link] = None  # the final, in wire layouts that send one after every response
        link.sending.exposure.round_trip = self._context.now - link.began
        if link.remote is not None:
            self._links.dialer.answered(link.remote, frame.instance_id)
            self._routing.on_move(peer_of(link))  # the peer may have dialled us already
        if self._stands_back(link, frame):
            return
        if connection.state is State.CONFIRMING and connection.answer is HandshakeStatus.NEWER_INCOMPATIBLE:
            self._accept(link)
        else:
            self._store_list(link, self._listed(link, frame))

    def _listed(self, link: Link, frame: HandshakeRequest | HandshakeResponse) -> tuple[Subscription, ...]:
        """Subscriptions in the peer's frame; for a wire layout without lists those of its dialect."""
        if connection_of(link).has_lists:
            return frame.subscriptions
        return self._links.dialect(link.remote, frame.instance_id).subscriptions or ()

    def on_final(self, link: Link, frame: HandshakeFinal) -> None:
        if frame.compatible and self._admit(
            link, peer_of(link).uuid
        ):  # again: rules may have changed since its request
            self._store_list(link, link.lists.held_list)

    def _admit(self, link: Link, claimed: UUID) -> bool:
        """True if the peer may be the one it claims to be, and may connect; else refuses the link (D-3, T-71, T-72,
        T-72a)."""
        if claimed == self._context.instance_id:
            if link.role is Role.SERVER:
                self._accept(link)  # so that the dialling end, which is us too, learns that it has reached itself
            self._links.refuse_self(link, "is this instance itself, or a copy of it")
            return False
        if is_owner(claimed):
            self._links.refuse(link, IdentityConflict(f"{link.identity.address} claims the UUID of a queue, {claimed}"))
            return False
        known = self._peers.get(claimed)
        if known is not None and known.links.forgotten:
            self._links.refuse(link, ConnectionLost(f"peer {claimed} is being forgotten here: try again in a moment"))
            return False
        conflict = self._links.gate.conflict(link.identity, claimed)
        if conflict is not None:
            error = IdentityConflict(f"{link.identity.address} claims to be {claimed}, but {conflict} (D-3, T-72)")
            self._context.notice(NoticeKind.IDENTITY_MISMATCH, claimed, str(error))
            self._links.refuse(link, error)
            return False
        denial = self._links.gate.denial(link.role, claimed)
        if denial is not None:
            self._links.deny(link, claimed, denial)
            return False
        link.peer = known or Peer(claimed, LoadedPeer())  # goes into `_peers` when its list is stored
        self._routing.set_takes_reliable(link.peer, connection_of(link).can_send(Ack))
        assert link.lists.control is not None
        self._links.mute(link.lists.control, claimed)
        if link.peer.derived:
            link.peer.inbox = self._credit.left_inboxes.get(claimed, link.peer.inbox)
            self._peers[claimed] = link.peer
            link.peer.lists.voices[link] = None  # keeps it in `_peers`, as nothing of it is stored
        return True

    def _store_list(self, link: Link, subscriptions: tuple[Subscription, ...]) -> None:
        """Changes the routes now; the handshake goes on once the list is stored (T-30, T-61), with what patterns store
        for the peer. The list is `subscriptions`.
        """
        peer, batch = peer_of(link), self._commits.batch
        if peer.derived:
            self._let_write(link, peer, subscriptions)
            return
        may_have = self._context.acl.rights(peer.uuid).may_subscribe  # D-4
        wanted = tuple(one for one in subscriptions if one.channel != RESERVED_CHANNEL and may_have(one))  # T-27
        listed = frozenset(wanted)
        if self._peer_lists.must_wait(link, peer, listed, listed, partial(self._store_list_later, link, subscriptions)):
            return
        self._peers.setdefault(peer.uuid, peer)
        peer.lists.voices[link] = None
        self._counts["refused_subscriptions"] += len(subscriptions) - len(wanted)
        if not peer.outbox.takes_reliable:
            self._note_list(link, peer, listed)
            return
        self._name(peer, link.identity)
        if self._is_stored(peer, link, wanted):
            self._peer_lists.set_told(link, frozenset(wanted))
            self._peer_lists.look_for_wildcard(link)
            if not self._claim_kept(link, peer):
                self._on_list_stored(link, None)
                return
        else:
            self._peer_lists.hear(link, ReplacePeerSubscriptions(peer.uuid, wanted))
            batch.lists.setdefault(peer, False)
            self._pin(peer, link.identity)
            self._claim_kept(link, peer)
            self._peer_lists.store_with_list(peer)
        link.hold(Hold.LIST)
        batch.then.append(partial(self._on_list_stored, link))

    def _claim_kept(self, link: Link, peer: Peer) -> bool:
        """Gives the peer what was kept for this connection and for all remotes that lead to the peer, whoever dialled;
        returns False if its list matches none of that. The windows of the remotes last until the peer is up.
        """
        claimed = self._connect_wait.claim_kept(peer, link, *self._links.dialer.remotes_of(peer.uuid))
        self._connect_wait.stop_keeping(link)  # unblocks sends
        return claimed

    def _note_list(self, link: Link, peer: Peer, listed: frozenset[Subscription]) -> None:
        """Keeps the list `listed` only in memory, while the peer is connected: for a peer without acks nothing is
        stored.
        """
        self._peer_lists.set_told(link, listed)
        self._peer_lists.look_for_wildcard(link)
        self._peer_lists.want_while_connected(peer)
        self._pin(peer, link.identity)
        self._name(peer, link.identity)
        self._on_list_stored(link, None)

    def _store_list_later(
        self, link: Link, subscriptions: tuple[Subscription, ...], error: TolliverError | None
    ) -> None:
        """Stores the list that had to wait, unless a pattern met `error`; admits the peer again, as much may have
        changed meanwhile.
        """
        if link.state is LinkState.FORGOTTEN:
            return
        self._context.go_on_reading(link, Hold.LIST)
        if link.state is not LinkState.OPEN:
            self._links.end(link)
        elif error is not None:
            self._links.refuse(link, error)
        elif link.up or self._admit(link, peer_of(link).uuid):
            self._store_list(link, subscriptions)

    def _let_write(self, link: Link, peer: Peer, subscriptions: tuple[Subscription, ...]) -> None:
        """Establishes a derived identity without a commit, as nothing of it is stored; refuses one that subscribes
        (T-72a)."""
        if subscriptions:
            error = UnexpectedFrame(
                "write_only",
                f"{link.identity.address or 'a peer'} is the derived identity {peer.uuid} and subscribes: it must send "
                "an empty list (T-72a)",
            )
            self._context.notice(NoticeKind.PROTOCOL_ERROR, peer.uuid, str(error))
            self._links.refuse(link, error)
            return
        self._on_list_stored(link, None)

    def _is_stored(self, peer: Peer, link: Link, wanted: Iterable[Subscription]) -> bool:
        """True if the store has this list and this pin and no change of them is pending: then a full disk does not
        matter (D-13)."""
        if self._peer_lists.is_list_changing(peer) or any(
            ("pin", peer) in batch.undo for batch in self._commits.batches()
        ):
            return False
        said = frozenset(wanted).union(*(other.lists.told for other in peer.lists.voices if other is not link))
        return said == peer.lists.subscriptions and self._new_pin(peer, link.identity) is None

    def _new_pin(self, peer: Peer, proved: PeerIdentity) -> bytes | None:
        """Returns the SHA-256 of the public key to pin to the peer: that of the certificate bound to this UUID, or the
        first one seen; None if no pin changes (D-3).
        """
        key, known = proved.spki_sha256, peer.links.spki_sha256
        return None if key == known or (known is not None and not proved.uuids) else key

    def _pin(self, peer: Peer, proved: PeerIdentity) -> None:
        key = self._new_pin(peer, proved)
        if key is not None:
            self._change_pin(peer, key)

    def _change_pin(self, peer: Peer, key: bytes | None) -> None:
        self._commits.batch.undo.setdefault(
            ("pin", peer), partial(setattr, peer.links, "spki_sha256", peer.links.spki_sha256)
        )
        self._commits.batch.operations.append(UnpinPeer(peer.uuid) if key is None else PinPeer(peer.uuid, key))
        peer.links.spki_sha256 = key

    def _name(self, peer: Peer, proved: PeerIdentity) -> None:
        """Has the name in the peer's certificate stored, for people after a restart (D-14). No connection waits for
        that, so a full disk does not matter."""
        name, known = proved.name[:_NAME_KEPT], peer.links.name
        if name in ("", known):
            return
        self._commits.batch.undo.setdefault(("name", peer), partial(setattr, peer.links, "name", known))
        self._commits.batch.operations.append(NamePeer(peer.uuid, name))
        peer.links.name = name

    def _on_list_stored(self, link: Link, error: TolliverError | None) -> None:
        link.release(Hold.LIST)
        if link.state is LinkState.FORGOTTEN:
            return
        if error is not None:
            self._links.refuse(link, error)
        elif link.state is LinkState.DRAINING:
            self._links.end(link)
        elif connection_of(link).state in HOLDING:
            self._accept(link)
        self._context.readable[link] = None

    def _accept(self, link: Link) -> None:
        """Answers the handshake with our own list as it is now (T-29)."""
        connection = connection_of(link)
        own = tuple(self._own.entries)
        if link.lists.control is not None and connection.state is not State.CONFIRMING:
            link.lists.control.announced(own)
        before = connection.unsent_bytes
        connection.accept(own, self._context.now)
        self._context.cause(link, connection.unsent_bytes - before)
        self._context.readable[link] = None
        self._context.writable[link] = None

    def on_established(self, link: Link, event: Established) -> None:
        peer, old = peer_of(link), peer_of(link).link
        link.version = event.version
        self._links.limiter.remove(link.cid)
        self._ledger.keeping.regain(link)
        self._connect_wait.stop_keeping(link)
        self._connect_wait.hand_over(peer, *self._links.dialer.remotes_of(peer.uuid))
        if link.remote is not None:
            self._links.dialer.established(link.remote, peer.uuid, self._context.now)
        if old is None or peer.derived or self._replaces(link, old):
            for effect in self._up:
                effect(link, peer)
        for pattern in self._hooks.peer_up:
            pattern.peer_up(link)
        self._routing.on_move(peer)

    def _replaces(self, link: Link, old: Link) -> bool:
        """Closes one of the connections `link`, the newer, and `old` to one peer; returns True if the newer one stays
        (T-70).
        """
        peer, loser = peer_of(link), link if self._keeps(old, link) else old
        if old.role is link.role:
            peer.links.duel.replaced(self._context.now)
        self._context.notice(
            NoticeKind.DUPLICATE_CLOSED,
            peer.uuid,
            f"two connections to one peer: closed the {loser.role} one at {loser.identity.address or 'unknown'}",
        )
        self._links.take_down(loser, None)
        self._links.end(loser)
        if loser is link and link.remote is not None:
            self._links.announce_up(old, link.remote)
        return loser is old

    def _tell_own_list(self, link: Link, peer: Peer) -> None:
        """Sends the peer the part of our list that the handshake did not have (T-29, T-61)."""
        control = link.lists.control
        assert control is not None
        self._links.mute(control, peer.uuid)
        if self._links.dialect(link.remote, peer.uuid).announce_after_handshake:
            control.doubt(self._own.entries)
        self._own.insist(link, peer)
        for subscription in sorted(control.differing(self._own.entries)):
            self._own.sync_control(link, subscription)

    def _keeps(self, old: Link, new: Link) -> bool:
        """True if the older connection stays (T-70): newest wins, but of crossing dials the one by the lower UUID does,
        so that both ends keep the same."""
        if old.role is new.role or self._context.now - old.up_since > self._limits.crossing_dial_window:
            return False
        return self._dialled_by(old) < self._dialled_by(new)

    def _stands_back(self, link: Link, said: HandshakeRequest | HandshakeResponse) -> bool:
        """True if the new connection `link`, whose first frame is `said`, does not go on: it waits for the check of its
        peer's older connection, or is closed because of that one.
        """
        peer = peer_of(link)
        duel, older = peer.links.duel, peer.link
        if older is None or peer.derived or older.role is not link.role:
            return False
        if duel.is_shut(self._context.now):
            self._refuse_clone(link)
            return True
        if not duel.is_due(self._context.now):
            return False
        duel.begin(link, said, self._context.now)
        link.hold(Hold.DUEL)
        self._links.keepalive.ask(older, self._context.now)
        self._context.writable[older] = None
        self._timers.set(("duel", peer.uuid), self._context.now + ANSWER_WITHIN)
        return True

    def _refuse_clone(self, link: Link) -> None:
        uuid = peer_of(link).uuid
        self._context.tally.add(
            NoticeKind.DUPLICATE_IDENTITY,
            uuid,
            1,
            f"connections, the last one from {link.identity.address or 'an unknown address'}, were closed, as another "
            "instance with this UUID is connected and alive: give each its own certificate and database (T-70)",
            self._context.now,
        )
        self._links.refuse(
            link, ConnectionLost(f"another instance with the UUID {uuid} is connected here, and alive (T-70)")
        )

    def _on_duel_timeout(self, uuid: UUID) -> None:
        """Ends the wait of a newer connection: refuses it if the older one is alive, else goes on with its
        handshake."""
        peer = self._peers.get(uuid)
        waiting = peer.links.duel.end() if peer is not None else None
        if peer is None or waiting is None:
            return
        link, said = waiting
        if link.state is LinkState.FORGOTTEN:
            return
        link.release(Hold.DUEL)
        self._context.readable[link] = None
        if link.state is not LinkState.OPEN:
            self._links.end(link)
        elif peer.link is not None and peer.links.duel.is_alive(
            peer.link.last_received, self._links.keepalive.is_mute(peer.link)
        ):
            peer.links.duel.shut(self._context.now)
            self._refuse_clone(link)
        elif isinstance(said, HandshakeRequest):
            self.on_request(link, said)
        else:
            self.on_response(link, said)

    def _dialled_by(self, link: Link) -> UUID:
        return self._context.instance_id if link.role is Role.CLIENT else peer_of(link).uuid

    def forget_peer(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Purges the messages owed to the peer, its subscriptions and its pin (T-77)."""
        self._context.tick(now)
        check_peer("peer", uuid, or_owner=True)
        receipt = Receipt(0, -1, [])
        if is_derived(uuid):  # the store may know its handled messages only
            self._peers.setdefault(uuid, Peer(uuid, LoadedPeer()))
        peer = self._peers.get(uuid)
        if peer is None:
            self._actions.append(Stored([receipt]))
            return receipt
        for pattern in self._hooks.forgets:
            pattern.forgets(peer)
        peer.links.forgotten.append(receipt)
        if len(peer.links.forgotten) == 1:
            self._forget_all_of(peer)
        return receipt

    def _on_away_timeout(self, uuid: UUID) -> None:
        """Forgets a peer that was away for too long; one that is connected or in a handshake starts a new wait at its
        end."""
        peer = self._peers.get(uuid)
        if peer is None or peer.links.forgotten or any(link.peer is peer for link in self._context.links.values()):
            return
        count = peer.outbox.pending + peer.outbox.parked
        self._context.notice(
            NoticeKind.FORGOTTEN,
            uuid,
            f"it was not connected for {self._policy.forget_after:g} s, and is forgotten, with {count} messages that "
            "waited for it (forget_after)",
        )
        self.forget_peer(uuid)

    def _forget_all_of(self, peer: Peer) -> None:
        error = ConnectionLost(f"peer {peer.uuid} is being forgotten here: try again in a moment")
        for link in [link for link in self._context.links.values() if link.peer is peer]:
            self._links.take_down(link, error)
            self._links.refuse(link, error)
        self._commits.batch.note_list(peer)
        self._peer_lists.hold(peer, {})  # so that its held messages are given up with the others, as forgotten (T-54)
        self._peer_lists.route_to(peer, peer.lists.subscriptions)  # no connection is left, so its routes end
        self._commits.batch.lists.setdefault(peer, False)

        def purged(error: TolliverError | None) -> None:
            if error is not None:
                forgotten(error)
                return
            self._commits.batch.operations.append(ForgetPeer(peer.uuid))
            self._commits.batch.then.append(forgotten)

        def forgotten(error: TolliverError | None) -> None:
            receipts, peer.links.forgotten = peer.links.forgotten, []
            if error is None:
                del self._peers[peer.uuid]
                self._ledger.keeping.forget(peer)
                self._delivering.dedupe.forget(peer.uuid)
                handled = self._commits.batch.handled  # since the purge began: its ids may start over
                handled[:] = [one for one in handled if one[0] != peer.uuid]
                self._credit.left_inboxes.pop(peer.uuid, None)
                peer.inbox = Inbox()
            elif peer.derived:
                self._links.drop_derived(peer)
            else:
                self._routing.reroute(peer)
                self._links.count_absence(peer)
            self._actions.append(Stored(receipts, error))
            repins, peer.links.repins = peer.links.repins, []
            for spki_sha256, receipt in repins:
                self._repin(peer.uuid, spki_sha256, receipt)

        def take(found: Sequence[Found]) -> None:
            gone = [*found]
            for pattern in self._hooks.rescues:
                gone = pattern.rescues(peer, gone)
            self._ledger.remove(UndeliveredReason.FORGOTTEN, peer, gone)

        self._commits.searches.begin(peer.uuid, take, purged)

    def repin(self, uuid: UUID, spki_sha256: Unchecked = None, now: float | None = None) -> Receipt:
        """Pins this key to the peer, or, if None, the key that it presents next (D-3)."""
        self._context.tick(now)
        check_peer("peer", uuid)
        if spki_sha256 is not None:
            check_type("spki_sha256", spki_sha256, bytes, _A_PIN)
            if len(spki_sha256) != _PIN_SIZE:
                raise ValueError(f"spki_sha256={spki_sha256!r:.100}: give {_A_PIN}")
        receipt = Receipt(0, -1, [])
        peer = self._peers.get(uuid)
        if peer is not None and peer.links.forgotten:
            peer.links.repins.append((spki_sha256, receipt))
        else:
            self._repin(uuid, spki_sha256, receipt)
        return receipt

    def _repin(self, uuid: UUID, spki_sha256: bytes | None, receipt: Receipt) -> None:
        self._commits.batch.tokens.append(receipt)
        peer = self._peers.get(uuid)
        if peer is None and spki_sha256 is None:
            return
        if peer is None:
            peer = self._peers[uuid] = Peer(uuid, LoadedPeer())
        self._change_pin(peer, spki_sha256)
        link = peer.link
        if link is not None and not link.identity.uuids and spki_sha256 not in (None, link.identity.spki_sha256):
            self._links.end(link)
