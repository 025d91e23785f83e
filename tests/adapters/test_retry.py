"""Retries that belong to a handler or to a worker, and the cause that a dead letter keeps (T-47, P-22)."""

from __future__ import annotations

from typing import Any

import pytest

from tolliver_proto import Delivery
from tolliver_proto.node import Retry

from .facade import until
from .nodes import Nodes, address, subscribed

SOON = Retry(attempts=3, first=0.01, most=0.02)


@pytest.mark.parametrize("side_by_side", [1, 2])
def test_a_handler_fails_as_often_as_it_may_and_then_it_is_a_dead_letter(nodes: Nodes, side_by_side: int) -> None:
    tries: list[tuple[bytes, int]] = []

    def handler(delivery: Delivery) -> None:
        tries.append((delivery.body, delivery.attempt))
        if delivery.body == b"bad":
            raise ValueError("no such\x1b customer")

    with nodes.pair(()) as (left, right, _):
        right.subscribe("c")
        subscribed(left)
        right.register_callback("c", "", handler, retry=SOON, concurrency=side_by_side)
        left.wait_acked(left.send_many([("c", "", b"bad"), ("c", "", b"good")]))
        assert sorted(tries) == [(b"bad", 1), (b"bad", 2), (b"bad", 3), (b"good", 1)]
        [letter] = right.dead_letters()
        assert (letter.body, letter.attempts) == (b"bad", 3)
        assert letter.cause == r"ValueError: no such\x1b customer"


def test_a_handler_that_succeeds_in_time_leaves_no_letter(nodes: Nodes) -> None:
    tries: list[int] = []

    def handler(delivery: Delivery) -> bool:
        tries.append(delivery.attempt)
        return delivery.attempt == 3

    with nodes.pair(()) as (left, right, _):
        right.subscribe("c")
        subscribed(left)
        right.register_callback("c", "", handler, retry=SOON)
        left.wait_acked(left.send("c", "", b"x"))
        assert tries == [1, 2, 3]
        assert right.dead_letters() == []


def test_a_result_that_is_false_is_a_cause(nodes: Nodes) -> None:
    with nodes.pair(()) as (left, right, _):
        right.subscribe("c")
        subscribed(left)
        right.register_callback("c", "", lambda _delivery: False, retry=Retry(attempts=1))
        left.wait_acked(left.send("c", "", b"x"))
        assert [letter.cause for letter in right.dead_letters()] == ["returned False"]


def test_the_gravest_of_two_handlers_decides_and_its_cause_is_kept(nodes: Nodes) -> None:
    def bad(_delivery: Delivery) -> None:
        raise LookupError("not there")

    with nodes.pair(()) as (left, right, _):
        right.subscribe("c")
        subscribed(left)
        right.register_callback("c", "", lambda _delivery: None)
        right.register_callback("c", "", bad, retry=Retry(attempts=1))
        left.wait_acked(left.send("c", "", b"x"))
        assert [letter.cause for letter in right.dead_letters()] == ["LookupError: not there"]


def test_a_job_is_tried_again_by_its_worker(nodes: Nodes) -> None:
    with nodes.open("boss") as boss, nodes.open("worker") as worker:
        worker.new_connection(address(boss))
        queue = boss.work_queue("jobs")
        with worker.work("jobs", retry=SOON) as jobs:
            receipt = queue.put(b"x")
            for attempt in range(1, 4):
                job = next(jobs)
                assert job.attempt == attempt
                job.fail()
            boss.wait_acked(receipt)
        until(lambda: [letter.cause for letter in worker.dead_letters()] == ["failed 3 times"])


@pytest.mark.parametrize("retry", [5, Retry(attempts=21)])
def test_wrong_ones_are_refused(nodes: Nodes, retry: Any) -> None:
    with nodes.open("one") as one:
        with pytest.raises((TypeError, ValueError), match=r"retry=5: give Retry|Limits.max_attempts is 20"):
            one.register_callback("c", "", print, retry=retry)
        with pytest.raises((TypeError, ValueError), match=r"retry=5: give Retry|Limits.max_attempts is 20"):
            next(one.work("jobs", retry=retry))
