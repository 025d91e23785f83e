"""tolliver in PySpark: tables, streams, a sink, and the delivery audit.

`source` and `demand_source` are the data sources that Spark loads; `read`, `stream`, `write`, `demand` and `audit` have
one concern each; `_options` and `_peer` are common to their options. Workers often import this package for a single
name, so each name is loaded on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import door

if TYPE_CHECKING:
    from .decoding import decoder
    from .partitions import over_bytes, over_socket, partition_batches, partition_connections, partition_events
    from .read._ranges import DamagedRecording
    from .registering import register
    from .stream._lag import lag
    from .write._encode import encode_batches
    from .write._stable import stable
else:
    __getattr__, __dir__ = door(
        __name__,
        globals(),
        {
            ".decoding": "decoder",
            ".partitions": "over_bytes, over_socket, partition_batches, partition_connections, partition_events",
            ".read._ranges": "DamagedRecording",
            ".registering": "register",
            ".stream._lag": "lag",
            ".write._encode": "encode_batches",
            ".write._stable": "stable",
        },
    )

__all__ = [
    "DamagedRecording",
    "decoder",
    "encode_batches",
    "lag",
    "over_bytes",
    "over_socket",
    "partition_batches",
    "partition_connections",
    "partition_events",
    "register",
    "stable",
]
