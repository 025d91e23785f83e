"""Last values over every adapter: kept on disk, given once to each new subscriber (P-30)."""

from __future__ import annotations

import pytest

from tolliver_proto import Limits, LocalProtocolError, OwnLimitExceeded, ReservedChannel

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
def test_who_kept_them_in_memory_has_them_again_after_a_restart(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        for key in "ab":
            left.retain("config", key, key.encode())
        for options in ({}, AGAIN, AGAIN):
            inbox = Inbox()
            with nodes.open("right", handlers=[("config", "", inbox)], **options) as right:
                right.new_connection(address(left))
                right.subscribe("config")
                if options:
                    right.ask_retained("config")
                inbox.holds(2)
                assert sorted(inbox.bodies) == [b"a", b"b"]
                with pytest.raises(LocalProtocolError, match="subscribe first"):
                    right.ask_retained("weather")


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


@EACH_ADAPTER
def test_a_list_that_cannot_be_meant_is_refused_and_harms_nothing(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        left.retain("c", "k", b"1")
        for wrong in ({"after": "k"}, {"after": ["c", "k"]}, {"after": ("c", 1)}, {"count": 1.5}, {"count": "1"}):
            with pytest.raises(TypeError, match=r"^(after|count)=.*: give"):
                left.retained(**wrong)
        left.retain("c", "k2", b"2")
        assert [one.key for one in left.retained()] == ["k", "k2"]


@EACH_ADAPTER
def test_no_path_and_no_count_harm_nothing_either(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        with pytest.raises(TypeError, match="PathLike"):
            left.backup(None)
        for count in ("x", 1.5):
            with pytest.raises(TypeError, match=r"count=.*: give a number"):
                left.work_queue("jobs").pending(count)  # type: ignore[arg-type]  # that is the point
        left.retain("c", "k", b"1")
        assert [one.key for one in left.retained()] == ["k"]
