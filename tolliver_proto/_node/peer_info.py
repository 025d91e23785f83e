"""A peer as an operator sees it.

It has the name, numbers and counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from uuid import UUID

from .._common.records import frozen
from .._wire.events import Subscription


@frozen
class PeerInfo:
    """A peer as `Node.peers` shows it: `pending` messages of `pending_bytes` wait for it or for its ack.

    `parked` ones of `parked_bytes` were set aside and count against no quota (T-09).

    `subscriptions` are those that it has now: what the access rules do not let it have is not among them. `held` are
    those that its newer list lacks (T-61).
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
    """Numbers of a peer for whoever watches an instance, as `Node.numbers` tells them.

    `in_flight` messages were sent and are not acknowledged, and `backoff` of them are overdue. `oldest_unacknowledged`
    is in seconds since the oldest message that waits for it was stored, None where none does; `round_trip` in seconds
    from when the socket took a message to its acknowledgement, the last that was measured. `quota_used` is a share, 1
    where its quota is used up, and `full` says that the last send for it was refused there (D-10). `counters` are
    totals since the start, or since the peer came to be known.
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
    """Counters of a peer: each is a plain addition, for a run of messages wherever they come in runs.

    `sent` has the first copies of reliable messages, `resent` the others. Bytes are before TLS, from the end of the
    handshake on. `by` has those of several reasons: deliveries that are given up, connections that ended.
    """

    __slots__ = (
        "acknowledged",
        "by",
        "bytes_received",
        "bytes_sent",
        "connects",
        "duplicates",
        "refused",
        "resent",
        "sent",
    )

    def __init__(self) -> None:
        self.sent = self.resent = self.acknowledged = self.duplicates = self.refused = 0
        self.bytes_sent = self.bytes_received = self.connects = 0
        self.by: Counter[str] = Counter()

    def as_dict(self) -> dict[str, int]:
        """By name."""
        return {**{name: getattr(self, name) for name in self.__slots__ if name != "by"}, **self.by}
