"""Threads of handlers that read the sockets while they wait."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tolliver.blocking import Instance

from tests.blocking.nodes import PATIENCE, Nodes, until
from tolliver_proto import ConnectionClosing, Delivery


def borrow(right: Instance, left: Instance) -> None:
    """The handler of the right one has its sockets from now on, until something comes."""

    def has_them() -> bool:
        left.wait_acked(left.send("news", "", b"quick"), timeout=PATIENCE)
        time.sleep(0.05)  # a call that the system held up is a slow one, and then the next decides
        return right._core._loop._dozing

    until(has_them)


def test_a_handler_that_had_the_sockets_may_block(nodes: Nodes) -> None:
    """Others get what comes meanwhile, those that connect too."""
    blocked, go_on = threading.Event(), threading.Event()

    def handler(delivery: Delivery) -> None:
        if delivery.body == b"block":
            blocked.set()
            assert go_on.wait(PATIENCE)

    with nodes.pair() as (left, right), nodes.open("third") as third:
        right.register_callback("news", "", handler)
        right.subscribe("sport", handler=lambda _delivery: None)
        left.wait_subscribed("sport", timeout=PATIENCE)
        borrow(right, left)
        receipt = left.send("news", "", b"block")
        assert blocked.wait(PATIENCE)
        for sender in (left, third):
            if sender is third:
                third.new_connection(f"127.0.0.1:{right.port}", timeout=PATIENCE)
            sender.wait_acked(sender.send("sport", "", b"x"), timeout=PATIENCE)
        assert left.peers()[0].pending == 1
        go_on.set()
        left.wait_acked(receipt, timeout=PATIENCE)


def test_a_handler_that_had_the_sockets_may_wait_for_what_they_bring(nodes: Nodes) -> None:
    answered = threading.Event()
    with nodes.pair() as (left, right):
        left.subscribe("answers", handler=lambda _delivery: None)
        right.wait_subscribed("answers", timeout=PATIENCE)

        def handler(delivery: Delivery) -> None:
            right.wait_acked(right.send("answers", "", delivery.body), timeout=PATIENCE)
            if delivery.body == b"19":
                answered.set()

        right.register_callback("news", "", handler)
        for number in range(20):
            left.send("news", "", b"%d" % number)
        assert answered.wait(PATIENCE)


def test_who_has_the_sockets_hears_of_what_others_ask_for(nodes: Nodes) -> None:
    with nodes.pair() as (left, right):
        right.register_callback("news", "", lambda _delivery: None)
        borrow(right, left)
        with nodes.open("third", listen="127.0.0.1:0") as third:
            third.subscribe("sport")
            right.new_connection(f"127.0.0.1:{third.port}", timeout=PATIENCE)
            right.wait_subscribed("sport", timeout=PATIENCE)
            messages = third.messages("sport")
            receipt = right.send("sport", "", b"x", timeout=PATIENCE)
            messages.next(PATIENCE).ack()
            right.wait_acked(receipt, timeout=PATIENCE)


def test_a_handler_that_has_the_sockets_is_closed_with_its_registration(nodes: Nodes) -> None:
    with nodes.pair() as (left, right):
        registration = right.register_callback("news", "", lambda _delivery: None)
        borrow(right, left)
        registration.close()
        until(lambda: not [one for one in threading.enumerate() if one.name.endswith("calls <lambda>")])
        messages = right.messages("news")
        receipt = left.send("news", "", b"y")
        messages.next(PATIENCE).ack()
        left.wait_acked(receipt, timeout=PATIENCE)


def test_an_error_of_whoever_has_the_sockets_is_told_to_everybody(
    nodes: Nodes, caplog: pytest.LogCaptureFixture
) -> None:
    with nodes.pair() as (left, right), ThreadPoolExecutor(1) as pool:
        item = pool.submit(right.messages("sport").next)
        right.register_callback("news", "", lambda _delivery: None)
        borrow(right, left)
        right._core._loop.soon(lambda: 1 // 0)
        with pytest.raises(ConnectionClosing):
            item.result(PATIENCE)
        assert "ZeroDivisionError" in caplog.text
        right.close()


@pytest.mark.parametrize("options", [{}, {"plaintext": True}], ids=["TLS", "plaintext"])
def test_what_many_threads_write_at_once_comes_whole_and_in_order(nodes: Nodes, options: dict[str, Any]) -> None:
    """More than the system takes at once, now and then."""
    seen: dict[bytes, list[int]] = {}
    sizes = (10, 300_000, 1, 70_000)

    def handler(delivery: Delivery) -> None:
        assert len(delivery.body) == sizes[int(delivery.body[2:6]) % len(sizes)] + 10
        seen.setdefault(delivery.body[:1], []).append(int(delivery.body[2:6]))

    with nodes.pair(**options) as (left, right), ThreadPoolExecutor(4) as pool:
        right.register_callback("news", "", handler)

        def send(name: bytes) -> None:
            for number in range(40):
                body = b"%b:%04d:%b...." % (name, number, bytes(sizes[number % len(sizes)] - 1))
                left.wait_acked(left.send("news", "", body), timeout=PATIENCE)

        list(pool.map(send, (b"a", b"b", b"c", b"d")))
        assert seen == {name: list(range(40)) for name in (b"a", b"b", b"c", b"d")}
