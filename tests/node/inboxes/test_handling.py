"""Messages in the hands of handlers: waiting copies, credit, calls that take too long (T-48, D-9)."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Delivery,
    Limits,
    Message,
    Notice,
    NoticeKind,
    PauseReading,
    PeerIdentity,
    Policy,
    ResumeReading,
)
from tolliver_proto._node.inboxes.inbox import COPIES, Inbox
from tolliver_proto._testing.inspection import inside
from tolliver_proto.node import TakeBack
from tolliver_proto.testing import SimNet, Weather

from ..play import LOW, OTHER, Play, Wire, deliveries, every, notices

FAST = Policy(stuck_after=1.0, handling_timeout=5.0)
ONE = UUID("f0000000-0000-8000-8000-000000000001")  # a derived identity


def subscriber(*names: str, **options: Any) -> Play:
    """With a handler for each of these channels, of the same name."""
    play = Play(handlers=[(name, "", name) for name in names or ("c",)], **options)
    for name in names or ("c",):
        play.call("subscribe", name, "")
    return play


def message(number: int, channel: str = "c", body: bytes | None = None) -> Message:
    return Message(channel, "k", b"%d" % number if body is None else body, number)


def bodies(actions: list[Any]) -> list[bytes]:
    return [delivery.body for delivery in deliveries(actions)]


def told(actions: list[Any], kind: NoticeKind) -> list[str]:
    return [one.detail for one in every(actions, Notice) if one.kind is kind]


def stuck(play: Play, wire: Wire, channel: str = "c", number: int = 1) -> Delivery:
    """A message whose handler does not end."""
    [delivery] = deliveries(wire.send(message(number, channel)))
    play.call("begin", channel, [delivery])
    assert told(play.wait(1.0), NoticeKind.HANDLER_STUCK)
    return delivery


# Copies wait.


@pytest.mark.parametrize("dedupe", [0, 10])
def test_a_copy_waits_for_what_is_being_handled_and_shares_its_answer(dedupe: int) -> None:
    play = subscriber(policy=Policy(dedupe=dedupe))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    assert bodies(wire.send(message(1), message(2), message(1))) == [b"2"]
    assert wire.acks() == []
    assert play.node.stats()["waited"] == 2
    play.call("acknowledge", [original])
    assert wire.acks() == [1, 1, 1], "each copy has its ack"
    play.call("acknowledge", [original])
    assert wire.acks() == []


def test_a_copy_of_what_fails_is_not_acknowledged() -> None:
    play = subscriber()
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    wire.send(message(1))
    play.call("fail", [original])
    assert wire.acks() == []
    [again] = deliveries(wire.send(message(1)))
    assert again.attempt == 2, "the copies that waited were no attempts"
    play.call("acknowledge", [again])
    assert wire.acks() == [1], "those that waited for the first are forgotten"


def test_an_unreliable_message_that_fails_has_no_copies() -> None:
    """It takes nothing from those of another message, and `let_go` is no other way."""
    play = subscriber()
    wire = play.peer()
    kept, failed, left = deliveries(wire.send(message(1), *[Message("c", "k", b"once", None)] * 2))
    wire.send(message(1))
    play.call("fail", [failed])
    play.call("let_go", [left])
    play.call("acknowledge", [kept])
    assert wire.acks() == [1, 1]


def test_an_ack_goes_out_on_the_connection_that_each_copy_came_on() -> None:
    """T-49, and a failure is counted though its connection is gone."""
    play = subscriber()
    wire = play.peer()
    first, second = deliveries(wire.send(message(1), message(2)))
    wire.lose()
    wire = play.peer()
    assert deliveries(wire.send(message(1))) == []
    wire.lose()
    wire = play.peer()
    assert deliveries(wire.send(message(1), message(1))) == []
    play.call("acknowledge", [first])
    assert wire.acks() == [1, 1]
    play.call("fail", [second])
    assert deliveries(wire.send(message(2)))[0].attempt == 2


def test_copies_of_a_derived_identity_wait_on_each_of_its_connections() -> None:
    play = subscriber()
    identity = PeerIdentity(address="job", prefixes=frozenset({"f00000000000"}))
    wires = [play.accepted(ONE, identity) for _ in range(3)]
    for wire in wires:
        wire.request()
        wire.got()
    [original] = deliveries(wires[0].send(message(1)))
    for wire in wires[1:]:
        assert deliveries(wire.send(message(1))) == []
    for wire in wires[:2]:
        wire.lose()
    play.call("acknowledge", [original])
    assert wires[2].acks() == [1]
    again = [*deliveries(wires[2].send(message(2), message(3)))]
    wires[2].lose()
    assert play.node.stats()["peers"] == 0
    wire = play.accepted(ONE, identity)
    wire.request()
    assert bodies(wire.send(message(2), message(4))) == [b"4"], "its handlers are still at the first"
    wire.lose()
    play.call("acknowledge", again)
    assert not inside(play.node).credit.left_inboxes.get(ONE, Inbox()).waiting


def test_another_message_of_an_id_is_no_copy() -> None:
    play = subscriber()
    wire = play.peer()
    first, second = deliveries(wire.send(message(1), message(1, body=b"other")))
    assert deliveries(wire.send(message(1), message(1, body=b"other"))) == []
    play.call("acknowledge", [first])
    assert wire.acks() == [1, 1]
    assert deliveries(wire.send(message(1, body=b"other"))) == [], "the other one is still being handled"
    assert bodies(wire.send(message(1))) == [b"1"]
    play.call("acknowledge", [second])
    assert wire.acks() == [1, 1, 1]
    assert bodies(wire.send(message(1, body=b"other"))) == [b"other"]


def test_only_so_many_copies_wait() -> None:
    """A peer that sends one message over and over fills no memory, and causes no flood of acks."""
    play = subscriber()
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    for _ in range(3):
        wire.send(*[message(1)] * COPIES)
    assert play.node.stats()["waited"] == COPIES
    assert play.node.stats()["withheld"] == 2 * COPIES
    play.call("acknowledge", [original])
    assert wire.acks() == [1] * (COPIES + 1)


def test_copies_of_a_dead_letter_are_acknowledged_when_it_is_stored() -> None:
    play = subscriber(limits=Limits(max_attempts=1))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    wire.lose()
    wire = play.peer()
    wire.send(message(1))
    play.hold_commits = True
    assert NoticeKind.DEAD_LETTER in notices(play.call("fail", [original]))
    assert wire.acks() == []
    play.finish()
    assert wire.acks() == [1]


def test_a_durable_copy_waits_for_the_disk() -> None:
    play = subscriber(policy=Policy(dedupe=10, dedupe_durable=True))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    wire.send(message(1))
    play.hold_commits = True
    play.call("acknowledge", [original])
    assert wire.acks() == []
    play.finish()
    assert wire.acks() == [1, 1]


def test_copies_take_no_credit() -> None:
    play = subscriber(limits=Limits(inbox_messages=2))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1), *[message(1)] * 10))
    assert bodies(wire.send(message(2))) == [b"2"]
    play.call("acknowledge", [original])


def test_a_forgotten_peer_s_copies_are_messages() -> None:
    play = subscriber()
    wire = play.peer()
    given = deliveries(wire.send(message(1), message(1)))
    play.call("forget_peer", LOW)
    wire = play.peer()
    assert bodies(wire.send(message(1))) == [b"1"]
    assert play.call("acknowledge", given) == []
    assert wire.acks() == []


# The handling timeout.


def test_after_the_timeout_a_copy_is_handed_out_and_told() -> None:
    play = subscriber(policy=Policy(stuck_after=None, handling_timeout=5.0))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    play.wait(6.0)
    assert deliveries(wire.send(message(1))) == [], "a message that queues has no timeout"
    play.call("begin", "c", [original])
    play.wait(4.9)
    assert deliveries(wire.send(message(1))) == []
    play.wait(0.1)
    actions = wire.send(message(1))
    [copy] = deliveries(actions)
    assert copy.attempt == 1, "that is no attempt (T-47)"
    [text] = told(actions, NoticeKind.HANDED_OUT_AGAIN)
    assert "message 1 of 'c' 'k'" in text
    assert "within 5 s" in text
    assert deliveries(wire.send(message(1))) == [], "the copy has its own time"
    play.call("acknowledge", [original])
    assert wire.acks() == [1] * 4, "a late success settles all that wait"
    play.call("end", "c", [original])
    play.call("acknowledge", [copy])
    assert wire.acks() == [1]
    assert inside(play.node).credit._calls == {}


def test_no_credit_comes_back_before_the_handler_ends() -> None:
    play = subscriber(policy=Policy(stuck_after=None, handling_timeout=5.0), limits=Limits(inbox_messages=2))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    play.call("begin", "c", [original])
    play.wait(5.0)
    [copy] = deliveries(wire.send(message(1)))
    assert deliveries(wire.send(message(2))) == []
    play.call("fail", [copy])
    assert deliveries(play.run()) == [], "half of it is not back"
    assert bodies(play.call("fail", [original])) == [b"2"]


def test_what_waits_stays_while_one_of_two_is_still_handled() -> None:
    play = subscriber(policy=Policy(stuck_after=None, handling_timeout=5.0))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    play.call("begin", "c", [original])
    play.wait(5.0)
    [copy] = deliveries(wire.send(message(1)))
    wire.send(message(1))
    play.call("fail", [original])
    assert wire.acks() == []
    play.call("acknowledge", [copy])
    assert wire.acks() == [1, 1]


def test_an_overdue_message_with_another_one_of_its_id() -> None:
    play = subscriber(policy=Policy(stuck_after=None, handling_timeout=5.0))
    wire = play.peer()
    first, second = deliveries(wire.send(message(1), message(1, body=b"other")))
    play.call("begin", "c", [first, second])
    play.wait(5.0)
    assert bodies(wire.send(message(1, body=b"other"))) == [b"other"]
    play.call("acknowledge", [second, first])
    assert wire.acks() == [1, 1]
    assert bodies(wire.send(message(1))) == [b"1"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_message_that_two_calls_have_handled_is_remembered_once(durable: bool) -> None:
    play = subscriber(policy=Policy(handling_timeout=5.0, dedupe=10, dedupe_durable=durable))
    wire = play.peer()
    [original] = deliveries(wire.send(message(1)))
    play.call("begin", "c", [original])
    play.wait(5.0)
    [copy] = deliveries(wire.send(message(1)))
    play.call("acknowledge", [original])
    play.call("acknowledge", [copy])
    assert wire.acks() == [1, 1]
    assert deliveries(wire.send(message(1))) == []
    assert [*inside(play.node).delivering.dedupe._known] == [*play.store.reopen().load().handled] or not durable


def test_with_a_timeout_of_zero_each_copy_goes_to_the_application() -> None:
    """T-48, as draft 2 has it: while the first one queues, while it is handled, and each has an ack of its own."""
    play = subscriber(policy=Policy(handling_timeout=0))
    wire = play.peer()
    first, second = deliveries(wire.send(message(1), message(1)))
    play.call("begin", "c", [first])
    actions = wire.send(message(1))
    [third] = deliveries(actions)
    assert told(actions, NoticeKind.HANDED_OUT_AGAIN) == []
    assert [one.attempt for one in (first, second, third)] == [1, 1, 1]
    for one in (second, third, first):
        play.call("acknowledge", [one])
        assert wire.acks() == [1]


def test_that_has_the_bound_of_credit_and_those_beyond_wait() -> None:
    play = subscriber(policy=Policy(handling_timeout=0), limits=Limits(inbox_messages=3))
    wire = play.peer()
    given = deliveries(wire.send(*[message(1)] * 10))
    assert len(given) == 3
    play.call("acknowledge", given)
    assert 3 <= len(wire.acks()) <= 10


def test_without_a_timeout_a_copy_waits_for_ever() -> None:
    play = subscriber(policy=Policy(stuck_after=None, handling_timeout=None))
    wire = play.peer()
    play.call("begin", "c", deliveries(wire.send(message(1))))
    play.wait(10 * 86400.0)
    assert deliveries(wire.send(message(1))) == []
    assert play.node.stats()["stuck_handlers"] == 0


def test_a_copy_of_what_a_stuck_iterator_holds_is_handed_out_within_a_bound() -> None:
    """A handler that has lost a message gets it again, and not without end."""
    play = subscriber(policy=FAST, limits=Limits(inbox_messages=3))
    wire = play.peer()
    given = [stuck(play, wire)]
    for _ in range(2):
        play.wait(5.0)
        [copy] = deliveries(wire.send(message(1)))
        play.call("begin", "c", [copy])
        given.append(copy)
    play.wait(5.0)
    assert deliveries(wire.send(message(1))) == []
    play.call("acknowledge", given)
    assert wire.acks() == [1] * 4


# Stuck handlers.


def test_a_stuck_handler_is_told_and_passed_by() -> None:
    play = subscriber("c", "other", policy=FAST)
    wire = play.peer(LOW, ("out", ""))
    first, queued = deliveries(wire.send(message(1), message(2)))
    play.call("begin", "c", [first])
    assert told(play.wait(0.9), NoticeKind.HANDLER_STUCK) == []
    assert bodies(wire.send(message(3))) == [b"3"]
    [text] = told(play.wait(0.1), NoticeKind.HANDLER_STUCK)
    assert text.startswith("c has been at message 1 of 'c' 'k' for 1 s")
    assert play.node.stats()["stuck_handlers"] == 1
    assert bodies(wire.send(message(4), Message("c", "k", b"unreliable"), message(5, "other"))) == [b"5"]
    assert wire.acks() == []
    play.send("out", "", b"ours")
    wire.ack(*wire.messages())
    assert play.pending() == 0, "acks are read"
    play.call("end", "c", [first])
    play.call("acknowledge", [first, queued])
    assert wire.acks() == [1, 2]
    assert play.node.stats()["stuck_handlers"] == 0
    [again] = deliveries(wire.send(message(4)))
    assert again.attempt == 1
    play.wait(2.0)
    assert inside(play.node).credit._calls == {}


def test_one_that_ends_in_time_is_not_stuck() -> None:
    play = subscriber(policy=FAST)
    wire = play.peer()
    for number in range(1, 20):
        given = deliveries(wire.send(message(number)))
        play.call("begin", "c", given)
        assert play.wait(0.3) == []
        play.call("end", "c", given)
        play.call("acknowledge", given)
    play.call("end", "c", given)
    play.wait(1.0)
    assert inside(play.node).credit._calls == {}
    play.call("end", "c", given)
    assert play.node.stats()["notices_handler_stuck"] == 0


def test_the_next_call_of_a_handler_that_was_stuck_has_its_own_time() -> None:
    play = subscriber(policy=FAST)
    wire = play.peer()
    first, second = deliveries(wire.send(message(1), message(2)))
    play.call("begin", "c", [first])
    play.wait(0.5)
    play.call("begin", "c", [second])
    play.wait(0.7)
    play.call("end", "c", [first])
    assert play.node.stats()["stuck_handlers"] == 0
    assert play.wait(0.2) == []
    assert told(play.wait(0.1), NoticeKind.HANDLER_STUCK)
    play.call("end", "c", [second])


def test_credit_of_a_stuck_handler_is_there_for_others() -> None:
    """D-9: within the connection's credit, of which what it has takes none, and what it has not begun goes back."""
    play = subscriber("c", "other", policy=FAST, limits=Limits(inbox_messages=8, low_water=10, high_water=10))
    wire = play.peer()
    given = deliveries(wire.send(*map(message, range(1, 9))))
    assert len(given) == 8
    actions = wire.send(message(9, "other"))
    assert bodies(actions) == []
    play.call("begin", "c", given[:2])
    actions = play.wait(1.0)
    [take_back] = every(actions, TakeBack)
    assert (take_back.handler, take_back.peer) == ("c", LOW)
    assert bodies(actions) == [], "six of eight are still in its hands"
    actions = play.call("let_go", given[2:])
    assert bodies(actions) == [b"9"]
    inbox = inside(play.node).context.peers[LOW].inbox
    assert (inbox.count, len(inbox.held), len(inbox.exempt)) == (1, 3, 2)
    play.call("let_go", given[2:])
    assert play.node.stats()["withheld"] == 6
    play.call("end", "c", given[:2])
    assert (inbox.count, len(inbox.exempt)) == (3, 0)
    play.call("acknowledge", given[:2])
    assert (inbox.count, inbox.size) == (1, 1)
    assert [one.attempt for one in deliveries(wire.send(message(3)))] == [1], "it was no attempt"


def test_what_is_exhausted_later_is_asked_back_from_the_stuck() -> None:
    play = subscriber("c", "other", policy=FAST, limits=Limits(inbox_messages=8))
    wire = play.peer()
    given = deliveries(wire.send(*map(message, range(1, 5))))
    play.call("begin", "c", given[:1])
    assert every(play.wait(1.0), TakeBack) == []
    actions = wire.send(*(message(number, "other") for number in range(10, 20)))
    assert len(deliveries(actions)) == 5
    assert len(every(actions, TakeBack)) == 1
    assert len(deliveries(play.call("let_go", given[1:]))) == 0, "five of eight: half of it is not back"
    assert len(deliveries(play.call("acknowledge", deliveries(actions)))) == 5


def test_what_waits_for_an_iterator_that_nobody_reads_goes_back() -> None:
    """D-9: it has nothing in hand, and what waits for it has the credit of the peer's other channels."""
    play = subscriber("c", "other", policy=FAST, limits=Limits(inbox_messages=2))
    wire = play.peer()
    given = deliveries(wire.send(message(1), message(2)))
    assert play.call("leave", "c", given[0]) == []
    assert deliveries(wire.send(message(3, "other"))) == []
    assert play.wait(0.9) == []
    actions = play.wait(0.1)
    [text] = told(actions, NoticeKind.HANDLER_STUCK)
    assert text.startswith("c has not taken message 1 of 'c' 'k' for 1 s. Until it goes on")
    assert [(one.handler, one.peer) for one in every(actions, TakeBack)] == [("c", LOW)]
    assert bodies(play.call("let_go", given)) == [b"3"]
    assert play.node.stats()["stuck_handlers"] == 1
    assert bodies(wire.send(message(1))) == [], "it is let go again"
    play.call("take_up", "c")
    assert play.node.stats()["stuck_handlers"] == 0
    [again] = deliveries(wire.send(message(1)))
    assert again.attempt == 1
    play.wait(2.0)
    assert inside(play.node).credit._calls == {}


def test_an_iterator_that_is_read_in_time_is_not_stuck() -> None:
    play = subscriber(policy=FAST)
    wire = play.peer()
    [given] = deliveries(wire.send(message(1)))
    play.call("take_up", "c")
    for _ in range(5):
        play.call("leave", "c", given)
        assert play.wait(0.7) == []
        play.call("take_up", "c")
    play.wait(1.0)
    assert inside(play.node).credit._calls == {}
    unwatched = subscriber(policy=Policy(stuck_after=None))
    [given] = deliveries(unwatched.peer().send(message(1)))
    unwatched.call("leave", "c", given)
    assert told(unwatched.wait(100.0), NoticeKind.HANDLER_STUCK) == []
    unwatched.call("take_up", "c")
    assert inside(unwatched.node).credit._calls == {}


def test_what_is_left_after_an_end_has_its_own_time_and_a_begin_ends_that() -> None:
    play = subscriber(policy=FAST)
    wire = play.peer()
    first, second, third = deliveries(wire.send(*map(message, (1, 2, 3))))
    play.call("end", "c", [], left=first)  # nothing was begun
    play.wait(0.5)
    play.call("begin", "c", [first])
    assert play.wait(0.7) == []
    play.call("end", "c", [first], left=second)
    assert told(play.wait(0.9), NoticeKind.HANDLER_STUCK) == []
    [text] = told(play.wait(0.1), NoticeKind.HANDLER_STUCK)
    assert text.startswith("c has not taken message 2 of 'c' 'k'")
    play.call("begin", "c", [second])
    assert play.node.stats()["stuck_handlers"] == 0
    play.call("end", "c", [second])
    play.call("end", "c", [third])
    play.wait(2.0)
    assert inside(play.node).credit._calls == {}


def test_reading_goes_on_at_once_where_a_stuck_handler_has_all_of_the_credit() -> None:
    play = subscriber("c", "other", policy=FAST, limits=Limits(inbox_messages=2))
    wire = play.peer()
    given = deliveries(wire.send(message(1), message(2)))
    play.call("begin", "c", given)
    assert deliveries(wire.send(message(3, "other"))) == []
    actions = play.wait(1.0)
    assert bodies(actions) == [b"3"]
    assert every(actions, TakeBack) == []


@pytest.mark.parametrize("ends", [1, 2])
def test_what_a_stuck_handler_gives_back_takes_credit_again(ends: int) -> None:
    """D-9: it has ended one call of two, or goes on; neither is settled, so the sender waits."""
    play = subscriber("c", "other", policy=FAST, limits=Limits(inbox_messages=3))
    wire = play.peer()
    given = deliveries(wire.send(message(1), message(2)))
    play.call("begin", "c", given)
    play.wait(1.0)
    others = deliveries(wire.send(message(3, "other"), message(4, "other")))
    assert len(others) == 2
    play.call("end", "c", given[:ends])
    assert deliveries(wire.send(message(5, "other"))) == [], "as much as the limits allow is in the handlers' hands"
    assert bodies(play.call("acknowledge", others) + play.call("acknowledge", given[:1])) == [b"5"]


def test_credit_of_a_derived_identity_that_is_gone_comes_back() -> None:
    play = subscriber(limits=Limits(inbox_messages=2))
    identity = PeerIdentity(address="job", prefixes=frozenset({"f00000000000"}))
    wire = play.accepted(ONE, identity)
    wire.request()
    given = deliveries(wire.send(message(1), message(2)))
    wire.lose()
    assert inside(play.node).credit.left_inboxes[ONE].exhausted
    play.call("acknowledge", given[:1])
    play.call("fail", given[1:])
    assert inside(play.node).credit.left_inboxes == {}


def test_what_a_stuck_handler_still_takes_takes_no_credit() -> None:
    """An iterator whose user takes one after the other, and settles none."""
    play = subscriber("c", "other", policy=FAST, limits=Limits(inbox_messages=4))
    wire = play.peer()
    given = deliveries(wire.send(*map(message, range(1, 4))))
    play.call("begin", "c", given[:1])
    play.wait(1.0)
    play.call("begin", "c", given[1:])
    assert bodies(wire.send(*(message(number, "other") for number in (5, 6, 7)))) == [b"5", b"6", b"7"]
    play.call("acknowledge", given)
    play.call("end", "c", given)
    assert inside(play.node).context.peers[LOW].inbox.count == 3


def test_a_message_of_two_stuck_handlers() -> None:
    play = Play(handlers=[("c", "", "one"), ("", "k", "two")], policy=FAST)
    play.call("subscribe", "c", "")
    wire = play.peer()
    [delivery] = deliveries(wire.send(message(1)))
    play.call("begin", "one", [delivery])
    play.call("begin", "two", [delivery])
    play.wait(1.0)
    assert play.node.stats()["stuck_handlers"] == 2
    inbox = inside(play.node).context.peers[LOW].inbox
    play.call("end", "one", [delivery])
    assert inbox.count == 0
    play.call("end", "two", [delivery])
    assert inbox.count == 1
    play.call("acknowledge", [delivery])
    assert (inbox.count, inbox.size, inbox.held) == (0, 0, {})


def test_a_copy_of_what_a_stuck_handler_has_shares_its_late_answer() -> None:
    play = subscriber(policy=FAST)
    wire = play.peer()
    delivery = stuck(play, wire)
    wire.lose()
    wire = play.peer()
    assert deliveries(wire.send(message(1))) == []
    play.call("end", "c", [delivery])
    play.call("acknowledge", [delivery])
    assert wire.acks() == [1]


def test_a_peer_that_comes_back_has_the_credit_that_it_had() -> None:
    """D-9: over all its connections, so a slow handler's memory is bounded however often a peer comes back."""
    play = subscriber(limits=Limits(inbox_messages=4, low_water=10, high_water=10))
    given: list[Delivery] = []
    for number in range(1, 100, 10):
        wire = play.peer()
        given += deliveries(wire.send(*map(message, range(number, number + 10))))
        given += deliveries(wire.lose())
    assert len(given) == 4
    wire = play.peer()
    assert every(wire.send(message(200), message(201)), PauseReading)
    actions = play.call("acknowledge", given)
    assert bodies(actions) == [b"200", b"201"]
    assert every(actions, ResumeReading)


def test_each_peer_has_a_credit_of_its_own() -> None:
    play = subscriber(limits=Limits(inbox_messages=2))
    slow, other = play.peer(LOW), play.peer(OTHER)
    assert len(deliveries(slow.send(*map(message, range(1, 9))))) == 2
    assert len(deliveries(other.send(*map(message, range(1, 9))))) == 2


def test_a_dead_letter_that_is_replayed_may_be_stuck_too() -> None:
    play = subscriber(policy=FAST, limits=Limits(max_attempts=1))
    wire = play.peer()
    play.call("fail", deliveries(wire.send(message(1))))
    assert play.node.replay(play.store.dead_letters(0, 1)) == 1
    given = deliveries(play.run())
    play.call("begin", "c", given)
    play.wait(1.0)
    assert play.node.stats()["stuck_handlers"] == 1
    play.call("begin", "c", given)
    play.call("end", "c", given)
    play.call("acknowledge", given)
    assert play.store.dead_letters(0, 1) == []


def test_what_a_simulated_handler_has_not_begun_is_taken_back() -> None:
    net = SimNet(1, nodes=2)
    [host, _] = net._hosts
    net._start(host)
    queues = [[Delivery(1, LOW, message(1)), Delivery(2, OTHER, message(2))], [Delivery(1, LOW, message(3))]]
    host.queued += queues
    net._take_back(host, TakeBack("handler", LOW))
    assert [[one.body for one in some] for some in queues] == [[b"2"], []]
    assert net.counts["taken_back"] == 2


def test_simulated_handlers_are_never_at_a_message_twice_at_once() -> None:
    """They hang, and time out, and get it again: here at once."""
    counts: Counter[str] = Counter()
    for seed in range(6):
        policy = Policy(stuck_after=1.0, handling_timeout=4.0 if seed % 2 else 0.0)
        weather = Weather(handler_hangs=0.02, handler_slow=0.2)
        counts.update(SimNet(seed, nodes=2, operations=150, policy=policy, weather=weather).run().counts)
    assert counts["stuck"]
    assert counts["handled"]


def test_options_of_time_must_be_times() -> None:
    for name, wrong in (("stuck_after", 0), ("handling_timeout", -1)):
        with pytest.raises(ValueError, match=name):
            Policy(**{name: wrong})  # type: ignore[arg-type]  # one of two
