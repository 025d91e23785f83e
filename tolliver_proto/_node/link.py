"""Peer and Link: records that the parts of the kernel share.

A `Peer` is an identity, a `Link` one of its connections. A peer outlives its connections and has at most one live link.
State that lives as long as a connection (the window, outstanding acks, control messages in flight) is an attribute of
the link, and goes with the link (T-49).
"""

from __future__ import annotations

from enum import IntEnum
from math import inf
from uuid import UUID

from .._common.base_link import BaseLink
from .._common.derived_ids import is_derived
from .._common.owner_ids import is_owner
from .._common.token_bucket import TokenBucket
from .._common.transport import PeerIdentity, Remote, Role
from .._wire.connection import Connection
from .._wire.events import Subscription
from .actions import GoOn, Receipt
from .inboxes.inbox import EarlyMessages, Inbox
from .links.duels import Duel
from .lists.control_sync import ControlSync
from .numbers import PeerCounts
from .outboxes.outbox import Outbox, Window
from .outboxes.suspicion import AckWatch, Exposure
from .store import LoadedPeer
from .subscriptions import matching


class PeerSubscriptions:
    """Subscriptions of a peer: the record that the part `lists` keeps in each Peer."""

    __slots__ = (
        "changes_waiting",
        "ending",
        "held",
        "held_long",
        "kept_back",
        "obeyed_at",
        "served",
        "stored",
        "subscriptions",
        "unlisted",
        "unsaid",
        "voices",
        "wide",
    )

    def __init__(self, loaded: LoadedPeer) -> None:
        self.subscriptions: frozenset[Subscription] = loaded.subscriptions  # as stored
        self.held: dict[
            Subscription, float
        ] = {}  # held subscriptions, which its newer list lacks, and their ends (T-61)
        self.held_long: frozenset[Subscription] = (
            frozenset()
        )  # of these, the ones held until a day after the peer's last frame
        # Of these, the ones that no stored list may have had: the next list that has them has them anew (P-30).
        self.unlisted: frozenset[Subscription] = frozenset()
        # Ended holds, one set for each running search for the messages that only they keep, and the changes of the
        # list that wait for those searches (T-61).
        self.ending: list[frozenset[Subscription]] = []
        self.changes_waiting: list[GoOn] = []
        self.served: frozenset[Subscription] = loaded.subscriptions  # subscriptions of its live connection (T-70)
        self.kept_back: frozenset[Subscription] = frozenset()  # other subscriptions whose messages wait
        self.unsaid: dict[
            Subscription, float
        ] = {}  # unsubscribes that the peer has not got, and when they lapse (T-61)
        self.stored: bool = False  # the store has the peer's list
        self.wide: bool = False  # its wildcard subscription was reported (D-4)
        self.voices: dict[Link, None] = {}  # open connections on which the peer has sent its list
        self.obeyed_at: float = -inf  # time of the last resend that the peer asked for

    def holds(self, channel: str, key: str) -> bool:
        """True if a message of these names waits until the peer's live connection wants it (T-61, T-70)."""
        if not self.kept_back:
            return False
        pairs = matching(channel, key)
        return self.served.isdisjoint(pairs) and not self.kept_back.isdisjoint(pairs)

    def keep_back(self, link: Link | None) -> bool:
        """Computes which subscriptions the live link (None: none) is served and which must wait. Returns True if
        messages that wait must be looked at again.
        """
        before, served = (self.served, self.kept_back), link.lists.told if link is not None else self.subscriptions
        self.served, self.kept_back = served, (self.subscriptions - served).union(self.held, *self.ending)
        return bool(before[1] or self.kept_back) and before != (self.served, self.kept_back)


class PeerStanding:
    """Identity, pinned key and suspected clones of a peer: the record that the part `links` keeps in each Peer."""

    __slots__ = ("duel", "forgotten", "identity", "name", "repins", "spki_sha256")

    def __init__(self, loaded: LoadedPeer) -> None:
        self.name: str = loaded.name  # as stored
        self.identity: PeerIdentity = PeerIdentity(name=loaded.name)  # as proved last
        self.spki_sha256: bytes | None = loaded.spki_sha256
        self.duel: Duel[Link] = Duel()
        self.forgotten: list[Receipt] = []  # receipts that wait for the purge; the peer may not return before (T-77)
        self.repins: list[tuple[bytes | None, Receipt]] = []  # pins to set after the purge


class Peer:
    """Another instance, by UUID. Each part of the kernel has a record here, which that part alone assigns."""

    __slots__ = ("_alone", "counts", "derived", "inbox", "is_owner", "link", "links", "lists", "outbox", "uuid")

    def __init__(self, uuid: UUID, loaded: LoadedPeer) -> None:
        self.uuid: UUID = uuid
        self.derived: bool = is_derived(uuid)  # only writes, over any number of connections; forgotten with the last
        self.is_owner: bool = is_owner(uuid)  # messages are owed to it, and no peer may claim its UUID
        self.outbox: Outbox = Outbox(loaded)
        self.lists: PeerSubscriptions = PeerSubscriptions(loaded)
        self.inbox: Inbox = Inbox()
        self.links: PeerStanding = PeerStanding(loaded)
        self.link: Link | None = None  # the live link, assigned by the links
        self.counts: PeerCounts = PeerCounts()
        self._alone: Recipients | None = None

    @property
    def alone(self) -> Recipients:
        """The recipients of a message for this peer only: always the same object, so that runs of messages can share
        it."""
        if self._alone is None:
            self._alone = Recipients((self,))
        return self._alone

    @property
    def window(self) -> Window | None:
        """Window that reads the peer's outbox: that of its live link, or, for an owner that is no peer, the outbox's
        own. None if there is neither.
        """
        return self.link.sending.window if self.link is not None else self.outbox.reader


class Recipients:
    """The peers that get a message, each once (T-25), and their UUIDs. Messages in a row for the same peers share one
    object.
    """

    __slots__ = ("ids", "peers")

    def __init__(self, peers: tuple[Peer, ...]) -> None:
        self.peers: tuple[Peer, ...] = peers
        self.ids: tuple[UUID, ...] = tuple(peer.uuid for peer in peers)


class Hold(IntEnum):
    """A reason to take no events from a link. Reasons are added as ints, because the operators of a Flag cost more than
    a message."""

    CREDIT = 1  # the peer's credit is used up (D-9)
    RATE = 2  # more control messages than allowed (D-12)
    LIST = 4  # the peer's list is being committed (T-34, T-61)
    DUEL = 8  # an older link of the same peer is asked whether it is alive (T-70)
    SUSPECT = 16  # a message that may kill the process is handled alone (T-47)


class LinkSending:
    """Messages in flight on a connection, and their timing: the record that the part `outboxes` keeps in each Link."""

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
        self.exposure: Exposure = Exposure()
        self.ack_watch: AckWatch = AckWatch(None)  # the policy's, once the link is up
        self.above_high_water: bool = False  # above high water, not yet below low
        self.in_flight: list[int] = []  # message ids in the Transmit that is outstanding
        self.gathered: list[int] = []  # message ids behind it
        self.handed: int = 0  # bytes of all Transmits so far
        self.timed_id: int = -1  # message whose round trip is measured, and when the socket took it
        self.timed_at: float = 0.0


class LinkLists:
    """Subscriptions that each side has announced on a connection: the record that the part `lists` keeps in each
    Link."""

    __slots__ = ("bucket", "control", "held_list", "told", "told_bytes")

    def __init__(self, control_per_second: int) -> None:
        self.control: ControlSync | None = None
        self.bucket: TokenBucket = TokenBucket(control_per_second, control_per_second)  # D-12
        self.told: frozenset[Subscription] = frozenset()  # the peer's subscriptions as sent here
        self.told_bytes: int = 0  # size of `told` in a handshake
        self.held_list: tuple[Subscription, ...] = ()  # of a handshake that waits for its final (T-61)


class LinkInbox:
    """State of received messages on a connection: the record that the part `inboxes` keeps in each Link."""

    __slots__ = ("early", "overrun")

    def __init__(self) -> None:
        self.early: EarlyMessages | None = None  # messages before their subscription or their handler (T-46)
        self.overrun: bool = (
            False  # ended, without credit (D-9) or ack (D-5) for a message: the peer resends from there
        )


class Link(BaseLink[Connection]):
    """One connection of the node, from its cid on. Each part has a record; the other attributes belong to the links."""

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

    def __init__(self, cid: int, role: Role, remote: Remote | None, control_per_second: int) -> None:
        super().__init__(cid, role, remote)
        self.sending: LinkSending = LinkSending()
        self.lists: LinkLists = LinkLists(control_per_second)
        self.inbox: LinkInbox = LinkInbox()
        self.peer: Peer | None = None
        self.began: float = 0.0  # start of the dial, then start of the handshake
        self.up_since: float = 0.0
        self.sent_at: float = 0.0  # last write to the socket
        self.last_received: float = 0.0  # last data from the socket
        self.fruitful: bool = False  # a message was acknowledged on the link, in either direction (T-76)
        self.version: int = 0  # common to both, once established
        self.holding: int = 0  # sum of the reasons to take no events
        self.answers: int = 0  # bytes of answers caused by the peer, behind the outstanding Transmit

    def hold(self, reason: Hold) -> None:
        """Takes no events from the link until `release` with the same reason."""
        self.holding |= reason

    def release(self, reason: Hold) -> None:
        """Removes this reason to take no events from the link; events are taken once no reason is left."""
        self.holding &= ~reason

    def bear_fruit(self) -> None:
        """Records that a message was acknowledged on the link, so that the next dial of its remote after a loss comes
        soon (T-76).
        """
        self.fruitful = True

    @property
    def up(self) -> bool:
        """True if the link is established, and the live one of its peer, on which messages are sent."""
        return self.sending.window is not None

    @property
    def is_live(self) -> bool:
        """True if messages can be sent on the link."""
        return self.connection is not None and self.connection.live


def connection_of(link: Link) -> Connection:
    """The link's wire connection, which must exist."""
    assert link.connection is not None
    return link.connection


def peer_of(link: Link) -> Peer:
    """The link's peer, which must be known."""
    assert link.peer is not None
    return link.peer
