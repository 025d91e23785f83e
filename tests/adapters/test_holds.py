"""Holds: second databases and new disks under one certificate (T-61)."""

from __future__ import annotations

import pytest

from tolliver_proto import NoticeKind
from tolliver_proto.errors import Undelivered, UndeliveredReason

from .facade import until
from .kinds import ONE_KIND
from .nodes import Inbox, Nodes, address, noticed


def test_a_second_database_costs_nothing_that_waits(nodes: Nodes) -> None:
    """`tolliver send --name bob` beside a bob that was away: 1,000 waiting messages were gone."""
    inbox = Inbox()
    with nodes.open("left") as left:
        nodes.visit(left)
        until(lambda: not left.stats()["peers_up"])
        left.send_many([("news", "", b"%d" % number) for number in range(100)])
        with nodes.open("right", database=nodes.directory / "another.db", remotes=[address(left)]):
            until(lambda: noticed(left, NoticeKind.HELD))
            assert left.send("news", "", b"100").recipients == 1
        with nodes.open("right", handlers=[("news", "", inbox)], remotes=[address(left)]):
            left.wait_acked(left.send("news", "", b"101"))
            until(lambda: not left.stats()["pending"])
        assert inbox.bodies == [b"%d" % number for number in range(102)]


def test_a_new_disk_that_subscribes_a_moment_later_loses_nothing(nodes: Nodes) -> None:
    """2,000 of 2,000 were acknowledged and dropped."""
    inbox = Inbox()
    with nodes.open("left") as left:
        nodes.visit(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(200)])
        with nodes.open("right", database=nodes.directory / "new.db", remotes=[address(left)]) as right:
            until(lambda: noticed(left, NoticeKind.HELD))
            right.subscribe("news", handler=inbox)
            left.wait_acked(receipt)
        assert inbox.bodies == [b"%d" % number for number in range(200)]


@ONE_KIND
def test_an_unsubscribe_reaches_who_was_away(nodes: Nodes) -> None:
    with nodes.open("left") as left:
        nodes.visit(left)
        receipt = left.send("news", "", b"x")
        with nodes.open("right") as right:
            right.unsubscribe("news")
        with nodes.open("right", remotes=[address(left)]) as right:
            with pytest.raises(Undelivered) as caught:
                left.wait_acked(receipt)
            assert caught.value.reason is UndeliveredReason.UNSUBSCRIBED
            assert left.send("news", "", b"y").recipients == 0


@ONE_KIND
def test_what_is_held_survives_a_restart_of_its_sender(nodes: Nodes) -> None:
    inbox = Inbox()
    with nodes.open("left") as left:
        nodes.visit(left)
        left.send("news", "", b"x")
        with nodes.open("right", database=nodes.directory / "another.db", remotes=[address(left)]):
            until(lambda: noticed(left, NoticeKind.HELD))
    with nodes.open("left") as left:
        [peer] = left.peers()
        assert (list(peer.held), peer.pending) == ([("news", "")], 1)
        with nodes.open("right", handlers=[("news", "", inbox)], remotes=[address(left)]):
            until(lambda: inbox.bodies == [b"x"])
    assert nodes.rows("left", "held_subscription") == 0
