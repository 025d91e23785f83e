"""Last values over every adapter: kept on disk, given once to each new subscriber (P-30)."""

from __future__ import annotations

import pytest

from tolliver_proto import Limits, OwnLimitExceeded, ReservedChannel

from .kinds import EACH_ADAPTER
from .nodes import AGAIN, Inbox, Nodes, address


def test_a_value_waits_for_whoever_subscribes_later(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        assert left.retain("config", "a", b"1").recipients == 0
        left.retain("config", "a", b"2")
        left.retain("config", "b", b"3")
        left.retain("config", "b", None)
        assert [(one.channel, one.key, one.body) for one in left.retained()] == [("config", "a", b"2")]
    inbox = Inbox()
    with nodes.open("left", **AGAIN) as left, nodes.open("right", handlers=[("config", "", inbox)]) as right:
        right.subscribe("config")
        left.new_connection(address(right))
        inbox.holds(1)
        receipt = left.retain("config", "a", b"4")
        assert receipt.recipients == 1
        left.wait_acked(receipt)
        assert inbox.bodies == [b"2", b"4"]
        assert left.retained()[0].stored_at > 1.7e9
        assert left.stats().retained == 1


@EACH_ADAPTER
def test_values_are_listed_in_order_and_bounded(nodes: Nodes) -> None:
    with nodes.open("left", limits=Limits(max_retained=3)) as left:
        for key in ("c", "a", "b"):
            left.retain("config", key, key.encode())
        assert [one.key for one in left.retained(count=2)] == ["a", "b"]
        assert [one.body for one in left.retained(after=("config", "b"))] == [b"c"]
        with pytest.raises(OwnLimitExceeded, match="max_retained"):
            left.retain("config", "d", b"")
        with pytest.raises(ReservedChannel):
            left.retain("tolliver", "", b"")
