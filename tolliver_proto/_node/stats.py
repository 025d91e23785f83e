"""Counters and gauges of a node, as one frozen snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from .._common.causes import DialCause
from .._common.errors import UndeliveredReason
from .._common.records import frozen
from .._common.snapshot import Snapshot, counter, counters_by, gauge
from .._wire.events import IgnoreReason
from .actions import NoticeKind
from .ends import EndCause


@frozen
class NodeStats(Snapshot):
    """Numbers of a node: totals since the start, and sizes now (docs/messaging.md says what each one counts)."""

    bytes_received: int = counter()
    bytes_sent: int = counter()
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
    """By reason: frames that were whole but not understandable (T-10, T-20, T-27)."""
    dials: int = counter()
    dials_failed: Mapping[DialCause, int] = counters_by()
    """By cause: dials that came to nothing."""
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
    requests_outstanding: int = gauge()

    @classmethod
    def of(cls, counts: Mapping[str, int], **gauges: int) -> NodeStats:
        """From what the node counts by name."""
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
