"""Counters and gauges of a program's streams, as one frozen snapshot."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tolliver_proto.node import gauge
from tolliver_proto.reactive import HubStats


@dataclass(frozen=True, slots=True)
class StreamsStats(HubStats):
    """Statistics of a program's streams: totals since the start, and current sizes (docs/streams.md)."""

    peers: int = gauge()
    streams_given: int = gauge()
    streams_taken: int = gauge()

    @classmethod
    def of(cls, hub: HubStats, *, peers: int, streams_given: int, streams_taken: int) -> StreamsStats:
        return cls(**asdict(hub), peers=peers, streams_given=streams_given, streams_taken=streams_taken)
