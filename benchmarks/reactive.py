"""Elements a second of a Reactive Streams connection, beside rsocket-py's `request_stream`.

    python benchmarks/reactive.py [--quick] [--seconds 1] [--turns 3] [--core]

One stream from a publisher that always has more to a subscriber that asks for more when half of its window is used up.
Elements of 4 bytes are packed (`element_size=4`); longer ones are each framed with their length.

Core: two `Connection`s in this process, bytes handed over in pieces of 64 KiB. `giving` and `taking` are microseconds
for each element on either side; two processes with a core each can do no better than the slower of the two. The other
columns are two processes over 127.0.0.1: the publisher in one, the subscriber in the other, and elements a second as
the subscriber counts them from the first one on. `sockets` is the same core on bare blocking sockets, with as little
around it as can be: what an adapter may come near to. `asyncio`, `asyncio TLS` and `threads` are the adapters:
`publish` on one side and `subscribe(...).runs()` on the other. rsocket-py does not pack, so it sends 4 bytes in a
frame; its publisher is the fastest that it allows: `request(n)` puts n elements straight into its queue. All take
turns; the best of all turns is printed, since whatever else the machine does only makes one slower. `x` is how many
times rsocket's.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from tolliver.certs import make_ca, make_certificate

from tolliver_proto.reactive import Connection, Elements, Request, Role, Subscribe

HOST = "127.0.0.1"
CHUNK = 65536
LOT = 65536  # bytes that the publisher has at hand at once
SIZES = (4, 100, 10_000)
PACKED = 4
WINDOWS = (16, 256, 4096, 65536)
RSOCKET = "rsocket"
CERTIFICATES = "TOLLIVER_BENCHMARK_CERTIFICATES"  # the directory, for processes that are measured
LIFE = 60  # seconds at most of a process that is measured


def elements_of(size: int) -> list[bytes]:
    return [os.urandom(size) for _ in range(max(1, LOT // size))]


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


class Window:
    """Demand of a subscriber: all of the window at first, then again what is used up, when that is half."""

    def __init__(self, size: int) -> None:
        self._half = max(1, size // 2)
        self._used = 0

    def used(self, count: int) -> int:
        """Number of elements to ask for now."""
        self._used += count
        if self._used < self._half:
            return 0
        asked, self._used = self._used, 0
        return asked


# The core alone.


class Core(NamedTuple):
    """Elements a second with both sides in one process, and microseconds an element of each side."""

    rate: float
    giving: float
    taking: float


def core(size: int, window: int, seconds: float) -> Core:
    publisher, subscriber = Connection(Role.SERVER), Connection(Role.CLIENT)
    stream = subscriber.subscribe("elements", window)
    elements = elements_of(size)
    owed = Window(window)
    giving = taking = 0.0
    count = 0
    back = subscriber.data_to_send()
    while giving + taking < seconds:
        start = time.perf_counter()
        out = give(publisher, back, elements, size)
        between = time.perf_counter()
        data = b"".join(out)
        pieces = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
        again = time.perf_counter()
        count += take(subscriber, stream, pieces, owed)
        back = subscriber.data_to_send()
        giving += between - start
        taking += time.perf_counter() - again
    return Core(count / (giving + taking), giving / count * 1e6, taking / count * 1e6)


def give(publisher: Connection, data: list[bytes], elements: list[bytes], size: int) -> list[bytes]:
    """Bytes that the publisher sends once it has this."""
    for unit in data:
        publisher.receive_data(unit)
    stream = 1
    for event in publisher.events():
        if isinstance(event, Subscribe):
            publisher.subscribed(stream, PACKED if size == PACKED else 0)
        elif isinstance(event, Request):
            assert event.subscriber_id == stream
    publisher.next_many(stream, elements[: publisher.wanted(stream)])
    return publisher.data_to_send()


def take(subscriber: Connection, stream: int, pieces: list[bytes], window: Window) -> int:
    """Number of elements that came in these pieces; asks for more."""
    count = 0
    for piece in pieces:
        subscriber.receive_data(piece)
        while (item := subscriber.next_run()) is not None:
            if isinstance(item, Elements):
                count += len(item.elements)
                if more := window.used(len(item.elements)):
                    subscriber.request(stream, more)
    return count


# The core on bare sockets.


def sockets_give(size: int) -> None:
    with socket.create_server((HOST, 0)) as listener:
        say(listener.getsockname()[1])
        stream = prompt(listener.accept()[0])
    publisher, elements = Connection(Role.SERVER), elements_of(size)
    end = time.perf_counter() + LIFE
    data = [stream.recv(CHUNK)]
    with contextlib.suppress(ConnectionError):  # the subscriber just goes
        while b"" not in data and time.perf_counter() < end:
            for unit in give(publisher, data, elements, size):
                stream.sendall(unit)
            data = received(stream, wait=not publisher.wanted(1))


def sockets_take(port: int, size: int, window: int, seconds: float) -> None:
    stream = prompt(socket.create_connection((HOST, port)))
    subscriber, owed = Connection(Role.CLIENT), Window(window)
    number = subscriber.subscribe("elements", window)
    count, began, now = 0, 0.0, 0.0
    while not began or now - began < seconds:
        for unit in subscriber.data_to_send():
            stream.sendall(unit)
        count += take(subscriber, number, received(stream, wait=True), owed)
        now = time.perf_counter()
        if count and not began:
            count, began = 0, now
    say(count / (now - began))


def prompt(stream: socket.socket) -> socket.socket:
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.settimeout(LIFE)
    return stream


def received(stream: socket.socket, wait: bool) -> list[bytes]:
    """Bytes that have come in: nothing where nothing has and that is not waited for, b"" at the end."""
    stream.settimeout(LIFE if wait else 0)
    try:
        return [stream.recv(CHUNK)]
    except BlockingIOError:
        return []
    finally:
        stream.settimeout(LIFE)


# rsocket-py.


async def rsocket_gives(size: int) -> None:
    from reactivestreams.publisher import Publisher
    from reactivestreams.subscription import Subscription
    from rsocket.payload import Payload
    from rsocket.request_handler import BaseRequestHandler
    from rsocket.rsocket_server import RSocketServer
    from rsocket.transports.tcp import TransportTCP

    logging.disable()  # it would tell at length that the subscriber just goes
    payload = Payload(os.urandom(size))

    class Source(Publisher, Subscription):  # type: ignore[misc]  # rsocket-py has no annotations
        def subscribe(self, subscriber: Any) -> None:
            self._subscriber = subscriber
            subscriber.on_subscribe(self)

        def request(self, n: int) -> None:
            for _ in range(n):
                self._subscriber.on_next(payload)

        def cancel(self) -> None: ...

    class Handler(BaseRequestHandler):  # type: ignore[misc]  # as above
        async def request_stream(self, payload: Any) -> Source:
            return Source()

    def session(*streams: Any) -> None:
        RSocketServer(TransportTCP(*streams, read_buffer_size=CHUNK), handler_factory=Handler)

    server = await asyncio.start_server(session, HOST, 0)
    say(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def rsocket_takes(port: int, size: int, window: int, seconds: float) -> None:
    from reactivestreams.subscriber import DefaultSubscriber
    from rsocket.helpers import single_transport_provider
    from rsocket.payload import Payload
    from rsocket.rsocket_client import RSocketClient
    from rsocket.transports.tcp import TransportTCP

    over: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    owed = Window(window)
    count, began = 0, 0.0

    class Sink(DefaultSubscriber):  # type: ignore[misc]  # as above
        def on_next(self, value: Any, is_complete: bool = False) -> None:
            nonlocal count, began
            count += 1
            now = time.perf_counter()
            began = began or now
            if now - began > seconds and not over.done():
                over.set_result(count / (now - began))
            if more := owed.used(1):
                self.subscription.request(more)

    transport = TransportTCP(*await asyncio.open_connection(HOST, port), read_buffer_size=CHUNK)
    async with RSocketClient(single_transport_provider(transport)) as client:
        client.request_stream(Payload(b"elements")).initial_request_n(window).subscribe(Sink())
        say(await over)
        os._exit(0)  # its close would wait for what is still in its queues


# The adapters, as an application uses them.


def options(secured: bool, directory: str, name: str, listen: str | None = None) -> Any:
    from tolliver.anyio import TLS, StreamsOptions

    if not secured:
        return StreamsOptions(plaintext=True, listen=listen)
    where = Path(directory)
    return StreamsOptions(tls=TLS(where / f"{name}.pem", where / f"{name}.key", where / "ca.pem"), listen=listen)


def offer(streams: Any, size: int) -> None:
    elements = elements_of(size)
    streams.publish("elements", lambda _name: cycle(elements), element_size=PACKED if size == PACKED else 0)
    say(streams.port)


class Meter:
    """Elements a second, from the first one on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._count = 0
        self._began = 0.0

    def is_over(self, count: int) -> bool:
        now = time.perf_counter()
        if not self._began:
            self._began = now
            return False
        self._count += count
        if now - self._began > self._seconds:
            say(self._count / (now - self._began))
            return True
        return False


async def anyio_gives(size: int, secured: bool, directory: str) -> None:
    from tolliver.anyio import create_streams

    async with create_streams(options(secured, directory, "publisher", f"{HOST}:0")) as streams:
        offer(streams, size)
        await asyncio.sleep(LIFE)


async def anyio_takes(port: int, size: int, window: int, seconds: float, secured: bool, directory: str) -> None:
    from tolliver.anyio import create_streams

    meter = Meter(seconds)
    async with create_streams(options(secured, directory, "subscriber")) as streams:
        await streams.connect(f"{HOST}:{port}")
        async for run in streams.subscribe("elements", prefetch=window).runs():
            if meter.is_over(len(run)):
                os._exit(0)  # bytes still on their way are of no interest


def blocking_gives(size: int) -> None:
    from tolliver.blocking import create_streams

    with create_streams(options(False, "", "", f"{HOST}:0")) as streams:
        offer(streams, size)
        time.sleep(LIFE)


def blocking_takes(port: int, size: int, window: int, seconds: float) -> None:
    from tolliver.blocking import create_streams

    meter = Meter(seconds)
    with create_streams(options(False, "", "")) as streams:
        streams.connect(f"{HOST}:{port}")
        for run in streams.subscribe("elements", prefetch=window).runs():
            if meter.is_over(len(run)):
                os._exit(0)  # bytes still on their way are of no interest


# The columns of two processes.


class Way(NamedTuple):
    """A program that says its port and publishes until it is killed, and one that says how many elements a second."""

    gives: Callable[[int], Any]
    """Of elements of a size."""

    takes: Callable[[int, int, int, float], Any]
    """From a port, elements of a size, by a window, for so many seconds."""


WAYS: dict[str, Way] = {
    RSOCKET: Way(rsocket_gives, rsocket_takes),
    "sockets": Way(sockets_give, sockets_take),
    "asyncio": Way(
        lambda size: anyio_gives(size, False, ""),
        lambda port, size, window, seconds: anyio_takes(port, size, window, seconds, False, ""),
    ),
    "asyncio TLS": Way(
        lambda size: anyio_gives(size, True, os.environ[CERTIFICATES]),
        lambda port, size, window, seconds: anyio_takes(port, size, window, seconds, True, os.environ[CERTIFICATES]),
    ),
    "threads": Way(blocking_gives, blocking_takes),
}
"""Each is a column; a further adapter is a further entry. rsocket's is what the others are compared with."""


def child(way: str, side: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", way, side, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> float:
    assert process.stdout is not None
    return float(json.loads(process.stdout.readline()))


def rate_of(way: str, size: int, window: int, seconds: float) -> float:
    with child(way, "gives", size) as there:
        try:
            with child(way, "takes", int(heard(there)), size, window, seconds) as here:
                return heard(here)
        finally:
            there.kill()


def be_child(way: str, side: str, *arguments: str) -> None:
    program: Callable[..., Any] = getattr(WAYS[way], side)
    running = program(*(float(argument) if "." in argument else int(argument) for argument in arguments))
    if asyncio.iscoroutine(running):
        asyncio.run(asyncio.wait_for(running, LIFE))


# The table.


def row(size: int, window: int, seconds: float, turns: int, ways: list[str]) -> str:
    cores: list[Core] = []
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(turns):
        cores.append(core(size, window, seconds))
        for way in ways:
            rates[way].append(rate_of(way, size, window, seconds))
    best = max(cores)
    text = f"{size:>6}{window:>7}{best.giving:>9.3f}{best.taking:>8.3f}{best.rate:>12,.0f}"
    if not ways:
        return text
    rsocket = max(rates[RSOCKET])
    text += f"{best.rate / rsocket:>7.1f}{rsocket:>10,.0f}"
    others = [max(rates[way]) for way in ways if way != RSOCKET]
    return text + "".join(f"{rate:>14,.0f}{rate / rsocket:>7.1f}" for rate in others)


def head(ways: list[str]) -> str:
    text = f"{'bytes':>6}{'window':>7}{'giving':>9}{'taking':>8}{'core':>12}"
    if not ways:
        return text
    return text + f"{'x':>7}{RSOCKET:>10}" + "".join(f"{way:>14}{'x':>7}" for way in ways if way != RSOCKET)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--core", action="store_true", help="leave out what runs in two processes")
    parser.add_argument("--quick", action="store_true", help="one short turn of one window")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        be_child(*arguments.child)
        return
    seconds, turns = (0.05, 1) if arguments.quick else (arguments.seconds, arguments.turns)
    windows = WINDOWS[1:2] if arguments.quick else WINDOWS
    ways = [] if arguments.core else [*WAYS]
    with tempfile.TemporaryDirectory() as directory:
        make_ca(directory)
        for name in ("publisher", "subscriber"):
            make_certificate(directory, name)
        os.environ[CERTIFICATES] = directory
        print_table(windows, seconds, turns, ways)


def print_table(windows: Sequence[int], seconds: float, turns: int, ways: list[str]) -> None:
    print(f"Python {platform.python_version()}; best of {turns} turns of {seconds:g} s each")
    print("giving, taking: microseconds an element; others: elements a second; x: times those of rsocket")
    print(head(ways))
    for size in SIZES:
        for window in windows:
            print(row(size, window, seconds, turns, ways), flush=True)
    print("again: python benchmarks/reactive.py " + " ".join(sys.argv[1:]))


if __name__ == "__main__":
    main()
