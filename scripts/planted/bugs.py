"""All bugs to be planted (PROOF, "Planted bugs")."""

from __future__ import annotations

from . import core, spark, storage, streams, transport

BUGS = (*core.BUGS, *streams.BUGS, *storage.BUGS, *transport.BUGS, *spark.BUGS)
