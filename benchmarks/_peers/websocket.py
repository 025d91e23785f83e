"""websockets on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from benchmarks._peers.certificates import server_context
from benchmarks._peers.measuring import BODY, FLOOD, HOST, RoundTrips, Setting, counter, say, serving


def _serve(handler: Callable[[Any], Awaitable[None]], tls: Any = None) -> None:
    async def main() -> None:
        async with serve(handler, HOST, 0, compression=None, ssl=tls) as server:
            serving(next(iter(server.sockets)).getsockname()[1])
            await server.serve_forever()

    asyncio.run(main())


def _dial(setting: Setting, program: Callable[[Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with connect(f"ws://{HOST}:{setting.port}", compression=None, proxy=None) as connection:
            await program(connection)

    asyncio.run(main())


def fire(_setting: Setting) -> None:
    async def send(connection: Any) -> None:
        while True:
            await connection.send(BODY)

    _serve(send)


def count(setting: Setting) -> None:
    async def receive(connection: Any) -> None:
        count_one = counter(setting.seconds)
        async for body in connection:
            count_one(body)

    _dial(setting, receive)


async def _echo(connection: Any) -> None:
    async for body in connection:
        if body != FLOOD:
            await connection.send(body)


def answer(_setting: Setting) -> None:
    _serve(_echo)


def idle(setting: Setting) -> None:
    _serve(_echo, server_context(setting))


def ask(setting: Setting) -> None:
    async def program(connection: Any) -> None:
        asked: list[Awaitable[None]] = []
        trips = RoundTrips(setting, lambda: asked.append(connection.send(BODY)))
        trips.begin()
        while asked:
            await asked.pop()
            trips.answered(await connection.recv())

    _dial(setting, program)


def flood(setting: Setting) -> None:
    async def program(connection: Any) -> None:
        say({})
        while True:
            await connection.send(FLOOD)

    _dial(setting, program)
