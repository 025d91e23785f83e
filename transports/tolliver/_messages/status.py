"""Status snapshot of a running instance.

Taken on the loop, or under the lock. Its cost is linear in peers, remotes and handlers, plus three system calls for
file sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from time import monotonic, time
from typing import Protocol

from tolliver_proto import Node
from tolliver_proto.node import Histogram, Queues

from .._driver.sockets import address_of
from .._options.instance import InstanceOptions
from .._status.readiness import not_ready, warnings
from .._status.snapshot import (
    ChannelStatus,
    HistogramStatus,
    InstanceStatus,
    NoticeStatus,
    PeerStatus,
    QueueStatus,
    RemoteStatus,
)
from .._store.sqlite import SQLiteStore
from .._tls.policy import Pumps
from .channels import ChannelTable
from .driver import NodeDriver

_NOTICES = 100
"""Number of latest notices in a snapshot."""


class StatusCore(Protocol):
    """The part of an instance's core that a snapshot reads."""

    options: InstanceOptions
    node: Node
    addresses: list[tuple[str, int]]
    began: float
    channels: ChannelTable
    _open: bool
    _driver: NodeDriver
    _store: SQLiteStore
    _pumps: Pumps


def status_of(core: StatusCore) -> InstanceStatus:
    """Take a snapshot of the instance's status."""
    now, wall = monotonic(), time()
    stats, commits, health = core.node.stats(), core._driver.commits, core._store.health()
    identity = core._pumps.identity
    left = None if identity.not_after is None else identity.not_after - wall
    crl_left = None if core._pumps.crl_next_update is None else core._pumps.crl_next_update - wall
    listening = tuple(address_of(where) for where in core.addresses) if core._open else ()
    peers = tuple(_peers(core.node, now))
    if core._open and health.may_be_mended(commits.failure is not None):
        core._driver.try_store_again(core._store.try_again)
    if commits.failure is not None:
        health = health._replace(faults=(*health.faults, f"the last commit failed: {commits.failure}"))
    queues = tuple(_queues(core.node))
    remotes = tuple(_remotes(core.node, now))
    has_uuid = bool(identity.uuids)
    reasons = tuple(
        not_ready(
            core.options, core._open, listening, health, left, crl_left, peers, queues, remotes, has_uuid=has_uuid
        )
    )
    gauges: dict[str, float | None] = {
        "ready": int(not reasons),
        "uptime_seconds": now - core.began,
        **stats.gauges(),
        "in_flight": sum(one.in_flight for one in peers),
        "backoff": sum(one.backoff for one in peers),
        "oldest_unacknowledged_seconds": max((one.oldest_unacknowledged or 0.0 for one in peers), default=0.0),
        "database_bytes": health.database_bytes,
        "log_bytes": health.log_bytes,
        "reserve_bytes": health.reserve_bytes,
        "disk_free_bytes": health.disk_free_bytes,
        "certificate_not_before": identity.not_before,
        "certificate_not_after": identity.not_after,
        "crl_next_update": core._pumps.crl_next_update,
    }
    return InstanceStatus(
        uuid=core.node.instance_id,
        name=identity.name,
        version=_version(),
        time=wall,
        uptime=now - core.began,
        listening=listening,
        database=str(core.options.database),
        not_ready=reasons,
        counters={
            **stats.counters(),
            "delivered": core._driver.delivered,
            "commits": commits.commits,
            "commits_failed": commits.failed,
        },
        gauges={name: value for name, value in gauges.items() if value is not None},
        histograms={
            **{name: HistogramStatus.of(one) for name, one in histograms_of(core).items()},
            "handler_seconds": core.channels.seconds(),
        },
        peers=peers,
        remotes=remotes,
        channels=tuple(_channels(core.channels)),
        queues=queues,
        notices=tuple(_notices(core._driver)),
        warnings=tuple(warnings(remotes)),
    )


def histograms_of(core: StatusCore) -> dict[str, Histogram]:
    """The instance's live histograms by name, not copies."""
    commits = core._driver.commits
    return {
        "commit_seconds": commits.seconds,
        "fsync_seconds": commits.sync_seconds,
        "rows_per_commit": commits.messages,
        "round_trip_seconds": core.node.round_trips,
    }


def _peers(node: Node, now: float) -> Iterable[PeerStatus]:
    for one in node.numbers(now):
        info, identity = one.info, node.identity_of(one.info.uuid)
        yield PeerStatus(
            uuid=info.uuid,
            name=identity.name,
            connected=info.connected,
            address=info.address,
            subscriptions=info.subscriptions,
            held=info.held,
            pending=info.pending,
            pending_bytes=info.pending_bytes,
            parked=info.parked,
            parked_bytes=info.parked_bytes,
            in_flight=one.in_flight,
            backoff=one.backoff,
            oldest_unacknowledged=one.oldest_unacknowledged,
            round_trip=one.round_trip,
            quota_used=one.quota_used,
            full=one.full,
            certificate_not_before=identity.not_before,
            certificate_not_after=identity.not_after,
            counters=one.counters,
        )


def _remotes(node: Node, now: float) -> Iterable[RemoteStatus]:
    for one in node.remotes(now):
        yield RemoteStatus(str(one.remote), one.state, one.peer, one.tries, one.next_try, one.cause, one.error)


def _channels(table: ChannelTable) -> Iterable[ChannelStatus]:
    for channel, one in table.items():
        seconds = HistogramStatus.of(one.seconds)
        yield ChannelStatus(channel, one.handlers, one.queued, one.handled, one.failed, seconds)


def _queues(node: Node) -> Iterable[QueueStatus]:
    queues = node.used(Queues)
    for one in queues.numbers() if queues is not None else ():
        yield QueueStatus(one.channel, one.waiting, one.running, one.workers, one.quota_used, one.full)


def _notices(driver: NodeDriver) -> Iterable[NoticeStatus]:
    first = max(0, len(driver.notices) - _NOTICES)
    for when, one in zip(islice(driver.noticed_at, first, None), islice(driver.notices, first, None), strict=True):
        yield NoticeStatus(when, one.kind, one.peer, one.detail)


@lru_cache(1)
def _version() -> str:
    """Version of the installed package; "" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # imported late: most programs never need it

    try:
        return version("tolliver-proto")
    except PackageNotFoundError:
        return ""
