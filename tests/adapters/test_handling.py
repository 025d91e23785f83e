"""Slow, stuck and forgetful handlers, over every loop (T-48, D-9)."""

from __future__ import annotations

from typing import Any

import pytest

from tolliver_proto import Delivery, Limits, NoticeKind, Policy
from tolliver_proto.node import Request

from .facade import Facade, until
from .kinds import EVERY_LOOP
from .nodes import AGAIN, Inbox, Nodes, noticed, subscribed

SOON = {"policy": Policy(stuck_after=0.2)}
FEW = {"limits": Limits(inbox_messages=8)}


@EVERY_LOOP
def test_a_slow_handler_runs_once_though_copies_come(nodes: Nodes) -> None:
    """T-48. A copy that was on its way when the answer was given is handed out: none but those may be."""
    calls: list[bytes] = []

    def slow(delivery: Delivery) -> Any:
        calls.append(delivery.body)
        return gate

    with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        gate = nodes.gate()
        right.subscribe("news", handler=slow)
        subscribed(left)
        receipt = left.send("news", "", b"x")
        until(lambda: right.stats()["waited"] > 1, "copies that wait")
        assert calls == [b"x"]
        gate.open(True)
        left.wait_acked(receipt)

        def settled() -> bool:
            seen = right.stats()
            return len(calls) + seen["waited"] + seen["withheld"] == 1 + left.stats()["resent"]

        until(settled, "each copy waited, or came later")


def _stays(nodes: Nodes, left: Facade, right: Facade, inbox: Inbox, what: str) -> None:
    """The peer's other channel goes on, and so do acks of our own messages, past all credit."""
    subscribed(left, 2)
    echo = Inbox()
    left.subscribe("back", handler=echo)
    subscribed(right)
    left.send_many([("stays", "", b"%d" % number) for number in range(12)])
    until(lambda: any(what in one for one in noticed(right, NoticeKind.HANDLER_STUCK)), "the notice")
    left.wait_acked(left.send_many([("news", "", b"%d" % number) for number in range(20)]))
    right.wait_acked(right.send("back", "", b"ours"))
    assert echo.bodies == [b"ours"]
    assert set(inbox.bodies) == {b"%d" % number for number in range(20)}
    assert "of 'stays' '' for 0.2 s" in "".join(noticed(right, NoticeKind.HANDLER_STUCK))
    assert right.stats()["stuck_handlers"]


@EVERY_LOOP
def test_a_stuck_handler_holds_up_neither_other_channels_nor_acks(nodes: Nodes) -> None:
    with nodes.pair(left=AGAIN, right={**SOON, **FEW}) as (left, right, inbox):
        gate, calls = nodes.gate(), Inbox()

        def stays(delivery: Delivery) -> Any:
            calls(delivery)
            return gate

        right.subscribe("stays", handler=stays)
        _stays(nodes, left, right, inbox, "for 'stays' '' has been at message")
        gate.open(True)
        until(lambda: not left.stats()["pending"], "what was let go")
        assert sorted(set(calls.bodies), key=int) == [b"%d" % number for number in range(12)]
        assert {delivery.attempt for delivery in calls.deliveries} == {1}
        assert right.stats()["stuck_handlers"] == 0


@EVERY_LOOP
@pytest.mark.parametrize("in_runs", [False, True], ids=["messages", "runs"])
def test_an_iterator_that_is_held_and_not_read_is_stuck(nodes: Nodes, in_runs: bool) -> None:
    with nodes.pair(left=AGAIN, right={**SOON, **FEW}) as (left, right, inbox):
        messages = (right.message_runs if in_runs else right.messages)("stays")
        coming = messages.start_next()
        _stays(nodes, left, right, inbox, "an iterator for 'stays' '' has been at message")
        messages.settled(coming.wait()).ack()
        until(lambda: not right.stats()["stuck_handlers"], "that it goes on")
        messages.close()  # else its other messages come again, and fill the credit of a peer that has no stuck handler
        left.wait_acked(left.send("news", "", b"0"))


@EVERY_LOOP
@pytest.mark.parametrize("taken", [0, 1], ids=["never read", "read once"])
def test_an_iterator_that_nobody_reads_is_stuck(nodes: Nodes, taken: int) -> None:
    """Nothing of it is in hand: what waits for it has the credit."""
    with nodes.pair(left=AGAIN, right={**SOON, **FEW}) as (left, right, inbox):
        right.subscribe("stays")
        with right.messages("stays", subscribe=False) as messages:
            seen: set[bytes] = set()
            if taken:
                subscribed(left, 2)
                left.send("stays", "", b"first")
                next(messages).ack()
            _stays(nodes, left, right, inbox, "an iterator for 'stays' '' has not taken message")
            while len(seen) < 12:
                one = next(messages)
                one.ack()
                seen.add(one.body)
            until(lambda: not left.stats()["pending"], "what was let go")
            assert right.stats()["stuck_handlers"] == 0


@EVERY_LOOP
def test_a_responder_is_stuck_where_each_of_its_places_is_taken(nodes: Nodes) -> None:
    """One slow request of several is not: a handler that begins later is stuck before."""
    with nodes.pair(channels=(), right=SOON) as (left, right, _):
        gates = {b"%d" % number: nodes.gate() for number in range(3)}
        at_work: list[bytes] = []

        def slow(message: Delivery | Request) -> Any:
            at_work.append(message.body)
            return gates[message.body]

        def stuck() -> list[str]:
            return noticed(right, NoticeKind.HANDLER_STUCK)

        right.respond("asked", slow, concurrency=2)
        right.subscribe("stays", handler=slow)
        subscribed(left, 2)
        requests = [left.start("request", "asked", b"0", timeout=50)]
        until(lambda: at_work == [b"0"], "the first request")
        left.send("stays", "", b"2")
        until(stuck, "the notice of the handler")
        assert "for 'stays' ''" in "".join(stuck())
        assert "for 'asked' ''" not in "".join(stuck())
        requests.append(left.start("request", "asked", b"1", timeout=50))
        until(lambda: "for 'asked' ''" in "".join(stuck()), "the notice of the responder")
        for gate in gates.values():
            gate.open(b"done")
        assert [one.wait().body for one in requests] == [b"done"] * 2
