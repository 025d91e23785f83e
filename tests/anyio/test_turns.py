"""Turns of the loop: handlers that the loop itself calls, and loops that forget to call."""

from __future__ import annotations

import socket
import struct
import time
from contextvars import ContextVar
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tolliver.anyio import InstanceOptions, create_instance, run

from tests.anyio.nodes import Nodes, until
from tolliver_proto import Delivery, Limits, Policy

SLOW = 0.002  # seconds of one call: more than handlers have in one turn of the loop
RESET = struct.pack("ii", 1, 0)  # lingers for no second: closing it resets the connection
word: ContextVar[str] = ContextVar("word", default="none")


@pytest.mark.anyio
async def test_a_plain_handler_is_called_in_the_context_of_its_registration(nodes: Nodes) -> None:
    seen: list[str] = []
    async with nodes.pair() as (left, right):
        word.set("mine")
        right.register_callback("news", "", lambda _: seen.append(word.get()))
        word.set("another's")
        for _ in range(2):
            await left.wait_acked(await left.send("news", "", b"x"))
    assert seen == ["mine", "mine"]


@pytest.mark.anyio
async def test_a_plain_handler_may_use_anyio(nodes: Nodes) -> None:
    async with nodes.pair() as (left, right):
        give, take = anyio.create_memory_object_stream[bytes](10)

        def handler(delivery: Delivery) -> None:
            anyio.Event().set()
            assert anyio.current_time() > 0
            give.send_nowait(delivery.body)

        right.register_callback("news", "", handler)
        with give, take:
            for body in (b"1", b"2"):
                await left.send("news", "", body)
                assert await take.receive() == body
        assert right.notices() == []


@pytest.mark.anyio
async def test_a_handler_that_takes_its_time_lets_the_others_have_their_turn(nodes: Nodes) -> None:
    """Of what came together, too."""
    turns = 0
    turns_at_calls: list[int] = []

    async def count() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    def handler(_delivery: Delivery) -> None:
        turns_at_calls.append(turns)
        time.sleep(SLOW)

    async with nodes.pair() as (left, right), anyio.create_task_group() as tasks:
        right.register_callback("news", "", handler)
        tasks.start_soon(count)
        await left.wait_acked(await left.send_many([("news", "", b"%d" % number) for number in range(20)]))
        tasks.cancel_scope.cancel()
    assert len(set(turns_at_calls)) >= 10  # trio may have both tasks in another order each time


@pytest.mark.anyio
async def test_a_handler_may_give_back_something_to_await_now_and_then(nodes: Nodes) -> None:
    seen: list[bytes] = []

    async def later(delivery: Delivery) -> None:
        await anyio.sleep(0.001)
        seen.append(delivery.body)

    def handler(delivery: Delivery) -> object:
        if int(delivery.body) % 3:
            return later(delivery)
        seen.append(delivery.body)
        return None

    async with nodes.pair() as (left, right):
        right.register_callback("news", "", handler)
        for first in (0, 10):
            bodies = [b"%d" % number for number in range(first, first + 10)]
            await left.wait_acked(await left.send_many([("news", "", body) for body in bodies]))
    assert seen == [b"%d" % number for number in range(20)]


@pytest.mark.anyio
async def test_what_a_handler_sends_goes_out(nodes: Nodes) -> None:
    """And so does what it sends that is heard by nobody else in that turn."""
    heard: list[bytes] = []
    async with nodes.pair() as (left, right):
        await left.subscribe("answers", handler=lambda delivery: heard.append(delivery.body))
        right.register_callback("news", "", lambda delivery: bool(right.unreliable_send("answers", "", delivery.body)))
        await right.wait_subscribed("answers")
        for number in range(3):
            assert left.unreliable_send("news", "", b"%d" % number) == 1
        await until(lambda: len(heard) == 3)
    assert heard == [b"0", b"1", b"2"]


@pytest.mark.anyio
async def test_an_instance_that_was_interrupted_in_a_read_calls_handlers_when_it_is_opened_again(nodes: Nodes) -> None:
    class Waiting:
        def __init__(self) -> None:
            self.called = anyio.Event()

        def call(self, until: float) -> None:
            self.called.set()

    instance, waiting = nodes.open("right"), Waiting()
    async with instance:
        instance._core.reading = True
    async with instance:
        instance._core.call_at_end(waiting)
        await waiting.called.wait()


def test_a_reset_with_the_last_bytes_is_seen_on_uvloop(tmp_path: Path) -> None:
    """libuv says once that the line has failed, whatever is still to be read, and watches it no more."""
    patience = Limits(handshake_timeout=600.0, redial_first=600.0, redial_max=600.0)
    options = InstanceOptions(database=tmp_path / "node.db", listen="127.0.0.1:0", plaintext=True, limits=patience)

    async def main() -> None:
        async with create_instance(options) as instance:
            for _ in range(5):
                assert instance.port is not None
                with socket.create_connection(("127.0.0.1", instance.port)) as rude:
                    rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    await anyio.sleep(SLOW)  # it is taken in
                    rude.send(b"\0")  # the beginning of a handshake; both are there when the loop looks next
            with anyio.fail_after(20):
                await until(lambda: not instance.stats()["connections"])

    run(main)


# An iterator: what is taken and acknowledged in one turn is told at its end.


@pytest.mark.anyio
async def test_messages_that_are_acknowledged_in_the_turn_of_the_close_are(nodes: Nodes) -> None:
    async with nodes.open("right") as right:
        async with nodes.open("left", subscriptions=["news"]) as left:
            await right.new_connection(f"127.0.0.1:{left.port}")
            await right.wait_subscribed("news")
            messages = left.messages("news", subscribe=False)
            await right.send_many([("news", "", b"%d" % number) for number in range(50)])
            for _ in range(50):
                (await anext(messages)).ack()
        await until(lambda: not right.stats()["pending"])
        assert right.stats()["acked"] == 50


@pytest.mark.anyio
async def test_a_message_that_is_kept_from_a_turn_to_the_next_is_being_handled(nodes: Nodes) -> None:
    """After others of the same turn, too: its iterator is stuck when it is kept for long."""
    async with nodes.open("right", policy=Policy(stuck_after=0.05)) as right, nodes.open("left") as left:
        await right.subscribe("news")
        await left.new_connection(f"127.0.0.1:{right.port}")
        messages = right.messages("news", subscribe=False)
        await left.send_many([("news", "", b"%d" % number) for number in range(3)])
        for _ in range(2):
            (await anext(messages)).ack()
        kept = await anext(messages)
        await until(lambda: right.stats()["stuck_handlers"])
        kept.ack()
        await until(lambda: not right.stats()["stuck_handlers"] + left.stats()["pending"])


@pytest.mark.anyio
async def test_acknowledgements_before_a_failure_in_one_turn_stand(nodes: Nodes) -> None:
    async with nodes.pair(retry_interval=0.05) as (left, right):
        messages = right.messages("news", subscribe=False)
        await left.send_many([("news", "", b"%d" % number) for number in range(6)])
        taken = [await anext(messages) for _ in range(6)]
        for one in taken:
            one.ack() if int(one.body) % 3 else one.fail()
        again = [await anext(messages) for _ in range(2)]
        assert [one.body for one in again] == [b"0", b"3"]
        for one in again:
            one.ack()
        await until(lambda: not left.stats()["pending"])
        assert right.stats()["handled"] == 6
