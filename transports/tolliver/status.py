"""Types of `status()`, the table of metrics, and Prometheus' text format."""

from __future__ import annotations

from ._status.metrics import METRICS, Metric, Sample, samples
from ._status.prometheus import text_of
from ._status.snapshot import (
    ChannelStatus,
    HistogramStatus,
    InstanceStatus,
    NoticeStatus,
    PeerStatus,
    QueueStatus,
    RemoteStatus,
)

__all__ = [
    "METRICS",
    "ChannelStatus",
    "HistogramStatus",
    "InstanceStatus",
    "Metric",
    "NoticeStatus",
    "PeerStatus",
    "QueueStatus",
    "RemoteStatus",
    "Sample",
    "samples",
    "text_of",
]
