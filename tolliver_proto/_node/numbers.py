"""Statistics of a node and its peers, for an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from uuid import UUID

from .._common.counters import Snapshot, counter, counters_by, gauge
from .._common.dial_causes import DialCause
from .._common.errors import ConnectionLost, RemoteProtocolError, TolliverError, UndeliveredReason
from .._common.records import frozen
from .._wire.events import IgnoreReason, Subscription
from .actions import NoticeKind


class EndCause(StrEnum):
    """Cause of the end of a connection."""

    IN_ORDER = "in_order"  # one of the two ends closed it
    LOST = "lost"  # the transport broke, or the peer was silent
    PROTOCOL = "protocol"  # the peer broke the rules, or stopped inside a frame
    HERE = "here"  # this side ended it: access rules, a failing store

    @staticmethod
    def of(error: TolliverError | None) -> EndCause:
        """Returns the cause that the error of the action PeerDown stands for."""
        if error is None:
            return EndCause.IN_ORDER
        if isinstance(error, RemoteProtocolError):
            return EndCause.PROTOCOL
        return EndCause.LOST if isinstance(error, ConnectionLost) else EndCause.HERE


@frozen
class PeerInfo:
    """A peer as `Node.peers` shows it: `pending` messages of `pending_bytes` wait for the peer or for its ack.

    `parked` messages of `parked_bytes` were set aside and count against no quota (T-09).

    `subscriptions` are the current ones, without those that the access rules deny. `held` are the held subscriptions,
    which its newer list lacks (T-61).
    """

    uuid: UUID
    connected: bool
    address: str
    subscriptions: tuple[Subscription, ...]
    pending: int
    pending_bytes: int
    parked: int
    parked_bytes: int = 0
    held: tuple[Subscription, ...] = ()


@frozen
class PeerNumbers:
    """Statistics of a peer for monitoring, as `Node.numbers` returns them.

    `in_flight` messages were sent and are not acknowledged; `backoff` of them are overdue. `oldest_unacknowledged` is
    the age in seconds of the oldest message that waits for the peer, None if there is none. `round_trip` is the last
    measured time in seconds from the socket's taking a message to its ack. `quota_used` is a share of the peer's quota,
    1 if it is used up; `full` is True if the last send for the peer was refused for it (D-10). `counters` are totals
    since the start, or since the peer became known.
    """

    info: PeerInfo
    in_flight: int
    backoff: int
    oldest_unacknowledged: float | None
    round_trip: float | None
    quota_used: float
    full: bool
    counters: Mapping[str, int]


class PeerCounts:
    """Counters of a peer, plain integers that are added to once per run of messages.

    `sent` counts the first copies of reliable messages, `resent` the others. Bytes are before TLS, from the end of the
    handshake on. `by` has the counters with a reason: deliveries given up, connections ended.
    """

    __slots__ = (
        "acknowledged",
        "by",
        "connects",
        "duplicates",
        "received_bytes",
        "refused",
        "resent",
        "sent",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.sent: int = 0
        self.resent: int = 0
        self.acknowledged: int = 0
        self.duplicates: int = 0
        self.refused: int = 0
        self.sent_bytes: int = 0
        self.received_bytes: int = 0
        self.connects: int = 0
        self.by: Counter[str] = Counter()

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {**{name: getattr(self, name) for name in self.__slots__ if name != "by"}, **self.by}


@frozen
class NodeStats(Snapshot):
    """Statistics of a node: totals since the start, and current sizes; `tolliver.status.METRICS` explains each."""

    received_bytes: int = counter()
    sent_bytes: int = counter()
    handled: int = counter()
    failed: int = counter()
    duplicates: int = counter()
    ids_reused: int = counter()
    waited: int = counter()
    withheld: int = counter()
    unwanted: int = counter()
    sent: int = counter()
    acked: int = counter()
    resent: int = counter()
    stray_acks: int = counter()
    probes: int = counter()
    probes_unanswered: int = counter()
    aged_out: int = counter()
    expired_messages: int = counter()
    dropped_letters: int = counter()
    dropped_oldest: int = counter()
    skipped: int = counter()
    unsubscribed: int = counter()
    not_kept: int = counter()
    no_recipients: int = counter()
    unreliable_sent: int = counter()
    unreliable_dropped: int = counter()
    requests: int = counter()
    requests_answered: int = counter()
    requests_failed: int = counter()
    requests_timed_out: int = counter()
    requests_cancelled: int = counter()
    late_replies: int = counter()
    replies: int = counter()
    replies_dropped: int = counter()
    refused_sends: int = counter()
    refused_subscriptions: int = counter()
    refused_messages: int = counter()
    refused_handshakes: int = counter()
    hurried: int = counter()
    ignored: Mapping[IgnoreReason, int] = counters_by()
    """By reason: whole frames that could not be understood (T-10, T-20, T-27)."""
    dials: int = counter()
    dials_failed: Mapping[DialCause, int] = counters_by()
    """By cause: dials that failed."""
    handshakes_timed_out: int = counter()
    connects: int = counter()
    disconnects: Mapping[EndCause, int] = counters_by()
    """By cause: connections to peers that ended."""
    given_up: Mapping[UndeliveredReason, int] = counters_by()
    """By reason: deliveries that were given up."""
    notices: Mapping[NoticeKind, int] = counters_by()
    """By kind: the node's own notices."""

    connections: int = gauge()
    peers: int = gauge()
    peers_up: int = gauge()
    pending: int = gauge()
    pending_bytes: int = gauge()
    parked: int = gauge()
    dead_letters: int = gauge()
    own_subscriptions: int = gauge()
    peer_subscriptions: int = gauge()
    held_subscriptions: int = gauge()
    stuck_handlers: int = gauge()
    retained: int = gauge()
    retained_bytes: int = gauge()
    message_keys: int = gauge()
    message_key_bytes: int = gauge()
    later: int = gauge()
    later_bytes: int = gauge()
    kept: int = gauge()
    kept_bytes: int = gauge()
    requests_outstanding: int = gauge()

    @classmethod
    def of(cls, counts: Mapping[str, int], **gauges: int) -> NodeStats:
        """Makes the statistics from the node's counters and current sizes, both by the names of the fields."""
        return cls(
            **{name: counts.get(name, 0) for name in _COUNTED},
            ignored={reason: counts.get(f"ignored_{reason}", 0) for reason in IgnoreReason},
            dials_failed={cause: counts.get(f"dials_failed_{cause}", 0) for cause in DialCause},
            disconnects={cause: counts.get(f"disconnects_{cause}", 0) for cause in EndCause},
            given_up={reason: counts.get(f"given_up_{reason}", 0) for reason in UndeliveredReason},
            notices={kind: counts.get(f"notices_{kind}", 0) for kind in NoticeKind},
            **gauges,
        )


_COUNTED = tuple(NodeStats().counters())
