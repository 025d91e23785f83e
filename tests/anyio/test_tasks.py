"""Openings and closings in tasks of their own, as fixtures, cells of a notebook and lifespans have them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio
from tolliver.anyio import StreamsOptions, create_streams

from tests.anyio.nodes import Nodes, address
from tolliver_proto import LocalProtocolError

Make = Callable[[Nodes], Any]
MAKES: dict[str, Make] = {
    "instance": lambda nodes: nodes.open("left"),
    "streams": lambda _: create_streams(StreamsOptions(listen="127.0.0.1:0", plaintext=True)),
}
each_kind = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@each_kind
def test_an_instance_is_opened_used_and_closed_in_three_tasks(nodes: Nodes, make: Make) -> None:
    with asyncio.Runner() as runner:
        for _ in range(2):
            opened = make(nodes)
            runner.run(opened.__aenter__())
            runner.run(asyncio.sleep(0.01))
            runner.run(opened.__aexit__(None, None, None))


def test_messages_come_while_the_task_that_opened_has_ended(nodes: Nodes) -> None:
    async def use(left: Any, right: Any) -> None:
        await right.subscribe("news", handler=lambda _: None)
        await left.new_connection(address(right))
        await left.wait_acked(await left.send("news", "", b"x", require_recipients=1), timeout=20)

    with asyncio.Runner() as runner:
        left, right = runner.run(nodes.open("left").__aenter__()), runner.run(nodes.open("right").__aenter__())
        runner.run(use(left, right))
        for one in (left, right):
            runner.run(one.__aexit__(None, None, None))


@each_kind
def test_a_close_in_another_task_that_is_cancelled_goes_on_to_its_end(nodes: Nodes, make: Make) -> None:
    async def main() -> None:
        opened = await make(nodes).__aenter__()
        closing = asyncio.ensure_future(opened.__aexit__(None, None, None))
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        async with make(nodes):  # the database is free
            pass

    asyncio.run(main())


class Fault(BaseException):
    pass


def test_a_fault_cancels_the_task_that_has_opened_and_closing_raises_it(nodes: Nodes) -> None:
    async def main() -> None:
        async with nodes.open("left") as left:
            left._core.break_down(Fault("in a task of ours"))
            await asyncio.sleep(20)
            pytest.fail("it was not cancelled")

    async def outside() -> None:
        with pytest.raises(BaseExceptionGroup) as caught:
            await main()
        assert caught.group_contains(Fault, match="in a task of ours")
        current = asyncio.current_task()
        assert current is not None
        assert current.cancelling() == 0
        await asyncio.sleep(0)

    asyncio.run(outside())


def test_a_fault_after_the_end_of_the_task_that_opened_is_raised_by_closing(nodes: Nodes) -> None:
    async def fail(left: Any) -> None:
        left._core.break_down(Fault("in a task of ours"))
        await asyncio.sleep(0.05)

    with asyncio.Runner() as runner:
        left = runner.run(nodes.open("left").__aenter__())
        runner.run(fail(left))
        with pytest.raises(BaseExceptionGroup):
            runner.run(left.__aexit__(None, None, None))


@each_kind
def test_on_trio_the_task_that_opened_closes(nodes: Nodes, make: Make) -> None:
    """Its nurseries live within a block of their task."""
    opened = make(nodes)

    async def close() -> None:
        with pytest.raises(LocalProtocolError, match="the task that has opened"):
            await opened.__aexit__(None, None, None)

    async def main() -> None:
        async with opened, anyio.create_task_group() as tasks:
            tasks.start_soon(close)

    trio.run(main)
