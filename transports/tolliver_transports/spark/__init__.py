"""tolliver in PySpark: tables, streams, a sink, and the delivery audit.

`source` and `demand_source` are the doors that Spark opens; `read`, `stream`, `write`, `demand` and `audit` hold one
concern each; `_options` and `_peer` are what their options have in common.
Workers import this package for one name of it, so each name is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .partitions import partition_batches, partition_events
    from .read._ranges import DamagedRecording
    from .registering import register
    from .stream._lag import lag
    from .write._encode import encode_batches

_HOMES = {
    "DamagedRecording": ".read._ranges",
    "encode_batches": ".write._encode",
    "lag": ".stream._lag",
    "partition_batches": ".partitions",
    "partition_events": ".partitions",
    "register": ".registering",
}

__all__ = ["DamagedRecording", "encode_batches", "lag", "partition_batches", "partition_events", "register"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: there are {', '.join(__all__)}")
    return getattr(import_module(home, __name__), name)
