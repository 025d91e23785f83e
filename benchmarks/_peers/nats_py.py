"""nats-py over nats-server, and JetStream with its files."""

from __future__ import annotations

import asyncio
from typing import Any

import nats
from nats.js.api import DiscardPolicy, StorageType, StreamConfig

from benchmarks._peers.measuring import BODY, HOST, Meter, RoundTrips, Setting, counter, serving

KEPT = 1 << 28  # bytes of the stream at most


async def _connect(setting: Setting) -> Any:
    return await nats.connect(f"nats://{HOST}:{setting.broker}")


def fire(setting: Setting) -> None:
    async def main() -> None:
        connection = await _connect(setting)
        serving(0)
        while True:
            await connection.publish("bench", BODY)

    asyncio.run(main())


def count(setting: Setting) -> None:
    async def main() -> None:
        count_one = counter(setting.seconds)

        async def on_message(message: Any) -> None:
            count_one(message)

        connection = await _connect(setting)
        await connection.subscribe("bench", cb=on_message)
        await asyncio.Event().wait()

    asyncio.run(main())


def answer(setting: Setting) -> None:
    async def main() -> None:
        connection = await _connect(setting)

        async def echo(message: Any) -> None:
            await connection.publish("pong", message.data)

        await connection.subscribe("ping", cb=echo)
        await connection.flush()
        serving(0)
        await asyncio.Event().wait()

    asyncio.run(main())


def ask(setting: Setting) -> None:
    async def main() -> None:
        connection = await _connect(setting)
        asked: list[Any] = []
        trips = RoundTrips(setting, lambda: asked.append(connection.publish("ping", BODY)))

        async def on_answer(message: Any) -> None:
            trips.answered(message)
            await asked.pop()

        await connection.subscribe("pong", cb=on_answer)
        await connection.flush()
        trips.begin()
        await asked.pop()
        await asyncio.Event().wait()

    asyncio.run(main())


def respond(setting: Setting) -> None:
    async def main() -> None:
        connection = await _connect(setting)

        async def echo(message: Any) -> None:
            await message.respond(message.data)

        await connection.subscribe("ask", cb=echo)
        await connection.flush()
        serving(0)
        await asyncio.Event().wait()

    asyncio.run(main())


def request(setting: Setting) -> None:
    async def main() -> None:
        connection = await _connect(setting)
        await connection.request("ask", BODY, timeout=5)
        trips = RoundTrips(setting, lambda: None)
        trips.begin()
        while True:
            await connection.request("ask", BODY, timeout=5)
            trips.answered()

    asyncio.run(main())


def publish(setting: Setting) -> None:
    """To JetStream, one after the other or with so many outstanding; the server's answer counts."""

    async def main() -> None:
        connection, meter = await _connect(setting), Meter(setting.seconds)
        stream = connection.jetstream(publish_async_max_pending=setting.outstanding)
        await stream.add_stream(
            StreamConfig(
                name="bench",
                subjects=["stored"],
                storage=StorageType.FILE,
                max_bytes=KEPT,
                discard=DiscardPolicy.OLD,
            )
        )
        await stream.purge_stream("bench")
        while setting.outstanding == 1:
            await stream.publish("stored", BODY)
            meter.add()
        while True:
            answered = await stream.publish_async("stored", BODY)
            answered.add_done_callback(lambda _answered: meter.add())

    asyncio.run(main())
