"""All bugs to be planted (V4): for each promise the one or two whose absence would be dangerous."""

from __future__ import annotations

from . import adapters, inboxes, links, node, outboxes, patterns, recordings, secure, spark, store, streams, wire

BUGS = (
    *wire.BUGS,
    *links.BUGS,
    *outboxes.BUGS,
    *inboxes.BUGS,
    *node.BUGS,
    *patterns.BUGS,
    *streams.BUGS,
    *store.BUGS,
    *recordings.BUGS,
    *secure.BUGS,
    *spark.BUGS,
    *adapters.BUGS,
)
