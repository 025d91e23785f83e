"""Bounds of single handlers: what is pending with one has its senders wait (P-24)."""

from __future__ import annotations

import pytest

from tolliver_proto import Delivery, Limits, Message, Policy
from tolliver_proto.node import TakeBack

from ..play import HIGH, LOW, Play, Wire, deliveries, every


def stage(pending: int | None = 2, policy: Policy | None = None) -> Play:
    play = Play(policy=policy, limits=Limits(inbox_messages=100))
    play.call("subscribe", "", "")
    play.node.register("c", "", "bounded", pending)
    play.node.register("d", "", "free")
    return play


def messages(first: int, count: int, channel: str = "c") -> list[Message]:
    return [Message(channel, "k", b"%d" % number, number) for number in range(first, first + count)]


def sent(wire: Wire, first: int, count: int, channel: str = "c") -> list[Delivery]:
    return deliveries(wire.send(*messages(first, count, channel)))


def test_reading_pauses_at_the_bound_and_goes_on_at_half_of_it() -> None:
    play = stage(4)
    wire = play.peer(LOW)
    given = sent(wire, 1, 6)
    assert len(given) == 4
    assert deliveries(play.call("acknowledge", given[:1])) == []
    assert deliveries(play.call("fail", given[1:2])) == []
    rest = deliveries(play.call("let_go", given[2:3]))
    assert [one.body for one in rest] == [b"5", b"6"]
    assert [one.body for one in sent(wire, 7, 1, "d")] == [b"7"]


def test_one_more_for_each_peer_and_all_go_on() -> None:
    play = stage(2)
    low, high = play.peer(LOW), play.peer(HIGH)
    given = sent(low, 1, 3)
    more = sent(high, 1, 3)
    assert (len(given), len(more)) == (2, 1)
    play.call("acknowledge", given)
    rest = deliveries(play.call("acknowledge", more))
    assert sorted((one.peer_id, one.body) for one in rest) == sorted([(LOW, b"3"), (HIGH, b"2")])
    left = deliveries(play.call("acknowledge", rest))
    assert [(one.peer_id, one.body) for one in left] == [(HIGH, b"3")]


def test_what_waits_to_be_handled_again_is_pending() -> None:
    play = stage(1)
    wire = play.peer(LOW)
    given = sent(wire, 1, 2)
    play.call("handle_again", given, 5.0)
    again = deliveries(play.wait(5.1))
    assert [one.body for one in again] == [b"1"]
    assert [one.body for one in deliveries(play.call("acknowledge", again))] == [b"2"]


def test_a_handler_that_is_gone_has_nobody_wait() -> None:
    play = stage(1)
    wire = play.peer(LOW)
    given = sent(wire, 1, 1)
    assert sent(wire, 2, 1, "d") == []
    play.node.unregister("c", "", "bounded")
    assert [one.body for one in deliveries(play.run())] == [b"2"]
    play.call("acknowledge", given)
    assert wire.acks() == [1]


def test_a_stuck_handler_has_nobody_wait() -> None:
    """D-9."""
    play = stage(1, Policy(stuck_after=1.0))
    wire = play.peer(LOW)
    given = sent(wire, 1, 1)
    play.node.begin("bounded", given, now=play.now)
    assert sent(wire, 2, 1, "d") == []
    actions = play.wait(1.1)
    assert [one.body for one in deliveries(actions)] == [b"2"]
    assert not every(actions, TakeBack)


def test_a_connection_that_ends_meanwhile_waits_no_more() -> None:
    play = stage(1)
    wire = play.peer(LOW)
    given = sent(wire, 1, 2)
    wire.lose()
    wire = play.peer(LOW)
    assert sent(wire, 2, 1) == []
    assert [one.body for one in deliveries(play.call("acknowledge", given))] == [b"2"]


@pytest.mark.parametrize("pending", [0, -1])
def test_numbers_that_cannot_be_meant(pending: int) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        stage(pending)
