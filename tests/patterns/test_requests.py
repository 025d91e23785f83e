"""Requests and replies in the node: who is asked, how each request ends, what is said on the wire (P-10 to P-17)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import pack
from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import (
    Acl,
    ConnectionClosing,
    ConnectionLost,
    Deliver,
    Delivery,
    Limits,
    LocalProtocolError,
    Message,
    OutboxFull,
    OwnLimitExceeded,
    Policy,
    ReservedChannel,
    Rights,
    StoreError,
    Subscribe,
    Subscription,
    encode,
)
from tolliver_proto.errors import DiskFull, NoResponders, RequestFailed
from tolliver_proto.node import Answered, Asked, Request

from .play import HIGH, LOW, ME, OTHER, Play, Wire, deliveries, every, only

ASKED = "tolliver.request/sums"
BACK = f"tolliver.reply/{ME}"
TO_LOW = f"tolliver.reply/{LOW}"
BODY = b"12345678"
ANSWER, FAILED, NOBODY = 0, 1, 2


def ready(*subscriptions: tuple[str, str], **options: Any) -> tuple[Play, Wire]:
    """A node whose subscription to replies is stored, and a peer that answers sums."""
    play = Play(**options)
    wire = play.peer(LOW, *(subscriptions or ((ASKED, ""),)))
    ask(play, timeout=0.001)
    play.wait(0.001)
    for frame in wire.got():
        if isinstance(frame, Subscribe):
            wire.ack(Message("", "", b"", frame.message_id))
    assert play.node.stats().requests_outstanding == 0
    return play, wire


def ask(play: Play, body: bytes = BODY, timeout: float = 5.0, key: str = "", **options: Any) -> Asked:
    return play.requests.request("sums", key, body, timeout, play.now, **options)


def reply(asked: Asked, status: int = ANSWER, body: bytes = b"10", message_id: int | None = None) -> Message:
    return Message(BACK, "", pack(">QB", asked.request_id, status) + body, message_id)


def ended(actions: Sequence[Any]) -> Answered:
    return only(list(actions), Answered)


def error_of(actions: Sequence[Any]) -> BaseException | None:
    return ended(actions).error


# The requester.


def test_the_words_of_a_handler_that_failed_are_escaped_and_cut() -> None:
    """They are the responder's choice, up to the limit of a body (D-14)."""
    play, wire = ready()
    asked = ask(play)
    play.run()
    error = error_of(wire.send(reply(asked, FAILED, b"\x1b[2J\xff" + "\u20ac".encode() * 800_000)))
    assert isinstance(error, RequestFailed)
    assert str(error) == error.text
    assert error.text.startswith("\\x1b[2J\ufffd\u20ac")
    assert error.text.isprintable()
    assert len(error.text) == 1003


def test_the_first_request_follows_the_subscription_to_replies() -> None:
    """On the wire, so that its responder never has to wait for it (P-15)."""
    play = Play()
    wire = play.peer(LOW, (ASKED, ""))
    play.hold_commits = True
    asked = ask(play)
    play.run()
    assert wire.got() == []
    play.finish()
    subscribe, request = wire.got()
    assert isinstance(subscribe, Subscribe)
    assert (subscribe.channel, subscribe.key) == (BACK, "")
    assert request == Message(ASKED, "", pack(">Q", asked.request_id) + BODY, None)
    answered = ended(wire.send(reply(asked)))
    assert answered.asked is asked
    assert [(one.peer_id, one.body, one.error) for one in answered.replies] == [(LOW, b"10", None)]
    assert play.node.stats().requests_answered == 1


def test_where_the_subscription_cannot_be_stored_the_first_request_fails_and_a_later_one_tries_again() -> None:
    play = Play()
    wire = play.peer(LOW, (ASKED, ""))
    play.hold_commits = True
    ask(play)
    ask(play)
    play.run()
    assert [type(one.error) for one in every(play.fail(), Answered)] == [StoreError, StoreError]
    play.hold_commits = False
    asked = ask(play)
    play.run()
    assert ended(wire.send(reply(asked))).replies


def test_what_changes_until_it_is_stored() -> None:
    """One is over by then; for another nobody is left."""
    play = Play()
    wire = play.peer(LOW, (ASKED, ""))
    play.hold_commits = True
    ask(play, timeout=1)
    gone, waits = ask(play, wait=False), ask(play)
    play.run()
    assert isinstance(error_of(play.wait(2)), TimeoutError)
    wire.lose()
    play.hold_commits = False
    actions = play.finish()
    assert isinstance(error_of(actions), NoResponders)
    assert ended(actions).asked is gone
    wire = play.peer(LOW, (ASKED, ""))
    assert ended(wire.send(reply(waits))).replies


def test_what_cannot_be_sent_when_it_is_stored() -> None:
    play = Play(limits=Limits(high_water=50, low_water=10, outbox_bytes=1))
    wire = play.peer(LOW, (ASKED, ""))
    play.hold_commits = play.hold_writes = True
    ask(play)
    play.node.subscribe("x" * 100, "", play.now)
    play.run()
    play.hold_commits = False
    assert isinstance(error_of(play.finish()), OutboxFull)
    assert wire.uuid == LOW


def test_one_that_is_restarted_asks_at_once_and_takes_no_answer_of_its_earlier_life() -> None:
    play, _ = ready()
    before = ask(play)
    play.run()
    again = play.restart()
    again.dice.value = 0.5
    wire = again.peer(LOW, (ASKED, ""))
    assert again.node.stats().own_subscriptions == 1
    asked = ask(again)
    again.run()
    assert [message.body for message in wire.messages()] == [pack(">Q", asked.request_id) + BODY]
    assert asked.request_id != before.request_id
    assert every(wire.send(reply(before)), Answered) == []
    assert again.node.stats().late_replies == 1


def test_the_first_answer_ends_it_and_the_next_one_is_late() -> None:
    play, low = ready()
    high = play.peer(HIGH, (ASKED, "k"))
    play.peer(OTHER, ("", ""))
    asked = ask(play, key="k")
    play.run()
    assert [len(wire.messages()) for wire in (low, high)] == [1, 1]
    assert ended(high.send(reply(asked))).replies[0].peer_id == HIGH
    assert low.send(reply(asked)) == []
    assert low.send(reply(asked)) == []
    assert play.node.stats().late_replies == 2
    assert play.node.stats().requests_outstanding == 0


def test_who_subscribes_to_everything_is_no_responder() -> None:
    """P-11."""
    play, _ = ready()
    everything = play.peer(HIGH, ("", ""), ("", "k"))
    ask(play, key="k")
    play.run()
    assert everything.messages() == []
    with pytest.raises(NoResponders, match=r"for 'other' 'k'.*wait_responder\('other', 'k'\) waits"):
        play.requests.request("other", "k", b"", 1, play.now, wait=False)
    with pytest.raises(NoResponders, match=r"wait_responder\('other'\) waits"):
        play.requests.request("other", "", b"", 1, play.now, wait=False)


def test_it_may_be_narrowed() -> None:
    play, low = ready()
    high = play.peer(HIGH, (ASKED, ""))
    asked = ask(play, to=HIGH)
    play.run()
    assert [len(wire.messages()) for wire in (low, high)] == [0, 1]
    assert every(low.send(reply(asked)), Answered) == [], "nobody asked that peer"
    assert ended(high.send(reply(asked))).replies
    with pytest.raises(NoResponders):
        ask(play, to=OTHER, wait=False)


def test_a_failure_is_the_answer_when_nobody_else_may_give_one() -> None:
    play, low = ready()
    high = play.peer(HIGH, (ASKED, ""))
    asked = ask(play)
    play.run()
    assert every(low.send(reply(asked, FAILED, b"no \xff sum")), Answered) == []
    assert ended(high.send(reply(asked))).error is None
    asked = ask(play)
    play.run()
    high.send(reply(asked, FAILED, "größer".encode()))
    error = error_of(low.send(reply(asked, FAILED, b"second")))
    assert isinstance(error, RequestFailed)
    assert (error.peer, str(error)) == (HIGH, "größer")
    asked = ask(play, timeout=1)
    play.run()
    high.send(reply(asked, 77, b"a status of later days"))
    assert isinstance(error_of(play.wait(2)), RequestFailed), "better than to say that the other one was silent"


def test_nobody_there() -> None:
    play, low = ready()
    asked = ask(play, wait=False)
    play.run()
    assert isinstance(error_of(low.send(reply(asked, NOBODY, b""))), NoResponders)
    low.lose()
    play.run()
    with pytest.raises(NoResponders):
        ask(play, wait=False)
    assert play.node.stats().requests_failed == 1


@pytest.mark.parametrize("gathers", [False, True])
def test_it_waits_for_a_responder_within_its_time(gathers: bool) -> None:
    """P-13: a peer that is away and subscribed is none."""
    before, low = ready()
    low.lose()
    play = before.restart()
    assert (play.node.subscribed(ASKED, ""), play.node.subscribed(ASKED, "", is_connected=True)) == (1, 0)
    asked, late = ask(play, timeout=9, gathers=gathers), ask(play, timeout=1, gathers=gathers)
    play.run()
    actions = play.wait(2)
    assert isinstance(error_of(actions), NoResponders)
    assert ended(actions).asked is late
    assert play.node.stats().requests_failed == 1
    low = play.accepted(LOW)
    low.request((ASKED, ""))
    assert play.requests.responders("sums", "") == 1
    assert [message.body for message in low.messages()] == [pack(">Q", asked.request_id) + BODY]
    assert ended(low.send(reply(asked))).replies
    play.peer(OTHER, ("other", ""))
    assert play.node.stats().requests_outstanding == 0


def test_it_waits_for_whom_it_is_for() -> None:
    play, low = ready()
    asked = ask(play, to=[HIGH, OTHER])
    play.run()
    high = play.accepted(HIGH)
    high.request((ASKED, "other key"))
    assert (low.messages(), high.messages()) == ([], [])
    high.send(Subscribe(ASKED, "", 7))
    assert len(high.messages()) == 1
    assert ended(high.send(reply(asked))).replies


def test_where_nobody_whom_it_went_to_has_a_handler_it_waits_for_one_who_has() -> None:
    """Each is asked again when something has changed with it."""
    play, low = ready()
    high = play.peer(HIGH, (ASKED, ""))
    asked = ask(play, timeout=9)
    play.run()
    for wire in (low, high):
        wire.messages()
        assert every(wire.send(reply(asked, NOBODY)), Answered) == []
    low.send(Subscribe("news", "", 7))
    assert (low.bodies(), high.bodies()) == ([pack(">Q", asked.request_id) + BODY], [])
    assert every(low.send(reply(asked, NOBODY)), Answered) == []
    low.send(Subscribe(ASKED, "", 8))  # it knows that already, and says so as somebody has come
    assert (len(low.messages()), high.messages()) == (1, [])
    assert every(low.send(reply(asked, NOBODY)), Answered) == []
    high.lose()
    high = play.accepted(HIGH)
    high.request((ASKED, ""))
    assert (low.messages(), len(high.messages())) == ([], 1)
    assert ended(high.send(reply(asked))).replies
    asked = ask(play, timeout=1)
    play.run()
    low.send(reply(asked, NOBODY))
    high.lose()
    assert isinstance(error_of(play.wait(2)), ConnectionLost), "it may have been handled there"


def test_one_that_waits_for_a_responder_may_be_cancelled_or_find_no_room() -> None:
    play, low = ready(limits=Limits(high_water=200, low_water=100, outbox_bytes=600))
    low.lose()
    gone, large = ask(play), ask(play, bytes(700))
    play.requests.cancel_request(gone, play.now)
    play.hold_writes = True
    low = play.accepted(LOW)
    play.node.subscribe("x" * 250, "", play.now)
    actions = low.request((ASKED, ""))
    assert isinstance(error_of(actions), OutboxFull)
    assert ended(actions).asked is large
    assert low.messages() == []


def test_its_time() -> None:
    play, low = ready()
    first, second, third = ask(play, timeout=2), ask(play, timeout=1), ask(play, timeout=3)
    play.run()
    low.send(reply(third))
    actions = play.wait(1.5)
    assert ended(actions).asked is second
    assert str(LOW) in str(error_of(actions))
    assert ended(play.wait(1)).asked is first
    assert every(play.wait(10), Answered) == []
    stats = play.node.stats()
    assert (stats.requests_timed_out, stats.requests_answered) == (3, 1)


def test_the_end_of_the_connection() -> None:
    play, low = ready()
    high = play.peer(HIGH, (ASKED, ""))
    only_low, both = ask(play, to=LOW), ask(play)
    play.run()
    low.lose()
    actions = play.wait(0)
    assert isinstance(error_of(actions), ConnectionLost)
    assert ended(actions).asked is only_low
    high.send(reply(both, FAILED, b"why"))
    assert play.node.stats().requests_outstanding == 0
    asked = ask(play)
    play.run()
    high.lose()
    assert isinstance(error_of(play.wait(0)), ConnectionLost)
    assert asked.lost


def test_another_connection_may_take_its_place() -> None:
    play, _ = ready()
    asked = ask(play)
    play.run()
    newer = play.accepted(LOW)
    newer.request((ASKED, ""))
    assert every(play.wait(0.1), Answered) == []
    assert ended(newer.send(reply(asked))).replies


def test_closing_ends_them() -> None:
    play, _ = ready()
    ask(play)
    ask(play, durable=True)
    play.run()
    assert [type(one.error) for one in every(play.call("close"), Answered)] == [ConnectionClosing] * 2
    with pytest.raises(ConnectionClosing):
        ask(play)


def test_what_is_refused_before_anything_changes() -> None:
    play, _ = ready()
    asked = ask(play, request_id=7)
    for error, options in (
        (ValueError, {"timeout": 0}),
        (ValueError, {"timeout": math.nan}),
        (ValueError, {"request_id": -1}),
        (ValueError, {"request_id": 2**64}),
        (TypeError, {"request_id": "7"}),
        (TypeError, {"to": "low"}),
        (LocalProtocolError, {"request_id": 7}),
        (LocalProtocolError, {"body": "text"}),
        (OwnLimitExceeded, {"body": bytes(play.node.limits.max_body)}),
        (OwnLimitExceeded, {"key": "k" * 5000}),
    ):
        with pytest.raises(error):
            ask(play, **options)
    for channel, error in (("tolliver", ReservedChannel), ("", LocalProtocolError)):
        with pytest.raises(error):
            play.requests.request(channel, "", b"", 1, play.now)
        with pytest.raises(error):
            play.requests.respond(channel, "", "handler", play.now)
    assert play.node.stats().requests_outstanding == 1
    assert asked.request_id == 7


def test_a_derived_identity_asks_nobody() -> None:
    """It cannot subscribe to replies (T-72a)."""
    play = Play(uuid=UUID("f00dbabe-0001-8000-8000-000000000001"))
    play.peer(LOW, (ASKED, ""))
    with pytest.raises(LocalProtocolError, match="derived"):
        ask(play)
    assert play.node.stats().requests_outstanding == 0


def test_ids_pass_those_that_programs_gave() -> None:
    play, _ = ready()
    last = 0  # of what the stage has asked
    for _ in range(3):
        given = ask(play, request_id=last + 1).request_id
        last = ask(play).request_id
        assert (given, last) == (last - 1, given + 1)


def test_ids_begin_at_a_place_that_each_opening_draws() -> None:
    """P-14: a reply that was for an earlier life is no answer to what this one asks."""
    for drawn in (0.0, 0.25, 0.75):
        play = Play()
        play.peer(LOW, (ASKED, ""))
        play.send("news", "", b"")  # the first place that is drawn is that of messages
        play.dice.value = drawn
        assert ask(play).request_id == int(drawn * 2**32) * (2**32 + 1)


def test_names_in_use_are_many() -> None:
    play, wire = ready(*[(f"tolliver.request/c{number}", "") for number in range(5000)], (ASKED, ""))
    for number in range(5000):
        play.requests.request(f"c{number}", "", b"", 1, play.now)
    play.run()
    assert len(wire.messages()) == 5000
    assert len(every(play.wait(1), Answered)) == 5000


def test_noise_on_the_channel_of_replies() -> None:
    play, low = ready()
    asked = ask(play)
    play.run()
    for body in (b"", b"short", pack(">QB", asked.request_id + 1, 0)):
        assert every(low.send(Message(BACK, "", body, None)), Answered) == []
    assert play.node.stats().late_replies == 3
    assert every(low.send(Message(BACK, "k", pack(">QB", asked.request_id, 0), 9)), Answered)
    assert low.acks() == [9]


# All of them.


def test_gathering() -> None:
    play, low = ready()
    high = play.peer(HIGH, (ASKED, ""))
    asked = ask(play, gathers=True)
    play.run()
    assert every(high.send(reply(asked, body=b"1")), Answered) == []
    assert repr(asked) == f"Asked({ASKED!r}, '', id={asked.request_id})"
    answered = ended(low.send(reply(asked, FAILED, b"no")))
    assert [(one.peer_id, one.body, str(one.error)) for one in answered.replies] == [
        (HIGH, b"1", "None"),
        (LOW, b"", "no"),
    ]
    asked = ask(play, gathers=True, timeout=1)
    play.run()
    low.send(reply(asked, body=b"2"))
    answered = ended(play.wait(2))
    assert ([one.body for one in answered.replies], answered.error) == ([b"2"], None)
    timed_out = play.node.stats().requests_timed_out
    ask(play, gathers=True, timeout=1)
    play.run()
    assert ended(play.wait(2)).replies == []
    assert (play.node.stats().requests_answered, play.node.stats().requests_timed_out) == (2, timed_out + 1)
    asked = ask(play, gathers=True)
    play.run()
    low.send(reply(asked, NOBODY))
    assert every(high.send(reply(asked, NOBODY)), Answered) == []
    assert isinstance(error_of(play.wait(6)), NoResponders)


# Durable ones.


def test_a_durable_request_waits_until_somebody_is_known_who_may_answer() -> None:
    play = Play()
    asked = ask(play, durable=True)
    play.run()
    low = play.accepted(LOW)
    low.request((ASKED, ""))
    assert [message.body for message in low.messages()] == [pack(">Q", asked.request_id) + BODY]
    assert play.pending() == 1
    assert ended(low.send(reply(asked, message_id=5))).replies


def test_a_durable_request_waits_for_its_responder() -> None:
    play, low = ready()
    low.lose()
    asked = ask(play, timeout=100, durable=True)
    play.run()
    assert play.pending() == 1
    low = play.accepted()
    low.request((ASKED, ""))
    (request,) = low.messages()
    assert request.body == pack(">Q", asked.request_id) + BODY
    low.lose()
    assert every(play.wait(1), Answered) == [], "it is not lost with a connection"
    low = play.peer(LOW, (ASKED, ""))
    assert ended(low.send(reply(asked, message_id=5))).replies


def test_where_it_cannot_be_stored() -> None:
    play, low = ready()
    play.hold_commits = True
    ask(play, durable=True)
    play.run()
    assert isinstance(error_of(play.fail()), StoreError)
    asked = ask(play, durable=True)
    play.run()
    low.send(reply(asked))
    assert every(play.fail(), Answered) == [], "it was answered before that"


def test_one_that_waits_inside_the_node_is_asked_later() -> None:
    """While the disk is full (D-13)."""
    play, low = ready()
    play.hold_commits = True
    play.send("sums", "", b"", to=None)
    ask(play, durable=True)
    play.run()
    play.fail(DiskFull("no room"))
    asked = ask(play, durable=True, timeout=1000)
    play.run()
    play.hold_commits = False
    while play.held:
        play.finish()
    play.wait(60)
    assert any(message.body.startswith(pack(">Q", asked.request_id)) for message in low.messages())


def test_the_same_can_be_asked_again_after_a_restart() -> None:
    play, _ = ready()
    ask(play, durable=True, request_id=42)
    play.run()
    again = play.restart()
    wire = again.peer(LOW, (ASKED, ""))
    assert [message.body for message in wire.messages()] == []
    again.run()
    wire.send(Message(BACK, "", pack(">QB", 42, 0) + b"early", 8))
    assert again.node.stats().late_replies == 1
    asked = ask(again, durable=True, request_id=42)
    again.run()
    assert ended(wire.send(reply(asked, message_id=9))).replies[0].body == b"10"


# More than the connection takes.


def test_requests_wait_for_room_in_order_and_what_is_over_goes_out_no_more() -> None:
    play, low = ready(limits=Limits(high_water=200, low_water=100))
    play.hold_writes = True
    bodies = [bytes([number]) * 90 for number in range(10)]
    asked = [ask(play, body, timeout=1 if number == 5 else 9) for number, body in enumerate(bodies)]
    play.run()
    play.wait(2)
    for _ in range(20):
        play.written()
    assert [message.body[8:] for message in low.messages()] == bodies[:5] + bodies[6:]
    for one in asked:
        low.send(reply(one))
    assert play.node.stats().requests_answered == 9


@pytest.mark.parametrize(("beyond", "together"), [(0, [1, 2, 1]), (1, [1, 3, 1])])
def test_a_connection_takes_requests_below_its_high_water_mark(beyond: int, together: list[int]) -> None:
    size = len(encode(Message(ASKED, "", pack(">Q", 0) + BODY)))
    play, low = ready(limits=Limits(high_water=2 * size + beyond, low_water=size, outbox_bytes=2 * size))
    play.hold_writes = True
    for _ in range(sum(together)):
        ask(play)
        play.run()
    with pytest.raises(OutboxFull):
        ask(play)
    written = [len(low.bodies())]
    for _ in range(2):
        play.written()
        written.append(len(low.bodies()))
    assert written == together


def test_so_many_at_most() -> None:
    play, low = ready(limits=Limits(high_water=200, low_water=100, outbox_bytes=600))
    play.hold_writes = True
    for _ in range(6):
        ask(play, bytes(60))
    with pytest.raises(OutboxFull):
        ask(play, bytes(200))
    assert play.node.stats().requests_outstanding == 6
    low.lose()
    assert len(every(play.wait(0), Answered)) == play.node.stats().requests_failed == 6


def test_one_that_is_cancelled_leaves_the_table_and_its_reply_is_late() -> None:
    play, low = ready()
    asked = ask(play, request_id=7)
    ask(play)
    play.requests.cancel_request(asked, play.now)
    play.requests.cancel_request(asked, play.now)
    assert every(play.run(), Answered) == []
    stats = play.node.stats()
    assert (stats.requests_cancelled, stats.requests_outstanding) == (1, 1)
    low.send(reply(asked))
    assert play.node.stats().late_replies == 1
    again = ask(play, request_id=7)
    play.requests.cancel_request(asked, play.now)  # the first of that number
    low.send(reply(again))
    assert play.node.stats().requests_answered == 1


def test_one_that_is_cancelled_before_replies_are_heard_does_not_go_out() -> None:
    play = Play()
    low = play.peer(LOW, (ASKED, ""))
    asked = ask(play, b"first", request_id=7)
    play.requests.cancel_request(asked, play.now)
    ask(play, b"second", request_id=7)
    play.run()
    assert [message.body[8:] for message in low.messages() if message.channel == ASKED] == [b"second"]


# The responder.


class Responding:
    """A node that answers sums, and a requester."""

    def __init__(self, *subscriptions: tuple[str, str], **options: Any) -> None:
        self.play = Play(**options)
        self.play.requests.respond("sums", "", "handler", self.play.now)
        self.wire = self.play.peer(LOW, *(subscriptions or ((TO_LOW, ""),)))

    def asks(
        self, request_id: int = 1, body: bytes = BODY, key: str = "", message_id: int | None = None
    ) -> list[Delivery]:
        actions = self.wire.send(Message(ASKED, key, pack(">Q", request_id) + body, message_id))
        return [one for action in every(actions, Deliver) for one in action.deliveries]

    def replies(self) -> list[tuple[int, int, bytes]]:
        self.play.run()
        messages = self.wire.messages()
        assert all((one.channel, one.key) == (TO_LOW, "") for one in messages)
        return [(int.from_bytes(one.body[:8], "big"), one.body[8], one.body[9:]) for one in messages]

    def answer(self, delivery: Delivery, body: bytes = b"10") -> bool:
        return self.play.requests.reply(delivery, body, self.play.now)


def test_a_responder_subscribes_and_answers_whoever_asked() -> None:
    responding = Responding()
    assert (ASKED, "") in responding.play.node.subscriptions()
    (delivery,) = responding.asks(7, key="k")
    request = Request(delivery)
    assert (request.channel, request.key, request.body, request.peer_id) == ("sums", "k", BODY, LOW)
    assert (request.request_id, request.durable) == (7, False)
    assert repr(request) == "Request('sums', 'k', 8 bytes, id=7)"
    assert responding.answer(delivery)
    assert responding.replies() == [(7, ANSWER, b"10")]
    (delivery,) = responding.asks(8)
    assert responding.play.requests.refuse(delivery, "größer \ud800", responding.play.now)
    assert responding.replies() == [(8, FAILED, "größer ?".encode())]
    assert responding.play.node.stats().replies == 2


def test_wildcard_handlers_and_subscribers_see_no_envelopes() -> None:
    """P-11."""
    play = Play()
    play.node.register("", "", "everything")
    play.node.subscribe("", "", play.now)
    wire = play.peer(LOW, ("", ""))
    asked = [
        action
        for channel in (ASKED, BACK)
        for action in wire.send(Message(channel, "", bytes(9), None), Message(channel, "", bytes(9), 3))
    ]
    assert every(asked, Deliver) == []
    play.wait(60)
    assert wire.messages() == [], "it does not subscribe to replies by name either"


def test_a_reply_waits_for_its_requester_to_subscribe() -> None:
    """P-15."""
    responding = Responding(("other", ""))
    play = responding.play
    for number in range(3):
        (delivery,) = responding.asks(number)
        assert responding.answer(delivery)
        play.wait(1)
    assert responding.replies() == []
    play.wait(2.5)  # the first one's time is over
    responding.wire.send(Subscribe("third", "", 76))
    responding.wire.send(Subscribe(TO_LOW, "", 77))
    assert [number for number, *_ in responding.replies()] == [1, 2]
    assert play.node.stats().replies_dropped == 1
    (delivery,) = responding.asks(4)
    responding.answer(delivery)
    assert [number for number, *_ in responding.replies()] == [4]


def test_so_many_bytes_wait_for_that_and_so_long() -> None:
    responding = Responding(("other", ""), limits=Limits(high_water=200, low_water=100))
    for number in range(3):
        (delivery,) = responding.asks(number)
        responding.answer(delivery, bytes(60))
    assert responding.play.node.stats().replies_dropped == 2
    responding.play.wait(6)
    assert responding.play.node.stats().replies_dropped == 3
    (delivery,) = responding.asks(9)
    responding.answer(delivery)
    responding.wire.lose()
    responding.play.wait(6)
    assert responding.play.node.stats().replies_dropped == 4


def test_a_requester_that_is_gone_gets_no_reply() -> None:
    responding = Responding()
    deliveries = responding.asks(1) + responding.asks(2)
    responding.wire.lose()
    assert responding.answer(deliveries[0])
    responding.play.call("forget_peer", LOW)
    responding.play.wait(0)
    assert responding.answer(deliveries[1])
    assert responding.play.node.stats().replies_dropped == 2


def test_replies_wait_for_room_so_many_bytes_at_most() -> None:
    responding = Responding(limits=Limits(high_water=200, low_water=100, inbox_bytes=500))
    responding.play.hold_writes = True
    for number in range(20):
        for delivery in responding.asks(number, b""):
            responding.answer(delivery, bytes(60))
            responding.play.node.acknowledge([delivery], responding.play.now)
    for _ in range(30):
        responding.play.written()
    numbers = [number for number, *_ in responding.replies()]
    assert numbers == [*range(len(numbers))]
    assert 3 < len(numbers) < 20
    assert responding.play.node.stats().replies_dropped == 20 - len(numbers)


def test_more_requesters_than_names_are_remembered_for() -> None:
    responding = Responding()
    for number in range(4100):
        responding.play.requests._reply_channels[number] = Subscription("other", "")
    (delivery,) = responding.asks(3)
    responding.answer(delivery)
    assert responding.replies() == [(3, ANSWER, b"10")]
    assert len(responding.play.requests._reply_channels) == 1


def test_what_is_no_reply() -> None:
    responding = Responding()
    (delivery,) = responding.asks()
    for error, body in ((LocalProtocolError, "text"), (OwnLimitExceeded, bytes(responding.play.node.limits.max_body))):
        with pytest.raises(error):
            responding.answer(delivery, body)  # type: ignore[arg-type]
    assert responding.replies() == []


def test_a_request_without_an_id_has_nobody_to_answer() -> None:
    responding = Responding()
    actions = responding.wire.send(Message(ASKED, "", b"short", None))
    (delivery,) = only(actions, Deliver).deliveries
    assert responding.answer(delivery)
    assert responding.replies() == []


def test_where_no_handler_is_left_that_is_the_answer() -> None:
    responding = Responding()
    play = responding.play
    play.requests.respond("sums", "", "second", play.now)
    play.run()
    play.requests.stop_responding("sums", "", "second", play.now)
    assert (ASKED, "") in play.node.subscriptions()
    play.requests.stop_responding("sums", "", "handler", play.now, is_over=False)
    play.run()
    assert (ASKED, "") in play.node.subscriptions()
    play.wait(play.node.limits.handler_grace)
    assert responding.asks(5) == []
    assert responding.replies() == [(5, NOBODY, b"")]
    play.requests.stop_responding("sums", "", "handler", play.now)
    play.run()
    assert (ASKED, "") not in play.node.subscriptions()
    assert responding.asks(6) == []
    assert responding.asks(6, message_id=3) == []
    assert responding.replies() == [(6, NOBODY, b"")]


def test_a_request_that_comes_before_its_responder_waits_a_moment_for_it() -> None:
    """As any message waits for its handler (T-46)."""
    before = Responding().play
    before.run()
    play = before.restart()
    play.node.subscribe("other", "", play.now)
    wire = play.peer(LOW, (TO_LOW, ""))
    assert every(wire.send(Message(ASKED, "", bytes(8), None)), Deliver) == []
    assert wire.messages() == []
    play.requests.respond("sums", "", "handler", play.now)
    (delivery,) = only(play.run(), Deliver).deliveries
    assert Request(delivery).request_id == 0
    play.requests.stop_responding("sums", "", "handler", play.now, is_over=False)
    wire.send(Message(ASKED, "", pack(">Q", 1), None))
    assert wire.messages() == []
    play.wait(play.node.limits.handler_grace)
    assert [message.body for message in wire.messages()] == [pack(">QB", 1, NOBODY)]
    again = before.restart()
    wire = again.peer(LOW, (TO_LOW, ""))
    again.node.close(again.now)
    wire.send(Message(ASKED, "", pack(">Q", 2), None))
    assert again.node.stats().replies_dropped + len(wire.messages()) == 1, "it will get no handler"


def test_what_is_not_handled_is_told() -> None:
    """As its handler was closed, or is stuck; a durable one comes again."""
    responding = Responding()
    play = responding.play
    first, second, third = responding.asks(1) + responding.asks(2) + responding.asks(3, message_id=4)
    play.node.fail([first], play.now)
    play.node.let_go([second, third], play.now)
    assert [(number, status) for number, status, _ in responding.replies()] == [(1, FAILED), (2, FAILED)]
    play.node.begin("handler", responding.asks(4), play.now)
    play.wait(20)
    assert play.node.stats().stuck_handlers == 1
    assert responding.asks(5) == []
    ((number, status, text),) = responding.replies()
    assert (number, status) == (5, FAILED)
    assert b"stuck" in text


def test_the_rules_of_access_hold_for_both() -> None:
    """D-4, D-5."""
    rights = Rights(subscribe=(("tolliver.request/*", "*"),), publish=(("tolliver.request/sums", "*"),))
    play = Play(acl=Acl(peers={LOW: rights}))
    play.requests.respond("sums", "", "handler", play.now)
    wire = play.peer(LOW, (TO_LOW, ""), ("tolliver.request/back", ""))
    (delivery,) = only(wire.send(Message(ASKED, "", bytes(8), None)), Deliver).deliveries
    play.requests.reply(delivery, b"", play.now)
    play.run()
    assert wire.messages() == []
    asked = play.requests.request("back", "", b"", 1, play.now)
    play.run()
    assert every(wire.send(reply(asked)), Answered) == []
    assert play.node.stats().refused_messages == 1


# Durable ones.


def test_a_durable_request_is_acknowledged_when_its_reply_is_stored() -> None:
    """P-16."""
    responding = Responding()
    play = responding.play
    (delivery,) = responding.asks(1, message_id=30)
    play.hold_commits = True
    assert responding.answer(delivery)
    play.node.acknowledge([delivery], play.now)
    play.run()
    assert responding.wire.got() == []
    play.finish()
    ack, message = sorted(responding.wire.got(), key=lambda frame: isinstance(frame, Message))
    assert ack.message_id == 30  # type: ignore[union-attr]
    assert isinstance(message, Message)
    assert message.body == pack(">QB", 1, ANSWER) + b"10"
    assert message.message_id is not None


def test_where_the_reply_cannot_be_stored_the_request_comes_again() -> None:
    responding = Responding()
    play = responding.play
    (delivery,) = responding.asks(1, message_id=30)
    (other,) = responding.asks(2, message_id=31)
    play.hold_commits = True
    responding.answer(delivery)
    play.node.acknowledge([delivery, other], play.now)
    play.run()
    play.fail()
    play.hold_commits = False
    assert responding.wire.acks() == [31]
    (delivery,) = responding.asks(1, message_id=30)
    assert delivery.attempt == 1
    responding.answer(delivery)
    play.run()
    play.node.acknowledge([delivery], play.now)
    play.run()
    assert responding.wire.acks() == [30]


def test_a_durable_reply_that_nobody_would_get_is_none_yet() -> None:
    responding = Responding(("other", ""))
    (delivery,) = responding.asks(1, message_id=30)
    assert not responding.answer(delivery)
    assert responding.play.node.stats().replies_dropped == 1


def test_a_handler_that_takes_its_time_beside_one_that_answered() -> None:
    """Its word is the last: the request is settled then, and by then the reply is stored."""
    responding = Responding()
    play = responding.play
    (delivery,) = responding.asks(1, message_id=30)
    responding.answer(delivery)
    play.run()
    responding.wire.got()
    play.node.fail([delivery], play.now)
    play.run()
    assert responding.wire.acks() == []


def test_jobs_requests_and_what_may_take_its_time_get_no_copy_all_the_same() -> None:
    for name in ("a job", "a request", "patience"):
        play = Play(policy=Policy(handling_timeout=0))
        if name == "a job":
            play.call("work", "c", "handler")
        elif name == "a request":
            play.requests.respond("c", "", "handler", play.now)
            play.run()
        else:
            play.call("subscribe", "c", "")
            play.node.register("c", "", "handler")
            play.node.hand_out_once("handler")
        wire = play.peer()
        channel = next(one.channel for one in play.node.subscriptions() if not one.key) if name == "a request" else "c"
        one = Message(channel, "", b"body", 1)
        assert len(deliveries(wire.send(one, one))) == 1, name


def test_a_responder_that_comes_has_the_peer_ask_it_that_asked_in_vain() -> None:
    """P-13: its request waits for somebody, and what the peer subscribes to has not changed."""
    request = Subscription("tolliver.request/c", "")
    before = Play()
    before.requests.respond("c", "", "responder", before.now)
    before.run()
    play = before.restart()
    play.wait(60.0)
    wire = play.peer(LOW)
    wire.send(Message(*request, bytes(8), None))
    assert not [frame for frame in wire.got() if isinstance(frame, Subscribe)]
    play.requests.respond("c", "", "responder", play.now)
    play.wait(0.0)
    assert [(frame.channel, frame.key) for frame in wire.got() if isinstance(frame, Subscribe)] == [request]
