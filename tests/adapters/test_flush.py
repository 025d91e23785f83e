"""Flushes over every adapter: what was sent has left this process."""

from __future__ import annotations

import pytest

from tolliver_proto import Limits

from .facade import until
from .kinds import EACH_ADAPTER
from .nodes import Nodes


@EACH_ADAPTER
def test_what_was_flushed_has_left(nodes: Nodes) -> None:
    with nodes.pair() as (left, right, inbox):
        left.flush()
        for number in range(200):
            assert left.unreliable_send("news", "", b"%d" % number) == 1
        left.flush(timeout=30)
        assert left.stats().sent_bytes > 200
        inbox.holds(200)
        right.flush()


@EACH_ADAPTER
def test_a_peer_that_reads_nothing_holds_it_up_and_the_text_says_who(nodes: Nodes) -> None:
    """Its handler is at the first message for ever, and it takes no second one (D-9)."""
    gate = nodes.gate()
    limits = Limits(inbox_messages=1, low_water=1000, high_water=1000)
    with nodes.pair(channels=(), right={"limits": limits}) as (left, right, _):
        right.subscribe("news", handler=lambda _delivery: gate)
        until(lambda: any(peer.subscriptions for peer in left.peers()))
        body = bytes(2**20)
        for _ in range(40):
            left.send("news", "", body)
        with pytest.raises(TimeoutError, match=f"{right.instance_id}.* have not taken all that was sent"):
            left.flush(timeout=0.2)
        gate.open()
        left.flush(timeout=60)
