"""Typed bodies as a program on asyncio or trio has them: `async for`, and handlers that are coroutine functions."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tolliver.anyio import InstanceOptions, TypedDelivery, create_instance
from tolliver.codecs import Json


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.loops)])
def test_values_come_by_async_for_and_to_coroutines(tmp_path: Path, backend: str) -> None:
    numbers, taken, handled = Json(int), list[int](), list[int]()

    async def handle(delivery: TypedDelivery[int]) -> None:
        await anyio.lowlevel.checkpoint()
        handled.append(delivery.value)

    async def main() -> None:
        there = InstanceOptions(database=tmp_path / "bob.db", plaintext=True, listen="127.0.0.1:0")
        here = InstanceOptions(database=tmp_path / "alice.db", plaintext=True)
        async with create_instance(there) as bob, create_instance(here) as alice:
            await bob.channel("numbers", codec=numbers).subscribe(handler=handle)
            async with bob.channel("numbers", codec=numbers).messages() as one_by_one:
                await alice.new_connection(f"127.0.0.1:{bob.port}")
                first = await alice.channel("numbers", codec=numbers).send_many([("", number) for number in range(3)])
                async for delivery in one_by_one:
                    taken.append(delivery.value)
                    delivery.ack()
                    if len(taken) == 3:
                        break
                await alice.wait_acked(first)
            async with bob.channel("numbers", codec=numbers).runs() as runs:
                second = await alice.channel("numbers", codec=numbers).send("", 3)
                async for run in runs:
                    taken.extend(one.value for one in run)
                    run.settle([run[0]], True)
                    assert run.settled
                    break
                await alice.wait_acked(second)

    anyio.run(main, backend=backend)
    assert taken == handled == [0, 1, 2, 3]
