"""picows on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import picows
import uvloop

from benchmarks._peers.measuring import BODY, HOST, LOT, RoundTrips, Setting, counter, serving

BINARY = picows.WSMsgType.BINARY


class Listener(picows.WSListener):  # type: ignore[misc]  # compiled, without types where it is not installed
    """`on_body` gets each body; `send_on_and_on` keeps to what the transport can take."""

    def __init__(self, on_body: Callable[[bytes], object] | None = None) -> None:
        self.on_body = on_body
        self.connected = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()

    def on_ws_connected(self, transport: Any) -> None:
        self._transport = transport
        self.connected.set_result(self)

    def on_ws_frame(self, _transport: Any, frame: Any) -> None:
        if self.on_body is not None and frame.msg_type == BINARY:
            self.on_body(frame.get_payload_as_bytes())

    def send(self, body: bytes) -> None:
        self._transport.send(BINARY, body)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send_on_and_on(self) -> None:
        while True:
            for _ in range(LOT):
                self._transport.send(BINARY, BODY)
            await self._writable.wait()
            await asyncio.sleep(0)


async def _serve(made: Callable[[], Listener]) -> None:
    server = await picows.ws_create_server(lambda _request: made(), HOST, 0)
    serving(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _dial(setting: Setting, on_body: Callable[[bytes], object]) -> Listener:
    _, listener = await picows.ws_connect(lambda: Listener(on_body), f"ws://{HOST}:{setting.port}")
    assert isinstance(listener, Listener)
    return listener


def fire(_setting: Setting) -> None:
    async def main() -> None:
        tasks = set()

        def made() -> Listener:
            listener = Listener()
            listener.connected.add_done_callback(lambda _: tasks.add(asyncio.ensure_future(listener.send_on_and_on())))
            return listener

        await _serve(made)

    uvloop.run(main())


def count(setting: Setting) -> None:
    async def main() -> None:
        await _dial(setting, counter(setting.seconds))
        await asyncio.Event().wait()

    uvloop.run(main())


def answer(_setting: Setting) -> None:
    def made() -> Listener:
        listener = Listener()
        listener.on_body = listener.send
        return listener

    uvloop.run(_serve(made))


def ask(setting: Setting) -> None:
    async def main() -> None:
        trips = RoundTrips(setting, lambda: listener.send(BODY))
        listener = await _dial(setting, trips.answered)
        trips.begin()
        await asyncio.Event().wait()

    uvloop.run(main())
