"""Peer and Link, where the parts of the kernel meet.

A `Peer` is an identity, a `Link` its connection. A peer outlives its connections and has at most one live link; what
may only live as long as a connection (the window, acknowledgements owed, control messages in flight) hangs on the link
and is gone with it (T-49).
"""

from __future__ import annotations

from enum import IntEnum
from math import inf
from uuid import UUID

from .._common.derived import is_derived
from .._common.link import BaseLink
from .._common.queue_ids import is_queue
from .._common.token_bucket import TokenBucket
from .._common.transport import PeerIdentity, Remote, Role
from .._wire.connection import Connection
from .._wire.events import Subscription
from .actions import Receipt
from .inboxes.inbox import EarlyMessages, Inbox
from .links.duels import Duel
from .lists.control_sync import ControlSync
from .numbers import PeerCounts
from .outboxes.outbox import Outbox, Window
from .outboxes.suspicion import AckWatch, Exposure
from .store import LoadedPeer
from .subscriptions import matching


class PeerSubscriptions:
    """Part of a peer that belongs to the lists: its subscriptions."""

    __slots__ = (
        "held",
        "held_long",
        "kept_back",
        "obeyed_at",
        "served",
        "stored",
        "subscriptions",
        "unsaid",
        "voices",
        "wide",
    )

    def __init__(self, loaded: LoadedPeer) -> None:
        self.subscriptions = loaded.subscriptions  # as they are stored
        self.held: dict[Subscription, float] = {}  # those that its newer list lacks, and until when (T-61)
        self.held_long: frozenset[Subscription] = frozenset()  # of these, until a day after it was heard last
        self.served = loaded.subscriptions  # those that it wants on its live connection (T-70)
        self.kept_back: frozenset[Subscription] = frozenset()  # the others that messages are kept for
        self.unsaid: dict[Subscription, float] = {}  # it is to be told that we want these no more, until then (T-61)
        self.stored = False  # the store has a list of it
        self.wide = False  # that it subscribes to every channel was told (D-4)
        self.voices: dict[Link, None] = {}  # connections on which it has told its list and that are not over
        self.obeyed_at = -inf  # when we looked last for messages that it asks for

    def holds(self, channel: str, key: str) -> bool:
        """True if such a message waits until the live connection is one that wants it (T-61, T-70)."""
        if not self.kept_back:
            return False
        pairs = matching(channel, key)
        return self.served.isdisjoint(pairs) and not self.kept_back.isdisjoint(pairs)

    def keep_back(self, link: Link | None) -> bool:
        """Say again, for its live link, what is sent and what is kept. True if what waits is to be looked at again."""
        before, served = (self.served, self.kept_back), link.lists.told if link is not None else self.subscriptions
        self.served, self.kept_back = served, (self.subscriptions - served).union(self.held)
        return bool(before[1] or self.kept_back) and before != (self.served, self.kept_back)


class PeerStanding:
    """Part of a peer that belongs to the links: its identity, and what its connections are about."""

    __slots__ = ("duel", "forgotten", "identity", "repins", "spki_sha256")

    def __init__(self, loaded: LoadedPeer) -> None:
        self.identity = PeerIdentity()  # as it was proved last
        self.spki_sha256 = loaded.spki_sha256
        self.duel: Duel[Link] = Duel()
        self.forgotten: list[Receipt] = []  # they wait for it to be purged: till then it may not come back (T-77)
        self.repins: list[tuple[bytes | None, Receipt]] = []  # its pin after that


class Peer:
    """Another instance, by UUID. Each part of the kernel has a record here, which that part alone assigns."""

    __slots__ = ("_alone", "counts", "derived", "inbox", "is_owner", "link", "links", "lists", "outbox", "uuid")

    def __init__(self, uuid: UUID, loaded: LoadedPeer) -> None:
        self.uuid = uuid
        self.derived = is_derived(uuid)  # it only writes, over any number of connections, and is gone with the last
        self.is_owner = is_queue(uuid)  # no peer: messages are owed to it, and nobody can be it
        self.outbox = Outbox(loaded)
        self.lists = PeerSubscriptions(loaded)
        self.inbox = Inbox()
        self.links = PeerStanding(loaded)
        self.link: Link | None = None  # the live one, which the links assign
        self.counts = PeerCounts()
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
        return self.link.sending.window if self.link is not None else self.outbox.reader


class Recipients:
    """The peers that a message is for, each once (T-25), and their UUIDs."""

    __slots__ = ("ids", "peers")

    def __init__(self, peers: tuple[Peer, ...]) -> None:
        self.peers = peers
        self.ids = tuple(peer.uuid for peer in peers)


class Hold(IntEnum):
    """A reason to take no events from a link. Several are a sum: a Flag's operators cost more than a message does."""

    CREDIT = 1  # as much is handed out and unsettled as may be (D-9)
    RATE = 2  # more control messages than allowed (D-12)
    LIST = 4  # its list is being committed (T-34, T-61)
    DUEL = 8  # another one of the same peer is asked whether it is alive (T-70)


class LinkSending:
    """Part of a connection that belongs to the outboxes: what is sent over it, and what is known of that."""

    __slots__ = (
        "above_high_water",
        "ack_watch",
        "exposure",
        "gathered",
        "handed",
        "in_flight",
        "timed_at",
        "timed_id",
        "window",
    )

    def __init__(self) -> None:
        self.window: Window | None = None  # while it is established and the peer's live link
        self.exposure = Exposure()
        self.ack_watch = AckWatch(None)  # the policy's, once it is up
        self.above_high_water = False  # above high water, not yet below low
        self.in_flight: list[int] = []  # message ids in the Transmit that is outstanding
        self.gathered: list[int] = []  # message ids behind it
        self.handed = 0  # bytes of all Transmits so far
        self.timed_id = -1  # message whose acknowledgement is timed, and when the socket took it
        self.timed_at = 0.0


class LinkLists:
    """Part of a connection that belongs to the lists: what each end has told the other on it."""

    __slots__ = ("bucket", "control", "held_list", "told", "told_bytes")

    def __init__(self, control_per_second: int) -> None:
        self.control: ControlSync | None = None
        self.bucket = TokenBucket(control_per_second, control_per_second)  # D-12
        self.told: frozenset[Subscription] = frozenset()  # the peer said here that it wants these
        self.told_bytes = 0  # the size of that in a handshake
        self.held_list: tuple[Subscription, ...] = ()  # of a handshake that waits for its final (T-61)


class LinkInbox:
    """Part of a connection that belongs to the inboxes."""

    __slots__ = ("early", "overrun")

    def __init__(self) -> None:
        self.early: EarlyMessages | None = None  # messages before their subscription or their handler (T-46)
        self.overrun = False  # it has ended, and brought more than the credit takes: the rest comes again (D-9)


class Link(BaseLink):
    """One connection of the node, from its cid on. Each part has a record; all else is the links' own."""

    __slots__ = (
        "answers",
        "began",
        "fruitful",
        "holding",
        "inbox",
        "last_received",
        "lists",
        "peer",
        "sending",
        "sent_at",
        "up_since",
        "version",
    )

    connection: Connection | None

    def __init__(self, cid: int, role: Role, remote: Remote | None, control_per_second: int) -> None:
        super().__init__(cid, role, remote)
        self.sending = LinkSending()
        self.lists = LinkLists(control_per_second)
        self.inbox = LinkInbox()
        self.peer: Peer | None = None
        self.began = 0.0  # as a connection that is made, and when that stood, as one whose handshake is made
        self.up_since = 0.0
        self.sent_at = 0.0  # when the socket was given something last
        self.last_received = 0.0  # and when something came
        self.fruitful = False  # a message was acknowledged on it, in either direction (T-76)
        self.version = 0  # common to both, once established
        self.holding = 0  # reasons for which what comes in stays unread for now
        self.answers = 0  # bytes behind the Transmit that is outstanding that the peer caused

    def hold(self, reason: Hold) -> None:
        """Take no events from it, for this reason, too."""
        self.holding |= reason

    def release(self, reason: Hold) -> None:
        """This is no reason any more."""
        self.holding &= ~reason

    def bear_fruit(self) -> None:
        """A message was acknowledged on it: this was no vain connection (T-76)."""
        self.fruitful = True

    @property
    def up(self) -> bool:
        """True if it is established and the peer's live link."""
        return self.sending.window is not None

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
