"""Adapters beside bare loops: round trips, and messages a second.

    python benchmarks/adapters.py [--seconds 1] [asyncio uvloop trio twisted twisted-asyncio blocking]

Two processes talk over TLS on loopback, with 100-byte bodies and unreliable messages. A round trip goes to a handler of
the other process and back to a handler here. The bare loop moves the same bytes over the same TLS on the same loop with
no protocol: it sends back what arrives. So a ratio says what an instance adds, whatever else the machine does. Instance
and bare loop take turns; the median of each figure over all turns is printed, the ratio is that of the p50s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import platform
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, cast

import anyio
import anyio.lowlevel
from tolliver import blocking
from tolliver._tls.policy import client_context, server_context
from tolliver.anyio import TLS, InstanceOptions
from tolliver.certs import make_ca, make_certificate

from tolliver_proto import Message, Revision, encode

BODY = bytes(100)
FRAME = encode(Message("ping", "", BODY, None), Revision.DRAFT_2)
COUNT = b"how many?"
LOT = 100  # messages between two looks at the clock
CHUNK = 65536
AIM = 1.6
HOST = "127.0.0.1"


def tls(directory: Path, name: str) -> TLS:
    return TLS(directory / f"{name}.pem", directory / f"{name}.key", directory / "ca.pem")


def options(directory: Path, name: str) -> InstanceOptions:
    listen = f"{HOST}:0" if name == "server" else None
    return InstanceOptions(database=directory / f"{name}.db", listen=listen, tls=tls(directory, name))


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


def percentiles(times: list[float]) -> dict[str, float]:
    """Microseconds."""
    cut = statistics.quantiles(times, n=100)
    return {"p50": cut[49] * 1e6, "p99": cut[98] * 1e6}


# Instances where one awaits: asyncio, trio, Twisted.


class Loop:
    """Calls of a loop that the two programs below need."""

    event: Callable[[], Any]
    """Makes something with set() and an awaitable wait()."""

    async def breathe(self) -> None: ...

    async def open(self, options: InstanceOptions) -> Any: ...

    async def close(self, instance: Any) -> None: ...


async def serve(loop: Loop, directory: Path) -> None:
    instance = await loop.open(options(directory, "server"))
    counted = 0

    def answer(delivery: Any) -> None:
        instance.unreliable_send("pong", "", str(counted).encode() if delivery.body == COUNT else delivery.body)

    await instance.subscribe("ping", "", answer)
    runs = instance.message_runs("bench")
    await instance.subscribe("bench")
    say(instance.port)
    async for run in runs:
        counted += len(run)
        run.ack()


async def measure(loop: Loop, directory: Path, port: int, seconds: float) -> None:
    instance = await loop.open(options(directory, "client"))
    answers: list[bytes] = []
    heard = [loop.event()]

    def answered(delivery: Any) -> None:
        answers.append(delivery.body)
        heard[0].set()

    async def ask(body: bytes) -> bytes:
        heard[0] = loop.event()
        while not instance.unreliable_send("ping", "", body):  # as long as those before it fill the buffer
            await loop.breathe()
        await heard[0].wait()
        return answers.pop()

    await instance.subscribe("pong", "", answered)
    await instance.new_connection(f"{HOST}:{port:.0f}")
    while not any(len(peer.subscriptions) >= 2 for peer in instance.peers()):
        await loop.breathe()
    await ask(BODY)
    times = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        await ask(BODY)
        times.append(time.perf_counter() - started)
    before = int(await ask(COUNT))
    sent = 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        for _ in range(LOT):
            sent += instance.unreliable_send("bench", "", BODY)
        await loop.breathe()
    while int(await ask(COUNT)) - before < sent:
        await loop.breathe()
    say({**percentiles(times), "rate": sent / (time.perf_counter() - started)})
    await loop.close(instance)


class AnyioLoop(Loop):
    event = anyio.Event

    async def breathe(self) -> None:
        await anyio.lowlevel.checkpoint()

    async def open(self, options: InstanceOptions) -> Any:
        from tolliver.anyio import create_instance

        return await create_instance(options).__aenter__()

    async def close(self, instance: Any) -> None:
        await instance.__aexit__(None, None, None)


# Instances on Twisted.


class Once:
    """An event for one coroutine."""

    def __init__(self) -> None:
        from twisted.internet.defer import Deferred

        self._deferred = Deferred[None]()

    def set(self) -> None:
        self._deferred.callback(None)

    def wait(self) -> Any:
        return self._deferred


class TwistedLoop(Loop):
    event = Once

    async def breathe(self) -> None:
        from twisted.internet import reactor
        from twisted.internet.task import deferLater

        await deferLater(cast(Any, reactor), 0)

    async def open(self, options: InstanceOptions) -> Any:
        from tolliver.twisted import create_instance

        return await create_instance(options)

    async def close(self, instance: Any) -> None:
        await instance.close()


def on_twisted(install: str, program: Callable[..., Any], *arguments: Any) -> None:
    import_module(f"twisted.internet.{install}").install()
    from twisted.internet import defer, reactor

    def end(result: Any) -> None:
        if result is not None:
            result.printTraceback()
        cast(Any, reactor).stop()

    cast(Any, reactor).callWhenRunning(lambda: defer.Deferred.fromCoroutine(program(*arguments)).addBoth(end))
    cast(Any, reactor).run()


# Instances on threads.


def serve_blocking(directory: Path) -> None:
    with blocking.create_instance(options(directory, "server")) as instance:
        counted = 0

        def answer(delivery: Any) -> None:
            instance.unreliable_send("pong", "", str(counted).encode() if delivery.body == COUNT else delivery.body)

        instance.subscribe("ping", "", answer)
        runs = instance.message_runs("bench")
        say(instance.port)
        for run in runs:
            counted += len(run)
            run.ack()


def measure_blocking(directory: Path, port: int, seconds: float) -> None:
    with blocking.create_instance(options(directory, "client")) as instance:
        answers: SimpleQueue[bytes] = SimpleQueue()

        def ask(body: bytes) -> bytes:
            while not instance.unreliable_send("ping", "", body):
                time.sleep(0)
            return answers.get()

        instance.subscribe("pong", "", lambda delivery: answers.put(delivery.body))
        instance.new_connection(f"{HOST}:{port:.0f}")
        while not any(len(peer.subscriptions) >= 2 for peer in instance.peers()):
            time.sleep(0.001)
        ask(BODY)
        times = []
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            ask(BODY)
            times.append(time.perf_counter() - started)
        before = int(ask(COUNT))
        sent = 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            taken = sum(instance.unreliable_send("bench", "", BODY) for _ in range(LOT))
            sent += taken
            if taken < LOT:
                time.sleep(0)
        while int(ask(COUNT)) - before < sent:
            time.sleep(0.001)
        say({**percentiles(times), "rate": sent / (time.perf_counter() - started)})


# The bare loops.


class Bounce(asyncio.Protocol):
    """Sends back what arrives; with `over` it begins, notes when, and ends when the time is over."""

    def __init__(self, end: float = float("inf"), over: Callable[[list[float]], None] | None = None) -> None:
        self._end = end
        self._over = over
        self._times: list[float] = []

    def connection_made(self, transport: Any) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.begin(transport.write, self._over)

    def begin(self, write: Callable[[bytes], Any], over: Callable[[list[float]], None] | None) -> None:
        self._write = write
        self._over = over
        if over is not None:
            write(FRAME)

    def data_received(self, data: bytes) -> None:
        if self._over is not None:
            self._times.append(time.perf_counter())
            if self._times[-1] > self._end:
                self._over(self._times)
                return
        self._write(data)


def gaps(times: list[float]) -> dict[str, float]:
    return percentiles([later - earlier for earlier, later in itertools.pairwise(times)])


async def bare_asyncio_server(directory: Path) -> None:
    context = server_context(tls(directory, "server"))
    server = await asyncio.get_running_loop().create_server(Bounce, HOST, 0, ssl=context)
    say(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def bare_asyncio_client(directory: Path, port: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    over: asyncio.Future[list[float]] = loop.create_future()
    bounce = lambda: Bounce(time.perf_counter() + seconds, over.set_result)  # noqa: E731  # a factory
    context = client_context(tls(directory, "client"))
    transport, _ = await loop.create_connection(bounce, HOST, int(port), ssl=context, server_hostname=HOST)
    say(gaps(await over))
    transport.abort()


async def bare_trio_server(directory: Path) -> None:
    import trio

    listeners = await trio.open_tcp_listeners(0, host=HOST)
    say(listeners[0].socket.getsockname()[1])
    stream = trio.SSLStream(await listeners[0].accept(), server_context(tls(directory, "server")), server_side=True)
    with contextlib.suppress(trio.BrokenResourceError):  # the client just goes
        while data := await stream.receive_some(CHUNK):
            await stream.send_all(data)


async def bare_trio_client(directory: Path, port: int, seconds: float) -> None:
    import trio

    tcp = await trio.open_tcp_stream(HOST, int(port))
    stream = trio.SSLStream(tcp, client_context(tls(directory, "client")), server_hostname=HOST)
    times = [time.perf_counter()]
    while times[-1] < times[0] + seconds:
        await stream.send_all(FRAME)
        await stream.receive_some(CHUNK)
        times.append(time.perf_counter())
    say(gaps(times))


def bare_twisted_protocol(wrapped: type, end: float, over: Callable[[list[float]], None] | None) -> Any:
    from twisted.internet.interfaces import IHandshakeListener
    from zope.interface import implementer

    @implementer(IHandshakeListener)
    class TwistedBounce(wrapped):  # type: ignore[misc]  # Twisted's Protocol, imported after the reactor is chosen
        transport: Any

        def connectionMade(self) -> None:
            self.transport.transport.getHandle().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def handshakeCompleted(self) -> None:
            self._bounce = Bounce(end)
            self._bounce.begin(self.transport.write, over)

        def dataReceived(self, data: bytes) -> None:
            self._bounce.data_received(data)

    return TwistedBounce


async def bare_twisted(directory: Path, port: float = 0, seconds: float = 0) -> None:
    from twisted.internet import reactor
    from twisted.internet.defer import Deferred
    from twisted.internet.protocol import ClientFactory, Factory, Protocol
    from twisted.internet.ssl import Certificate, PrivateCertificate

    over = Deferred[list[float]]()
    files = tls(directory, "client" if port else "server")
    load, ca = cast(Any, PrivateCertificate.loadPEM), cast(Any, Certificate.loadPEM)(files.ca.read_bytes())
    context = load(files.cert.read_bytes() + files.key.read_bytes()).options(ca)
    loop = cast(Any, reactor)
    if port:
        bounce = bare_twisted_protocol(Protocol, time.perf_counter() + seconds, over.callback)
        loop.connectSSL(HOST, int(port), ClientFactory.forProtocol(bounce), context)
        say(gaps(await over))
    else:
        bounce = bare_twisted_protocol(Protocol, float("inf"), None)
        listening = loop.listenSSL(0, Factory.forProtocol(bounce), context, interface=HOST)
        say(listening.getHost().port)
        await over


def bare_blocking_server(directory: Path) -> None:
    with socket.create_server((HOST, 0)) as listener:
        say(listener.getsockname()[1])
        stream = prompt(server_context(tls(directory, "server")), listener.accept()[0], server_side=True)
        while data := stream.recv(CHUNK):
            stream.sendall(data)


def bare_blocking_client(directory: Path, port: int, seconds: float) -> None:
    context = client_context(tls(directory, "client"))
    stream = prompt(context, socket.create_connection((HOST, int(port))), server_hostname=HOST)
    times = [time.perf_counter()]
    while times[-1] < times[0] + seconds:
        stream.sendall(FRAME)
        stream.recv(CHUNK)
        times.append(time.perf_counter())
    say(gaps(times))


def prompt(context: ssl.SSLContext, sock: socket.socket, **how: Any) -> ssl.SSLSocket:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(sock, **how)


# The kinds: for each its four programs.


class Kind(NamedTuple):
    """Servers say their port and work until they are killed, clients say what they measured."""

    serve: Callable[[Path], None]
    measure: Callable[[Path, int, float], None]
    bare_server: Callable[[Path], None]
    bare_client: Callable[[Path, int, float], None]


def anyio_kind(backend: str, uvloop: bool, bare_server: Callable[..., Any], bare_client: Callable[..., Any]) -> Kind:
    def runs(program: Callable[..., Any], *first: Any) -> Callable[..., None]:
        backend_options = {"use_uvloop": True} if uvloop else {}
        return partial(anyio.run, program, *first, backend=backend, backend_options=backend_options)

    loop = AnyioLoop()
    return Kind(runs(serve, loop), runs(measure, loop), runs(bare_server), runs(bare_client))


def twisted_kind(install: str) -> Kind:
    loop = TwistedLoop()
    bare = partial(on_twisted, install, bare_twisted)
    return Kind(partial(on_twisted, install, serve, loop), partial(on_twisted, install, measure, loop), bare, bare)


KINDS: dict[str, Kind] = {
    "asyncio": anyio_kind("asyncio", False, bare_asyncio_server, bare_asyncio_client),
    "uvloop": anyio_kind("asyncio", True, bare_asyncio_server, bare_asyncio_client),
    "trio": anyio_kind("trio", False, bare_trio_server, bare_trio_client),
    "twisted": twisted_kind("epollreactor"),
    "twisted-asyncio": twisted_kind("asyncioreactor"),
    "blocking": Kind(serve_blocking, measure_blocking, bare_blocking_server, bare_blocking_client),
}


# Taking turns.


def child(kind: str, program: str, directory: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", kind, program, str(directory), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def one(kind: str, server: str, client: str, directory: Path, seconds: float) -> dict[str, float]:
    with child(kind, server, directory) as there:
        try:
            with child(kind, client, directory, heard(there), seconds) as here:
                figures: dict[str, float] = heard(here)
                return figures
        finally:
            there.kill()


def row(kind: str, directory: Path, seconds: float, turns: int) -> str:
    tried, bare = [], []
    for _ in range(turns):
        tried.append(one(kind, "serve", "measure", directory, seconds))
        bare.append(one(kind, "bare_server", "bare_client", directory, seconds))
    of = {name: statistics.median(figures[name] for figures in tried) for name in ("p50", "p99", "rate")}
    alone = {name: statistics.median(figures[name] for figures in bare) for name in ("p50", "p99")}
    return (
        f"{kind:<16}{of['rate']:>11,.0f}{of['p50']:>9.0f}{of['p99']:>8.0f}{alone['p50']:>10.0f}{alone['p99']:>8.0f}"
        f"{of['p50'] / alone['p50']:>8.2f}   aim {AIM}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], help="which; all if none is named")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        kind, program, directory, *rest = arguments.child
        getattr(KINDS[kind], program)(Path(directory), *map(float, rest))
        return
    print(f"Python {platform.python_version()}, {ssl.OPENSSL_VERSION}; round trips in microseconds")
    print(f"{'':<16}{'messages/s':>11}{'p50':>9}{'p99':>8}{'bare p50':>10}{'p99':>8}{'ratio':>8}")
    with tempfile.TemporaryDirectory() as name:
        make_ca(name)
        for who in ("server", "client"):
            make_certificate(name, who)
        for kind in arguments.kinds or KINDS:
            print(row(kind, Path(name), arguments.seconds, arguments.turns), flush=True)
    print("again: python benchmarks/adapters.py " + " ".join(sys.argv[1:]))


if __name__ == "__main__":
    main()
