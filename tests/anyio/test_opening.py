"""Openings that are cancelled: whatever was opened until then is closed again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import pytest

from tests.anyio.nodes import Nodes, until
from tests.opening import held_up

pytestmark = pytest.mark.anyio


@pytest.fixture
async def database(nodes: Nodes) -> Path:
    async with nodes.open("left"):
        pass
    return nodes.database("left")


async def test_a_scope_that_is_cancelled_leaves_nothing_locked(nodes: Nodes, database: Path) -> None:
    with held_up(database) as held:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nodes.live, "left")
            await until(held.is_being_opened)
            tasks.cancel_scope.cancel()
            held.let_go()
    async with nodes.open("left"):
        pass


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_leaves_nothing_locked(nodes: Nodes, database: Path) -> None:
    """By its own `cancel`, as `asyncio.timeout` and Ctrl-C do: anyio's scopes do not know of it."""
    with held_up(database) as held:
        task = asyncio.ensure_future(nodes.live("left"))
        await until(held.is_being_opened)
        task.cancel()
        held.let_go()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with nodes.open("left"):
        pass
