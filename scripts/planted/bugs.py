"""All bugs to be planted (V4)."""

from __future__ import annotations

from . import (
    bounds,
    connecting,
    drafts,
    events,
    field,
    handling,
    mailboxes,
    node,
    opening,
    queues,
    receiving,
    relays,
    secure,
    sending,
    spark,
    storage,
    streams,
    wire,
    wires,
)

BUGS = (
    *wire.BUGS,
    *connecting.BUGS,
    *receiving.BUGS,
    *sending.BUGS,
    *node.BUGS,
    *streams.BUGS,
    *storage.BUGS,
    *secure.BUGS,
    *wires.BUGS,
    *mailboxes.BUGS,
    *relays.BUGS,
    *opening.BUGS,
    *spark.BUGS,
    *bounds.BUGS,
    *field.BUGS,
    *handling.BUGS,
    *events.BUGS,
    *drafts.BUGS,
    *queues.BUGS,
)
