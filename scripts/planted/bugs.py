"""All bugs to be planted (V4)."""

from __future__ import annotations

from . import bounds, core, drafts, events, field, handling, spark, storage, streams, transport

BUGS = (
    *core.BUGS,
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
