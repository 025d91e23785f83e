"""Bare loops: as little as can be around a socket, and SQLite without a network."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import send
from benchmarks._peers.measuring import (
    BODY,
    FLOOD,
    HOST,
    LOT,
    Meter,
    RoundTrips,
    Setting,
    counter,
    over,
    say,
    serving,
)

HEAD = struct.Struct(">I")
CHUNK = 65536


def framed(body: bytes) -> bytes:
    return HEAD.pack(len(body)) + body


# asyncio: a protocol with a parse loop.


class Frames(asyncio.Protocol):
    """Bodies with their lengths before them: one call of `send` and one of `on_body` each."""

    def __init__(self, on_body: Callable[[bytes], object] | None = None) -> None:
        self.on_body = on_body
        self.connected = asyncio.get_running_loop().create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._rest = b""
        self._out: list[bytes] = []

    def connection_made(self, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport
        if not self.connected.done():
            self.connected.set_result(self)

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        on_body, unpack_from, at, end = self.on_body, HEAD.unpack_from, 0, len(data)
        assert on_body is not None
        while at + 4 <= end:
            (length,) = unpack_from(data, at)
            if at + 4 + length > end:
                break
            on_body(data[at + 4 : at + 4 + length])
            at += 4 + length
        self._rest = data[at:]

    def send(self, body: bytes) -> None:
        """Takes it for the next `flush`."""
        self._out.append(HEAD.pack(len(body)) + body)

    def flush(self) -> None:
        self._transport.write(b"".join(self._out))
        self._out.clear()

    def send_now(self, body: bytes) -> None:
        self._transport.write(HEAD.pack(len(body)) + body)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send_on_and_on(self, body: bytes) -> None:
        while True:
            for _ in range(LOT):
                self.send(body)
            self.flush()
            await self._writable.wait()
            await asyncio.sleep(0)


async def _serve(made: Callable[[], Frames]) -> None:
    server = await asyncio.get_running_loop().create_server(made, HOST, 0)
    serving(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def _dial(setting: Setting, on_body: Callable[[bytes], object]) -> Frames:
    loop = asyncio.get_running_loop()
    _, frames = await loop.create_connection(lambda: Frames(on_body), HOST, setting.port)
    return frames


def fire(_setting: Setting) -> None:
    async def main() -> None:
        tasks = set()

        def made() -> Frames:
            frames = Frames()
            frames.connected.add_done_callback(lambda _: tasks.add(asyncio.ensure_future(frames.send_on_and_on(BODY))))
            return frames

        await _serve(made)

    asyncio.run(main())


def count(setting: Setting) -> None:
    async def main() -> None:
        await _dial(setting, counter(setting.seconds))
        await asyncio.Event().wait()

    asyncio.run(main())


def answer(_setting: Setting) -> None:
    def made() -> Frames:
        frames = Frames()

        def echo(body: bytes) -> None:
            if body != FLOOD:
                frames.send_now(body)

        frames.on_body = echo
        return frames

    asyncio.run(_serve(made))


def ask(setting: Setting) -> None:
    async def main() -> None:
        trips = RoundTrips(setting, lambda: frames.send_now(BODY))
        frames = await _dial(setting, trips.answered)
        trips.begin()
        await asyncio.Event().wait()

    asyncio.run(main())


def flood(setting: Setting) -> None:
    async def main() -> None:
        frames = await _dial(setting, lambda _: None)
        say({})
        await frames.send_on_and_on(FLOOD)

    asyncio.run(main())


# Blocking sockets.


def prompt(sock: socket.socket) -> socket.socket:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def answer_blocking(_setting: Setting) -> None:
    with socket.create_server((HOST, 0)) as listener:
        serving(listener.getsockname()[1])
        sock = prompt(listener.accept()[0])
        while data := sock.recv(CHUNK):
            sock.sendall(data)


def ask_blocking(setting: Setting) -> None:
    sock, frame = prompt(socket.create_connection((HOST, setting.port))), framed(BODY)
    trips = RoundTrips(setting, lambda: sock.sendall(frame))
    trips.begin()
    while True:
        receive(sock, len(frame))
        trips.answered()


def receive(sock: socket.socket, left: int) -> None:
    while left:
        data = sock.recv(left)
        if not data:
            raise ConnectionError("the other end is gone")
        left -= len(data)


# SQLite.


def store(setting: Setting) -> None:
    """No network: rows that are only added, `outstanding` in a commit."""
    over({"rate": send.bare(Path(setting.directory), setting.outstanding, setting.seconds)})


def store_and_ask(setting: Setting) -> None:
    """A row in a commit, a round trip on a blocking socket, and the next commit removes the row."""
    sock, frame, meter = prompt(socket.create_connection((HOST, setting.port))), framed(BODY), Meter(setting.seconds)
    connection = sqlite3.connect(Path(setting.directory) / "bare.db", isolation_level=None)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("CREATE TABLE message(seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")
    for number in itertools.count():
        connection.execute("BEGIN")
        connection.execute("INSERT INTO message VALUES (?, ?)", (number, BODY))
        connection.execute("DELETE FROM message WHERE seq = ?", (number - 1,))
        connection.execute("COMMIT")
        sock.sendall(frame)
        receive(sock, len(frame))
        meter.add()
