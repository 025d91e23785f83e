"""Actions of a node, one at a time, for an adapter.

The node decides, an adapter acts. An adapter takes actions until None, performs each without a decision of its own, and
reports the outcome by a call of the node. One Transmit, Commit or Deliver carries everything that was ready, as an
action per message costs more.

State: `Delivery`, `Receipt` and `Asked` are objects that the application holds while the node changes them, equal only
to themselves. All actions are plain records.

Invariants: a Receipt is final once Stored names it. Commits, fetches and searches are performed and reported in the
order of their actions. An adapter must have a function for each member of `Action`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Protocol
from uuid import UUID

from .._common.arguments import check_seconds, check_type
from .._common.certificate_watch import CertificateExpires
from .._common.compiling import mypyc_attr
from .._common.dial_causes import DialCause
from .._common.errors import LocalProtocolError, RequestFailed, TolliverError, Undelivered, UndeliveredReason
from .._common.records import record
from .._common.reserved import CALL, users_key
from .._common.transport import Remote, TransportAction
from .._wire.events import Message, Subscription
from .store import Found, Operation, Store

Handler = Hashable
"""The argument of `register`; the node only compares and hashes handlers."""

GoOn = Callable[[TolliverError | None], None]
"""Called with None when an operation has ended well, or with the error that prevented it."""


@record
class HandleAgain:
    """A handler failed, and gets the message again here after these seconds (P-22). Raises TypeError, ValueError."""

    seconds: float

    def __post_init__(self) -> None:
        check_seconds("retry_in", self.seconds, or_zero=True)


@record
class GiveUp:
    """No handler can ever succeed: the message becomes a dead letter at once (P-23). Raises TypeError."""

    reason: str

    def __post_init__(self) -> None:
        check_type("reason", self.reason, str, "a text")


@record
class Answer:
    """A job was done, with an answer for the call that waits for it (P-81). Raises TypeError."""

    body: bytes

    def __post_init__(self) -> None:
        check_type("answer", self.body, bytes, "bytes: encode it first")


Verdict = bool | HandleAgain | GiveUp | Answer | None
"""True: handled. False: failed. None: no handler has begun."""


class Settler(Protocol):
    """Takes verdicts of deliveries; implemented by an adapter, as a node alone has `acknowledge` and `fail`."""

    def settle(self, deliveries: Collection[Delivery], verdict: Verdict, /) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
@dataclass(slots=True, eq=False)  # equal only to itself: two deliveries of one message are settled separately
class Delivery:
    """A message on its way to the handlers. `attempt` counts the tries here since the start, from 1,
    and the deaths of the process with it (T-47)."""

    cid: int
    peer_id: UUID
    message: Message
    attempt: int = 1
    settler: Settler | None = field(default=None, repr=False)
    """Set by the adapter that hands the delivery out."""
    cause: str = field(default="", repr=False)
    """Why its handler failed, set by the adapter before it reports that; the dead letter keeps it (T-47)."""

    def ack(self) -> None:
        """Marks the message as handled: its sender may forget it (T-45). Does nothing the second time."""
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), True)

    def fail(self, retry_in: float | None = None) -> None:
        """Marks the message as not handled: its sender keeps it, and resends it after the resend interval (T-50).

        With `retry_in`, in seconds, handlers get the message again here, while its connection stands (P-22). Raises
        ValueError.
        """
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), False if retry_in is None else HandleAgain(retry_in))

    def give_up(self, reason: str) -> None:
        """Marks the message as never to be handled: it is kept as a dead letter, and acknowledged (T-47, P-23).
        `reason` is a text for the operator.
        """
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), GiveUp(reason))

    def answer(self, body: bytes) -> None:
        """Marks a job as done, and gives this answer to the call that waits for it (P-81). It is `ack` for a job that
        nobody called. Raises TypeError."""
        if self.settler is None:
            raise _no_settler()
        self.settler.settle((self,), Answer(body))

    @property
    def channel(self) -> str:
        """The channel of the message."""
        return self.message.channel

    @property
    def key(self) -> str:
        """The key within the channel; it may be empty."""
        key = self.message.key
        return users_key(key) if key.startswith(CALL) else key

    @property
    def body(self) -> bytes:
        """The application's bytes."""
        return self.message.body

    @property
    def message_id(self) -> int | None:
        """The sender's id of the message; None for an unreliable one (T-42)."""
        return self.message.message_id

    @property
    def reliable(self) -> bool:
        """True if the sender keeps the message until its ack."""
        return self.message.message_id is not None

    def __repr__(self) -> str:
        return f"Delivery({self.channel!r:.100}, {self.key!r:.100}, {len(self.body)} bytes, id={self.message_id})"


class SendState(StrEnum):
    """State of what was sent: `Receipt.state`."""

    WAITING = "waiting"
    """Some recipient has not acknowledged yet."""

    ACKNOWLEDGED = "acknowledged"
    """All recipients have acknowledged."""

    GIVEN_UP = "given_up"
    """A message was given up, or had no recipients: `Receipt.undelivered` says why (T-53, T-54)."""


@mypyc_attr(native_class=False)  # a native one cannot have weak references
class Receipt:
    """Outcome of a send, final when Stored names it (T-53, T-62).

    `recipients` is the number of peers that get something, `counts` has the recipients of each message of a
    `send_many`, and `deliveries` is the sum of those. `first_seq` and `last_seq` are the node's own order. `later` is
    the number of messages whose time has not come: they count as messages without recipients until then (P-93).
    """

    __slots__ = ("__weakref__", "_given_up", "counts", "first_seq", "last_seq", "later", "recipients", "unacked")

    def __init__(self, first_seq: int, last_seq: int, counts: list[int]) -> None:
        self.first_seq: int = first_seq
        self.last_seq: int = last_seq
        self.counts: list[int] = counts
        self.recipients: int = 0
        self.later: int = 0
        self.unacked: int = 0  # messages still owed to a peer
        self._given_up: dict[tuple[UUID | None, UndeliveredReason], int] | None = None

    @property
    def deliveries(self) -> int:
        """Number of messages, each counted once per recipient."""
        return sum(self.counts)

    @property
    def undelivered(self) -> tuple[Undelivered, ...]:
        """Messages given up so far, by peer and reason (T-54); messages without any recipient have None as peer and the
        reason `no_recipients` (T-53)."""
        given_up = self._given_up
        if given_up is None:
            return ()
        return tuple(Undelivered(peer, reason, count) for (peer, reason), count in given_up.items())

    @property
    def failure(self) -> Undelivered | None:
        """The error that `wait_acked` raises now: given up, or, once nothing waits, without recipients."""
        for one in self.undelivered:
            if one.reason is not UndeliveredReason.NO_RECIPIENTS or not self.unacked:
                return one
        return None

    @property
    def state(self) -> SendState:
        """State of the messages now: waiting for acknowledgements, with all of them, or given up (T-54).

        It means nothing once `Stored` has named the receipt with an error: then nothing was stored.
        """
        if self.failure is not None:
            return SendState.GIVEN_UP
        return SendState.WAITING if self.unacked else SendState.ACKNOWLEDGED

    @property
    def repeats(self) -> bool:
        """True if an earlier send had the message key: nothing was stored, and all here is about that send (P-60)."""
        return False

    def give_up(self, peer: UUID | None, reason: UndeliveredReason, count: int) -> None:
        """For the node: records that the peer, or no recipient for None, will not acknowledge `count` of the messages,
        for this reason.
        """
        given_up = self._given_up = self._given_up or {}
        given_up[peer, reason] = given_up.get((peer, reason), 0) + count

    def __repr__(self) -> str:
        return f"Receipt(messages={len(self.counts)}, recipients={self.recipients}, deliveries={self.deliveries})"


@mypyc_attr(native_class=False)
class Rider(Receipt):
    """Receipt of a send in whose commit a pattern, such as a work queue, stores data of its own."""

    __slots__ = ()

    keeps: bool = False
    """True if a message with recipients is also kept for connecting peers, and one without is told, as for any send
    (T-53, T-62)."""

    passes: bool = False
    """True if the messages may exceed the quotas of their recipients, as they are on disk already (P-94)."""

    def check(self, may_wait: bool) -> bool:
        """Called when the messages are about to enter the commit. Returns False if the pattern takes the send over:
        nothing is stored now. Raises if the pattern cannot store its data: nothing is sent then.

        `may_wait` is True if the messages have no recipients yet, and a connecting peer may be one (T-62).
        """
        return True

    def ride(self) -> None:
        """Called when the messages enter the commit: the pattern adds its own operations."""


@mypyc_attr(allow_interpreted_subclasses=True)
@record
class Reply:
    """An answer to a request: its `body`, and the peer that gave it.

    One of several answers (`gather`) may be a failure: then `error` is set, and the body is empty.
    """

    peer_id: UUID
    body: bytes
    error: RequestFailed | None = None


class Asked:
    """A request in progress, until the action Answered names it. A `durable` one is stored, one that `gathers` collects
    all answers.
    """

    __slots__ = (
        "body",
        "channel",
        "durable",
        "error",
        "gathers",
        "key",
        "left",
        "lost",
        "message_key",
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
        message_key: str | None = None,
    ) -> None:
        self.message_key: str | None = message_key  # of a durable request that is stored once (P-66)
        self.request_id: int = request_id
        self.channel: str = channel  # with its prefix on the wire
        self.key: str = key
        self.body: bytes = body  # with its envelope; dropped once sent, if the request is not repeated
        self.durable: bool = durable
        self.gathers: bool = gathers
        self.to: frozenset[UUID] | None = to
        self.waits: bool = waits  # for a responder, while there is none
        self.left: set[Hashable] = set()  # peers that may answer yet
        self.not_there: set[Hashable] = set()  # peers that reported no handler, and have not moved since
        self.replies: list[Reply] = []
        self.error: RequestFailed | None = None  # the first failure
        self.lost: bool = False  # a connection that may have brought the answer has ended

    def __repr__(self) -> str:
        return f"Asked({self.channel!r:.100}, {self.key!r:.100}, id={self.request_id})"


class NoticeKind(StrEnum):
    """Subject of a notice."""

    IDENTITY_MISMATCH = "identity_mismatch"  # D-3, T-72: closed before a response
    CERTIFICATE_REFUSED = "certificate_refused"  # D-1: of an incoming connection, refused by either side
    ACCESS_DENIED = "access_denied"  # D-4, T-77: closed before a response
    WILDCARD_SUBSCRIPTION = "wildcard_subscription"  # D-4: only with access rules, once for each peer
    TOO_MANY_HANDSHAKES = "too_many_handshakes"  # D-7: connections are refused until some handshakes end
    HANDSHAKE_TIMEOUT = "handshake_timeout"  # T-68: incoming connections; throttled, with a count
    PROBE_UNANSWERED = "probe_unanswered"  # T-80: the connection was dropped; throttled, with a count
    UNACKNOWLEDGED = "unacknowledged"  # a connected peer acknowledges nothing; once for each silence
    REFUSED_THERE = "refused_there"  # a peer did not handle messages: kept and resent; throttled, with a count
    NOT_RELIABLE = "not_reliable"  # not sent to a peer without acks; throttled, with a count
    CERTIFICATE_ENDS = "certificate_ends"  # our own or a connected peer's, within 30 days; daily
    SELF_CONNECTION = "self_connection"  # T-71
    DUPLICATE_IDENTITY = "duplicate_identity"  # T-70: two live instances have one UUID
    DUPLICATE_CLOSED = "duplicate_closed"  # T-70
    PROTOCOL_ERROR = "protocol_error"  # a peer broke the rules
    STORE_ERROR = "store_error"  # throttled for each text, with a count
    CORRUPT_MESSAGE = "corrupt_message"  # V9: parked
    DIAL_FAILED = "dial_failed"  # T-73: at the first failure, and at each new cause
    DIAL_GAVE_UP = "dial_gave_up"  # T-73: not dialled again; the caller gets the error
    UNWANTED = "unwanted"  # T-46: acknowledged and dropped; throttled, with counts by channel
    REFUSED = "refused"  # D-5: the same, of a message that the peer may not publish
    IGNORED = "ignored"  # T-10, T-20, T-27: the same, of a frame that cannot be understood
    HANDLER_FAILED = "handler_failed"  # T-45: its message is redelivered
    RESPONDER_FAILED = "responder_failed"  # P-12: its requester was told
    ID_REUSED = "id_reused"  # T-48: other messages came under known ids; throttled, with a count
    HANDLER_STUCK = "handler_stuck"  # D-9: new messages for it are withheld until its call ends
    HANDED_OUT_AGAIN = "handed_out_again"  # T-48: a copy, as a handler call is overdue; throttled, with a count
    DEAD_LETTER = "dead_letter"  # T-47: given up here after too many failures
    LETTERS_DROPPED = "letters_dropped"  # T-47: too many dead letters, the oldest were dropped
    PARKED = "parked"  # T-09: set aside, as the peer closes whenever the message comes
    OUTBOX_FILLING = "outbox_filling"  # D-10: 80 % of a peer's quota is used
    DROPPED_OLDEST = "dropped_oldest"  # D-10: given up at the quota, to make room for newer ones
    SKIPPED = "skipped"  # D-10: not kept for a peer at its quota
    HELD = "held"  # T-61: a peer's newer list lacks subscriptions, and messages wait for it to subscribe again
    UNSUBSCRIBED = "unsubscribed"  # T-61: given up, or not kept, as the peer did not subscribe again
    NOT_KEPT = "not_kept"  # T-62: not kept for a connecting remote: its buffer is full, or its list failed
    NO_RECIPIENTS = "no_recipients"  # T-53: durable sends had no recipient; throttled, with a count
    ROWS_HELD = "rows_held"  # rows of a program's outbox are not sent: nobody subscribes, or only another one may
    EXPIRED = "expired"  # D-10: given up after their time
    FORGOTTEN = "forgotten"  # T-77: a peer was not connected for as long as the policy allows
    NOT_RECORDED = "not_recorded"  # a recording ended early: the disk, or more traffic than it takes
    COMMITS_MISSING = "commits_missing"  # D-13, P-76: confirmed commits are lost, of the store or a program
    DISK_LOW = "disk_low"  # D-13: new messages are refused
    RESERVE_USED = "reserve_used"  # D-13: the disk is full
    RESERVE_RESTORED = "reserve_restored"  # D-13
    RELOAD_REFUSED = "reload_refused"  # a reloaded file is wrong: the earlier one stays in use
    LEASE_OVER = "lease_over"  # a producer was away for too long: its jobs not begun are released
    BACKOFF_FULL = "backoff_full"  # T-52: sends to that peer pause


@record
class Commit:
    """Apply all or none, durably; answer `committed(batch_id)` or `store_failed(batch_id, error)`. One at a time."""

    batch_id: int
    operations: Sequence[Operation]


@record
class Fetch:
    """Read the peer's next deliveries (see `Store.fetch`); answer `fetched(peer, rows)` or `fetch_failed(peer, error)`.

    Perform and report fetches and commits in the order of their actions.
    """

    peer: UUID
    after_seq: int
    max_count: int
    max_bytes: int


@record
class Find:
    """List deliveries without their bodies (see `Store.find`); answer `found(search_id, rows)`, or `found(search_id,
    [], error)`. In order with fetches and commits.

    With `expiring` the search is `Store.expiring(max_count)` instead or, of the peer `LATER`, `Store.later(max_count)`.
    """

    search_id: int
    peer: UUID | None
    after_seq: int
    max_count: int
    min_age: float
    expiring: bool = False

    def ask(self, store: Store) -> list[Found]:
        """Has the store carry out this search; returns the rows. Raises StoreError."""
        if self.expiring:
            return store.expiring(self.max_count) if self.peer is None else store.later(self.max_count)
        return store.find(self.peer, self.after_seq, self.max_count, self.min_age)


LOOK = Find(0, None, 0, 0, inf, True)
"""A search without rows and without a waiter: it makes the store check its clocks (D-10)."""


@record
class Deliver:
    """Give each delivery to each handler; then `acknowledge` those that all handlers handled and `fail` the others.

    Settle unreliable ones too: that returns the peer's credit (D-9). Report long handler calls with `begin` and `end`.
    """

    deliveries: Sequence[Delivery]
    handlers: Sequence[Handler]


@record
class TakeBack:
    """Call `let_go` with this peer's deliveries that the handler has not begun: it is stuck, and others need the credit
    (D-9)."""

    handler: Handler
    peer: UUID


@record
class Stored:
    """These sends are on disk, or, with an error, were not stored at all (T-54). Tokens are Receipts, of sends or of
    calls such as `subscribe`."""

    tokens: Sequence[Receipt]
    error: TolliverError | None = None


@record
class Acked:
    """Every recipient has acknowledged all messages of these receipts, for which `watch` was called; with an error,
    some messages were given up (T-54).
    """

    tokens: Sequence[Receipt]
    error: Undelivered | None = None


@record
class Answered:
    """This request has ended: with its replies or, with an error, without one (P-12, P-13).

    `error` is RequestFailed, NoResponders, ConnectionLost, StoreError, ConnectionClosing, or TimeoutError.
    """

    asked: Asked
    replies: Sequence[Reply]
    error: TolliverError | TimeoutError | None = None


@record
class PeerUp:
    """The handshake has ended and the peer's subscriptions are stored. `remote` is None if the peer dialled us."""

    cid: int
    peer: UUID
    version: int
    remote: Remote | None


@record
class PeerDown:
    """The connection that PeerUp named has ended; `error` is None after an orderly end."""

    cid: int
    peer: UUID
    error: TolliverError | None


@record
class SubscriptionsChanged:
    """A peer's list has changed and is stored: by a handshake (PeerUp follows), or by a subscribe or unsubscribe.

    Only with `tell_events=True`. `subscriptions` is the whole list, without those that the access rules deny.
    """

    peer: UUID
    subscriptions: frozenset[Subscription]


@record
class PeersMoved:
    """A peer has come or gone, or its subscriptions changed: check again whether `subscribed` or `peer_at` give what a
    call waits for.

    Only with `tell_events=True`, once for all changes of a turn.
    """


@record
class DialEnded:
    """This remote is not dialled any more: `error` gives the reason (T-73), None after `disconnect`."""

    remote: Remote
    error: TolliverError | None


@record
class DialFailed:
    """A dial has failed, and the remote is dialled again. Only with `tell_events=True`.

    Comes at the first failure of the remote and at each new cause (`is_news`), and whenever `error` is for the callers
    that wait for the remote (T-73): after a refusal by either side (`cause.is_refusal`) for all of them; where the
    other end is no peer of this protocol or contradicts itself, for those that do not keep trying. `text` gives the
    reason for people.
    """

    remote: Remote
    cause: DialCause
    text: str
    error: TolliverError | None
    is_news: bool


@record
class Notice:
    """An event for an operator. `detail` is one line, without bodies."""

    kind: NoticeKind
    peer: UUID | None
    detail: str
    remote: Remote | None = None
    """Remote and cause of a notice about a dial."""
    cause: DialCause | None = None


Action = (
    TransportAction
    | Commit
    | Fetch
    | Find
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
"""All actions: a driver has a function for each."""


def _no_settler() -> LocalProtocolError:
    return LocalProtocolError(
        "no_adapter", "no adapter handed this delivery out: give it to Node.acknowledge or Node.fail"
    )
