"""Handlers and iterators: when a message counts as handled."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tolliver_proto import ConnectionClosing, Delivery, Limits, Message, NoticeKind, Policy
from tolliver_proto.store import DeadLetter

from .facade import Facade, until
from .nodes import AGAIN, Inbox, Nodes, noticed, subscribed
from .relay import Relay

# Callbacks.


def test_callbacks_that_answer_at_once_or_later(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, _):
        gate = nodes.gate()
        right.subscribe("at once", handler=lambda _: True)
        right.subscribe("later", handler=lambda _: gate)
        subscribed(left, 2)
        left.wait_acked(left.send("at once", "k", b"1"))
        receipt = left.send("later", "k", b"2")
        with pytest.raises(TimeoutError):
            left.wait_acked(receipt, timeout=0.05)
        gate.open(True)
        left.wait_acked(receipt)
        assert right.stats()["handled"] == 2


@pytest.mark.parametrize("how", ["raises", "returns False", "raises later", "returns False later"])
def test_a_failed_message_comes_again_until_it_is_handled(
    nodes: Nodes, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    attempts: list[int] = []

    def handler(delivery: Delivery) -> Any:
        attempts.append(delivery.attempt)
        if len(attempts) > 2:
            return None
        if how == "raises":
            raise RuntimeError("not now")
        if how == "raises later":
            return nodes.gate().open(RuntimeError("not now"))
        return False if how == "returns False" else nodes.gate().open(False)

    with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        right.subscribe("news", handler=handler)
        subscribed(left)
        left.wait_acked(left.send("news", "", b"x"))
        assert attempts == [1, 2, 3]
        words = [f"'news' '', attempt {attempt} of peer {left.instance_id}'s message" for attempt in (1, 2)]
        (told,) = noticed(right, NoticeKind.HANDLER_FAILED)
        assert words[0] in told
        logged = [record for record in caplog.records if "handler_failed" in record.getMessage()]
        assert len(logged) == 2, "each, and the notice once a minute"
        for record, said in zip(logged, words, strict=True):
            assert said in record.getMessage()
            assert bool(record.exc_info) is how.startswith("raises")
        assert right.stats().notices[NoticeKind.HANDLER_FAILED] == 2


def test_all_matching_handlers_must_handle_it_well(nodes: Nodes) -> None:
    """T-45, T-57: each gets every copy, and one that fails is enough to have it sent again."""
    with nodes.pair(["news"], left=AGAIN) as (left, right, inbox):
        verdicts = [False, True]
        right.register_callback("", "", lambda _delivery: verdicts.pop(0))
        left.wait_acked(left.send("news", "k", b"x"))
        assert inbox.bodies == [b"x", b"x"]
        assert verdicts == []


def test_callbacks_do_not_subscribe_and_subscriptions_do_not_call(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, inbox):
        right.register_callback("news", "", inbox)
        assert left.send("news", "", b"1").recipients == 0
        right.subscribe("", "k")
        subscribed(left)
        left.wait_acked(left.send("news", "k", b"2"))
        assert inbox.bodies == [b"2"]


def test_one_call_at_a_time_for_each_registration(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, inbox):
        first = nodes.gate()
        calls: list[bytes] = []

        def handler(delivery: Delivery) -> Any:
            calls.append(delivery.body)
            return first if delivery.body == b"0" else None

        right.subscribe("news", handler=handler)
        right.register_callback("news", "", inbox)
        subscribed(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(5)])
        inbox.holds(5)  # a handler that waits stops no other one
        until(lambda: calls)
        assert calls == [b"0"]
        first.open()
        left.wait_acked(receipt)
        assert calls == [b"0", b"1", b"2", b"3", b"4"]


def test_a_closed_registration_is_called_no_more(nodes: Nodes) -> None:
    with nodes.pair(channels=(), left=AGAIN) as (left, right, inbox):
        calls: list[bytes] = []

        def never_answers(delivery: Delivery) -> Any:
            calls.append(delivery.body)
            return nodes.gate()

        right.subscribe("news")
        registration = right.register_callback("news", "", never_answers)
        subscribed(left)
        receipt = left.send("news", "", b"x")
        until(lambda: calls)
        registration.close()
        registration.close()
        right.register_callback("news", "", inbox)
        left.wait_acked(receipt)
        assert [delivery.attempt for delivery in inbox.deliveries] == [2]
        assert calls == [b"x"]


def test_what_is_never_acked_stays_with_the_sender_and_stops_nobody(nodes: Nodes) -> None:
    """T-52: and a restart of the receiver brings it again."""
    with nodes.pair(["other"], left=AGAIN, right={"limits": Limits(max_attempts=1000)}) as (left, right, inbox):
        right.subscribe("news", handler=lambda _: False)
        subscribed(left, 2)
        left.send_many([("news", "", b"%d" % number) for number in range(300)])  # more than the window
        left.wait_acked(left.send("other", "", b"passes"))
        assert left.stats()["pending"] == 300
    inbox = Inbox()
    with nodes.open("left") as left, nodes.open("right") as right:
        right.register_callback("news", "", inbox)
        right.new_connection(f"127.0.0.1:{left.port}")
        until(lambda: not left.stats()["pending"])
        assert set(inbox.bodies) == {b"%d" % number for number in range(300)}


# Iterators.


def test_an_iterator_hands_out_messages_to_settle(nodes: Nodes) -> None:
    with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        messages = right.messages("news")
        coming = messages.start_next()
        subscribed(left)
        receipt = left.send("news", "k", b"x")
        first = coming.wait()
        assert (first.channel, first.key, first.body, first.attempt) == ("news", "k", b"x", 1)
        assert first.peer_id == left.instance_id
        assert first.reliable
        assert first.message_id
        coming = messages.start_next()
        messages.settled(first).fail()
        messages.settled(first).ack()  # the first word counts
        second = messages.settled(coming.wait())
        while second.attempt == 1:  # a copy: on a busy machine the interval was over before the first word
            second = next(messages)
        assert second.attempt == 2
        second.ack()
        second.ack()
        left.wait_acked(receipt)
        messages.close()
        with pytest.raises(StopIteration):
            next(messages)


def test_what_an_iterator_hands_out_says_what_it_is(nodes: Nodes) -> None:
    with (
        nodes.pair(channels=()) as (left, right, _),
        right.messages("news") as messages,
        right.message_runs("sport") as runs,
    ):
        for one in ("news", "sport"):
            right.subscribe(one)
        subscribed(left, 2)
        left.send("news", "k", b"12345")
        left.send_many([("sport", "", b"x")] * 3)
        item, run = next(messages), next(runs)
        assert item.message == Message("news", "k", b"12345", item.message_id)
        assert repr(item) == f"Delivery('news', 'k', 5 bytes, id={item.message_id})"
        assert (len(run), run[0].body, repr(run)) == (3, b"x", "Run(3 deliveries, not settled)")
        item.ack()
        run.ack()
        assert repr(run) == "Run(3 deliveries, settled)"


def test_what_takes_messages_says_what_it_takes(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (_left, right, inbox):
        taking = (
            right.register_callback("news", "k", inbox),
            right.messages("news", "k"),
            right.message_runs("news", "k"),
        )
        names = "Registration", "Messages", "Runs"
        assert [repr(one) for one in taking] == [f"<{name} of 'news' 'k'>" for name in names]
        for one in taking:
            one.close()
        assert [repr(one) for one in taking] == [f"<{name} of 'news' 'k' (closed)>" for name in names]


def test_an_iterator_subscribes_and_closing_it_leaves_the_subscription(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, inbox):
        messages = right.messages("news")
        coming = messages.start_next()
        subscribed(left)
        messages.close()
        assert isinstance(coming.outcome(), StopAsyncIteration)
        receipt = left.send("news", "", b"x")
        assert receipt.recipients == 1
        right.register_callback("news", "", inbox)
        left.wait_acked(left.send("news", "", b"y"))
        assert b"y" in inbox.bodies


def test_leaving_an_iterator_fails_what_it_holds(nodes: Nodes) -> None:
    with nodes.pair(channels=(), left=AGAIN) as (left, right, inbox):
        right.subscribe("news")
        subscribed(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(5)])
        with right.messages("news", subscribe=False) as messages:
            for message in messages:
                if message.body == b"1":
                    break
                message.ack()
        right.register_callback("news", "", inbox)
        left.wait_acked(receipt)
        assert set(inbox.bodies) == {b"1", b"2", b"3", b"4"}
        assert right.stats()["handled"] == 5


def test_runs_are_settled_at_once(nodes: Nodes) -> None:
    with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        right.subscribe("news")
        subscribed(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(100)])
        runs = right.message_runs("news")
        next(runs).fail()
        bodies: list[bytes] = []
        for run in runs:
            bodies += [delivery.body for delivery in run]
            run.ack()
            if len(set(bodies)) == 100:
                break
        left.wait_acked(receipt)
        assert sorted(bodies) == sorted(b"%d" % number for number in range(100))


def test_an_iterator_and_a_callback_both_get_it(nodes: Nodes) -> None:
    with nodes.pair(["news"]) as (left, right, inbox), right.messages("news", "k") as messages:
        receipt = left.send("news", "k", b"x")
        message = next(messages)
        with pytest.raises(TimeoutError):
            left.wait_acked(receipt, timeout=0.05)
        message.ack()
        left.wait_acked(receipt)
        assert inbox.bodies == [b"x"]


@pytest.mark.parametrize("how", ["messages", "message_runs"])
def test_a_handler_that_settles_twice_has_one_vote(nodes: Nodes, how: str) -> None:
    """T-45: the other one has still to handle it."""
    with (
        nodes.pair(channels=()) as (left, right, _),
        getattr(right, how)("news", subscribe=False) as one,
        getattr(right, how)("", subscribe=False) as another,
    ):
        right.subscribe("news")
        subscribed(left)
        receipt = left.send("news", "", b"x")
        first, second = next(one), next(another)
        for _again in range(2):
            first.ack()
        assert right.stats()["handled"] == 0
        second.ack()
        assert right.stats()["handled"] == 1
        left.wait_acked(receipt)


def test_an_iterator_that_is_dropped_gives_back_what_it_holds(nodes: Nodes) -> None:
    """Else a forgotten one would keep its connection's credit for ever (D-9)."""
    quiet = {
        "policy": Policy(stuck_after=None),
        "retry_interval": 300,
        "limits": Limits(handshake_timeout=300),
    }  # no timer wakes it
    with nodes.pair(channels=(), left=AGAIN, right=quiet) as (left, right, inbox):
        right.subscribe("news")
        subscribed(left)
        messages = right.messages("news", subscribe=False)
        right.register_callback("news", "", inbox)
        receipt = left.send_many([("news", "", b"1"), ("news", "", b"2")])
        assert next(messages).body == b"1"
        until(lambda: len(inbox.bodies) >= 2)
        del messages
        gc.collect()  # here, on a thread that is not the loop's; and nothing more is asked of this instance
        left.wait_acked(receipt, timeout=30)
        assert set(inbox.bodies) == {b"1", b"2"}


def test_an_iterator_ends_when_its_instance_is_closed(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (_left, right, _):
        messages, runs = right.messages("news"), right.message_runs("sport")
        waiting = [messages.start_next(), runs.start_next()]
        until(lambda: right.stats()["own_subscriptions"] == 2)
        right.close()
        for one in waiting:
            assert isinstance(one.outcome(), StopAsyncIteration | ConnectionClosing)


# Messages that always fail (T-47).


def letters(node: Facade, count: int) -> list[DeadLetter]:
    """Its dead letters, once there are so many."""
    until(lambda: len(node.dead_letters()) == count)
    return node.dead_letters()


def test_what_always_fails_becomes_a_dead_letter_until_somebody_handles_it(nodes: Nodes) -> None:
    attempts: list[int] = []

    def fails(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        raise RuntimeError("never")

    with nodes.pair(channels=(), left=AGAIN, right={"limits": Limits(max_attempts=3)}) as (left, right, _):
        right.subscribe("news", handler=fails)
        subscribed(left)
        left.wait_acked(left.send("news", "k", b"poison"))
        assert attempts == [1, 2, 3]
        [letter] = right.dead_letters()
        assert (letter.peer, letter.channel, letter.key, letter.body) == (left.instance_id, "news", "k", b"poison")
        assert letter.attempts == 3
        assert "'news' 'k', from peer" in noticed(right, NoticeKind.DEAD_LETTER)[0]
    assert nodes.rows("left", "batch") == 0
    with nodes.open("right") as right:
        assert right.dead_letters() == [letter]
        assert right.dead_letters(after=letter.number) == []
        assert right.replay([letter]) == 0  # nobody is there to handle it
        registration = right.register_callback("news", "", fails)
        assert right.replay([letter]) == 1
        until(lambda: attempts == [1, 2, 3, 4])
        registration.close()
        assert right.dead_letters() == [letter]
        gate = nodes.gate()
        inbox = Inbox()
        right.register_callback("news", "k", inbox)
        right.register_callback("news", "", lambda _: gate)
        assert right.replay([letter]) == 1
        assert right.replay([letter]) == 0  # it is under way
        gate.open()
        letters(right, 0)
        assert inbox.bodies == [b"poison"]
    with nodes.open("right") as right:
        assert right.dead_letters() == []


def test_dead_letters_have_a_bound_and_are_given_up_on_request(nodes: Nodes) -> None:
    limits = Limits(max_attempts=1, max_dead_letters=3)
    with nodes.pair(channels=(), right={"limits": limits}) as (left, right, _):
        right.subscribe("news", handler=lambda _: False)
        subscribed(left)
        for body in (b"1", b"2", b"3", b"4", b"5"):
            left.wait_acked(left.send("news", "", body))
        kept = right.dead_letters()
        assert [letter.body for letter in kept] == [b"3", b"4", b"5"]
        assert "the oldest, were dropped" in noticed(right, NoticeKind.LETTERS_DROPPED)[0]
        assert right.stats().dropped_letters == 2
        assert right.drop_dead_letters([kept[0], kept[2].number]) == 2
        assert right.drop_dead_letters(kept) == 1
        assert right.drop_dead_letters([]) == 0
        assert right.dead_letters() == []
        assert right.stats().dead_letters == 0


# Copies (T-48).


@pytest.mark.parametrize("durable", [False, True])
def test_a_message_whose_ack_was_lost_is_handled_once(nodes: Nodes, durable: bool) -> None:
    handled: list[int | None] = []

    with (
        nodes.open("right", policy=Policy(dedupe=100, dedupe_durable=durable)) as right,
        nodes.open("left", limits=Limits(redial_first=0.005), **AGAIN) as left,
        Relay(right.port or 0) as relay,
    ):

        def cut_off(delivery: Delivery) -> None:
            handled.append(delivery.message.message_id)
            if len(handled) == 1:
                relay.cut()

        right.subscribe("news", handler=cut_off)
        left.new_connection(relay.address)
        left.wait_acked(left.send("news", "", b"once"))
        left.wait_acked(left.send("news", "", b"another"))
        assert len(handled) == len(set(handled)) == 2
        assert right.stats().duplicates >= 1
