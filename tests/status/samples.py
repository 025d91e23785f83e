"""Snapshots for tests: a plain one, and one in which every name is somebody's attack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from tolliver.status import (
    ChannelStatus,
    HistogramStatus,
    InstanceStatus,
    NoticeStatus,
    PeerStatus,
    QueueStatus,
    RemoteStatus,
)

from tolliver_proto import NoticeKind, Subscription
from tolliver_proto.node import DialCause, NodeStats, RemoteState

US = UUID("01890000-0000-7000-8000-00000000000a")
PEER = UUID("01890000-0000-7000-8000-000000000002")
HOSTILE = '"><script>alert(1)</script>\n{x="y"} \\ \u202e é' + chr(0xD800)
SECONDS = HistogramStatus((0.1, 1.0), (3, 2, 1), 6.5)


def peer(**changes: Any) -> PeerStatus:
    made = PeerStatus(
        uuid=PEER,
        name="bob",
        connected=True,
        address="127.0.0.1:7011",
        subscriptions=(Subscription("news", ""),),
        held=(),
        pending=3,
        pending_bytes=300,
        parked=0,
        parked_bytes=0,
        in_flight=2,
        backoff=1,
        oldest_unacknowledged=1.5,
        round_trip=0.002,
        quota_used=0.5,
        full=False,
        certificate_not_before=1_790_000_000.0,
        certificate_not_after=1_800_000_000.0,
        counters={"sent": 5, "acknowledged": 2, "delivered": 7, "given_up_forgotten": 1, "disconnects_lost": 2},
    )
    return replace(made, **changes)


def snapshot(**changes: Any) -> InstanceStatus:
    stats = NodeStats.of({"acked": 2, "ignored_bad_text": 4})
    made = InstanceStatus(
        uuid=US,
        name="alice",
        version="0.1.0",
        time=1_790_000_000.0,
        uptime=60.0,
        listening=("127.0.0.1:7011",),
        database="alice.db",
        not_ready=(),
        counters={**stats.counters(), "delivered": 7, "commits": 3, "commits_failed": 0},
        gauges={**stats.gauges(), "ready": 1, "uptime_seconds": 60.0, "disk_free_bytes": 10**9},
        histograms={"commit_seconds": SECONDS},
        peers=(peer(),),
        remotes=(RemoteStatus("b:7011", RemoteState.WAITING, None, 2, 1.5, DialCause.REFUSED, "nobody listens there"),),
        channels=(ChannelStatus("news", 1, 2, 5, 1, SECONDS),),
        queues=(QueueStatus("jobs", 3, 2, 1, 0.25, False),),
        notices=(NoticeStatus(1_789_999_990.0, NoticeKind.DIAL_FAILED, None, "b:7011 is not connected"),),
    )
    return replace(made, **changes)


def hostile() -> InstanceStatus:
    """All texts that others choose."""
    return snapshot(
        name=HOSTILE,
        database=HOSTILE,
        not_ready=(HOSTILE,),
        peers=(peer(name=HOSTILE, address=HOSTILE, subscriptions=(Subscription(HOSTILE, HOSTILE),)),),
        remotes=(RemoteStatus(HOSTILE, RemoteState.GAVE_UP, PEER, 1, None, DialCause.TLS, HOSTILE),),
        channels=(ChannelStatus(HOSTILE, 1, 0, 0, 0, SECONDS),),
        queues=(QueueStatus(HOSTILE, 0, 0, 0, 0.0, False),),
        notices=(NoticeStatus(1_789_999_990.0, NoticeKind.UNWANTED, PEER, HOSTILE),),
    )
