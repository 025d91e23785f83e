"""Costs beside speed: imports, and memory of idle connections."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
from tolliver.anyio import Remote, create_instance
from tolliver.blocking import TLS, BlockingConnection, Pumps
from tolliver.certs import make_certificate

from benchmarks._peers.certificates import client_context, server_context
from benchmarks._peers.measuring import HOST, Setting, over, serving
from benchmarks._peers.ours import on_loop, options
from tolliver_proto import Established, Role

IMPORTS = 7  # of each; the median is taken
CONNECTIONS = 100
WARM_UP = 20  # connections before those that are measured
SETTLING = 0.2  # seconds, twice: before each reading
KIB = 1024


# Imports.


def imports(setting: Setting) -> None:
    """Milliseconds until compiled modules are imported, in an interpreter that has imported nothing else."""
    code = f"import time; began = time.perf_counter(); import {setting.modules}; print(time.perf_counter() - began)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = setting.directory

    def one() -> float:
        return float(subprocess.check_output([sys.executable, "-c", code], env=environment))

    one()  # compiles
    over({"ms": statistics.median(one() for _ in range(IMPORTS)) * 1000})


# Memory of the process that serves.


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def measured(setting: Setting, connect: Callable[[int], object]) -> None:
    """KiB that one more connection takes."""
    held = [connect(number) for number in range(WARM_UP)]
    time.sleep(SETTLING)
    before = resident(setting.pid)
    held += [connect(number) for number in range(WARM_UP, WARM_UP + CONNECTIONS)]
    time.sleep(SETTLING)
    over({"kib": (resident(setting.pid) - before) / CONNECTIONS / KIB})


@on_loop
async def be_connected(setting: Setting) -> None:
    async with create_instance(options(setting, "there")) as instance:
        serving(instance.port or 0)
        await anyio.sleep_forever()


def connect_peers(setting: Setting) -> None:
    """Each with a certificate and an identity of its own, as instances have."""

    def connect(number: int) -> BlockingConnection:
        member = make_certificate(setting.certificates, f"{Path(setting.directory).name}-{number}")
        pump = Pumps(TLS(member.cert, member.key, member.ca)).client(Remote(HOST, setting.port))
        sock = socket.create_connection((HOST, setting.port))
        connection = BlockingConnection(sock, Role.CLIENT, pump=pump, instance_id=member.uuid)
        while not isinstance(connection.receive(10), Established):
            pass
        return connection

    measured(setting, connect)


def be_connected_bare(setting: Setting) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, 0, ssl=server_context(setting))
        serving(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def connect_bare(setting: Setting) -> None:
    context = client_context(setting)
    measured(setting, lambda _number: _secured(setting, context))


def connect_websockets(setting: Setting) -> None:
    context = client_context(setting)

    def connect(_number: int) -> ssl.SSLSocket:
        sock = _secured(setting, context)
        sock.sendall(
            f"GET / HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += (part := sock.recv(4096))
            assert part, "the server has ended the connection"
        assert b" 101 " in head, head
        return sock

    measured(setting, connect)


def _secured(setting: Setting, context: ssl.SSLContext) -> ssl.SSLSocket:
    sock = context.wrap_socket(socket.create_connection((HOST, setting.port)), server_hostname=HOST)
    sock.settimeout(0.01)
    with suppress(TimeoutError):
        sock.recv(1)  # TLS sends something after the handshake
    sock.settimeout(10)
    return sock
