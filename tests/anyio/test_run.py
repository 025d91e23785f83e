"""`run`, with uvloop where it is installed, and without."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import anyio
import pytest
import trio
import uvloop
from tolliver.anyio import run
from tolliver.anyio.wire import Wakeup

from tests.anyio.nodes import Nodes, address, until
from tests.certificates import Certificates


def test_it_runs_on_uvloop_where_that_is_installed() -> None:
    async def main(word: str) -> str:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        return word

    assert run(main, "done") == "done"


def test_it_runs_on_trio_where_that_is_asked_for() -> None:
    async def main(word: str) -> str:
        await trio.lowlevel.checkpoint()
        return word

    assert run(main, "done", backend="trio") == "done"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_connection_that_is_gone_before_it_is_taken_in_harms_nobody(
    tmp_path: Path, certs: Certificates, backend: str
) -> None:
    nodes = Nodes(tmp_path, certs)

    async def main() -> None:
        async with nodes.open("right") as right, nodes.open("left") as left:
            right._core._take_in(socket.socket())  # one that has no peer
            with anyio.fail_after(20):
                await left.new_connection(address(right))
                await until(lambda: right.stats()["connections"] == 1)

    run(main, backend=backend)


def test_a_bell_that_nobody_hears_any_more_rings_in_another_loop() -> None:
    """As an instance does that is closed, and opened again."""
    wakeup = Wakeup()

    async def give_up() -> None:
        with anyio.move_on_after(0.001):
            await wakeup.wait()

    async def hear() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wakeup.wait)
            await anyio.sleep(0.001)
            wakeup.set()

    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(give_up, backend=backend)
        anyio.run(hear, backend=backend)
