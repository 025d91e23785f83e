"""Counters and gauges of a hub, as one frozen snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from .._common.counters import Snapshot, counter, counters_by, gauge
from .._common.dial_causes import DialCause
from .._common.records import frozen


@frozen
class HubStats(Snapshot):
    """Statistics of a hub: totals since the start, and present sizes (docs/streams.md explains each)."""

    paused: int = counter()
    rested: int = counter()
    refused_connections: int = counter()
    dials: int = counter()
    dials_failed: Mapping[DialCause, int] = counters_by()
    """Failed dials by cause."""

    connections: int = gauge()
    unread_bytes: int = gauge()
    unsent_bytes: int = gauge()
