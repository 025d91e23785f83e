"""Transport of one connection on trio, and the tasks' wakeup.

Sockets are read and written where that is possible at once, and tasks wait for readiness alone: one for the
reading, one for what the system did not take. So nothing is lost when a task is cancelled, a frame cannot be cut, and
the reader never waits for a write (two peers that both did would wait for ever). A loop of asyncio that has no readers
to add, Windows' proactor, has this one too.
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
"""Told of each connection once, by its cid: the reason of its end, or None where that was in order."""


class Reader(Protocol):
    """The endpoint, told when a connection is read."""

    reading: bool

    def end_reading(self) -> None:
        """The handlers have their turn."""


class Wakeup:
    """An event that can be set again and again. Each time wakes all that wait, or else the next one that does."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: anyio.Event | None = None  # while tasks wait

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
                if self._event is event and not event.statistics().tasks_waiting:  # all were cancelled: their loop ends
                    self._event = None
        self._is_set = False


class LoopWakeup:
    """The same on asyncio, by futures of the loop's own: an event of anyio's costs several times as much."""

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
                if not future.done():  # its task is being cancelled
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
    """A connection of the instance, in two tasks."""

    paused: bool

    def __init__(self, driver: Driver, cid: int, role: Role, pump: AnyPump, lost: Lost, reader: Reader) -> None:
        super().__init__(driver, cid, role, pump)
        self._lost = lost
        self._reader = reader
        self._scope = anyio.CancelScope()
        self._sock: socket.socket | None = None
        self._wakeup = Wakeup()  # there is something to write, or nothing any more
        self._resumed: anyio.Event | None = None

    def write_soon(self) -> None:
        """At once, as far as the system takes it; the task does what is left."""
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
        """From the socket to the end."""
        error: TolliverError | None = ConnectionClosing("the instance was closed")
        try:
            error = await self._run(connect)
        finally:
            self._lost(self.cid, error)

    async def _run(self, connect: Callable[[], Awaitable[socket.socket]]) -> TolliverError | None:
        """The reason of its end, or None where that was in order or by `abort`."""
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
        """Its tasks have ended it."""
