"""Store contract: operations, rows, and the state loaded at start.

The node never touches a disk. It describes changes as operations; a store applies all those of one commit in one
transaction, or none, and reports which. Any store that keeps this contract will do: the adapters bring SQLite,
`tolliver_proto.testing` one in memory, an embedder may bring another.

Terms: sizes are in bytes of the encoded frame. `seq` is the node's own 64-bit order of messages, `wire_id` the id on
the wire (T-41). A span is (first, last), both included.

Invariants: operations are plain data and apply in order. Ages, expiry and dates are by the store's wall clock, as the
node has no clock. Lists of deliveries and the state at start come without bodies: only `fetch` and `dead_letters` read
bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol
from uuid import UUID

from .._common.intervals import Span
from .._common.records import frozen, record
from .._wire.events import Subscription
from .message_set import Handled

IdSpan = tuple[int, int]
"""(first id, number of ids), round the circle of ids (T-40)."""


@record
class StoredMessage:
    """A reliable message as the outbox holds it. `size` is the size of its encoded frame in bytes."""

    seq: int
    wire_id: int
    channel: str
    key: str
    body: bytes
    size: int


@record
class CorruptMessage:
    """A row with a wrong checksum (V9): its content is lost, its position and its size are known."""

    seq: int
    wire_id: int
    size: int = 0


Row = StoredMessage | CorruptMessage


DUE = -1
"""`after_seq` of a fetch of what is due."""


@record
class Due:
    """Time at which messages of the owner `LATER` are due: `after` seconds from their commit by the store's clock or,
    if it is not None, `not_before`, in seconds since 1970, by the wall clock."""

    after: float = 0.0
    not_before: float | None = None


@record
class StoreMessages:
    """New messages; `recipients[i]` are the peers that get `messages[i]`.

    A message without recipients is held for peers that are connecting (T-62), and so are those whose seqs `held` names,
    with or without recipients. RemoveMessages ends that; a store that is opened again drops held messages owed to no
    peer. All of them expire `expire_after` seconds after the commit, by the store's own clock, if that is given (P-27).
    With `due` their owner is `LATER`, and they are due then (P-90).
    """

    messages: Sequence[StoredMessage]
    recipients: Sequence[Sequence[UUID]]
    held: Sequence[int] = ()
    expire_after: float | None = None
    due: Due | None = None


@record
class AddDeliveries:
    """Adds deliveries of stored messages to a further peer, as (seq, wire_id, size) (T-62)."""

    peer: UUID
    deliveries: Sequence[tuple[int, int, int]]

    @property
    def spans(self) -> Sequence[Span]:
        """None: nothing leaves the peer."""
        return ()


@record
class RemoveDeliveries:
    """Removes deliveries that the peer is no longer owed, most often because the peer has acknowledged them."""

    peer: UUID
    spans: Sequence[Span]


@record
class RemoveMessages:
    """Removes messages that are not owed to any peer."""

    spans: Sequence[Span]


@record
class ParkDelivery:
    """Keep the row, but do not fetch it until UnparkDeliveries (T-09, V9). A missing row is no error."""

    peer: UUID
    seq: int

    @property
    def spans(self) -> Sequence[Span]:
        return ((self.seq, self.seq),)


@record
class ReplacePeerSubscriptions:
    """Replaces a peer's subscriptions by the list of a handshake (T-30). The peer may be new.

    `held` are the held subscriptions: the list lacks them, and they go on routing (T-61). Each is held from when it
    first was, or from now.
    """

    peer: UUID
    subscriptions: Sequence[Subscription]
    held: Sequence[Subscription] = ()


@record
class AddPeerSubscription:
    """Adds an entry to the peer's list. It is not held any more."""

    peer: UUID
    subscription: Subscription


@record
class RemovePeerSubscription:
    peer: UUID
    subscription: Subscription


@record
class AddOwnSubscription:
    subscription: Subscription


@record
class RemoveOwnSubscription:
    subscription: Subscription


@record
class KeepUnsubscribe:
    """Records the peers that have not yet acknowledged the unsubscribe of this entry (T-61)."""

    subscription: Subscription
    peers: Sequence[UUID]


@record
class ForgetUnsubscribe:
    """Ends `KeepUnsubscribe` for these peers: acknowledged, or the entry is subscribed to again."""

    subscription: Subscription
    peers: Sequence[UUID]


@record
class PinPeer:
    """Pins a public key to the peer: from now on its certificate must have this one (SHA-256 of its SPKI, D-3)."""

    peer: UUID
    spki_sha256: bytes


@record
class UnparkDeliveries:
    """Makes parked deliveries available to `fetch` again (T-09)."""

    peer: UUID
    spans: Sequence[Span]


@record
class UnpinPeer:
    """Removes the peer's pinned key: that of the next certificate that it presents is pinned instead (D-3)."""

    peer: UUID


@record
class NamePeer:
    """Stores the name in the peer's certificate, which people know it by, in place of the earlier one (D-14)."""

    peer: UUID
    name: str


@record
class ForgetPeer:
    """Remove the peer's deliveries, subscriptions, pin, name, and messages of RememberHandled (T-77). Dead letters
    stay."""

    peer: UUID


@record
class DeadLetter:
    """A message that was given up after too many failed deliveries (T-47).

    `number` is the node's; 0 leaves it to the store, which takes the one after the highest that it ever had.
    `failed_at` is wall-clock seconds, set by the store. `cause` gives the reason in words: that of the handler, if it
    gave the message up.
    """

    peer: UUID
    channel: str
    key: str
    body: bytes
    message_id: int
    attempts: int
    number: int = 0
    failed_at: float = 0.0
    cause: str = ""

    @property
    def size(self) -> int:
        """Bytes of channel, key and body, as `Limits.max_dead_letter_bytes` counts them."""
        return len(self.channel.encode()) + len(self.key.encode()) + len(self.body)


KILLED_ITS_PROCESS = "killed_its_process"
"""Cause of the dead letter of a message with which the process died too often (T-47)."""


@record
class AddDeadLetter:
    letter: DeadLetter


@record
class RemoveDeadLetters:
    numbers: Sequence[int]


@record
class RememberHandled:
    """Records handled messages, as (peer, message id, checksum); the store keeps the last `keep` of all (T-48)."""

    messages: Sequence[Handled]
    keep: int


@record
class Found:
    """A delivery as `Store.find` lists it, without its body. `age` is in seconds of wall-clock time. The names are
    empty if they cannot be read. `expires_in` are the seconds until expiry, in a list of `Store.expiring`, or until the
    message is due, in one of `Store.later`."""

    peer: UUID
    seq: int
    wire_id: int
    size: int
    parked: bool
    age: float
    channel: str = ""
    key: str = ""
    expires_in: float = 0.0


@record
class ReserveIds:
    """This opening may hand out `count` ids from `first` on, round the circle (T-40).

    A span with the `first` of the newest stored one replaces it; any other span is added. The store keeps the newest
    `keep` spans.
    """

    first: int
    count: int
    keep: int


Operation = (
    StoreMessages
    | AddDeliveries
    | RemoveDeliveries
    | RemoveMessages
    | ParkDelivery
    | ReplacePeerSubscriptions
    | AddPeerSubscription
    | RemovePeerSubscription
    | AddOwnSubscription
    | RemoveOwnSubscription
    | KeepUnsubscribe
    | ForgetUnsubscribe
    | PinPeer
    | UnparkDeliveries
    | UnpinPeer
    | NamePeer
    | ForgetPeer
    | AddDeadLetter
    | RemoveDeadLetters
    | RememberHandled
    | ReserveIds
)

STORING = (StoreMessages, AddDeadLetter)
"""Operations that store messages. A commit with none of these takes little room, and mostly makes some: a store keeps a
reserve for it (D-13)."""


def bytes_of(operations: Sequence[Operation]) -> int:
    """Bytes of the messages that these operations store."""
    stored = sum(message.size for one in operations if isinstance(one, StoreMessages) for message in one.messages)
    return stored + sum(len(one.letter.body) for one in operations if isinstance(one, AddDeadLetter))


@frozen
class LoadedPeer:
    """State of a peer at start, without bodies. `pending` counts unparked deliveries, from `first_seq` to `last_seq`.

    `held` and `unsaid` have for each subscription the seconds of wall-clock time since ReplacePeerSubscriptions held it
    and since KeepUnsubscribe kept it (T-61).
    """

    subscriptions: frozenset[Subscription] = frozenset()
    spki_sha256: bytes | None = None
    pending: int = 0
    pending_bytes: int = 0
    last_seq: int = 0
    parked: int = 0
    parked_bytes: int = 0
    held: Mapping[Subscription, float] = field(default_factory=dict)
    unsaid: Mapping[Subscription, float] = field(default_factory=dict)
    first_seq: int = 0
    name: str = ""


@frozen
class Loaded:
    """State of a node at start, from indexes alone.

    `live_ids` are the spans of wire ids that are still owed to a peer; `owed` has (first seq, last seq, how many peers)
    for runs of messages owed to equally many peers. Both ascend and never overlap. `handled` are the messages of
    RememberHandled, oldest first. A store may give an `IntervalSet`, `RefCounts` and a `MessageSet` with room for one
    more, which the node takes over. `dead_letters` has (number, size) of each, ascending, `next_letter` the number of
    the next one, above all that were ever given. `id_spans` are those of ReserveIds, oldest first. `expires_in` are the
    seconds until the first message stored with an `expire_after` expires; None if there is none. `ages` has some of the
    messages, ascending, and for each the seconds since it, and all since the one before, were stored. `suspects` are
    the messages, as (peer, wire id), that handlers had begun when the process died, each with the deaths that had it
    alone in hand, or None if its dead letter is stored (T-47).
    """

    own_subscriptions: frozenset[Subscription] = frozenset()
    peers: Mapping[UUID, LoadedPeer] = field(default_factory=dict)
    next_seq: int = 1
    live_ids: Iterable[Span] = ()
    owed: Iterable[tuple[int, int, int]] = ()
    handled: Iterable[Handled] = ()
    dead_letters: Sequence[tuple[int, int]] = ()
    next_letter: int = 1
    id_spans: Sequence[IdSpan] = ()
    expires_in: float | None = None
    ages: Sequence[tuple[int, float]] = field(default=(), compare=False)
    suspects: Mapping[tuple[UUID, int], int | None] = field(default_factory=dict)


class Store(Protocol):
    """Durable storage. Called by one thread at a time, off the event loop. Every failure is a StoreError.

    A full disk is DiskFull. The node then commits removals and changes without operations that store messages
    (STORING), and a good store has kept a reserve for those.
    """

    def load(self) -> Loaded:
        """Load the stored state. Reads no bodies."""

    def commit(self, operations: Sequence[Operation]) -> None:
        """Apply all operations, in order, durably, or none."""

    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> list[Row]:
        """The peer's unparked deliveries above `after_seq`, in order: at most `max_count`, with bodies of at most
        `max_bytes` in all, and at least one if any.

        Deliveries that match held subscriptions (T-61) and no other are left out. Of the owner `LATER`, with an
        `after_seq` of `DUE`, those that are due, in the order of their times.
        """

    def find(self, peer: UUID | None, after_seq: int, max_count: int, min_age: float) -> list[Found]:
        """Deliveries, parked ones too, to one peer or to all (None), by seq: at most `max_count` above `after_seq` that
        are at least `min_age` seconds old. All peers are those whose messages wait for somebody: no keepers
        (`is_keeper`).
        """

    def expiring(self, max_count: int) -> list[Found]:
        """Deliveries of messages stored with an `expire_after`, parked ones too: soonest first (P-27).

        While messages have an age, the node calls this at least once a minute with a `max_count` of 0: a good store
        then checks its clocks, and notices one that was set (D-10).
        """

    def later(self, max_count: int) -> list[Found]:
        """The deliveries of the owner `LATER`, at most `max_count`, those that are due first in front. Checks the
        clocks, as `expiring` does. Called only if messages were stored with a `due`.
        """

    def dead_letters(self, after_number: int, max_count: int) -> list[DeadLetter]:
        """Dead letters with a number above `after_number`, in order, at most `max_count` (T-47)."""
