"""Structured concurrency: coroutine handlers, cancel scopes, `async with`."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from tolliver._driver import socket_session

from tests.anyio.nodes import Nodes, address, until
from tolliver_proto import ConnectionClosing, Delivery, Limits

pytestmark = pytest.mark.anyio
AGAIN = {"retry_interval": 0.05}


class OwnError(Exception):
    pass


# The block.


async def test_an_error_of_the_body_comes_out_as_it_is(nodes: Nodes) -> None:
    with pytest.raises(OwnError, match="mine"):
        async with nodes.pair():
            raise OwnError("mine")


async def test_cancelling_closes_in_order(nodes: Nodes) -> None:
    async with nodes.open("right") as right:
        with anyio.CancelScope() as scope:
            async with nodes.open("left") as left:
                await left.new_connection(address(right))
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await until(lambda: not right.stats()["peers_up"])
        assert right.notices() == []  # the end was an orderly one
        async with nodes.open("left"):
            pass


async def test_before_its_block_every_call_says_so(nodes: Nodes) -> None:
    instance = nodes.open("left")
    with pytest.raises(ConnectionClosing, match="create_instance"):
        await instance.send("news", "", b"too early")
    with pytest.raises(ConnectionClosing, match="create_instance"):
        instance.messages("news")


async def test_calls_that_never_wait_are_no_coroutines(nodes: Nodes) -> None:
    async with nodes.pair() as (left, right):
        assert left.unreliable_send("news", "", b"x") == 1
        assert right.admin.replay([]) == 0
        right.register_callback("news", "", print).close()


# Turns.


async def test_one_connection_that_writes_much_gives_others_their_turn(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_session, "TURNS", 1)  # a connection that the system always takes more of
    async with nodes.pair() as (left, right):
        right.register_callback("news", "", lambda _message: None)
        for _ in range(20):
            receipt = await left.send_many([("news", "", bytes(10_000))] * 10)
        await left.wait_acked(receipt)


# Handlers that are coroutines.


async def test_coroutines_as_callbacks(nodes: Nodes) -> None:
    seen: list[bytes] = []

    async def handler(delivery: Delivery) -> bool:
        await anyio.lowlevel.checkpoint()
        seen.append(delivery.body)
        if len(seen) == 1:
            raise OwnError("not now")
        return len(seen) > 2

    async with nodes.pair(**AGAIN) as (left, right):
        right.register_callback("news", "", handler)
        await left.wait_acked(await left.send("news", "", b"x"))
        assert seen == [b"x"] * 3


@pytest.mark.parametrize("how", ["registration", "instance"])
async def test_closing_cancels_the_coroutine_that_is_handling(nodes: Nodes, how: str) -> None:
    started, cancelled = anyio.Event(), anyio.Event()

    async def hangs(_delivery: Delivery) -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    async with nodes.pair() as (left, right):
        registration = right.register_callback("news", "", hangs)
        await left.send("news", "", b"x")
        await started.wait()
        if how == "registration":
            registration.close()
            await cancelled.wait()
    assert cancelled.is_set()


# Cancel scopes around calls.


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_close_that_waits_for_handlers_says_for_which(
    nodes: Nodes, concurrency: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that shields its work from the cancellation is waited for, and named meanwhile."""
    begun, free = anyio.Event(), anyio.Event()

    async def slow_one(_delivery: Delivery) -> None:
        begun.set()
        with anyio.CancelScope(shield=True):
            await free.wait()

    def named() -> bool:
        return "it waits for 1 call of " in caplog.text and "slow_one for 'news' '', which were can" in caplog.text

    async with nodes.open("left") as left, anyio.create_task_group() as tasks:
        async with nodes.open("right", limits=Limits(close_timeout=0.05)) as right:
            await right.subscribe("news", handler=slow_one, concurrency=concurrency)
            await left.new_connection(address(right))
            await left.wait_subscribed("news")
            await left.send("news", "", b"x")
            await begun.wait()

            async def let_go() -> None:
                await until(named)
                free.set()

            tasks.start_soon(let_go)
        assert named()
    assert caplog.text.count("takes long") == 1


async def test_every_wait_can_be_cancelled_and_begun_again(nodes: Nodes) -> None:
    async with nodes.pair(**AGAIN) as (left, right):
        with anyio.move_on_after(0.01) as scope:
            await left.new_connection("127.0.0.1:1")
        assert scope.cancelled_caught
        receipt = await left.send("news", "", b"x")  # nobody handles it yet
        with anyio.move_on_after(0.01) as scope:
            await left.wait_acked(receipt)
        assert scope.cancelled_caught
        messages = right.messages("other")
        with anyio.move_on_after(0.01) as scope:
            await anext(messages)
        assert scope.cancelled_caught
        left.remove_connection("127.0.0.1:1")
        messages.close()
        async with right.messages("news", subscribe=False) as news:
            (await anext(news)).ack()
        await left.wait_acked(receipt)


async def test_a_send_in_a_cancelled_scope_does_not_wait(nodes: Nodes) -> None:
    async with nodes.pair() as (left, _right):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await left.send("news", "", b"x")
            pytest.fail("it went on")
        await left.send("news", "", b"y")


async def test_leaving_a_loop_by_an_error_closes_the_iterator(nodes: Nodes) -> None:
    async with nodes.pair(**AGAIN) as (left, right):
        receipt = await left.send("news", "", b"x")

        async def fail() -> None:
            async with right.messages("news", subscribe=False) as news:
                async for _message in news:
                    raise OwnError("in the loop")

        with pytest.raises(OwnError):
            await fail()
        async for message in right.messages("news", subscribe=False):
            assert message.attempt == 2
            message.ack()
            break
        await left.wait_acked(receipt)
