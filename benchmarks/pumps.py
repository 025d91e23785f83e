"""TLS of one connection, moved by our pump and by others' transports: is the pump the limit?

    python benchmarks/pumps.py [--mebibytes 64] [--trips 2000] [--rounds 5]

Two ends in one process, mutual TLS 1.3 over loopback: pieces of 64 KiB one way, as a run of messages is written, and
pieces of 134 bytes to and fro, the size of a message of 100 bytes. Each contestant gives the same protocol its bytes:
our Pump with the loop's readers, as `CallbackTransport` moves bytes, on asyncio and on uvloop; asyncio's own transport;
uvloop's; aiofastnet's, which calls OpenSSL from C, where it is installed. Prints the processor time of both ends
together, the least of all rounds, which the contestants run in turns, and the ratio to the pump on asyncio.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tolliver._tls.pump import Pump

from benchmarks._peers.certificates import client_context, make, server_context
from benchmarks._peers.measuring import Setting

HOST, PIECE, MESSAGE, MEBIBYTE = "127.0.0.1", bytes(65536), bytes(134), 1 << 20


class Output(Protocol):
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class End(asyncio.Protocol):
    """Counts what comes, and writes back as much where it is told to."""

    def __init__(self) -> None:
        self.output: Output
        self.open = asyncio.Event()
        self.writes_back = False
        self.wanted = 0
        self.all_came = asyncio.Event()

    def connection_made(self, transport: Output) -> None:  # type: ignore[override]
        self.output = transport
        self.open.set()

    def data_received(self, data: bytes) -> None:
        if self.writes_back:
            self.output.write(data)
        self.wanted -= len(data)
        if self.wanted <= 0:
            self.all_came.set()

    async def wait(self, count: int) -> None:
        """Until `count` more bytes have come than at the last call."""
        self.wanted += count
        if self.wanted > 0:
            self.all_came.clear()
            await self.all_came.wait()


class Pumped:
    """A socket, a pump and the loop's readers and writers."""

    def __init__(self, sock: socket.socket, pump: Pump, end: End) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock, self._pump, self._end = sock, pump, end
        self._rest = memoryview(b"")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._on_readable)
        self._flush(pump.handshake())

    def write(self, data: bytes) -> None:
        self._pump.write(data)
        self._flush(True)

    def close(self) -> None:
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()

    def _on_readable(self) -> None:
        self._pump.receive(self._sock.recv(65536))
        if not self._end.open.is_set():
            self._flush(self._pump.handshake())
        if self._end.open.is_set() and (data := self._pump.read()):
            self._end.data_received(data)

    def _flush(self, shaken: bool) -> None:
        waits = bool(self._rest)
        self._rest = memoryview(bytes(self._rest) + self._pump.outgoing())
        if not waits and self._rest:
            self._on_writable()
        if shaken and not self._end.open.is_set():
            self._end.connection_made(self)

    def _on_writable(self) -> None:
        with suppress(BlockingIOError):
            self._rest = self._rest[self._sock.send(self._rest) :]
        if self._rest:
            self._loop.add_writer(self._sock, self._on_writable)
        else:
            self._loop.remove_writer(self._sock)


Connect = Callable[[Setting, End, End], Awaitable[None]]


async def pumped(setting: Setting, here: End, there: End) -> None:
    with socket.create_server((HOST, 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    Pumped(theirs, Pump.server(server_context(setting)), there)
    context = client_context(setting)
    context.check_hostname = False
    Pumped(ours, Pump(context, None, server=False), here)


async def by_the_loop(setting: Setting, here: End, there: End) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: there, HOST, 0, ssl=server_context(setting))
    port = server.sockets[0].getsockname()[1]
    await loop.create_connection(lambda: here, HOST, port, ssl=_of_client(setting))
    server.close()


async def by_aiofastnet(setting: Setting, here: End, there: End) -> None:
    import aiofastnet

    loop = asyncio.get_running_loop()
    server = await aiofastnet.create_server(loop, lambda: there, HOST, 0, ssl=server_context(setting))
    port = server.sockets[0].getsockname()[1]
    await aiofastnet.create_connection(loop, lambda: here, HOST, port, ssl=_of_client(setting))
    server.close()


def _of_client(setting: Setting) -> ssl.SSLContext:
    context = client_context(setting)
    context.check_hostname = False
    return context


async def measured(connect: Connect, setting: Setting, mebibytes: int, trips: int) -> tuple[float, float]:
    """Milliseconds of processor time for a mebibyte, and microseconds for a round trip."""
    here, there = End(), End()
    await connect(setting, here, there)
    await asyncio.wait_for(asyncio.gather(here.open.wait(), there.open.wait()), 30)
    used = time.process_time()
    for _ in range(mebibytes):
        for _ in range(MEBIBYTE // len(PIECE)):
            here.output.write(PIECE)
        await there.wait(MEBIBYTE)
    bulk = (time.process_time() - used) / mebibytes * 1e3
    there.writes_back = True
    used = time.process_time()
    for _ in range(trips):
        here.output.write(MESSAGE)
        await here.wait(len(MESSAGE))
    trip = (time.process_time() - used) / trips * 1e6
    here.output.close()
    there.output.close()
    await asyncio.sleep(0.05)
    return bulk, trip


def contestants() -> dict[str, tuple[Callable[[], asyncio.AbstractEventLoop], Connect]]:
    found: dict[str, tuple[Callable[[], asyncio.AbstractEventLoop], Connect]] = {
        "our pump, asyncio": (asyncio.new_event_loop, pumped),
        "asyncio's transport": (asyncio.new_event_loop, by_the_loop),
    }
    try:
        import uvloop

        found["our pump, uvloop"] = (uvloop.new_event_loop, pumped)
        found["uvloop's transport"] = (uvloop.new_event_loop, by_the_loop)
    except ImportError:
        print("uvloop is not installed: left out")
    try:
        import aiofastnet

        found[f"aiofastnet {aiofastnet.__version__}"] = (asyncio.new_event_loop, by_aiofastnet)
    except ImportError:
        print("aiofastnet is not installed: left out")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mebibytes", type=int, default=64, help="in one round of a contestant")
    parser.add_argument("--trips", type=int, default=2000, help="round trips in one round of a contestant")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        make(Path(directory))
        setting = Setting(0, directory, directory)
        those = contestants()
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in those}
        for _ in range(options.rounds):
            for name, (loop, connect) in those.items():
                with asyncio.Runner(loop_factory=loop) as runner:
                    found[name].append(runner.run(measured(connect, setting, options.mebibytes, options.trips)))
    print(f"{sys.version.split()[0]}, {ssl.OPENSSL_VERSION}")
    print(f"{'':<22}{'ms a MiB':>10}{'ratio':>7}{'us a round trip':>17}{'ratio':>7}")
    yardstick: tuple[float, float] | None = None
    for name, rounds in found.items():
        bulk, trip = (min(column) for column in zip(*rounds, strict=True))
        yardstick = yardstick or (bulk, trip)
        print(f"{name:<22}{bulk:>10.2f}{bulk / yardstick[0]:>7.2f}{trip:>17.1f}{trip / yardstick[1]:>7.2f}")


if __name__ == "__main__":
    main()
