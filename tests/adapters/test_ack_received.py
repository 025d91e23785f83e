"""Acknowledgement on receipt, as an option of a handler (T-45)."""

from __future__ import annotations

from typing import Any

import pytest
from tolliver.codecs import Json

from tolliver_proto import Delivery, NoticeKind
from tolliver_proto.node import Retry

from .facade import until
from .kinds import EACH_ADAPTER, EVERY_LOOP, ONE_KIND
from .member import Member
from .nodes import AGAIN, Inbox, Nodes, noticed, subscribed

SIDE_BY_SIDE = pytest.mark.parametrize("concurrency", [1, 2])
RECEIVED: dict[str, Any] = {"ack": "received"}


def killed_in_the_handler(nodes: Nodes, kind: str, ack: str) -> list[bytes]:
    """Returns the bodies that the next process handles."""
    tls = nodes.certs.tls("right")
    with nodes.open("left", **AGAIN) as left:
        with Member(kind, nodes.directory / "right.db", tls, ack) as first:
            left.new_connection(first.address)
            subscribed(left)
            receipt = left.send("news", "", b"first")
            until(lambda: first.bodies == [b"first"])
            if ack == "received":
                left.wait_acked(receipt)
            first.kill()
        with Member(kind, nodes.directory / "right.db", tls) as second:
            left.new_connection(second.address)
            left.wait_acked(receipt)
            left.wait_acked(left.send("news", "", b"last"))
            until(lambda: b"last" in second.bodies)
            return second.bodies


@EVERY_LOOP
def test_what_is_acknowledged_on_receipt_does_not_come_again_after_a_kill_in_its_handler(
    nodes: Nodes, kind: str
) -> None:
    """The acknowledgement has left before the handler is called, which does not return. On Twisted, whose transports
    write between two calls, it returns a Deferred."""
    assert killed_in_the_handler(nodes, kind, "received") == [b"last"]


def test_what_is_acknowledged_when_handled_comes_again_after_a_kill_in_its_handler(nodes: Nodes, kind: str) -> None:
    assert killed_in_the_handler(nodes, kind, "handled") == [b"first", b"last"]


@SIDE_BY_SIDE
def test_it_is_acknowledged_while_the_handler_takes_its_time(nodes: Nodes, concurrency: int) -> None:
    """Messages that wait for the handler are not, so the window of their sender bounds them."""
    with nodes.pair(()) as (left, right, _):
        gate = nodes.gate()
        right.subscribe("news", handler=lambda _: gate, concurrency=concurrency, **RECEIVED)
        subscribed(left)
        receipt = left.send_many([("news", "", b"%d" % number) for number in range(concurrency + 1)])
        until(lambda: receipt.unacked == 1)
        gate.open()
        left.wait_acked(receipt)


@SIDE_BY_SIDE
def test_what_fails_is_told_and_does_not_come_again(nodes: Nodes, concurrency: int) -> None:
    with nodes.pair((), left=AGAIN) as (left, right, _):
        calls: list[bytes] = []

        def handler(delivery: Delivery) -> bool:
            calls.append(delivery.body)
            if delivery.body == b"raises":
                raise ValueError("no such customer")
            if delivery.body == b"fails":
                delivery.fail(retry_in=0.01)
            return delivery.body != b"false"

        right.register_callback("news", "", handler, concurrency=concurrency, **RECEIVED)
        right.subscribe("news")
        subscribed(left)
        bodies = [b"raises", b"false", b"fails", b"good"]
        for body in bodies:
            left.wait_acked(left.send("news", "", body))
            until(lambda body=body: body in calls)  # type: ignore[misc]
        raised = "raised ValueError: no such customer: acknowledged on receipt"
        until(lambda: any(told.endswith(raised) for told in noticed(right, NoticeKind.HANDLER_FAILED)))
        left.wait_acked(left.send("news", "", b"last"))
        until(lambda: b"last" in calls)
        assert calls == [*bodies, b"last"]
        assert right.dead_letters() == []


@SIDE_BY_SIDE
@EACH_ADAPTER
def test_what_fails_counts_as_failed_and_what_is_well_as_handled(nodes: Nodes, concurrency: int) -> None:
    with nodes.pair((), left=AGAIN) as (left, right, _):

        def handler(delivery: Delivery) -> bool:
            if delivery.body == b"raises":
                raise ValueError("no such customer")
            if delivery.body == b"fails":
                delivery.fail()
            return delivery.body != b"false"

        right.register_callback("news", "", handler, concurrency=concurrency, **RECEIVED)
        right.subscribe("news")
        subscribed(left)
        bodies = [b"raises", b"false", b"fails", b"good", b"good"]
        for body in bodies:
            left.wait_acked(left.send("news", "", body))
        until(lambda: right.stats()["handled"] + right.stats()["failed"] == len(bodies))
        assert (right.stats()["handled"], right.stats()["failed"]) == (2, 3)
        (news,) = right.status().channels
        assert (news.queued, news.handled, news.failed) == (0, 2, 3)


@ONE_KIND
def test_another_handler_of_the_message_decides_for_it(nodes: Nodes) -> None:
    with nodes.pair((), left=AGAIN) as (left, right, _):
        inbox, tries = Inbox(), Inbox()

        def twice(delivery: Delivery) -> bool:
            tries(delivery)
            return delivery.attempt == 2

        right.register_callback("news", "", inbox, **RECEIVED)
        right.register_callback("news", "", twice)
        right.subscribe("news")
        subscribed(left)
        left.wait_acked(left.send("news", "", b"x"))
        assert tries.bodies == inbox.bodies == [b"x", b"x"]


def test_keys_stay_in_order_and_a_coroutine_is_awaited(nodes: Nodes) -> None:
    with nodes.pair(()) as (left, right, _):
        begun: list[bytes] = []
        gates = {b"a0": nodes.gate(), b"b0": nodes.gate()}

        def handler(delivery: Delivery) -> Any:
            begun.append(delivery.body)
            return gates.get(delivery.body)

        right.subscribe("news", handler=handler, concurrency=3, ordered_by="key", **RECEIVED)
        subscribed(left)
        receipt = left.send_many([("news", key, key.encode() + b"%d" % at) for at in range(2) for key in ("a", "b")])
        until(lambda: sorted(begun) == [b"a0", b"b0"])
        gates[b"b0"].open()
        until(lambda: sorted(begun) == [b"a0", b"b0", b"b1"])
        gates[b"a0"].open()
        left.wait_acked(receipt)


def test_a_channel_and_the_options_have_it_too(nodes: Nodes) -> None:
    first, second = nodes.gate(), nodes.gate()
    handlers = [("news", "", lambda _: first, RECEIVED)]
    with nodes.open("right", subscriptions=["news"], handlers=handlers) as right, nodes.open("left") as left:
        left.new_connection(f"127.0.0.1:{right.port}")
        right.subscribe("typed", handler=lambda _: second, codec=Json(int), **RECEIVED)
        subscribed(left, 2)
        left.wait_acked(left.send("news", "", b"x"))
        left.wait_acked(left.send("typed", "", 1, codec=Json(int)))
        first.open()
        second.open()


def test_what_cannot_be_meant_is_refused(nodes: Nodes) -> None:
    with nodes.open("one") as one:
        with pytest.raises(ValueError, match=r'retry and ack="received" are given: .* not tried again\. Leave one out'):
            one.register_callback("c", "", print, retry=Retry(attempts=2), **RECEIVED)
        with pytest.raises(ValueError, match='ack=True: give "handled", or "received"'):
            one.register_callback("c", "", print, ack=True)
        with pytest.raises(TypeError, match="retry and ack are choices of a handler: give one"):
            one.subscribe("c", **RECEIVED)
