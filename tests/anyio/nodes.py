"""Instances for tests of what only anyio has.

Behaviour of every adapter is in `tests/adapters`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from tolliver.anyio import Instance, InstanceOptions, create_instance

from tests.certificates import Certificates

STEP = 0.002  # seconds between two looks
RETRY = 60.0  # seconds: a busy machine must not make a message come twice


async def until(true: Callable[[], object]) -> None:
    """Wait for it. The limit is that of the test."""
    while not true():  # noqa: ASYNC110  # it may be any state, and most of it has no event
        await anyio.sleep(STEP)


class Nodes:
    """Opens instances by name: a name is a certificate and a database."""

    def __init__(self, directory: Path, certs: Certificates) -> None:
        self._directory = directory
        self._certs = certs

    def open(self, name: str, **options: Any) -> Instance:
        database, tls = self.database(name), self._certs.tls(name)
        patient = {"retry_interval": RETRY, **options}
        return create_instance(InstanceOptions(database=database, tls=tls, **{"listen": "127.0.0.1:0", **patient}))

    def database(self, name: str) -> Path:
        return self._directory / f"{name}.db"

    async def live(self, name: str, **options: Any) -> None:
        """Open it, and wait to be cancelled."""
        async with self.open(name, **options):
            await anyio.sleep_forever()

    @asynccontextmanager
    async def pair(self, **options: Any) -> AsyncIterator[tuple[Instance, Instance]]:
        """Two connected instances; the right one subscribes to "news". The options are the left one's."""
        async with self.open("right") as right, self.open("left", **options) as left:
            await right.subscribe("news")
            await left.new_connection(address(right))
            yield left, right


def address(instance: Instance) -> str:
    return f"127.0.0.1:{instance.port}"
