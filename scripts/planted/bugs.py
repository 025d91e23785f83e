"""All bugs to be planted (V4)."""

from __future__ import annotations

from . import (
    bounds,
    connecting,
    drafts,
    events,
    field,
    handling,
    node,
    receiving,
    sending,
    spark,
    storage,
    streams,
    transport,
    wire,
)

BUGS = (
    *wire.BUGS,
    *connecting.BUGS,
    *receiving.BUGS,
    *sending.BUGS,
    *node.BUGS,
    *streams.BUGS,
    *storage.BUGS,
    *transport.BUGS,
    *spark.BUGS,
    *bounds.BUGS,
    *field.BUGS,
    *handling.BUGS,
    *events.BUGS,
    *drafts.BUGS,
)
