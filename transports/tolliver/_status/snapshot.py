"""Snapshot of an instance: identity, readiness, numbers, peers, remotes, handlers, queues, notices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from tolliver_proto import NoticeKind, Subscription
from tolliver_proto.node import DialCause, Histogram, RemoteState


@dataclass(frozen=True, slots=True)
class HistogramStatus:
    """Distribution of a number: `counts[i]` values were above `bounds[i - 1]` and at most `bounds[i]`; the last count
    is of values above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @classmethod
    def of(cls, histogram: Histogram) -> HistogramStatus:
        """Makes a frozen copy of the histogram."""
        return cls(histogram.bounds, tuple(histogram.counts), histogram.sum)

    @property
    def count(self) -> int:
        """Number of values in the distribution."""
        return sum(self.counts)

    def as_dict(self) -> dict[str, Any]:
        """The distribution in JSON types."""
        return {"bounds": [*self.bounds], "counts": [*self.counts], "count": self.count, "sum": self.sum}


@dataclass(frozen=True, slots=True)
class PeerStatus:
    """A peer, connected or not. Sizes are in bytes, times in seconds; `name` is its certificate's, "" without one.

    `in_flight` messages are sent but not acknowledged, `backoff` of them are overdue. `oldest_unacknowledged` is the
    age of the oldest message waiting for the peer, None without one. `round_trip` is the duration of its last
    acknowledgement, None before the first. `quota_used` is the used share of its quota, from 0 to 1; `full` means that
    the quota refused the last send to it.
    """

    uuid: UUID
    name: str
    connected: bool
    address: str
    subscriptions: tuple[Subscription, ...]
    held: tuple[Subscription, ...]
    pending: int
    pending_bytes: int
    parked: int
    parked_bytes: int
    in_flight: int
    backoff: int
    oldest_unacknowledged: float | None
    round_trip: float | None
    quota_used: float
    full: bool
    certificate_not_before: float | None
    certificate_not_after: float | None
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RemoteStatus:
    """A remote: `attempt` is the number of dials since it was last connected; the next one is in `next_in` seconds.

    `refused`: one of the two sides refuses the other, by its certificate, identity or version, or by access rules.
    """

    remote: str
    state: RemoteState
    peer: UUID | None
    attempt: int
    next_in: float | None
    cause: DialCause | None
    error: str
    refused: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", self.cause is not None and self.cause.is_refusal)


@dataclass(frozen=True, slots=True)
class ChannelStatus:
    """Handlers and iterators of one channel; "" is for those of every channel.

    `queued` messages were given to them and are not settled; `handler_seconds` are durations of handlers for one
    message.
    """

    channel: str
    handlers: int
    queued: int
    handled: int
    failed: int
    handler_seconds: HistogramStatus


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A work queue of this instance: waiting jobs, jobs at workers, connected workers, and its quota, as for a peer."""

    queue: str
    waiting: int
    running: int
    workers: int
    quota_used: float
    full: bool


@dataclass(frozen=True, slots=True)
class NoticeStatus:
    """A notice, and its time in seconds since 1970."""

    time: float
    kind: NoticeKind
    peer: UUID | None
    text: str


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """State of an instance at one moment. docs/watching.md explains each name.

    `time` and the ends of certificates are seconds since 1970; `uptime` and all ages are seconds. `not_ready` has the
    reasons why the instance is not ready, with advice; `warnings` are faults that do not affect readiness.
    """

    uuid: UUID
    name: str
    version: str
    time: float
    uptime: float
    listening: tuple[str, ...]
    database: str
    not_ready: tuple[str, ...]
    counters: Mapping[str, int]
    gauges: Mapping[str, float]
    histograms: Mapping[str, HistogramStatus]
    peers: tuple[PeerStatus, ...]
    remotes: tuple[RemoteStatus, ...]
    channels: tuple[ChannelStatus, ...]
    queues: tuple[QueueStatus, ...]
    notices: tuple[NoticeStatus, ...]
    warnings: tuple[str, ...] = ()
    ready: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ready", not self.not_ready)

    def as_dict(self) -> dict[str, Any]:
        """The snapshot in JSON types, as in /status.json. A lone surrogate, possible in file names, becomes a question
        mark, as some JSON parsers refuse it."""
        return {one.name: _plain(getattr(self, one.name)) for one in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, HistogramStatus):
        return value.as_dict()
    if isinstance(value, PeerStatus | RemoteStatus | ChannelStatus | QueueStatus | NoticeStatus):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, str):
        return str.__str__(value) if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    return value
