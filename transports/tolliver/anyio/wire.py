"""Transport of one connection on trio, and wakeups for tasks.

Sockets are read and written at once if possible; tasks only wait for readiness, one for reading and one for what the
system did not take. So cancelling a task loses no bytes and cuts no frame, and the reader never waits for a write (two
peers that both did would wait for each other for ever). asyncio loops without `add_reader`, as Windows' proactor, use
this transport too.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
import anyio.lowlevel

from tolliver_proto import ConnectionClosing, Role, TolliverError

from .._driver.driver import Driver
from .._driver.session import broken
from .._driver.socket_session import SocketSession
from .._tls.pump import AnyPump

Lost = Callable[[int, TolliverError | None], None]
"""Called once for each connection at its end, with its cid and the error; None after an orderly end."""


class Reader(Protocol):
    """The part of an endpoint that a transport calls after reading from its socket."""

    reading: bool

    def end_reading(self) -> None:
        """Call the handlers of the messages just read."""


class Wakeup:
    """An event that can be set repeatedly. Each `set` wakes all current waiters; if there are none, the next one."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: anyio.Event | None = None  # present while tasks wait

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        if not self._is_set:
            event = self._event = self._event or anyio.Event()
            try:
                await event.wait()
            finally:
                if self._event is event and not event.statistics().tasks_waiting:  # all were cancelled: ending
                    self._event = None
        self._is_set = False


class LoopWakeup:
    """A Wakeup on asyncio that uses the loop's futures: anyio's event costs several times as much."""

    __slots__ = ("_is_set", "_listening", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_set = False
        self._listening: list[asyncio.Future[None]] = []

    def set(self) -> None:
        self._is_set = True
        if self._listening:
            listening, self._listening = self._listening, []
            for future in listening:
                if not future.done():  # done if its task was cancelled
                    future.set_result(None)

    async def wait(self) -> None:
        if not self._is_set:
            future = self._loop.create_future()
            self._listening.append(future)
            try:
                await future
            finally:
                if future in self._listening:
                    self._listening.remove(future)
        self._is_set = False


class TaskTransport(SocketSession):
    """Transport of one connection that two tasks serve, one to read and one to write: owns its socket."""

    paused: bool

    def __init__(self, driver: Driver, cid: int, role: Role, pump: AnyPump, lost: Lost, reader: Reader) -> None:
        super().__init__(driver, cid, role, pump)
        self._lost = lost
        self._reader = reader
        self._scope = anyio.CancelScope()
        self._sock: socket.socket | None = None
        self._wakeup = Wakeup()  # bytes to write, or the end
        self._resumed: anyio.Event | None = None

    def write_soon(self) -> None:
        """Write as much as the system takes, at once; the task writes the rest."""
        if not self.busy and self._sock is not None:
            self.busy = True
            self.write(self._sock)
        if self.busy or self.writing_over:
            self._wakeup.set()

    def pause(self) -> None:
        self.paused = True
        self._resumed = anyio.Event()

    def resume(self) -> None:
        self.paused = False
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def abort(self) -> None:
        self._scope.cancel()

    async def run(self, connect: Callable[[], Awaitable[socket.socket]]) -> None:
        """Connect, serve the connection, and report its end."""
        error: TolliverError | None = ConnectionClosing("the instance was closed")
        try:
            error = await self._run(connect)
        finally:
            self._lost(self.cid, error)

    async def _run(self, connect: Callable[[], Awaitable[socket.socket]]) -> TolliverError | None:
        """Serve the connection; returns the error that ended it, None after an orderly end or `abort`."""
        try:
            with self._scope, await connect() as self._sock:
                self.start(self._sock)
                await self._talk(self._sock)
        except TolliverError as failure:
            return failure
        except OSError as failure:
            return broken(failure)
        finally:
            self._sock = None
        return self.error

    async def _talk(self, sock: socket.socket) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(self._keep_writing, sock)
            while not self.reading_over:
                if self._resumed is not None:
                    await self._resumed.wait()
                await anyio.wait_readable(sock)
                self._reader.reading = True
                self.read(sock)
                self._reader.end_reading()
            if self.over:
                both.cancel_scope.cancel()

    async def _keep_writing(self, sock: socket.socket) -> None:
        while not self.writing_over:
            if self.rest:
                await anyio.wait_writable(sock)
            elif self.busy:
                await anyio.lowlevel.checkpoint()
            else:
                await self._wakeup.wait()
            if self.busy:
                self.write(sock)

    def end(self, error: TolliverError | None) -> None:
        """Close the socket, after the tasks have ended, because of `error` (None: in order)."""
