"""Store contract: operations, rows, and what is loaded at start.

The node never touches a disk. It describes changes as operations; a store applies all those of one commit in one
transaction, or none, and says so. Any store that keeps this contract will do: the adapters bring SQLite,
`tolliver_proto.testing` one in memory, an embedder may bring another.

Sizes are in bytes of the encoded frame. `seq` is the node's own 64-bit order of messages, `wire_id` what stands on the
wire (T-41). A span is (first, last), both included.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol
from uuid import UUID

from .._common.intervals import Span
from .._common.records import frozen, record
from .._wire.events import Subscription
from .message_set import Handled

IdSpan = tuple[int, int]
"""(first id, how many), round the circle of ids (T-40)."""


@record
class StoredMessage:
    """A reliable message as the outbox holds it. `size` is that of its encoded frame."""

    seq: int
    wire_id: int
    channel: str
    key: str
    body: bytes
    size: int


@record
class CorruptMessage:
    """A row whose checksum is wrong (V9): its content is gone, its place is known, and what it counted for."""

    seq: int
    wire_id: int
    size: int = 0


Row = StoredMessage | CorruptMessage


@record
class StoreMessages:
    """New messages; `recipients[i]` are the peers that `messages[i]` is for.

    A message without recipients is held for peers that are connecting (T-62), and so are those whose seqs `held`
    names, recipients or not. RemoveMessages ends that; a store that is opened again drops the held messages that
    nobody is owed any more. All of them expire so many seconds after the commit, by the store's own clock, if that is
    said (P-27).
    """

    messages: Sequence[StoredMessage]
    recipients: Sequence[Sequence[UUID]]
    held: Sequence[int] = ()
    expire_after: float | None = None


@record
class AddDeliveries:
    """Messages that are stored already are for this peer too: (seq, wire_id, size) each (T-62)."""

    peer: UUID
    deliveries: Sequence[tuple[int, int, int]]


@record
class RemoveDeliveries:
    """The peer has acknowledged these."""

    peer: UUID
    spans: Sequence[Span]


@record
class RemoveMessages:
    """Nobody is owed these any more."""

    spans: Sequence[Span]


@record
class ParkDelivery:
    """Keep the row, but never fetch it again until it is asked for (T-09, V9). One that is gone is no error."""

    peer: UUID
    seq: int

    @property
    def spans(self) -> Sequence[Span]:
        return ((self.seq, self.seq),)


@record
class ReplacePeerSubscriptions:
    """The list of a handshake (T-30). The peer may be new.

    `held` are those that it lacks and that go on routing (T-61): each is held from when it first was, or from now.
    """

    peer: UUID
    subscriptions: Sequence[Subscription]
    held: Sequence[Subscription] = ()


@record
class AddPeerSubscription:
    """One that was held is held no more."""

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
    """These peers are still to be told that it is wanted no more (T-61)."""

    subscription: Subscription
    peers: Sequence[UUID]


@record
class ForgetUnsubscribe:
    """They have been told, or it is wanted again."""

    subscription: Subscription
    peers: Sequence[UUID]


@record
class PinPeer:
    """From now on this peer must present a certificate with this public key: SHA-256 of its SPKI (D-3)."""

    peer: UUID
    spki_sha256: bytes


@record
class UnparkDeliveries:
    """These may be fetched again (T-09)."""

    peer: UUID
    spans: Sequence[Span]


@record
class UnpinPeer:
    """The next certificate that it presents is pinned anew (D-3)."""

    peer: UUID


@record
class ForgetPeer:
    """Its deliveries, its subscriptions, its pin, and what RememberHandled named of it (T-77). Dead letters stay."""

    peer: UUID


@record
class DeadLetter:
    """A message that was given up after so many failed deliveries (T-47).

    `number` is the node's; 0 leaves it to the store, which takes the one after the highest that it ever had.
    `failed_at` is wall-clock seconds, set by the store. `cause` says why, in words: of a message that its handler gave
    up, the reason that this one gave.
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


@record
class AddDeadLetter:
    letter: DeadLetter


@record
class RemoveDeadLetters:
    numbers: Sequence[int]


@record
class RememberHandled:
    """These (peer, message id, checksum) were handled; of all that were ever named the last `keep` are kept (T-48)."""

    messages: Sequence[Handled]
    keep: int


@record
class StoreRetained:
    """The newest values of these names, (channel, key, body): each takes the place of the one before (P-30)."""

    values: Sequence[tuple[str, str, bytes]]


@record
class RemoveRetained:
    """Nothing is kept of these names, (channel, key), any more."""

    names: Sequence[tuple[str, str]]


@record
class RetainedValue:
    """A value that is kept (P-30). `stored_at` is wall-clock seconds, set by the store."""

    channel: str
    key: str
    body: bytes
    stored_at: float = 0.0

    @property
    def size(self) -> int:
        """Bytes of channel, key and body, as `Limits.max_retained_bytes` counts them."""
        return len(self.channel.encode()) + len(self.key.encode()) + len(self.body)


@record
class Found:
    """A delivery as `Store.find` lists it, without its body. `age` is in seconds of wall-clock time. Of one whose names
    cannot be read they are empty. `expires_in` are the seconds until it expires, in a list of `Store.expiring`."""

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

    One that has the `first` of the newest span is that span, and takes its place; another is a new one. Of all the
    newest `keep` are kept.
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
    | ForgetPeer
    | AddDeadLetter
    | RemoveDeadLetters
    | RememberHandled
    | ReserveIds
    | StoreRetained
    | RemoveRetained
)

STORING = (StoreMessages, AddDeadLetter, StoreRetained)
"""Operations that store messages. A commit with none of these takes little room, and mostly makes some: a store keeps a
reserve for it (D-13)."""


def bytes_of(operations: Sequence[Operation]) -> int:
    """Bytes of the messages that they store."""
    stored = sum(message.size for one in operations if isinstance(one, StoreMessages) for message in one.messages)
    stored += sum(len(value[-1]) for one in operations if isinstance(one, StoreRetained) for value in one.values)
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


@frozen
class Loaded:
    """State of a node at start, from indexes alone.

    `live_ids` are the spans of wire ids that some peer is still owed; `owed` has (first seq, last seq, how many peers)
    for runs of messages owed to equally many peers. Both ascend and never overlap. `handled` are those that
    RememberHandled named, oldest first. A store may give an `IntervalSet`, `RefCounts` and a `MessageSet` with room for
    one more, which the node that is made of it then has for its own. `dead_letters` has (number, size) of each,
    ascending, `next_letter` the number of the next one: above all that were ever given. `id_spans` are those that
    ReserveIds named, oldest first. `retained` has the number of values that are kept, and their bytes. `expires_in` are
    the seconds until the first message expires that was stored with an `expire_after`; None where there is none.
    `ages` has some of the messages, ascending, and how many seconds ago each was stored, with all since the one before.
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
    retained: tuple[int, int] = (0, 0)
    expires_in: float | None = None
    ages: Sequence[tuple[int, float]] = field(default=(), compare=False)


class Store(Protocol):
    """Durable storage. Called by one thread at a time, off the event loop. Every failure is a StoreError.

    Where there is no room it is DiskFull. The node then commits what removes and changes without what stores (STORING),
    and a good store has kept a reserve for that.
    """

    def load(self) -> Loaded:
        """Load the stored state. Reads no bodies."""

    def commit(self, operations: Sequence[Operation]) -> None:
        """Apply all, in order, durably, or none."""

    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> list[Row]:
        """The peer's unparked deliveries with a higher seq, in order, until a bound is met; at least one if any.

        Those that are held alone, as their names match a held subscription and no other, are left out (T-61).
        """

    def find(self, peer: UUID | None, after_seq: int, max_count: int, min_age: float) -> list[Found]:
        """Deliveries, parked ones too, to one peer or to any, with a higher seq and at least that old, by seq."""

    def expiring(self, max_count: int) -> list[Found]:
        """Deliveries of messages that were stored with an `expire_after`, parked ones too: soonest first (P-27).

        At least once a minute it is asked for none, while something has an age: a good store looks at its clocks then,
        and sees where one was set (D-10).
        """

    def dead_letters(self, after_number: int, max_count: int) -> list[DeadLetter]:
        """Dead letters with a higher number, in order (T-47)."""

    def retained(
        self, wanted: Collection[Subscription], after: tuple[str, str] | None, max_count: int, max_bytes: int
    ) -> list[RetainedValue]:
        """Values whose names match one of these (T-24), each once, by channel and key, those after `after`.

        As many as `max_count`, or until they have `max_bytes` together or more: fewer are the last ones. Asked only
        where something was retained.
        """

    def retained_sizes(self, names: Sequence[tuple[str, str]]) -> list[int | None]:
        """For each of just these names the size of its value, None where nothing is kept."""
