"""Actions of a node, one at a time, for an adapter.

The node decides, an adapter acts. An adapter is a loop that takes actions until None, does each without asking why, and
reports what became of it by calling the node again. Runs are the unit: one Transmit, Commit or Deliver carries all that
was ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Protocol
from uuid import UUID

from .._common.causes import DialCause
from .._common.certificates import CertificateExpires
from .._common.errors import LocalProtocolError, RequestFailed, TolliverError, Undelivered, UndeliveredReason
from .._common.records import record
from .._common.transport import Remote, TransportAction
from .._wire.events import Message, Subscription
from .store import Found, Operation, RetainedValue, Store

Handler = Hashable
"""The argument of `register`: the adapter's business too."""

GoOn = Callable[[TolliverError | None], None]
"""Called when something is through, or with the error that prevented it."""


@record
class HandleAgain:
    """A handler failed, and is to have the message again here after so many seconds (P-22). Raises ValueError."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.seconds < inf:
            raise ValueError(f"retry_in={self.seconds!r:.100}: give seconds, or None")


@record
class GiveUp:
    """No handler will ever do: it is a dead letter at once (P-23)."""

    reason: str


Verdict = bool | HandleAgain | GiveUp | None
"""Handled well, or failed, and what then; None where no handler has begun."""


class Settler(Protocol):
    """Takes what is said of deliveries: an adapter's, as a node alone has `acknowledge` and `fail`."""

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None: ...


@dataclass(slots=True, eq=False)  # equal only to itself: two deliveries of one message are settled separately
class Delivery:
    """A message on its way to the handlers. `attempt` counts from 1: how often it was tried here since the start."""

    cid: int
    peer_id: UUID
    message: Message
    attempt: int = 1
    settler: Settler | None = field(default=None, repr=False)
    """Set by an adapter that hands it out."""

    def ack(self) -> None:
        """Handled: the sender may forget it (T-45). Does nothing the second time."""
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), True)

    def fail(self, retry_in: float | None = None) -> None:
        """Not handled: the sender keeps it, and sends it again after its resend interval (T-50).

        With `retry_in` it is handed out again here after so many seconds, as long as the connection stands that it came
        on (P-22). Raises ValueError.
        """
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), False if retry_in is None else HandleAgain(retry_in))

    def give_up(self, reason: str) -> None:
        """Not handled, and trying again is no use: kept as a dead letter, and acknowledged (T-47, P-23)."""
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), GiveUp(reason))

    @property
    def channel(self) -> str:
        """The channel that it was sent on."""
        return self.message.channel

    @property
    def key(self) -> str:
        """The key within the channel; it may be empty."""
        return self.message.key

    @property
    def body(self) -> bytes:
        """The application's bytes."""
        return self.message.body

    @property
    def message_id(self) -> int | None:
        """The sender's id of it; None where it is unreliable (T-42)."""
        return self.message.message_id

    @property
    def reliable(self) -> bool:
        """True if its sender keeps it until it is acknowledged."""
        return self.message.message_id is not None

    def __repr__(self) -> str:
        return f"Delivery({self.channel!r:.100}, {self.key!r:.100}, {len(self.body)} bytes, id={self.message_id})"


class Receipt:
    """Outcome of a send, final when Stored names it (T-53, T-62).

    `recipients` counts the peers that it is for, `counts` those of each message of a `send_many`, and `deliveries` is
    the sum of these. `first_seq` and `last_seq` are the node's own order.
    """

    __slots__ = ("__weakref__", "_given_up", "counts", "first_seq", "last_seq", "recipients", "unacked")

    def __init__(self, first_seq: int, last_seq: int, counts: list[int]) -> None:
        self.first_seq = first_seq
        self.last_seq = last_seq
        self.counts = counts
        self.recipients = 0
        self.unacked = 0  # messages still owed to somebody
        self._given_up: dict[tuple[UUID | None, UndeliveredReason], int] | None = None

    @property
    def deliveries(self) -> int:
        """Each message once for each of its recipients."""
        return sum(self.counts)

    @property
    def undelivered(self) -> tuple[Undelivered, ...]:
        """Messages of it that were given up so far, by peer and reason (T-54); and those that no peer was to have, with
        None for the peer and the reason `no_recipients` (T-53)."""
        given_up = self._given_up
        if given_up is None:
            return ()
        return tuple(Undelivered(peer, reason, count) for (peer, reason), count in given_up.items())

    def give_up(self, peer: UUID | None, reason: UndeliveredReason, count: int) -> None:
        """The node's: so many of its messages will not be acknowledged by that peer."""
        given_up = self._given_up = self._given_up or {}
        given_up[peer, reason] = given_up.get((peer, reason), 0) + count

    def __repr__(self) -> str:
        return f"Receipt(messages={len(self.counts)}, recipients={self.recipients}, deliveries={self.deliveries})"


class Rider(Receipt):
    """Receipt of a send with which a pattern stores something of its own, in one commit."""

    __slots__ = ()

    def check(self) -> None:
        """Raises where the pattern cannot: nothing is sent."""

    def ride(self) -> None:
        """The messages go into the commit that gathers: now the pattern's own does."""


@record
class Reply:
    """An answer to a request: its `body`, and the peer that gave it.

    Of several answers (`gather`) one may be a failure: then `error` says so, and the body is empty.
    """

    peer_id: UUID
    body: bytes
    error: RequestFailed | None = None


class Asked:
    """A request that was asked, until Answered names it. `durable` ones are stored, `gathers` collects all answers."""

    __slots__ = (
        "body",
        "channel",
        "durable",
        "error",
        "gathers",
        "key",
        "left",
        "lost",
        "not_there",
        "replies",
        "request_id",
        "to",
        "waits",
    )

    def __init__(
        self,
        request_id: int,
        channel: str,
        key: str,
        body: bytes,
        durable: bool,
        gathers: bool,
        to: frozenset[UUID] | None,
        waits: bool,
    ) -> None:
        self.request_id = request_id
        self.channel = channel  # as it travels
        self.key = key
        self.body = body  # with its envelope; dropped when it is on its way and will not be asked again
        self.durable = durable
        self.gathers = gathers
        self.to = to
        self.waits = waits  # for a responder, where there is none
        self.left: set[Hashable] = set()  # peers that may answer yet
        self.not_there: set[Hashable] = set()  # peers that said that they have no handler, and have not moved since
        self.replies: list[Reply] = []
        self.error: RequestFailed | None = None  # the first of them
        self.lost = False  # a connection ended that may have brought it

    def __repr__(self) -> str:
        return f"Asked({self.channel!r:.100}, {self.key!r:.100}, id={self.request_id})"


class NoticeKind(StrEnum):
    """Subject of a notice."""

    IDENTITY_MISMATCH = "identity_mismatch"  # D-3, T-72: closed before a response
    CERTIFICATE_REFUSED = "certificate_refused"  # D-1: of one who dialled us, by us or by it
    ACCESS_DENIED = "access_denied"  # D-4, T-77: closed before a response
    WILDCARD_SUBSCRIPTION = "wildcard_subscription"  # D-4: told where there are access rules, once for each peer
    TOO_MANY_HANDSHAKES = "too_many_handshakes"  # D-7: connections are refused until some of them are through
    HANDSHAKE_TIMEOUT = "handshake_timeout"  # T-68: of those who dialled us; throttled, with a count
    PROBE_UNANSWERED = "probe_unanswered"  # T-80: the connection was dropped; throttled, with a count
    UNACKNOWLEDGED = "unacknowledged"  # connected, and nothing is acknowledged; once for each silence
    REFUSED_THERE = (
        "refused_there"  # a peer says that it did not handle them: kept, sent again; throttled, with a count
    )
    NOT_RELIABLE = "not_reliable"  # a peer acknowledges nothing, and got none of them; throttled, with a count
    CERTIFICATE_ENDS = "certificate_ends"  # our own or a connected peer's, within 30 days; daily
    SELF_CONNECTION = "self_connection"  # T-71
    DUPLICATE_IDENTITY = "duplicate_identity"  # T-70: two live instances have one UUID
    DUPLICATE_CLOSED = "duplicate_closed"  # T-70
    PROTOCOL_ERROR = "protocol_error"  # a peer broke the rules
    STORE_ERROR = "store_error"
    CORRUPT_MESSAGE = "corrupt_message"  # V9: parked
    DIAL_FAILED = "dial_failed"  # T-73: told at the first failure, and at each change of cause
    DIAL_GAVE_UP = "dial_gave_up"  # T-73: whoever asked for it has the error, or it is this instance itself
    UNWANTED = "unwanted"  # T-46: acknowledged and dropped; throttled, with counts by channel, as are the next two
    REFUSED = "refused"  # D-5: the same, as the peer may not publish it
    IGNORED = "ignored"  # T-10, T-20, T-27: the same, as it cannot be understood
    HANDLER_FAILED = "handler_failed"  # T-45: it is sent again
    RESPONDER_FAILED = "responder_failed"  # P-12: its requester was told
    ID_REUSED = "id_reused"  # T-48: other messages came under ids that are known; throttled, with a count
    HANDLER_STUCK = "handler_stuck"  # D-9: what comes for it is let go until it ends
    HANDED_OUT_AGAIN = "handed_out_again"  # T-48: a copy, as the handler has not ended in time; throttled, with a count
    DEAD_LETTER = "dead_letter"  # T-47: given up here after too many failures
    LETTERS_DROPPED = "letters_dropped"  # T-47: there are too many dead letters, the oldest went
    PARKED = "parked"  # T-09: set aside, as the peer closes whenever it gets it
    OUTBOX_FILLING = "outbox_filling"  # D-10: 80 % of a peer's quota is used
    DROPPED_OLDEST = "dropped_oldest"  # D-10: given up at the quota, to make room for newer ones
    SKIPPED = "skipped"  # D-10: not kept for a peer at its quota
    HELD = "held"  # T-61: a peer's newer list lacks subscriptions, and messages wait for it to subscribe again
    UNSUBSCRIBED = "unsubscribed"  # T-61: given up, or not kept, as it did not
    NOT_KEPT = "not_kept"  # T-62: not kept for a remote that is connecting, beyond what is kept for it
    NO_RECIPIENTS = "no_recipients"  # T-53: durable sends had no recipient; throttled, with a count
    EXPIRED = "expired"  # D-10: given up after the time that the policy allows
    FORGOTTEN = "forgotten"  # T-77: a peer was not connected for as long as the policy allows
    NOT_RECORDED = "not_recorded"  # a recording ended early: the disk, or more traffic than it takes
    COMMITS_MISSING = "commits_missing"  # D-13: confirmed ones, told at opening
    DISK_LOW = "disk_low"  # D-13: new messages are refused
    RESERVE_USED = "reserve_used"  # D-13: the disk is full
    RESERVE_RESTORED = "reserve_restored"  # D-13
    RELOAD_REFUSED = "reload_refused"  # a file that a program was to read again is wrong: the earlier one stays
    LEASE_OVER = "lease_over"  # a producer was gone for too long: what was not begun of its jobs is let go
    BACKOFF_FULL = "backoff_full"  # T-52: sends to that peer pause


@record
class Commit:
    """Apply all or none, durably; answer `committed(batch_id)` or `store_failed(batch_id, error)`. One at a time."""

    batch_id: int
    operations: Sequence[Operation]


@record
class Fetch:
    """Read the peer's next deliveries (see `Store.fetch`); answer `fetched(peer, rows)` or `fetch_failed(peer, error)`.

    Fetches and commits are performed and reported in the order in which they were asked for.
    """

    peer: UUID
    after_seq: int
    max_count: int
    max_bytes: int


@record
class Find:
    """List deliveries without their bodies (see `Store.find`); answer `found(search_id, rows)`, or
    `found(search_id, [], error)`. In order with fetches and commits.

    With `expiring` it is `Store.expiring(max_count)` that is asked for, and nothing is old enough for the other.
    """

    search_id: int
    peer: UUID | None
    after_seq: int
    max_count: int
    min_age: float
    expiring: bool = False

    def ask(self, store: Store) -> list[Found]:
        """The rows that the store answers. Raises StoreError."""
        if self.expiring:
            return store.expiring(self.max_count)
        return store.find(self.peer, self.after_seq, self.max_count, self.min_age)


LOOK = Find(0, None, 0, 0, inf, True)
"""A search for nothing, which no search awaits: the store looks at its clocks meanwhile (D-10)."""


@record
class FindRetained:
    """List kept values (see `Store.retained`); answer `retained_found(search_id, answer(store))`, or
    `retained_found(search_id, [], error)`. In order with fetches and commits."""

    search_id: int
    wanted: Collection[Subscription]
    after: tuple[str, str] | None
    max_count: int
    max_bytes: int

    def answer(self, store: Store) -> Sequence[RetainedValue]:
        return store.retained(self.wanted, self.after, self.max_count, self.max_bytes)


@record
class WeighRetained:
    """Look up the sizes of kept values (see `Store.retained_sizes`); answered as FindRetained is."""

    search_id: int
    names: Sequence[tuple[str, str]]

    def answer(self, store: Store) -> Sequence[int | None]:
        return store.retained_sizes(self.names)


@record
class Deliver:
    """Give each delivery to each handler; then `acknowledge` those that all handled well and `fail` the others.

    Unreliable ones too: settling returns the peer's credit (D-9). A handler that may take its time is told with `begin`
    and `end`.
    """

    deliveries: Sequence[Delivery]
    handlers: Sequence[Handler]


@record
class TakeBack:
    """Give what this handler has of this peer and has not begun to `let_go`: it is stuck, and others need the credit
    (D-9)."""

    handler: Handler
    peer: UUID


@record
class Stored:
    """These sends are on disk, or, with an error, were not stored at all (T-54). Tokens are Receipts, or what
    `subscribe` and its like returned."""

    tokens: Sequence[Receipt]
    error: TolliverError | None = None


@record
class Acked:
    """Everything in these receipts, which `watch` was called for, was acknowledged by every recipient, or, with an
    error, some of it was given up (T-54)."""

    tokens: Sequence[Receipt]
    error: Undelivered | None = None


@record
class Answered:
    """This request is over: the replies that came for it, or, with an error, why there is none (P-12, P-13).

    `error` is RequestFailed, NoResponders, ConnectionLost, StoreError, ConnectionClosing, or TimeoutError.
    """

    asked: Asked
    replies: Sequence[Reply]
    error: TolliverError | TimeoutError | None = None


@record
class PeerUp:
    """The handshake is over and the peer's subscriptions are stored. `remote` is None where the peer dialled us."""

    cid: int
    peer: UUID
    version: int
    remote: Remote | None


@record
class PeerDown:
    """The connection that PeerUp named is over; `error` is None after an orderly end."""

    cid: int
    peer: UUID
    error: TolliverError | None


@record
class SubscriptionsChanged:
    """A peer's list is another one now, and stored: from its handshake (then PeerUp follows), or as it subscribes.

    Told where the node was made with `tell_events=True`. `subscriptions` is the whole list, less what the access
    rules do not let it have.
    """

    peer: UUID
    subscriptions: frozenset[Subscription]


@record
class PeersMoved:
    """Some peer has come or gone, or wants something else: look again whether `subscribed` or `peer_at` say by now what
    a call waits for.

    Told where the node was made with `tell_events=True`, once for all that has come together.
    """


@record
class DialEnded:
    """This remote is not dialled any more: `error` says why (T-73), None after `disconnect`."""

    remote: Remote
    error: TolliverError | None


@record
class DialFailed:
    """A dial has failed, and the remote is dialled on. Told where the node was made with `tell_events=True`.

    It is told at the first failure of the remote and when the cause is another one, which `is_news` says, and whenever
    `error` is for those who wait for the remote (T-73): where one of the two sides has refused the other
    (`cause.is_refusal`) for all of them; where what answered is no peer of this protocol or contradicts itself, for
    those who do not keep trying. `text` says why, for people.
    """

    remote: Remote
    cause: DialCause
    text: str
    error: TolliverError | None
    is_news: bool


@record
class Notice:
    """Something that an operator may want to know. `detail` is one line, without bodies."""

    kind: NoticeKind
    peer: UUID | None
    detail: str
    remote: Remote | None = None
    """The remote that is dialled, and the cause, of a notice about a dial."""
    cause: DialCause | None = None


Action = (
    TransportAction
    | Commit
    | Fetch
    | Find
    | FindRetained
    | WeighRetained
    | Deliver
    | TakeBack
    | Stored
    | Acked
    | Answered
    | PeerUp
    | PeerDown
    | SubscriptionsChanged
    | PeersMoved
    | DialEnded
    | DialFailed
    | CertificateExpires
    | Notice
)
"""All that a node can ask for: a driver has a function for each."""


def _no_settler() -> LocalProtocolError:
    return LocalProtocolError(
        "no_adapter", "no adapter handed this delivery out: give it to Node.acknowledge or Node.fail"
    )
