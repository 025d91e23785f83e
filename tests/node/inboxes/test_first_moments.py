"""First moments of an instance: subscriptions and handlers that come late (T-46)."""

from __future__ import annotations

import pytest

from tolliver_proto import (
    Action,
    Commit,
    Deliver,
    Limits,
    Message,
    Notice,
    NoticeKind,
    ReservedChannel,
)
from tolliver_proto.node import PROBE_CHANNEL

from ..play import LOW, OTHER, Play, Wire, deliveries, every


def message(number: int, channel: str = "c", key: str = "k", body: bytes = b"x") -> Message:
    return Message(channel, key, body, number)


def ids(actions: list[Action]) -> list[int | None]:
    return [one.message_id for one in deliveries(actions)]


def empty(**options: object) -> tuple[Play, Wire]:
    """An instance with a new database, which nobody has told what it wants."""
    play = Play(**options)  # type: ignore[arg-type]
    return play, play.peer()


# Messages that nobody wants.


def test_what_nobody_wants_yet_is_neither_handed_out_nor_acknowledged() -> None:
    """2,000 of 2,000 were acknowledged and dropped in the half second before it subscribed."""
    play, wire = empty()
    assert ids(wire.send(*(message(number) for number in range(1, 200)))) == []
    assert wire.acks() == []
    play.wait(0.5)
    play.node.register("c", "", "handler")
    play.call("subscribe", "c", "")
    assert wire.acks() == []
    again = wire.send(*(message(number) for number in range(1, 200)))
    assert ids(again) == list(range(1, 200))


def test_what_is_still_unwanted_after_half_a_minute_is_acknowledged() -> None:
    play, wire = empty()
    wire.send(message(1), message(2, "d"), message(2, "d"))
    play.call("subscribe", "c", "")
    wire.got()
    play.wait(29.9)
    assert wire.acks() == []
    [told] = every(play.wait(0.2), Notice)
    assert (told.kind, told.peer) == (NoticeKind.UNWANTED, LOW)
    assert wire.acks() == [2]
    assert play.node.stats().unwanted == 1
    wire.send(message(3, "d"), message(4))
    assert wire.acks() == [3], "and from then on at once"


def test_a_subscribe_call_does_not_begin_it() -> None:
    play, wire = empty()
    play.call("subscribe", "other", "")
    wire.got()
    wire.send(message(1))
    assert wire.acks() == []


def test_an_unsubscribe_begins_it_for_what_it_names() -> None:
    play, wire = empty()
    wire.send(message(1), message(2, "d"))
    play.call("unsubscribe", "c", "")
    assert wire.acks() == [1]
    wire.send(message(3), message(4, "d"))
    assert wire.acks() == [3]
    play.call("unsubscribe", "", "")
    assert wire.acks() == [2, 4]


def test_who_is_given_its_subscriptions_drops_the_rest_at_once() -> None:
    _, wire = empty(subscriptions=[("c", "")], handlers=[("c", "", "handler")])
    assert ids(wire.send(message(1), message(2, "d"))) == [1]
    assert wire.acks() == [2]


def test_an_empty_list_is_given_too() -> None:
    _, wire = empty(subscriptions=[])
    wire.send(message(1))
    assert wire.acks() == [1]


def test_what_is_given_is_stored_beside_what_was_stored() -> None:
    play = Play(subscriptions=[("a", ""), ("b", "")])
    play.run()
    again = play.restart(subscriptions=[("b", ""), ("c", "")])
    assert again.node.subscriptions() == [("a", ""), ("b", ""), ("c", "")]
    assert len(every(again.run(), Commit)) == 0
    assert len(again.commits) == 1
    assert len(again.commits[0].operations) == 1, "what is new"
    same = again.restart(subscriptions=[("c", "")])
    same.run()
    assert same.commits == [], "nothing new needs no commit"


def test_a_wrong_one_is_refused() -> None:
    with pytest.raises(ReservedChannel):
        Play(subscriptions=[("tolliver", "")])
    with pytest.raises(TypeError):
        Play(subscriptions=[(1, "")])


def test_probes_are_answered_at_once() -> None:
    play, wire = empty()
    wire.send(Message(PROBE_CHANNEL, "", b"", 9))
    assert wire.acks() == [9]
    play.call("subscribe", "", "")
    wire.got()
    wire.send(Message(PROBE_CHANNEL, "", b"", 10))
    assert wire.acks() == [10]


def test_what_is_remembered_of_the_unwanted_is_bounded() -> None:
    play, wire = empty(limits=Limits(inbox_messages=3))
    wire.send(*(message(number) for number in range(1, 8)), message(1))
    play.wait(31.0)
    assert wire.acks() == [1, 2, 3], "the others come again"
    wire.send(message(4))
    assert wire.acks() == [4]


def test_unreliable_ones_are_not_remembered() -> None:
    play, wire = empty()
    wire.send(Message("c", "k", b"x", None))
    play.wait(31.0)
    assert wire.acks() == []
    play.call("subscribe", "d", "")
    wire.got()
    wire.send(Message("c", "k", b"x", None))
    assert play.node.stats().unwanted == 1


def test_what_came_on_a_connection_that_ended_is_not_acknowledged_on_another() -> None:
    play, wire = empty()
    wire.send(message(1))
    wire.lose()
    later = play.peer(OTHER)
    play.wait(31.0)
    assert later.acks() == []


# Messages that are wanted and have no handler yet.


def waits(limits: Limits | None = None, **options: object) -> tuple[Play, Wire]:
    """An instance that is back: its subscription is stored, its handler is not there yet."""
    before = Play(limits=limits)
    before.call("subscribe", "c", "")
    play = before.restart(**options)
    return play, play.peer()


def test_what_comes_before_its_handler_is_handed_out_in_order_when_that_comes() -> None:
    """It was withheld, and overtaken by what came after."""
    play, wire = waits()
    assert ids(wire.send(*(message(number) for number in range(1, 50)))) == []
    assert wire.acks() == []
    play.wait(3.0)
    play.node.register("c", "", "handler")
    actions = play.run()
    assert ids(actions) == list(range(1, 50))
    play.node.acknowledge(deliveries(actions), now=play.now)
    play.run()
    assert wire.acks() == list(range(1, 50))
    assert ids(wire.send(message(50))) == [50]
    assert play.node.stats().withheld == 0


def test_each_waits_for_a_handler_of_its_own() -> None:
    play, wire = waits()
    wire.send(message(1, key="a"), message(2, key="b"), message(3, key="a"))
    play.node.register("c", "b", "of b")
    assert ids(play.run()) == [2]
    play.node.register("c", "", "of all")
    assert ids(play.run()) == [1, 3]
    play.node.register("c", "", "another")
    assert play.run() == [], "each once"


def test_after_five_seconds_it_is_left_to_its_sender() -> None:
    play, wire = waits()
    wire.send(message(1), message(2))
    play.wait(5.1)
    assert play.node.stats().withheld == 2
    play.node.register("c", "", "handler")
    assert play.run() == []
    assert ids(wire.send(message(1))) == [1], "when it comes again"


def test_what_comes_without_a_handler_later_on_is_not_kept() -> None:
    play, wire = waits()
    play.wait(5.1)
    wire.send(message(1))
    assert play.node.stats().withheld == 1
    play.node.register("c", "", "handler")
    assert play.run() == []


@pytest.mark.parametrize("limits", [Limits(inbox_messages=3), Limits(inbox_bytes=30)])
def test_what_exceeds_the_credit_is_let_go(limits: Limits) -> None:
    before = Play(limits=limits)
    before.call("subscribe", "c", "")
    play = before.restart()
    wire = play.peer()
    wire.send(*(message(number, body=b"." * 10) for number in range(1, 6)))
    assert play.node.stats().withheld == 2
    wire.send(message(6, "unwanted"))
    play.node.register("c", "", "handler")
    assert ids(play.run()) == [1, 2, 3]


def test_what_handlers_have_leaves_less_room_for_what_waits() -> None:
    play, wire = waits(limits=Limits(inbox_messages=2))
    play.node.register("c", "taken", "handler")
    assert ids(wire.send(message(1, key="taken"), message(2), message(3))) == [1]
    assert play.node.stats().withheld == 1
    play.node.register("c", "", "another")
    assert ids(play.run()) == [2]


def test_acks_and_control_are_read_meanwhile() -> None:
    before = Play(limits=Limits(inbox_messages=1))
    before.call("subscribe", "c", "")
    play = before.restart()
    wire = play.peer(LOW, ("c", ""))
    play.send("c", "k", b"to the peer")
    [sent] = wire.messages()
    wire.send(message(1), message(2))
    wire.ack(sent)
    play.wait(1.0)
    assert play.pending() == 0


def test_unreliable_ones_are_not_kept() -> None:
    play, wire = waits()
    wire.send(Message("c", "k", b"x", None))
    play.node.register("c", "", "handler")
    assert play.run() == []


def test_what_is_kept_goes_with_its_connection() -> None:
    play, wire = waits()
    wire.send(message(1))
    wire.lose()
    play.node.register("c", "", "handler")
    assert every(play.run(), Deliver) == []
    again = play.peer()
    assert ids(again.send(message(1))) == [1]


def test_a_message_that_comes_before_the_timer_that_is_due_is_judged_by_the_time() -> None:
    play = Play()
    wire = play.peer()
    wire.send(message(1))
    assert wire.acks() == []
    play.now = 31.0
    wire.send(message(2))
    assert sorted(wire.acks()) == [1, 2]
