"""Relays whose subscribers leave, in the small; `scripts/prove/hostile.py relays` has a hundred thousand of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio

from tests.certificates import Certificates
from tolliver_proto.reactive import Cancel, Limits, Subscribe

from .facade import World
from .kinds import EVERY_LOOP
from .relays import FORMS, PIECE, WAYS, relay_and_leave
from .streams import Stage
from .victim import Streams

COUNT = PIECE * len(WAYS) * len(FORMS)  # each of them, and more than there may be threads of sources (256)


@EVERY_LOOP
def test_cancelled_relays_leave_no_stream_and_no_thread(
    kind: str, worlds: Callable[[str], World], certs: Certificates, tmp_path: Path
) -> None:
    with Streams(worlds(kind), tmp_path, certs.tls("victim"), Limits()) as relay:
        left = anyio.run(relay_and_leave, certs, relay, COUNT)
        assert left.threads <= 0
        stats = relay.stats()
        assert (stats["unread_bytes"], stats["unsent_bytes"]) == (0, 0)


@EVERY_LOOP
def test_a_source_is_not_opened_for_who_has_left(stage: Stage, kind: str) -> None:
    """One that can be read but once is there for the next subscriber."""
    streams, peer = stage.giving()
    streams.publish("once", iter([b"x"]))
    peer.say(Subscribe("once", 100, 1), Cancel(100))  # one turn
    peer.sync()
    assert peer.hear_elements(peer.subscribe("once", 2), 1) == [b"x"]
