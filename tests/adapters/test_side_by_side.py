"""Handlers side by side, and their verdicts besides good and bad, on every adapter (P-20 to P-23)."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from typing import Any

import pytest

from tolliver_proto import Delivery, Limits, NoticeKind, Policy

from .facade import Gate, until
from .kinds import EACH_ADAPTER, ONE_KIND
from .nodes import AGAIN, Inbox, Nodes, noticed, subscribed


class Crowd:
    """A handler whose calls wait for their gates."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._lock = threading.Lock()
        self.begun: list[bytes] = []
        self.gates: dict[bytes, Gate] = {}

    def __call__(self, delivery: Delivery) -> Gate:
        gate = self._nodes.gate()
        with self._lock:
            self.gates[delivery.body] = gate
            self.begun.append(delivery.body)
        return gate

    def is_at(self, *bodies: bytes) -> None:
        until(lambda: sorted(self.begun) == sorted(bodies), f"calls for {bodies}: there are {self.begun}, and that")


def test_so_many_calls_at_once_and_no_more(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, _):
        crowd = Crowd(nodes)
        registration = right.register_callback("news", "", crowd, concurrency=2)
        right.subscribe("news")
        subscribed(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(4)])
        crowd.is_at(b"0", b"1")
        assert repr(registration)
        crowd.gates[b"1"].open()
        crowd.is_at(b"0", b"1", b"2")
        crowd.gates[b"0"].open()
        crowd.gates[b"2"].open(False)
        crowd.is_at(b"0", b"1", b"2", b"3")
        until(lambda: right.stats()["handled"] == 2)
        crowd.gates[b"3"].open()
        until(lambda: right.stats()["handled"] == 3)
        until(lambda: receipt.unacked == 1)
        registration.close()
        left.send("news", "", b"4")
        assert len(crowd.begun) == 4


def test_in_order_inside_a_key_and_side_by_side_across_keys(nodes: Nodes) -> None:
    with nodes.pair(channels=()) as (left, right, _):
        crowd = Crowd(nodes)
        right.register_callback("news", "", crowd, concurrency=3, ordered_by="key")
        right.subscribe("news")
        subscribed(left)
        receipt = left.send_many([("news", key, key.encode() + b"%d" % at) for at in range(2) for key in ("a", "b")])
        crowd.is_at(b"a0", b"b0")
        crowd.gates[b"b0"].open()
        crowd.is_at(b"a0", b"b0", b"b1")
        crowd.gates[b"b1"].open(RuntimeError("not now"))
        crowd.gates[b"a0"].open()
        crowd.is_at(b"a0", b"b0", b"b1", b"a1")
        crowd.gates[b"a1"].open()
        until(lambda: receipt.unacked == 1)
        assert noticed(right, NoticeKind.HANDLER_FAILED)


def test_many_keys_through_few_places_in_order(nodes: Nodes) -> None:
    """Handlers that return at once."""
    seen: defaultdict[str, list[int]] = defaultdict(list)
    with nodes.pair(channels=()) as (left, right, _):
        right.register_callback(
            "news",
            "",
            lambda one: seen[one.key].append(int(one.body)),
            concurrency=4,
            ordered_by="key",
        )
        right.subscribe("news")
        subscribed(left)
        items = [("news", f"key {at % 7}", b"%d" % at) for at in range(200)]
        for start in range(0, 200, 50):
            left.wait_acked(left.send_many(items[start : start + 50]))
    assert sum(map(len, seen.values())) == 200
    assert all(numbers == sorted(numbers) for numbers in seen.values())


@EACH_ADAPTER
def test_handlers_of_the_options_and_choices_that_cannot_be_meant(nodes: Nodes) -> None:
    crowd = Crowd(nodes)
    handlers = [("news", "", crowd, {"concurrency": 2})]
    with nodes.open("right", subscriptions=["news"], handlers=handlers) as right, nodes.open("left") as left:
        del right
        assert left.stats()["handled"] == 0
        for wrong in (0, -1):
            with pytest.raises(ValueError, match="at least 1"):
                left.register_callback("news", "", print, concurrency=wrong)
        with pytest.raises(TypeError, match="number of calls"):
            left.register_callback("news", "", print, concurrency="two")
        with pytest.raises(ValueError, match="ordered_by"):
            left.register_callback("news", "", print, concurrency=2, ordered_by="channel")
    for fourth in ("two", {"pace": 2}):
        with pytest.raises(TypeError, match="give as the fourth a dict"):
            nodes.options("other", handlers=[("news", "", print, fourth)])


@EACH_ADAPTER
def test_closing_fails_what_is_begun_and_what_waits(nodes: Nodes) -> None:
    with nodes.pair(channels=(), left=AGAIN) as (left, right, _):
        crowd = Crowd(nodes)
        registration = right.register_callback("news", "", crowd, concurrency=2)
        right.subscribe("news")
        subscribed(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(4)])
        crowd.is_at(b"0", b"1")
        registration.close()
        inbox = Inbox()
        right.register_callback("news", "", inbox)
        left.wait_acked(receipt)
        assert {*inbox.bodies} == {b"0", b"1", b"2", b"3"}


@EACH_ADAPTER
def test_a_stuck_one_of_them_gives_back_what_waits(nodes: Nodes) -> None:
    """D-9: others need the credit."""
    options = {"limits": Limits(inbox_messages=4), "policy": Policy(stuck_after=0.1)}
    with nodes.pair(channels=(), left=AGAIN, right=options) as (left, right, _):
        crowd, inbox = Crowd(nodes), Inbox()
        right.register_callback("slow", "", crowd, concurrency=2)
        right.register_callback("quick", "", inbox)
        right.subscribe("slow")
        right.subscribe("quick")
        subscribed(left, 2)
        slow = left.send_many([("slow", "", b"%d" % number) for number in range(6)])
        crowd.is_at(b"0", b"1")
        left.wait_acked(left.send("quick", "", b"x"))
        assert noticed(right, NoticeKind.HANDLER_STUCK)

        def all_handled() -> bool:
            for gate in [*crowd.gates.values()]:  # of copies, too, which may come again after their first was handled
                gate.open()
            return not slow.unacked

        until(all_handled)


@EACH_ADAPTER
@pytest.mark.parametrize("concurrency", [1, 2])
def test_with_a_bound_all_is_handled_in_the_end(nodes: Nodes, concurrency: int) -> None:
    """P-24."""
    inbox = Inbox()
    with nodes.pair(channels=()) as (left, right, _):
        right.register_callback("news", "", inbox, pending=2, concurrency=concurrency)
        right.subscribe("news")
        subscribed(left)
        left.wait_acked(left.send_many([("news", "", b"%d" % number) for number in range(50)]))
        assert sorted(inbox.bodies, key=int) == [b"%d" % number for number in range(50)]
        with pytest.raises(ValueError, match="pending"):
            right.register_callback("news", "", inbox, pending=0)


# Verdicts.


@pytest.mark.parametrize("how", ["callback", "side by side", "messages", "message_runs"])
@EACH_ADAPTER
def test_a_message_is_handled_again_here_or_given_up(nodes: Nodes, how: str) -> None:
    """Long before its sender would send it again."""
    attempts: Counter[bytes] = Counter()

    def settle(item: Any, body: bytes) -> None:
        attempts[body] += 1
        if body == b"never":
            item.give_up("no such customer")
        elif attempts[body] == 1:
            item.fail(retry_in=0.05)
        else:
            item.ack()

    with nodes.pair(channels=()) as (left, right, _):
        if how in ("callback", "side by side"):
            choices = {"concurrency": 2} if how == "side by side" else {}
            right.register_callback("news", "", lambda one: settle(one, one.body), **choices)
            right.subscribe("news")
            subscribed(left)
            receipt = left.send("news", "", b"later")
            left.wait_acked(left.send("news", "", b"never"))
        else:
            with getattr(right, how)("news") as iterator:
                right.subscribe("news")
                subscribed(left)
                for body in (b"later", b"never"):
                    receipt = left.send("news", "", body)
                    while attempts[body] < (2 if body == b"later" else 1):
                        item = next(iterator)
                        settle(item, body)
        left.wait_acked(receipt)
        until(lambda: right.stats()["dead_letters"] == 1)
        assert attempts == {b"later": 2, b"never": 1}
        assert [letter.body for letter in right.dead_letters()] == [b"never"]
        (told,) = noticed(right, NoticeKind.DEAD_LETTER)
        assert "no such customer" in told
        assert left.stats()["resent"] == 0


@ONE_KIND
def test_of_two_handlers_the_graver_verdict_counts(nodes: Nodes) -> None:
    said: list[tuple[str, int]] = []

    def first(one: Delivery) -> Any:
        said.append(("first", one.attempt))
        return one.fail(retry_in=0.05) if one.attempt == 1 else one.fail() if one.attempt == 2 else None

    def second(one: Delivery) -> Any:
        said.append(("second", one.attempt))
        if one.attempt == 1:
            return one.ack()
        return one.fail(retry_in=0.01) if one.attempt == 2 else one.give_up("no")

    with nodes.pair(channels=()) as (left, right, _):
        right.register_callback("news", "", first)
        right.register_callback("news", "", second)
        right.subscribe("news")
        subscribed(left)
        left.wait_acked(left.send("news", "", b"x"))
        assert sorted(said) == [(name, attempt) for name in ("first", "second") for attempt in (1, 2, 3)]
        assert [letter.attempts for letter in right.dead_letters()] == [3]
