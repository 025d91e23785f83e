"""Endpoint on asyncio and trio: listens, dials, keeps time, closes in order.

On asyncio the loop's callbacks serve each connection (`asyncio_wire`), on trio two tasks (`wire`); one more task keeps
time. None of them knows a protocol: they pass bytes to the machine, and the driver carries out its actions.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from functools import partial
from math import isfinite
from time import monotonic
from typing import Any, Self, TypeVar

import anyio
import anyio.lowlevel

from tolliver_proto import ConnectionClosing, Role
from tolliver_proto.errors import OutOfThreads
from tolliver_proto.node import check_timeout

from .._driver import logs
from .._driver.endpoint import EndpointOptions
from .._driver.facade import BaseFacade
from .._driver.lookups import look_ups
from .._driver.loop_endpoint import LoopEndpoint
from .._driver.pending import PendingCall
from .._driver.sockets import Address, bound_to, close_all, host_of, open_listeners, unreached
from .._options.instance import Remote
from .._tls.pump import AnyPump
from .asyncio_wire import CallbackTransport, can_watch
from .dialing import accept, dial
from .ends import asyncio_loop, ends_task, say_asyncio, told_of_cancel
from .hosting import AsyncioHost, Host, TrioHost
from .threads import done, loop_caller, off_loop
from .wire import LoopWakeup, TaskTransport, Wakeup

E = TypeVar("E", bound="Endpoint")
T = TypeVar("T")
AnyTransport = CallbackTransport | TaskTransport


class Entered(BaseFacade[E]):
    """Base of `Instance` and `Streams`: `async with` opens and closes their endpoint."""

    async def __aenter__(self) -> Self:
        await self._core.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._core.close()


class Endpoint(LoopEndpoint):
    """The endpoint of a program. On trio the task that called `open` must call `close` (see `hosting`)."""

    def __init__(self, options: EndpointOptions) -> None:
        super().__init__(options)
        self._time_wakeup, self._idle_wakeup = Wakeup(), Wakeup()
        self._ahead = 0.0  # the loop's clock minus `monotonic()`, in seconds
        self._listeners: list[socket.socket] = []
        self._halted = False
        self._loop: asyncio.AbstractEventLoop | None = None  # None on trio

    async def open(self) -> None:
        self._halted = False
        self._loop = asyncio_loop()
        self._call_in_loop = loop_caller()
        self._claim()
        self._listening, self._until_due = anyio.CancelScope(), anyio.CancelScope()
        try:
            await off_loop(self._prepare)
            if self.options.listen is not None:
                found = await done(look_ups.ask(*self.options.listen, socket.AI_PASSIVE))
                await off_loop(partial(self._listen, *self.options.listen, found.result))
            self._host: Host = TrioHost() if self._loop is None else AsyncioHost()
            self._tasks = await self._host.open()
            try:
                self._tasks.start_soon(self._serve)
                self._tasks.start_soon(self._keep_timer)
                self._begin()
            except BaseException:
                await self._end_tasks()
                raise
        except BaseException:
            await self._close_files()
            raise

    async def close(self) -> None:
        if self.is_forked:
            return
        self._host.check_task(self)
        try:
            self._listening.cancel()
            self._begin_close()
            with anyio.move_on_after(self._close_seconds, shield=True) as closing:
                while not (self._machine.idle or self._halted):
                    await self._idle_wakeup.wait()
            if closing.cancelled_caught:
                self._tell_what_is_cut()
        finally:
            self._leave_nobody_waiting(waits_for_commit=True)
            try:
                await self._release()
            finally:
                self._driver.give_up()

    async def _release(self) -> None:
        try:
            await self._end_tasks()
        finally:
            await self._close_files()

    async def _end_tasks(self) -> None:
        """Cancel all tasks and wait for them. The exception of the `async with` body is not passed to the task group,
        which would wrap it in an exception group."""
        try:
            await self._host.close(self.options.limits.close_timeout, self._tell_who_is_awaited)
        finally:
            for wire in [*self.wires.values()]:
                wire.end(ConnectionClosing("the instance was closed"))

    def _tell_who_is_awaited(self) -> None:
        if awaited := self.waits_for():
            logs.messages.warning(
                "closing %s takes long, as it waits for %s, which were cancelled %g s ago: let them end when they are "
                "cancelled, or shield less of them",
                self,
                awaited,
                self.options.limits.close_timeout,
            )

    async def _close_files(self) -> None:
        with suppress(OutOfThreads), anyio.CancelScope(shield=True):
            try:
                await off_loop(self._finish)
            finally:
                self._finish()  # in case no thread was available, or the job was cancelled before it began

    async def _keep_timer(self) -> None:
        self._ahead = anyio.current_time() - monotonic()
        try:
            while True:
                with anyio.move_on_after(self._driver.arm()) as self._until_due:
                    await self._time_wakeup.wait()
                self.keep_time()
                if self.ends_soon:
                    self.end_turn()
                    await self.yield_to_loop()  # `end_turn` may have set the wakeup that is awaited next
        finally:  # the tasks are being cancelled, perhaps because the loop ends
            self._halted = True
            self._idle_wakeup.set()

    async def ask(self, call: Callable[[], PendingCall[T]], timeout: float | None) -> T:
        """Make a call of the machine, and wait for its answer: raises TimeoutError after `timeout` seconds, while the
        operation itself goes on. A timeout that is none is refused before the call is made.
        """
        check_timeout(timeout)
        return await self.wait(call(), timeout)

    async def wait(self, call: PendingCall[T], timeout: float | None = None) -> T:
        """The answer to a call. Raises TimeoutError after `timeout` seconds; the operation itself goes on."""
        if call.done:
            return call.result()
        wake, waiting = self._waiter()
        call.when_done(wake)
        try:
            if timeout is None:  # without a cancel scope, which costs as much as all the rest
                await waiting
            else:
                with anyio.move_on_after(timeout) as waited:
                    await waiting
                if waited.cancelled_caught and not call.done:
                    raise call.too_late(timeout)
        except BaseException:
            call.forget(wake)
            raise
        return call.result()

    def _waiter(self) -> tuple[Callable[[], object], Awaitable[object]]:
        if self._loop is None:
            event = anyio.Event()
            return event.set, event.wait()
        future = self._loop.create_future()
        return partial(_set, future), future

    # Called by the driver and the mailboxes (see LoopAdapter and AsyncCore).

    def wakeup(self) -> Wakeup | LoopWakeup:
        return Wakeup() if self._loop is None else LoopWakeup(self._loop)

    def wake(self) -> None:
        self._time_wakeup.set()

    def rearm(self, due: float) -> None:
        """Move the deadline of the sleeping timer task. If that task is running, it reads the deadline before it sleeps
        again."""
        self._until_due.deadline = due + self._ahead

    def _end_turn_soon(self) -> None:
        if self._loop is None:
            self._time_wakeup.set()
        else:
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        if not self._halted:
            try:
                self.end_turn()
            except Exception as error:
                self.break_down(error)

    def context(self) -> Context:
        context = super().context()
        if self._loop is not None:
            context.run(say_asyncio)
        return context

    def idle(self) -> None:
        self._idle_wakeup.set()

    def call_soon(self, job: Callable[[], object]) -> None:
        self._call_in_loop(job)

    def break_down(self, error: BaseException) -> None:
        async def fail() -> None:
            raise error

        if not self._halted:
            self.start(fail)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `work` in a task. Also works outside any task, in a callback of the loop."""
        self.context().run(partial(self._tasks.start_soon, work))

    def spawn(self, work: Callable[[], Awaitable[None]]) -> Callable[[], object]:
        scope = self.context().run(anyio.CancelScope)

        async def run() -> None:
            with scope:
                await work()

        self.start(run)
        return scope.cancel

    def spawn_source(
        self, work: Callable[[], Coroutine[Any, Any, None]], cut: Callable[[float], object]
    ) -> Callable[[bool], object]:
        seconds = self.options.limits.close_timeout
        own, rest = self.context().run(lambda: (anyio.CancelScope(shield=True), anyio.CancelScope()))

        def shield() -> None:
            rest.shield = rest.shield or isfinite(rest.deadline)

        async def run() -> None:
            with own, rest:
                await told_of_cancel(work(), shield)
            if rest.cancel_called:
                cut(seconds)

        def end(cancel: bool) -> None:
            if not isfinite(rest.deadline):
                rest.deadline = monotonic() + seconds + self._ahead
            if cancel:
                own.cancel()
            else:
                shield()

        self.start(run)
        return end

    def yield_to_loop(self) -> Awaitable[object]:
        return anyio.lowlevel.checkpoint()

    def is_outside(self, error: BaseException) -> bool:
        return ends_task(error)

    def dial(self, cid: int, remote: Remote) -> None:
        async def connect() -> socket.socket:
            try:
                return await dial(remote.host, remote.port)
            except OSError as failure:
                raise unreached(remote, failure) from failure

        self.start(partial(self._wire(cid, Role.CLIENT, self._pumps.client(remote)).run, connect))

    # Connections.

    def _listen(self, host: str, port: int, find: Callable[[], list[Address]]) -> None:
        self._listeners = open_listeners(host, port, find=find)
        self._opened.callback(close_all, self._listeners)
        self.addresses: list[tuple[str, int]] = [*map(bound_to, self._listeners)]

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
            return
        wire = self._wire(cid, Role.SERVER, self._server_pump())
        if isinstance(wire, CallbackTransport):
            wire.begin(sock)
        else:
            self.start(partial(wire.run, connect))

    def _wire(self, cid: int, role: Role, pump: AnyPump) -> AnyTransport:
        made: AnyTransport
        if self._loop is not None and can_watch(self._loop):
            made = CallbackTransport(self._driver, cid, role, pump, self._lost, self._loop, self)
        else:
            made = TaskTransport(self._driver, cid, role, pump, self._lost, self)
        self.wires[cid] = made
        return made


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
