"""Openings and closings that are cancelled: whatever was open is closed."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import anyio
import psutil
import pytest
from tolliver.anyio import StreamsOptions, create_streams
from tolliver.sqlite import SQLiteStore

from tests.anyio.nodes import Nodes, until
from tests.opening import Interruption, Opening, is_free, written_into
from tolliver_proto import LocalProtocolError, Subscription
from tolliver_proto.store import AddOwnSubscription

by_its_own_cancel = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Of a task, as `asyncio.timeout` and Ctrl-C do: anyio's scopes do not know of it."""


@pytest.fixture
async def database(nodes: Nodes) -> Path:
    async with nodes.open("left"):
        pass
    return nodes.database("left")


def listening() -> set[int]:
    """Ports of this process."""
    return {one.laddr.port for one in psutil.Process().net_connections() if one.status == psutil.CONN_LISTEN}


@pytest.mark.anyio
async def test_a_scope_that_is_cancelled_leaves_nothing_locked(nodes: Nodes, database: Path) -> None:
    opening = Opening(database)
    with written_into(database) as writer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.live, "left")
            await until(opening.begun)
            tasks.cancel_scope.cancel()
            writer.let_go()
    async with nodes.open("left"):
        pass


@pytest.mark.anyio
@by_its_own_cancel
@pytest.mark.parametrize("times", [1, 3])
async def test_a_task_that_is_cancelled_leaves_nothing_locked(nodes: Nodes, database: Path, times: int) -> None:
    opening = Opening(database)
    with written_into(database) as writer:
        task = asyncio.ensure_future(nodes.live("left"))
        await until(opening.begun)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        writer.let_go()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with nodes.open("left"):
        pass


@pytest.mark.anyio
@by_its_own_cancel
async def test_a_task_that_is_cancelled_before_the_opening_leaves_nothing_locked(nodes: Nodes, database: Path) -> None:
    """At each turn of the loop in which the thread has not begun yet, and some more."""
    for turns in range(6):
        task = asyncio.ensure_future(nodes.live("left"))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with nodes.open("left"):
            pass


def test_the_end_of_a_loop_closes_the_database_after_its_last_job(nodes: Nodes) -> None:
    """It cancels every task at once, each by its own `cancel`."""
    complaints: list[object] = []
    begun = threading.Event()

    async def live() -> None:
        async with nodes.open("left") as left:
            store, writer = left._core._store, writers.enter_context(written_into(nodes.database("left")))

            def work() -> None:
                begun.set()
                store.commit([AddOwnSubscription(Subscription("news", ""))])

            left._core.store(work, lambda _result, _error: None)
            asyncio.get_running_loop().call_later(0.05, writer.let_go)
            await anyio.sleep_forever()

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        tasks.append(asyncio.ensure_future(live()))
        await until(begun.is_set)

    tasks: list[asyncio.Task[None]] = []
    with ExitStack() as writers:
        asyncio.run(main())
    assert not complaints
    assert tasks[0].cancelled()
    with closing(SQLiteStore(nodes.database("left"), instance_id=None)) as store:
        assert not store.unclean
        assert store.load().own_subscriptions == {Subscription("news", "")}


@pytest.mark.anyio
async def test_an_exception_on_any_line_leaves_nothing_open(nodes: Nodes, database: Path) -> None:
    """As Ctrl-C on trio. Lines that run off the loop cannot have one."""
    before = listening()  # left by other tests of this process
    for number in count(1):
        left = nodes.open("left")
        with Interruption(number, ("_driver/endpoint.py", "anyio/endpoint.py")) as interruption:
            await left.__aenter__()
        if not interruption.happened:
            break
        assert is_free(database)
        assert listening() <= before
    await left.__aexit__(None, None, None)
    assert number > 10  # lines that were tried


@pytest.mark.anyio
async def test_what_is_open_is_not_opened_again_and_goes_on(nodes: Nodes) -> None:
    options = StreamsOptions(listen="127.0.0.1:0", plaintext=True)
    async with nodes.open("left") as left, create_streams(options) as streams:
        for one in (left, streams):
            with pytest.raises(LocalProtocolError, match="is open already: make another one"):
                async with one:
                    pytest.fail("two in one")
        await left.subscribe("news")
        streams.publish("news", [b"x"])
    async with left, streams:  # but one after the other
        await left.subscribe("news")
