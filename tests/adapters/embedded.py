"""Instance within an application, as a program.

    python -m tests.adapters.embedded SCENE KIND DIRECTORY

The instance's loop runs on another thread, which a fork does not have.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from tolliver._options.instance import InstanceOptions

from .facade import Facade, World, until
from .kinds import make_world


def _say(what: str) -> None:
    os.write(1, f"{what}\n".encode())


def _open(world: World, directory: Path, name: str, **options: Any) -> Facade:
    return Facade(world, InstanceOptions(database=directory / f"{name}.db", plaintext=True, **options))


@contextmanager
def _pair(world: World, directory: Path) -> Iterator[tuple[Facade, Facade]]:
    listen = "127.0.0.1:0"
    with _open(world, directory, "right", listen=listen) as right, _open(world, directory, "left") as left:
        right.subscribe("news", handler=lambda _: None)
        left.new_connection(f"127.0.0.1:{right.port}")
        yield left, right


def resolver(kind: str, directory: Path) -> None:
    """In the main thread, as threads that a daemon thread starts are daemons, too."""
    asked = threading.Event()
    look_up: Any = socket.getaddrinfo

    def hangs(host: str, *args: Any, **options: Any) -> Any:
        if host == "localhost" and not options.get("flags", 0) & socket.AI_NUMERICHOST:
            asked.set()
            threading.Event().wait()
        return look_up(host, *args, **options)

    vars(socket)["getaddrinfo"] = hangs
    options = InstanceOptions(database=directory / "left.db", plaintext=True, remotes=["localhost:1"])
    IN_MAIN.get(kind, _on_anyio)(kind, options, asked)
    _say("closed")


def _on_anyio(kind: str, options: InstanceOptions, asked: threading.Event) -> None:
    from tolliver.anyio import create_instance

    async def main() -> None:
        async with create_instance(options):
            await anyio.to_thread.run_sync(asked.wait)

    backend = "trio" if kind == "trio" else "asyncio"
    anyio.run(main, backend=backend, backend_options={"use_uvloop": True} if kind == "uvloop" else {})


def _on_twisted(kind: str, options: InstanceOptions, asked: threading.Event) -> None:
    from tolliver.twisted import create_instance
    from twisted.internet.asyncioreactor import AsyncioSelectorReactor
    from twisted.internet.defer import Deferred
    from twisted.internet.epollreactor import EPollReactor
    from twisted.internet.task import deferLater, react

    async def live(reactor: Any) -> None:
        async with await create_instance(options, reactor):
            while not asked.is_set():
                await deferLater(reactor, 0.01)

    with suppress(SystemExit):
        reactor: Any = {"twisted": EPollReactor, "twisted-asyncio": AsyncioSelectorReactor}[kind]()
        react(lambda reactor: Deferred.fromCoroutine(live(reactor)), _reactor=reactor)


def _on_threads(_kind: str, options: InstanceOptions, asked: threading.Event) -> None:
    from tolliver.blocking import create_instance

    with create_instance(options):
        asked.wait(10)


IN_MAIN = {"twisted": _on_twisted, "twisted-asyncio": _on_twisted, "blocking": _on_threads}


def child(kind: str, directory: Path) -> None:
    """A parent with an instance forks, and is killed; the child lives on, and whoever started them looks."""
    (told, tells), (lives, living) = os.pipe(), os.pipe()
    parent = os.fork()
    if not parent:
        os.close(living)
        with _open(make_world(kind), directory, "right", listen="127.0.0.1:0") as right:
            os.write(tells, b"%d" % (right.port or 0))
            until(lambda: right.stats()["connections"])
            if not os.fork():
                os.write(tells, b"!")
                os.read(lives, 1)
                os._exit(0)
            threading.Event().wait()
    port = int(os.read(told, 10))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        os.read(told, 1)
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        with suppress(ConnectionResetError):
            assert peer.recv(1) == b""
        _say("the peer has seen the end")
    socket.create_server(("127.0.0.1", port)).close()
    _say("the port is free")


def close(kind: str, directory: Path) -> None:
    world = make_world(kind)
    with _pair(world, directory) as (left, right):
        process = os.fork()
        if not process:
            for one in (left, right):
                leave = getattr(one._instance, "close", None) or one._instance._core.close
                result = leave()
                if iscoroutine(result):
                    try:
                        result.send(None)
                    except StopIteration:
                        continue
                    _say("it waits")
            _say("the child is done")
            os._exit(0)
        os.waitpid(process, 0)
        receipt = left.send("news", "", b"x", require_recipients=1)
        left._call("wait_acked", receipt, timeout=10)
        _say("the parent goes on")
    world.close()


SCENES = {one.__name__: one for one in (resolver, child, close)}

if __name__ == "__main__":
    SCENES[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
