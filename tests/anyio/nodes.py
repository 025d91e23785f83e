"""Instances for tests, over real sockets, real TLS and a real database; and waiting for what they do."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
from tolliver_transports.anyio import Instance, InstanceOptions, create_instance

from tests.certificates import Certificates
from tolliver_proto import Delivery, NoticeKind, TolliverError

STEP = 0.005  # seconds between two looks
SOON = 0.2  # seconds; a retry_interval for tests in which something must come again


async def until(true: Callable[[], object]) -> None:
    """Wait for it. The limit is that of the test."""
    while not true():  # noqa: ASYNC110  # it may be any state, and most of it has no event
        await anyio.sleep(STEP)


class Nodes:
    """Opens instances by name: a name is a certificate and a database."""

    def __init__(self, directory: Path, certs: Certificates) -> None:
        self.directory = directory
        self.certs = certs

    def options(self, name: str, **options: Any) -> InstanceOptions:
        options = {"database": self.directory / f"{name}.db", "listen": "127.0.0.1:0", **options}
        if "plaintext" not in options:
            options.setdefault("tls", self.certs.tls(name))
        return InstanceOptions(**options)

    def open(self, name: str, **options: Any) -> Instance:
        return create_instance(self.options(name, **options))

    @asynccontextmanager
    async def pair(
        self, channels: Iterable[str] = ("news",), *, left: Any = None, right: Any = None
    ) -> AsyncIterator[tuple[Instance, Instance, Inbox]]:
        """Two connected instances. The right one subscribes to the channels, and its inbox handles them."""
        async with self.open("right", **(right or {})) as listener, self.open("left", **(left or {})) as dialler:
            inbox = Inbox()
            for channel in channels:
                await listener.subscribe(channel, handler=inbox)
            await dialler.new_connection(address(listener))
            yield dialler, listener, inbox


class Inbox:
    """A handler that remembers."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    async def holds(self, count: int) -> None:
        await until(lambda: len(self.deliveries) >= count)


def address(instance: Instance) -> str:
    return f"127.0.0.1:{instance.port}"


@contextmanager
def silent_port() -> Iterator[str]:
    """An address where TCP connects and then nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def connected(instance: Instance) -> int:
    return instance.stats()["peers_up"]


def noticed(instance: Instance, kind: NoticeKind) -> list[str]:
    return [notice.detail for notice in instance.notices() if notice.kind is kind]


async def error_of(instance: Instance, remote: Any) -> TolliverError | None:
    """What dialling it comes to."""
    try:
        await instance.new_connection(remote)
    except TolliverError as error:
        return error
    return None
