"""Instances by name, for scenarios that are coroutines on a reactor.

`loop.wait(scenario)` runs one in the reactor's thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tolliver.twisted import Instance, InstanceOptions, create_instance
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from tests.certificates import Certificates

STEP = 0.005  # seconds between two looks
LOOKS = 2000


class Nodes:
    def __init__(self, directory: Path, certs: Certificates, reactor: Any) -> None:
        self.directory = directory
        self.certs = certs
        self.reactor = reactor

    def database(self, name: str) -> Path:
        return self.directory / f"{name}.db"

    def options(self, name: str, **options: Any) -> InstanceOptions:
        options = {"database": self.database(name), "listen": "127.0.0.1:0", **options}
        return InstanceOptions(tls=self.certs.tls(name), **options)

    def open(self, name: str, **options: Any) -> Deferred[Instance]:
        return create_instance(self.options(name, **options), self.reactor)

    @asynccontextmanager
    async def pair(self, **options: Any) -> AsyncIterator[tuple[Instance, Instance]]:
        """Two that are connected; the second one subscribes to "news", and the first one knows it."""
        async with await self.open("right", **options) as right, await self.open("left", **options) as left:
            await right.subscribe("news")
            await left.new_connection(f"127.0.0.1:{right.port}")
            await self.until(lambda: left.peers()[0].subscriptions)
            yield left, right

    async def until(self, true: Callable[[], object]) -> None:
        await until(self.reactor, true)


async def until(reactor: Any, true: Callable[[], object]) -> None:
    for _ in range(LOOKS):
        if true():
            return
        await deferLater(reactor, STEP)
    raise AssertionError("it did not come true")
