"""Counters and gauges of a hub, as one frozen snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from .._common.snapshot import Snapshot, counter, gauge


@dataclass(frozen=True, slots=True)
class HubStats(Snapshot):
    """Numbers of a hub: totals since the start, and sizes now (docs/streams.md says what each one counts)."""

    paused: int = counter()
    rested: int = counter()
    refused_connections: int = counter()

    connections: int = gauge()
    unread_bytes: int = gauge()
    unsent_bytes: int = gauge()
