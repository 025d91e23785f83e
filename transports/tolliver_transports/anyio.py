"""tolliver on asyncio and trio, through anyio.

The idea: each connection has its two tasks (`_anyio_wires`), and for the instance there is one task that keeps time
and one that keeps the store. None of them knows the protocol: they move bytes into the node, and the driver carries
out what the node answers.
"""

from __future__ import annotations

import importlib.util
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar, cast
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread

from tolliver_proto import ConnectionClosing, ConnectionLost, DeadLetter, Receipt, Role, TolliverError

from ._acl_file import load_acl
from ._anyio_sockets import accept, dial
from ._anyio_wires import Bell, Promise, Wire
from ._inbox import Callback, Received, Run
from ._instance import BaseInstance, Item
from ._iterators import Count, Messages, Registration, Runs
from ._options import TLS, InstanceOptions, Remote
from ._sockets import close_all, host_of, open_listeners
from ._tls import AnyPump
from ._world import Done, Job

__all__ = [
    "TLS",
    "Instance",
    "InstanceOptions",
    "Messages",
    "Received",
    "Registration",
    "Remote",
    "Run",
    "Runs",
    "create_instance",
    "load_acl",
    "run",
]

T = TypeVar("T")


class Instance(BaseInstance):
    """A running instance: use `async with create_instance(options) as instance`."""

    def __init__(self, options: InstanceOptions) -> None:
        super().__init__(options)
        self._jobs: deque[tuple[Job, Done]] = deque()
        self._jobs_bell, self._time_bell, self._idle_bell = Bell(), Bell(), Bell()
        self._listening = anyio.CancelScope()
        self._listeners: list[socket.socket] = []

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

    # The life of an instance.

    async def __aenter__(self) -> Self:
        await anyio.to_thread.run_sync(self._prepare)
        self._limiter = anyio.CapacityLimiter(1)
        self._tasks = await anyio.create_task_group().__aenter__()
        try:
            if self.options.listen is not None:
                await self._listen(*self.options.listen)
        except BaseException:
            await self._release()
            raise
        self._tasks.start_soon(self._keep_store)
        self._tasks.start_soon(self._keep_timer)
        if self._store.unclean:
            self._tasks.start_soon(self._look_for_damage)
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.cancel()
        self._begin_close()
        try:
            with anyio.move_on_after(self.options.limits.close_timeout + 1, shield=True):
                while not self.node.idle:
                    await self._idle_bell.heard()
        finally:
            self._driver.promises.give_up()
            await self._release()

    async def _release(self) -> None:
        """The body's exception is not given to the task group, which would wrap it in a group."""
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:
            close_all(self._listeners)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._finish)

    async def _keep_timer(self) -> None:
        while True:
            with anyio.move_on_after(self._driver.arm()):
                await self._time_bell.heard()
            self.keep_time()

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

    # What the driver and the mailboxes ask for (see World and AsyncOwner).

    def promise(self) -> Promise[Any]:
        return Promise()

    def bell(self) -> Bell:
        return Bell()

    def wake(self) -> None:
        self._time_bell.ring()

    def idle(self) -> None:
        self._idle_bell.ring()

    def store(self, job: Job, done: Done) -> None:
        self._jobs.append((job, done))
        self._jobs_bell.ring()

    def spawn(self, work: Callable[[], Awaitable[None]]) -> Callable[[], object]:
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await work()

        self._tasks.start_soon(run)
        return scope.cancel

    def breathe(self) -> Awaitable[object]:
        return anyio.lowlevel.checkpoint()

    def dial(self, cid: int, remote: Remote) -> None:
        async def connect() -> socket.socket:
            try:
                return await dial(remote.host, remote.port)
            except OSError as failure:
                raise ConnectionLost(f"cannot reach {remote}: {failure}") from failure

        self._start(cid, Role.CLIENT, self._pumps.client(remote), connect)

    # Connections.

    async def _listen(self, host: str, port: int) -> None:
        self._listeners = await anyio.to_thread.run_sync(open_listeners, host, port)
        self.addresses = [one.getsockname()[:2] for one in self._listeners]
        self._tasks.start_soon(self._serve)

    async def _serve(self) -> None:
        async with anyio.create_task_group() as accepting:
            self._listening = accepting.cancel_scope
            for listener in self._listeners:
                accepting.start_soon(accept, listener, self._take_in)

    def _take_in(self, sock: socket.socket) -> None:
        async def connect() -> socket.socket:
            return sock

        cid = self._accepted(host_of(sock))
        if cid is None:
            sock.close()
        else:
            self._start(cid, Role.SERVER, self._pumps.server(), connect)

    def _start(self, cid: int, role: Role, pump: AnyPump, connect: Callable[[], Awaitable[socket.socket]]) -> None:
        wire = self.wires[cid] = Wire(self._driver, cid, role, pump)

        async def run() -> None:
            error: TolliverError | None = ConnectionClosing("the instance was closed")
            try:
                error = await wire.run(connect)
            finally:
                self._lost(cid, error)

        self._tasks.start_soon(run)


def create_instance(options: InstanceOptions) -> Instance:
    """`async with create_instance(options) as instance:` opens the database, listens, dials, and closes in order.

    Entering raises CertificateError, StoreError, IdentityConflict, and ConnectionLost where it cannot listen.
    """
    return Instance(options)


def run(main: Callable[..., Awaitable[T]], *args: Any, backend: str = "asyncio") -> T:
    """As `anyio.run(main, *args)`; asyncio runs on uvloop where that is installed."""
    fast = backend == "asyncio" and importlib.util.find_spec("uvloop") is not None
    return anyio.run(main, *args, backend=backend, backend_options={"use_uvloop": True} if fast else {})
