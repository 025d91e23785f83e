"""I1 to I6, each by itself (the simulator holds them together)."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import Message, Node, Stored, Subscription, Unsubscribe
from tolliver_proto import Subscribe as SubscribeFrame
from tolliver_proto._testing.inspection import inside
from tolliver_proto.node import Acked
from tolliver_proto.store import Loaded, LoadedPeer, RemoveDeliveries, RemoveMessages

from .play import HIGH, LOW, ME, Dice, Play, deliveries, every, only


def test_i1_neither_stored_nor_a_byte_before_the_commit() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", "k"))
    play.hold_commits = True
    receipt = play.node.send("c", "k", b"one")
    assert every(play.run(), Stored) == []
    assert wire.got() == []
    assert only(play.finish(), Stored).tokens == [receipt]
    assert wire.messages() == [Message("c", "k", b"one", 1)]


def test_i1_a_failed_commit_sends_nothing_ever() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", "k"))
    play.hold_commits = True
    receipt = play.send("c", "k", b"one")
    stored = only(play.fail(), Stored)
    assert (stored.tokens, str(stored.error)) == ([receipt], "disk full")
    play.hold_commits = False
    play.wait(1000.0)
    assert wire.got() == []
    assert play.pending() == 0
    assert list(inside(play.node).ledger.refcounts) == []
    assert list(inside(play.node).ledger.ids.live) == []


def test_i2_an_ack_only_after_acknowledge() -> None:
    play = Play(handlers=[("c", "", "h")])
    play.call("subscribe", "c", "")
    wire = play.peer()
    actions = wire.send(*(Message("c", "k", b"%d" % n, n) for n in (1, 2, 3)))
    one, two, three = deliveries(actions)
    assert wire.acks() == []
    play.call("acknowledge", [two])
    assert wire.acks() == [2]
    play.call("fail", [one])
    assert wire.acks() == []
    play.call("acknowledge", [two, one, three, three])
    assert wire.acks() == [3], "what is settled is settled: twice does no harm"


def test_i2_control_waits_for_its_commit() -> None:
    """T-28: the ack of a subscription says that it is stored."""
    play = Play()
    wire = play.peer()
    play.hold_commits = True
    wire.send(SubscribeFrame("c", "k", 7))
    assert wire.acks() == []
    assert play.knows() == {Subscription("c", "k")}, "routes change at once (T-61)"
    play.finish()
    assert wire.acks() == [7]
    wire.send(Unsubscribe("c", "k", 8))
    play.fail()
    assert wire.acks() == []
    assert play.knows() == {Subscription("c", "k")}


def test_i3_only_that_peers_ack_of_that_id_removes() -> None:
    play = Play()
    low, high = play.peer(LOW, ("c", "")), play.peer(HIGH, ("c", ""))
    play.send("c", "k", b"both")
    play.commits.clear()
    (message,) = low.messages()
    low.send(SubscribeFrame("x", "", 1))  # rides with the next commit, whatever that is
    low.ack(Message("c", "k", b"", 99))
    play.wait(1.0)
    assert not any(isinstance(op, RemoveDeliveries) for commit in play.commits for op in commit.operations)
    low.ack(message)
    low.ack(message)
    play.wait(1.0)
    assert play.commits[-1].operations == [RemoveDeliveries(LOW, [(1, 1)])]
    assert [message.seq for message in play.store.messages] == [1]
    high.ack(message)
    play.wait(1.0)
    assert play.commits[-1].operations == [RemoveDeliveries(HIGH, [(1, 1)]), RemoveMessages([(1, 1)])]
    assert play.store.messages == []
    assert play.node.stats()["stray_acks"] == 2


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_i4_a_crash_loses_nothing_that_is_not_acknowledged(before: int) -> None:
    """After so many acknowledgements, their removal committed."""
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    for n in range(5):
        play.send("c", "k", b"%d" % n)
    wire.ack(*wire.messages()[:before])
    play.wait(1.0)
    again = play.restart()
    assert again.pending() == 5 - before
    wire = again.accepted()
    wire.request(("c", ""))
    assert wire.bodies() == [b"%d" % n for n in range(before, 5)]


class _Calls:
    """Counts the Python calls made while it is active."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> _Calls:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self.count += event in ("call", "c_call")


def crowd(size: int) -> Node:
    peers = {UUID(int=n + 1): LoadedPeer(frozenset({Subscription("c", str(n))}), pending=3) for n in range(size)}
    return Node(instance_id=ME, rng=Dice(), loaded=Loaded(peers=peers), now=0.0)


@pytest.mark.search
def test_i5_nothing_to_do_costs_the_same_for_ten_and_for_ten_thousand_peers() -> None:
    def cost(node: Node) -> int:
        with _Calls() as calls:
            assert node.next_action() is None
            assert node.next_timeout() is None
        return calls.count

    assert cost(crowd(10)) == cost(crowd(10_000)) < 20


@pytest.mark.search
def test_i6_routing_costs_four_look_ups_however_many_subscriptions_there_are() -> None:
    def cost(node: Node) -> int:
        with _Calls() as calls:
            node.unreliable_send("c", "5", b"")
        return calls.count

    assert cost(crowd(10)) == cost(crowd(10_000))


def test_acked_is_told_when_every_recipient_has_it() -> None:
    play = Play()
    low, high = play.peer(LOW, ("c", "")), play.peer(HIGH, ("c", ""))
    receipt = play.node.send_many([("c", "k", b"1"), ("c", "k", b"2"), ("nobody", "k", b"3")])
    play.run()
    assert (receipt.counts, receipt.recipients, receipt.deliveries) == ([2, 2, 0], 2, 4)
    play.node.watch(receipt)
    assert every(low.ack(*low.messages()), Acked) == []
    one, two = high.messages()
    assert every(high.ack(two), Acked) == []
    assert only(high.ack(one), Acked).tokens == [receipt]
    play.node.watch(receipt)
    assert only(play.run(), Acked).tokens == [receipt], "what is acknowledged already is told at once"


def test_unwatched_is_not_told() -> None:
    play = Play()
    wire = play.peer(LOW, ("c", ""))
    receipt = play.send("c", "k", b"1")
    play.node.watch(receipt)
    play.node.unwatch(receipt)
    assert every(wire.ack(*wire.messages()), Acked) == []
