"""State of a node's kernel, shared by all its layers.

A node is one class, cut by topic into modules of which each calls only those before it: this state, `removing`,
`moving`, `room`, `sending`, `holds`, `handling`, `receiving`, `again`, `handshakes`, `storing`, `maintenance`,
`expiring`, `flushing`, and last the node itself (`node`), which takes inputs and picks the next action. They share this
state as a commit, a handshake and an acknowledgement each touch most of it. Parts that can be told apart are objects
that the node holds: `HandshakeGate` says who may connect, `Dialer` whom to dial when, `KeepAlive` whether somebody is
still there, `OutboxSearch` what the store has. `Link`, `Peer`, `Outbox` and `Batch` are data with their own rules; the
table of connections is the base of all. Patterns of use are above (`pattern`, `services`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from uuid import UUID

from .._common.causes import DialCause
from .._common.connection_table import ConnectionTable
from .._common.derived import is_derived
from .._common.errors import LocalProtocolError, OwnLimitExceeded, ReservedChannel
from .._common.handshake_limiter import HandshakeLimiter
from .._common.histogram import Histogram
from .._common.transport import Remote, Role
from .._wire.dialect import Dialect
from .._wire.events import PRIVATE_CHANNELS, HandshakeResponse, HandshakeStatus, Revision, Subscription
from .._wire.frames import encoder
from .._wire.layouts import LAYOUTS
from .._wire.limits import Limits
from .._wire.state import State
from .access import Acl
from .actions import Action, Deliver, Delivery, Handler, Notice, NoticeKind, Receipt
from .batch import Batch
from .calls import Calls
from .dedupe import DedupeCache
from .drops import Drops
from .gate import HandshakeGate
from .ids import IdAllocator, Randomness
from .inbox import Bound, Inbox
from .intervals import RefCounts
from .keepalive import KeepAlive
from .keeping import Keeping
from .letters import DeadLetters
from .link import Link, Peer, Recipients
from .opening import Opening
from .pattern import Hooks, Judgement, Pattern
from .policy import Policy
from .receipts import HeldReceipts
from .store import Loaded
from .stored_times import StoredTimes
from .subscriptions import Routes
from .tally import THROTTLED, NoticeTally
from .terms import Terms

Item = tuple[str, str, bytes]
"""(channel, key, body)"""

UNSAID_FOR = 24 * 3600.0
"""Seconds for which an unsubscribe is repeated to those who have not acknowledged it (T-61)."""

_NAMES_KNOWN = 4096


def _all(handlers: tuple[Handler, ...]) -> tuple[Handler, ...]:
    return handlers


class NodeState(ConnectionTable[Link, Action]):
    """The node's data, and what is done with it everywhere."""

    _CLOSED = State.CLOSED
    _tells_events = False

    def __init__(
        self,
        instance_id: UUID,
        rng: Randomness,
        limits: Limits,
        loaded: Loaded,
        version: int,
        revision: Revision,
        speaks: Callable[[int], bool],
        retry_interval: float | None,
        policy: Policy,
        acl: Acl,
        given: bool,
        now: float | None,
    ) -> None:
        self.limits = limits
        super().__init__(
            partial(Link, control_per_second=limits.control_per_second),
            HandshakeLimiter(limits.max_handshakes, limits.max_handshakes_per_address),
            limits.handshake_timeout,
            now,
        )
        self.instance_id = instance_id
        self.version = version
        self.revision = revision
        self._policy = policy
        self._own_dialect = Dialect(
            version=version,
            unreliable_id=policy.unreliable_id,
            announce_after_handshake=policy.announce_after_handshake,
            strict_uuid7=policy.strict_uuid7,
            accept_either=policy.accept_either,
        )
        self._speaks = speaks
        self._hooks = Hooks()
        self._rng = rng
        self._resend_first = limits.resend_first if retry_interval is None else retry_interval
        self._encoder = encoder(revision)
        # Connections that stand, and those of them that may be sent something.
        self._up: dict[int, Link] = {}
        self._keepalive = KeepAlive(policy, not is_derived(instance_id), rng.random, self._timers, self._counts)
        self._sendable: dict[Link, None] = {}
        # Commit in progress.
        self._batch = Batch()
        self._running: tuple[int, Batch] | None = None
        self._removals_due = False
        self._apart = False  # there was no room for the last messages: they go in commits of their own
        self._no_letters_until = 0.0  # for that reason
        self._fetching: dict[UUID, tuple[Link, int]] = {}
        # The outbox.
        self._next_seq = loaded.next_seq
        self._ids = IdAllocator.opened(loaded, None if is_derived(instance_id) else rng)
        self._refcounts = loaded.owed if isinstance(loaded.owed, RefCounts) else RefCounts(loaded.owed)
        self._stored_values = loaded.retained
        self._stored_times = StoredTimes((seq, self._now - age) for seq, age in loaded.ages)
        self._round_trips = Histogram()
        self._watched: set[Receipt] = set()
        self._keeping = Keeping(limits.keep_bytes)
        self._receipts = HeldReceipts(self._keeping.first)
        self._blocked: deque[tuple[list[Item], Receipt, Terms]] = deque()
        self._frames: dict[int, bytes] = {}  # encoded, by seq, while peer after peer is given the same
        self._name_sizes: dict[str, int] = {}
        self._pair_sizes: dict[tuple[str, str], int] = {}
        # Subscriptions: our own, the peers', the handlers.
        self._own: dict[Subscription, None] = dict.fromkeys(sorted(loaded.own_subscriptions))
        head = self._encoder.encode(HandshakeResponse(version, instance_id, HandshakeStatus.SAME_VERSION))
        self._own_bytes = len(head) + sum(self._entry_size(subscription) for subscription in self._own)
        self._more_for_head = self._more_for_entry = 0  # bytes, in the layout of some peer
        for dialect in policy.dialects.values():
            self._check_revision(dialect)
        self._handlers: Routes[Handler, tuple[Handler, ...]] = Routes(_all)
        self._verdicts: dict[tuple[str, str], Judgement] = {}
        self._opening = Opening(limits, given, self._now)
        self._run: Deliver | None = None
        self._dedupe = DedupeCache(policy.dedupe, loaded.handled if policy.dedupe else ())
        self._letters = DeadLetters(loaded.dead_letters, loaded.next_letter)
        self._replayed: dict[Delivery, int] = {}  # dead letters in the hands of handlers
        self._drops = Drops(self._timers, self._notice)
        self._tally = NoticeTally(self._timers, self._tell_sum)
        self._calls: dict[Handler, Calls] = {}
        self._bounds: dict[Handler, Bound] = {}
        self._counted: dict[Delivery, list[Bound]] = {}  # in whose bounds it counts
        self._stuck: set[Handler] = set()
        self._once: set[Handler] = set()  # those that get no copy of what they have, whatever the policy says (T-48)
        # Peers.
        self._peers: dict[UUID, Peer] = {}
        self._has_moved = False  # some peer, see `_on_move`; not told yet
        self._left_inboxes: dict[UUID, Inbox] = {}  # of derived identities that are gone
        self._gate = HandshakeGate(acl, self._peers, limits.peers_per_key)
        self._routes: Routes[Peer, Recipients] = Routes(Recipients)
        self._one_way: Routes[Peer, Recipients] = Routes(Recipients)  # of peers that acknowledge nothing
        self._foreign: dict[Link, None] = {}  # connections that stand, of other layouts than ours or without acks
        self._turns: dict[Pattern, None] = {}  # patterns that have something to do
        for uuid in (*loaded.peers, *self._dedupe.peers()):
            self._dedupe.use(uuid, self._now)
        for uuid, known in loaded.peers.items():
            if is_derived(uuid):
                continue  # there for the sake of its handled messages and dead letters
            self._peers[uuid] = peer = Peer(uuid, known)
            peer.takes_reliable = LAYOUTS[self._revision_of(uuid)].has_acks
            peer.stored = True
            peer.held = {one: self._now + policy.unsubscribed_hold - age for one, age in known.held.items()}
            peer.unsaid = {one: self._now + UNSAID_FOR - age for one, age in known.unsaid.items()}
            self._reroute(peer)

    def _new_link(self, role: Role, remote: Remote | None) -> Link:
        link = super()._new_link(role, remote)
        link.began = self._now
        return link

    def _revision_of(self, peer: UUID) -> Revision:
        """The layout that it is known to speak."""
        dialect = self._policy.dialects.get(peer)
        return self.revision if dialect is None or dialect.revision is None else dialect.revision

    def _check_revision(self, dialect: Dialect) -> None:
        """Raises ValueError for a layout that cannot carry what waits for its peers, and OwnLimitExceeded where our
        list of subscriptions would be too long in it (T-19)."""
        if dialect.revision is None or dialect.revision is self.revision:
            return
        layout, foreign = LAYOUTS[dialect.revision], encoder(dialect.revision)
        sizes = foreign.max_sizes
        if layout.has_acks and (min(sizes[:2]) < self.limits.max_name or sizes[2] < self.limits.max_body):
            raise ValueError(
                f"{dialect.revision!r} carries names of {min(sizes[:2])} and bodies of {sizes[2]} bytes: set "
                "Limits.max_name and Limits.max_body to no more, so that nothing waits for its peers in vain"
            )
        head = layout.response.size - LAYOUTS[self.revision].response.size
        more_for_head = max(self._more_for_head, head)
        more_for_entry = max(self._more_for_entry, foreign.entry_overhead - self._encoder.entry_overhead)
        size = self._own_bytes + more_for_head + more_for_entry * len(self._own)
        if layout.has_lists and size > self.limits.max_handshake:
            raise OwnLimitExceeded(
                "too_many",
                f"{len(self._own)} subscriptions of {size} bytes in the layout {dialect.revision!r}: its peers refuse "
                f"a list over {self.limits.max_handshake} bytes (T-19). Use wildcards",
            )
        if layout.has_lists:
            self._more_for_head, self._more_for_entry = more_for_head, more_for_entry

    def _reroute(self, peer: Peer) -> None:
        """Messages go to a peer for what it wants and may have (D-4); to one that is being forgotten none (T-77)."""
        wanted = frozenset() if peer.forgotten or peer.is_owner else peer.subscriptions.union(peer.held)
        routed = self._gate.acl.rights(peer.uuid).granted(wanted)
        routes = self._routes if peer.takes_reliable else self._one_way
        for subscription in peer.routed - routed:
            routes.discard(subscription, peer)
        for subscription in routed - peer.routed:
            routes.add(subscription, peer)
        peer.routed = routed
        self._on_move(peer)
        for pattern in self._hooks.rerouted:
            pattern.rerouted(peer)

    def _set_takes_reliable(self, peer: Peer, takes: bool) -> None:
        """A connection tells which layout its peer speaks now."""
        if peer.takes_reliable is takes:
            return
        routes, others = (self._one_way, self._routes) if takes else (self._routes, self._one_way)
        for subscription in peer.routed:
            routes.discard(subscription, peer)
            others.add(subscription, peer)
        peer.takes_reliable = takes
        self._on_move(peer)

    def _on_move(self, peer: Peer) -> None:
        """This peer has come or gone, or wants something else: all that waits for a peer is to look again."""
        self._has_moved = True
        for pattern in self._hooks.peer_moved:
            pattern.peer_moved(peer)

    def _notice(
        self,
        kind: NoticeKind,
        peer: UUID | None,
        detail: str,
        remote: Remote | None = None,
        cause: DialCause | None = None,
    ) -> None:
        """Tell an operator; of a kind that may come often the first at once, and then the sum once a minute."""
        self._counts[f"notices_{kind}"] += 1
        if kind not in THROTTLED or self._tally.is_first(kind, peer, detail, self._now):
            self._actions.append(Notice(kind, peer, detail, remote, cause))

    def _tell_sum(self, kind: NoticeKind, peer: UUID | None, detail: str) -> None:
        self._counts[f"notices_{kind}"] += kind not in THROTTLED  # else each was counted as it came
        self._actions.append(Notice(kind, peer, detail))

    def _checked(self, channel: str, key: str) -> Subscription:
        """A subscription that may be asked for, or the error that says why not."""
        if channel in PRIVATE_CHANNELS:
            raise ReservedChannel("reserved_channel", f"{channel!r} is the protocol's own: choose another (T-27, T-80)")
        self._name_size(channel)
        self._name_size(key)
        return Subscription(channel, key)

    def _entry_size(self, subscription: Subscription) -> int:
        return self._encoder.entry_overhead + sum(len(name.encode()) for name in subscription)

    def _name_size(self, name: str) -> int:
        size = self._name_sizes.get(name)
        if size is None:
            try:
                size = len(name.encode())
            except (UnicodeEncodeError, AttributeError):
                raise LocalProtocolError("bad_text", f"{name!r:.100} is not text that UTF-8 can carry (T-11)") from None
            if size > self.limits.max_name:
                raise OwnLimitExceeded(
                    "too_long", f"a name of {size} bytes: the limit is {self.limits.max_name} (T-07)"
                )
            if len(self._name_sizes) >= _NAMES_KNOWN:
                self._name_sizes.clear()
            self._name_sizes[name] = size
        return size
