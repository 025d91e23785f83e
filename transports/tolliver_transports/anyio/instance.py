"""tolliver on asyncio and trio, through anyio.

The idea: the connections and their tasks are the endpoint's (`_anyio_endpoint`); an instance has one task beside them,
which keeps the store. What is here are the calls in the form that tasks know: something to await.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread

from tolliver_proto import DeadLetter, Receipt, TolliverError

from .._driver.adapter import Done, Job
from .._messages.inbox import Callback
from .._messages.instance import BaseInstance, Item
from .._messages.iterators import Count, Messages, Registration, Runs
from .._options.instance import InstanceOptions, Remote
from .endpoint import Endpoint
from .wire import Bell

T = TypeVar("T")


class Instance(Endpoint, BaseInstance):
    """A running instance: use `async with create_instance(options) as instance`."""

    def __init__(self, options: InstanceOptions) -> None:
        super().__init__(options)
        self._jobs: deque[tuple[Job, Done]] = deque()
        self._jobs_bell = Bell()
        self._limiter = anyio.CapacityLimiter(1)

    # The calls, each explained where BaseInstance has it.

    async def new_connection(self, remote: str | Remote, *, timeout: float | None = None) -> UUID:
        return cast(UUID, await super().new_connection(remote).wait(timeout))

    async def remove_connection(self, remote: str | Remote, *, block: bool = False) -> None:
        super().remove_connection(remote, block=block)

    async def subscribe(self, channel: str, key: str = "", handler: Callback | None = None) -> None:
        await super().subscribe(channel, key, handler).wait()

    async def unsubscribe(self, channel: str, key: str = "") -> None:
        await super().unsubscribe(channel, key).wait()

    async def send(self, channel: str, key: str, body: bytes) -> Receipt:
        return cast(Receipt, await super().send(channel, key, body).wait())

    async def send_many(self, items: Iterable[Item]) -> Receipt:
        return cast(Receipt, await super().send_many(items).wait())

    def unreliable_send(self, channel: str, key: str, body: bytes) -> Count:
        return Count(super().unreliable_send(channel, key, body))

    def register_callback(self, channel: str, key: str, callback: Callback) -> Registration:
        """As BaseInstance has it. The callback may be plain or async."""
        self.check_open()
        return Registration(self, channel, key, callback)

    def messages(self, channel: str, key: str = "", *, subscribe: bool = True) -> Messages:
        """`async for message in instance.messages(...)`: settle each with `message.ack()` or `message.fail()`."""
        self.check_open()
        return Messages(self, channel, key, subscribe)

    def message_runs(self, channel: str, key: str = "", *, subscribe: bool = True) -> Runs:
        """As `messages`, for bulk: lists of what came together, settled with `run.ack()` or `run.fail()`."""
        self.check_open()
        return Runs(self, channel, key, subscribe)

    async def wait_acked(self, receipt: Receipt, *, timeout: float | None = None) -> None:
        await super().wait_acked(receipt).wait(timeout)

    async def forget_peer(self, peer: UUID) -> None:
        await super().forget_peer(peer).wait()

    async def repin(self, peer: UUID, spki_sha256: bytes | None = None) -> None:
        await super().repin(peer, spki_sha256).wait()

    async def retry(self, peer: UUID) -> int:
        return cast(int, await super().retry(peer).wait())

    async def drop_parked(self, peer: UUID) -> int:
        return cast(int, await super().drop_parked(peer).wait())

    async def dead_letters(self, after: int = 0, count: int = 1000) -> list[DeadLetter]:
        return cast(list[DeadLetter], await super().dead_letters(after, count).wait())

    async def reload_tls(self) -> None:
        await super().reload_tls().wait()

    def replay(self, letters: Iterable[DeadLetter]) -> Count:
        return Count(super().replay(letters))

    # The store.

    def _start_work(self) -> None:
        self._tasks.start_soon(self._keep_store)
        if self._store.unclean:
            self._tasks.start_soon(self._look_for_damage)
        super()._start_work()

    async def _keep_store(self) -> None:
        while True:
            while not self._jobs:
                await self._jobs_bell.heard()
            job, done = self._jobs.popleft()
            result, error = None, None
            try:
                result = await anyio.to_thread.run_sync(job, limiter=self._limiter)
            except TolliverError as failure:
                error = failure
            done(result, error)
            self.turn()

    async def _look_for_damage(self) -> None:
        self._on_damage(await anyio.to_thread.run_sync(self._check_store))

    def store(self, job: Job, done: Done) -> None:
        self._jobs.append((job, done))
        self._jobs_bell.ring()


def create_instance(options: InstanceOptions) -> Instance:
    """`async with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    Entering raises CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen.
    """
    return Instance(options)


def run(main: Callable[..., Awaitable[T]], *args: Any, backend: str = "asyncio") -> T:
    """As `anyio.run(main, *args)`; asyncio runs on uvloop where that is installed."""
    fast = backend == "asyncio" and importlib.util.find_spec("uvloop") is not None
    return anyio.run(main, *args, backend=backend, backend_options={"use_uvloop": True} if fast else {})
