"""A peer, and the link to it.

A `Peer` is an identity, a `Link` its connection. A peer outlives its connections and has at most one live link; what
may only live as long as a connection (the window, acknowledgements owed, control messages in flight) hangs on the link
and is gone with it (T-49).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import IntEnum
from math import inf
from uuid import UUID

from .._common.derived import is_derived
from .._common.link import BaseLink
from .._common.queue_ids import is_queue
from .._common.token_bucket import TokenBucket
from .._common.transport import PeerIdentity, Remote, Role
from .._wire.connection import Connection
from .._wire.events import PROBE_CHANNEL, Message, Subscribe, Subscription, Unsubscribe
from .actions import Receipt
from .inboxes.inbox import EarlyMessages, Inbox, MessageKey
from .links.duels import Duel
from .numbers import PeerCounts
from .outboxes.ack_watch import AckWatch
from .outboxes.ids import IdAllocator
from .outboxes.outbox import Outbox, Window
from .outboxes.poison import Exposure
from .store import LoadedPeer
from .subscriptions import matching


class Peer:
    """Another instance, by UUID."""

    __slots__ = (
        "_alone",
        "asked_at",
        "attempts",
        "counts",
        "derived",
        "duel",
        "forgotten",
        "held",
        "held_long",
        "identity",
        "inbox",
        "is_owner",
        "kept_back",
        "link",
        "obeyed_at",
        "outbox",
        "reader",
        "repins",
        "round_trip",
        "routed",
        "served",
        "spki_sha256",
        "stored",
        "subscriptions",
        "takes_reliable",
        "unsaid",
        "uuid",
        "voices",
        "wide",
        "withheld",
    )

    def __init__(self, uuid: UUID, loaded: LoadedPeer) -> None:
        self.uuid = uuid
        self.derived = is_derived(uuid)  # it only writes, over any number of connections, and is gone with the last
        self.is_owner = is_queue(uuid)  # no peer: messages are owed to it, and nobody can be it
        self.subscriptions = loaded.subscriptions  # as they are stored
        self.held: dict[Subscription, float] = {}  # those that its newer list lacks, and until when (T-61)
        self.held_long: frozenset[Subscription] = frozenset()  # of these, until a day after it was heard last
        self.served = loaded.subscriptions  # those that it wants on its live connection (T-70)
        self.kept_back: frozenset[Subscription] = frozenset()  # the others that messages are kept for
        self.unsaid: dict[Subscription, float] = {}  # it is to be told that we want these no more, until then (T-61)
        self.stored = False  # the store has a list of it
        self.takes_reliable = True  # its layout has acks; else nothing waits for it, and its list is nowhere stored
        self.routed: frozenset[Subscription] = frozenset()  # those of them that it may have now (D-4)
        self.wide = False  # that it subscribes to every channel was told (D-4)
        self.spki_sha256 = loaded.spki_sha256
        self.outbox = Outbox(loaded)
        self.link: Link | None = None
        self.reader: Window | None = None  # of an owner that is no peer: what reads its messages
        self.identity = PeerIdentity()  # as it was proved last
        self.duel: Duel[Link] = Duel()
        self.forgotten: list[Receipt] = []  # they wait for it to be purged: till then it may not come back (T-77)
        self.repins: list[tuple[bytes | None, Receipt]] = []  # its pin after that
        self.voices: dict[Link, None] = {}  # connections on which it has told its list and that are not over
        self.attempts: dict[MessageKey, int] = {}  # failed deliveries of messages from this peer (T-47)
        self.inbox = Inbox()
        self.withheld: dict[Subscription, float] = {}  # entries of ours that it sent for in vain, and when last (T-50)
        self.asked_at = -inf  # when it was asked for such messages last
        self.obeyed_at = -inf  # and when we looked for what it asks for
        self.counts = PeerCounts()
        self.round_trip: float | None = None  # seconds, the last that was measured
        self._alone: Recipients | None = None

    @property
    def alone(self) -> Recipients:
        """Recipients of a message that is for this peer only: one object, so that runs stay runs."""
        if self._alone is None:
            self._alone = Recipients((self,))
        return self._alone

    @property
    def window(self) -> Window | None:
        """Reader of its outbox: its connection's or, of one that has none, its own."""
        return self.link.window if self.link is not None else self.reader

    def holds(self, channel: str, key: str) -> bool:
        """True if such a message waits until the live connection is one that wants it (T-61, T-70)."""
        if not self.kept_back:
            return False
        pairs = matching(channel, key)
        return self.served.isdisjoint(pairs) and not self.kept_back.isdisjoint(pairs)

    def keep_back(self) -> bool:
        """Say anew what is sent and what is kept. Returns True if what waits has to be looked at again."""
        before, served = (self.served, self.kept_back), self.link.told if self.link is not None else self.subscriptions
        self.served, self.kept_back = served, (self.subscriptions - served).union(self.held)
        return bool(before[1] or self.kept_back) and before != (self.served, self.kept_back)


class Recipients:
    """The peers that a message is for, each once (T-25), and their UUIDs."""

    __slots__ = ("ids", "peers")

    def __init__(self, peers: tuple[Peer, ...]) -> None:
        self.peers = peers
        self.ids = tuple(peer.uuid for peer in peers)


class ControlSync:
    """Brings the peer's view of our subscriptions in line, one message per subscription at a time (T-29).

    The peer was told the list of the last handshake and, on top, the changes sent since. A change that comes while
    another of the same subscription is in flight waits for its acknowledgement; the latest wins.
    """

    __slots__ = (
        "_announced",
        "_changed",
        "_connection",
        "_frames",
        "_ids",
        "_under_way",
        "mute",
        "overdue",
        "probe_id",
    )

    def __init__(self, connection: Connection, ids: IdAllocator) -> None:
        self._connection = connection
        self._ids = ids
        self._announced: frozenset[Subscription] = frozenset()
        self._changed: dict[Subscription, bool] = {}
        self._under_way: dict[Subscription, int] = {}  # by what id
        self._frames: dict[int, Subscribe | Unsubscribe] = {}
        self.probe_id: int | None = None  # of the probe that is unacknowledged
        self.mute = False  # the peer dies of control messages: a handshake is all that it is told
        self.overdue = False  # its answer is, and what had come by then may not be read yet

    def announced(self, subscriptions: Iterable[Subscription]) -> None:
        """This list was just sent in a handshake: it says all that was in flight, and more."""
        self.drop()
        self._announced = frozenset(subscriptions)
        self._changed.clear()

    def doubt(self, subscriptions: Iterable[Subscription]) -> None:
        """The peer may not have taken these from the list (T-33)."""
        self._announced -= frozenset(subscriptions)

    def insist(self, subscriptions: Iterable[Subscription]) -> None:
        """The peer may still hold these, though the list lacks them (T-61)."""
        self._announced |= frozenset(subscriptions)

    def has_said(self, subscription: Subscription) -> bool | None:
        """The last change that it was told of it."""
        return self._changed.get(subscription)

    def differing(self, own: Iterable[Subscription]) -> set[Subscription]:
        """Differences between our list and the one that the handshake told the peer."""
        return set(self._announced) ^ set(own)

    def sync(self, subscription: Subscription, wanted: bool) -> int | None:
        """Send a control message if one is needed and none is in flight; returns its id."""
        told = self._changed.get(subscription, subscription in self._announced)
        kind = Subscribe if wanted else Unsubscribe
        if told == wanted or subscription in self._under_way or self.mute or not self._connection.can_send(kind):
            return None  # the next handshake says this for DRAFT_1 (T-21)
        wire_id = self._ids.take()
        frame = kind(subscription.channel, subscription.key, wire_id)
        self._connection.send(frame)
        self._changed[subscription] = wanted
        self._under_way[subscription] = wire_id
        self._frames[wire_id] = frame
        return wire_id

    def frame(self, wire_id: int) -> Subscribe | Unsubscribe | None:
        """The control message of that id, if it is still unacknowledged."""
        return self._frames.get(wire_id)

    @property
    def under_way(self) -> Collection[int]:
        """The ids of control messages that are unacknowledged."""
        return self._frames.keys()

    def repeat(self, subscription: Subscription) -> int | None:
        """Say it once more, where the peer knows it; returns its id."""
        if not self._changed.get(subscription, subscription in self._announced):
            return None
        self._changed[subscription] = False
        wire_id = self.sync(subscription, True)
        self._changed[subscription] = True
        return wire_id

    def acked(self, wire_id: int) -> Subscription | None:
        """The subscription whose change this acknowledges, or None."""
        frame = self._frames.pop(wire_id, None)
        if frame is None:
            return None
        self._ids.give_back([(wire_id, wire_id)])
        subscription = Subscription(frame.channel, frame.key)
        self._under_way.pop(subscription, None)
        return subscription

    def probe(self) -> None:
        """Send a message that the peer does not want and so acknowledges at once (T-46, T-80). Raises OutboxFull."""
        self.probe_id = self._ids.take()
        self._connection.send(Message(PROBE_CHANNEL, "", b"", self.probe_id))

    @property
    def probing(self) -> bool:
        """True if a probe is unacknowledged. It is never sent again: its id is in use until its connection ends."""
        return self.probe_id is not None

    def answered(self, wire_id: int) -> bool:
        """True if this acknowledges the probe."""
        if wire_id != self.probe_id:
            return False
        self._drop_probe()
        return True

    def _drop_probe(self) -> None:
        if self.probe_id is not None:
            self._ids.give_back([(self.probe_id, self.probe_id)])
            self.probe_id = None

    def drop(self) -> None:
        """Nothing of this is in flight any more."""
        self._drop_probe()
        self._ids.give_back((wire_id, wire_id) for wire_id in self._frames)
        self._frames.clear()
        self._under_way.clear()


class Hold(IntEnum):
    """A reason to take no events from a link. Several are a sum: a Flag's operators cost more than a message does."""

    CREDIT = 1  # as much is handed out and unsettled as may be (D-9)
    RATE = 2  # more control messages than allowed (D-12)
    LIST = 4  # its list is being committed (T-34, T-61)
    DUEL = 8  # another one of the same peer is asked whether it is alive (T-70)


class Link(BaseLink):
    """One connection of the node, from its cid on."""

    __slots__ = (
        "above_high_water",
        "ack_watch",
        "answers",
        "began",
        "control",
        "control_bucket",
        "early",
        "exposure",
        "fruitful",
        "gathered",
        "handed",
        "held_list",
        "holding",
        "in_flight",
        "last_received",
        "overrun",
        "peer",
        "sent_at",
        "timed_at",
        "timed_id",
        "told",
        "told_bytes",
        "up_since",
        "version",
        "window",
    )

    connection: Connection | None

    def __init__(self, cid: int, role: Role, remote: Remote | None, control_per_second: int) -> None:
        super().__init__(cid, role, remote)
        self.peer: Peer | None = None
        self.window: Window | None = None  # while it is established and the peer's live link
        self.control: ControlSync | None = None
        self.control_bucket = TokenBucket(control_per_second, control_per_second)  # D-12
        self.told: frozenset[Subscription] = frozenset()  # the peer said here that it wants these
        self.told_bytes = 0  # the size of that in a handshake
        self.held_list: tuple[Subscription, ...] = ()  # of a handshake that waits for its final (T-61)
        self.began = 0.0  # as a connection that is made, and when that stood, as one whose handshake is made
        self.up_since = 0.0
        self.exposure = Exposure()
        self.ack_watch = AckWatch(None)  # the policy's, once it is up
        self.fruitful = False  # a message of an outbox was acknowledged on it (T-76)
        self.handed = 0  # bytes of all Transmits so far
        self.sent_at = 0.0  # when the socket was given something last
        self.last_received = 0.0  # and when something came
        self.version = 0  # common to both, once established
        self.holding = 0  # why what comes in stays unread for now
        self.above_high_water = False  # above high water, not yet below low
        self.answers = 0  # bytes behind the Transmit that is outstanding that the peer caused
        self.timed_id = -1  # message whose acknowledgement is timed, and when the socket took it
        self.timed_at = 0.0
        self.in_flight: list[int] = []  # message ids in that Transmit
        self.gathered: list[int] = []  # message ids behind it
        self.early: EarlyMessages | None = None  # messages before their subscription or their handler (T-46)
        self.overrun = False  # it has ended, and brought more than the credit takes: the rest comes again (D-9)

    @property
    def up(self) -> bool:
        """True if it is established and the peer's live link."""
        return self.window is not None

    @property
    def is_live(self) -> bool:
        """True if messages can be sent on it."""
        return self.connection is not None and self.connection.live


def connection_of(link: Link) -> Connection:
    """The connection, where it stands."""
    assert link.connection is not None
    return link.connection


def peer_of(link: Link) -> Peer:
    """The peer, where it is known."""
    assert link.peer is not None
    return link.peer
