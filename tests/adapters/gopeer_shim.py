"""What `test_gopeer` needs of the suite's facade, by the same names, over asyncio alone.

It stands in for `facade`, `nodes` and the `nodes` fixture of the suite: where they are, this file goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import anyio.from_thread
import pytest
from anyio.from_thread import BlockingPortal
from tolliver_transports.anyio import Instance, InstanceOptions, create_instance

from tests.certificates import Certificates
from tolliver_proto import Delivery, NoticeKind, TolliverError

PATIENCE = 10.0  # seconds


def until(true: Callable[[], object], what: str = "it") -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what} did not come true"
        time.sleep(0.002)


class Facade:
    """An instance whose methods block."""

    def __init__(self, portal: BlockingPortal, options: InstanceOptions) -> None:
        self._portal = portal
        self._options = options
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        made = self._portal.call(create_instance, self._options)
        self._instance: Instance = self._stack.enter_context(self._portal.wrap_async_context_manager(made))
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stack.close()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._instance, name)
        if not callable(method):
            return method

        async def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            return await result if hasattr(result, "__await__") else result

        return lambda *args, **options: self._portal.start_task_soon(lambda: call(*args, **options)).result(PATIENCE)


class Nodes:
    def __init__(self, directory: Path, certs: Certificates, portal: BlockingPortal) -> None:
        self.directory = directory
        self.certs = certs
        self._portal = portal

    def open(self, name: str, **options: Any) -> Facade:
        options = {"database": self.directory / f"{name}.db", "listen": "127.0.0.1:0", **options}
        options.setdefault("tls", self.certs.tls(name))
        return Facade(self._portal, InstanceOptions(**options))


@pytest.fixture
def nodes(tmp_path: Path, certs: Certificates) -> Iterator[Nodes]:
    with anyio.from_thread.start_blocking_portal("asyncio") as portal:
        yield Nodes(tmp_path, certs, portal)


class Inbox:
    """A handler that remembers."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []

    def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    @property
    def bodies(self) -> list[bytes]:
        return [delivery.body for delivery in self.deliveries]

    def holds(self, count: int) -> None:
        until(lambda: len(self.deliveries) >= count, f"{count} messages")


def connected(node: Facade) -> int:
    return int(node.stats()["peers_up"])


def noticed(node: Facade, kind: NoticeKind) -> list[str]:
    return [notice.detail for notice in node.notices() if notice.kind is kind]


def error_of(node: Facade, remote: Any) -> Any:
    """What dialling it comes to, where that is an error."""
    try:
        node.new_connection(remote)
    except TolliverError as error:
        return error
    return None
