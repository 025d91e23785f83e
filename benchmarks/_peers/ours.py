"""Our messaging on asyncio, uvloop and trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from tolliver.anyio import TLS, Instance, InstanceOptions, create_instance

from benchmarks._peers.measuring import BODY, FLOOD, HOST, LOT, Meter, RoundTrips, Setting, counter, say, serving

LANES = 4  # batches in flight at a time, so that storing, sending and acknowledging overlap
TASKS = 1000


def options(setting: Setting, name: str) -> InstanceOptions:
    files = Path(setting.certificates) / name
    tls = TLS(files.with_suffix(".pem"), files.with_suffix(".key"), files.parent / "ca.pem")
    return InstanceOptions(
        database=Path(setting.directory) / f"{name}.db",
        listen=f"{HOST}:0" if name == "there" else None,
        tls=None if setting.plaintext else tls,
        plaintext=setting.plaintext,
    )


def on_loop(program: Callable[[Setting], Awaitable[None]]) -> Callable[[Setting], None]:
    """It runs on the loop of its setting."""

    def run(setting: Setting) -> None:
        backend_options = {"use_uvloop": True} if setting.loop == "uvloop" else {}
        backend = "trio" if setting.loop == "trio" else "asyncio"
        anyio.run(program, setting, backend=backend, backend_options=backend_options)

    return run


async def send_on_and_on(instance: Instance, body: bytes) -> None:
    while True:
        for _ in range(LOT):
            if not instance.unreliable_send("bench", "", body):
                break
        await anyio.lowlevel.checkpoint()


# One call and one callback a message.


@on_loop
async def fire(setting: Setting) -> None:
    async with create_instance(options(setting, "there")) as instance:
        serving(instance.port or 0)
        await instance.wait_subscribed("bench")
        await send_on_and_on(instance, BODY)


@on_loop
async def count(setting: Setting) -> None:
    async with create_instance(options(setting, "here")) as instance:
        await instance.subscribe("bench", "", counter(setting.seconds))
        await instance.new_connection(f"{HOST}:{setting.port}")
        await anyio.sleep_forever()


@on_loop
async def count_messages(setting: Setting) -> None:
    count_one = counter(setting.seconds)
    async with create_instance(options(setting, "here")) as instance:
        messages = instance.messages("bench")
        await instance.subscribe("bench")
        await instance.new_connection(f"{HOST}:{setting.port}")
        async for delivery in messages:
            count_one(delivery)
            delivery.ack()


# Round trips.


@on_loop
async def answer(setting: Setting) -> None:
    async with create_instance(options(setting, "there")) as instance:

        def echo(delivery: Any) -> None:
            instance.unreliable_send("pong", "", delivery.body)

        await instance.subscribe("ping", "", echo)
        await instance.subscribe("bench", "", lambda _delivery: None)
        serving(instance.port or 0)
        await anyio.sleep_forever()


@on_loop
async def ask(setting: Setting) -> None:
    async with create_instance(options(setting, "here")) as instance:
        trips = RoundTrips(setting, lambda: instance.unreliable_send("ping", "", BODY))
        await instance.subscribe("pong", "", trips.answered)
        await instance.new_connection(f"{HOST}:{setting.port}")
        await instance.wait_subscribed("ping")
        trips.begin()
        await anyio.sleep_forever()


@on_loop
async def respond(setting: Setting) -> None:
    async with create_instance(options(setting, "there")) as instance:
        instance.respond("ask", lambda request: request.body)
        serving(instance.port or 0)
        await anyio.sleep_forever()


@on_loop
async def request(setting: Setting) -> None:
    async with create_instance(options(setting, "here")) as instance:
        await instance.new_connection(f"{HOST}:{setting.port}")
        await instance.request("ask", BODY)
        trips = RoundTrips(setting, lambda: None)
        trips.begin()
        while True:
            await instance.request("ask", BODY)
            trips.answered()


@on_loop
async def flood(setting: Setting) -> None:
    async with create_instance(options(setting, "flooder")) as instance:
        await instance.new_connection(f"{HOST}:{setting.port}")
        await instance.wait_subscribed("bench")
        say({})
        await send_on_and_on(instance, FLOOD)


# Stored, sent, handled and acknowledged.


@on_loop
async def handle(setting: Setting) -> None:
    async with create_instance(options(setting, "there")) as instance:
        if setting.way == "many":
            runs = instance.message_runs("bench")
            await instance.subscribe("bench")
            serving(instance.port or 0)
            async for run in runs:
                run.ack()
        await instance.subscribe("bench", "", lambda _delivery: None)
        serving(instance.port or 0)
        await anyio.sleep_forever()


@on_loop
async def publish(setting: Setting) -> None:
    meter = Meter(setting.seconds)
    lanes = {"one": 1, "tasks": TASKS, "many": LANES}[setting.way]
    batch = [("bench", "", BODY)] * (setting.outstanding // LANES)
    async with create_instance(options(setting, "here")) as instance:
        await instance.new_connection(f"{HOST}:{setting.port}")
        await instance.wait_subscribed("bench")

        async def lane() -> None:
            while True:
                await instance.wait_acked(await instance.send("bench", "", BODY))
                meter.add()

        async def lane_of_batches() -> None:
            while True:
                await instance.wait_acked(await instance.send_many(batch))
                meter.add(len(batch))

        async with anyio.create_task_group() as tasks:
            for _ in range(lanes):
                tasks.start_soon(lane_of_batches if setting.way == "many" else lane)
