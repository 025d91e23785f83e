"""Transport of one connection on asyncio, without a task.

The loop watches the socket for as long as the connection is open, and calls back. A task waiting for readiness would
cost an iteration of the loop and two system calls each time. As in `wire`, writes are tried at once.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from tolliver_proto import ConnectionClosing, Role, TolliverError

from .._driver.driver import Driver
from .._driver.session import broken
from .._driver.socket_session import SocketSession
from .._tls.pump import AnyPump
from .wire import Lost, Reader


class Owner(Reader, Protocol):
    """The part of an endpoint that its connections use on asyncio."""

    def break_down(self, error: BaseException) -> None:
        """End the endpoint after an unexpected error, which its task group raises."""


def can_watch(loop: asyncio.AbstractEventLoop | None) -> bool:
    """True if the loop supports `add_reader` and `add_writer`: all loops except Windows' proactor."""
    return loop is not None and not type(loop).__name__.startswith("Proactor")


class CallbackTransport(SocketSession):
    """Transport of one connection on asyncio: owns its socket, which the loop watches by callbacks."""

    paused: bool

    def __init__(
        self,
        driver: Driver,
        cid: int,
        role: Role,
        pump: AnyPump,
        lost: Lost,
        loop: asyncio.AbstractEventLoop,
        owner: Owner,
    ) -> None:
        super().__init__(driver, cid, role, pump)
        self._lost = lost
        self._loop = loop
        self._owner = owner
        self._forgets = not isinstance(loop, asyncio.BaseEventLoop)  # uvloop stops watching after a socket error
        self._sock: socket.socket | None = None
        self._dialling: anyio.CancelScope | None = None
        self._reads = self._writes = False  # the loop watches for reading, for writing
        self._looks_soon = False
        self._ended = False

    # Called by the session and the driver.

    def write_soon(self) -> None:
        """Write as much as the system takes, at once."""
        if not self.busy and self._sock is not None:
            self.busy = True
            self.write(self._sock)
        if self.busy or self.writing_over:
            self._look_soon()

    def pause(self) -> None:
        self.paused = True
        self._look_soon()

    def resume(self) -> None:
        self.paused = False
        self._look_soon()

    def abort(self) -> None:
        if self._sock is not None:
            self._loop.call_soon(self._abort)
        elif self._dialling is not None:
            self._dialling.cancel()

    # Life cycle.

    async def run(self, connect: Callable[[], Awaitable[socket.socket]]) -> None:
        """Dial with `connect`, then begin to move bytes."""
        sock = None
        try:
            with anyio.CancelScope() as self._dialling:
                sock = await connect()
        except TolliverError as failure:
            self.end(failure)
        except BaseException:
            self.end(ConnectionClosing("the instance was closed"))
            raise
        else:
            if sock is None:
                self.end(self.error)
            else:
                self.begin(sock)
        finally:
            self._dialling = None

    def begin(self, sock: socket.socket) -> None:
        """Start on a connected, non-blocking socket."""
        self._sock = sock
        try:
            self.start(sock)
        except OSError as failure:
            self.end(broken(failure))
        else:
            self._look()

    def end(self, error: TolliverError | None) -> None:
        """Close the socket at once, even with unsent bytes, because of `error` (None: in order). A second call does
        nothing.
        """
        if self._ended:
            return
        self._ended = True
        sock, self._sock = self._sock, None
        if sock is not None:
            self._watch(sock, reads=False, writes=False)
            sock.close()
        self._lost(self.cid, error)

    def _abort(self) -> None:
        self.end(self.error)

    # Called by the loop.

    def _on_readable(self) -> None:
        if self._sock is None or not self._may_read():
            return
        try:
            self._owner.reading = True
            has_more = self.read(self._sock, to_the_end=self._forgets)
            self._owner.end_reading()
            if has_more and self._forgets:
                self._loop.call_soon(self._on_readable)
            if not self._may_read():
                self._look()
        except Exception as error:
            self._break_down(error)

    def _on_writable(self) -> None:
        try:
            if self._sock is not None and self.busy:
                self.write(self._sock)
            self._look()
        except Exception as error:
            self._break_down(error)

    def _break_down(self, error: Exception) -> None:
        self._owner.break_down(error)
        self.end(broken(error))

    def _may_read(self) -> bool:
        return not (self.paused or self.reading_over)

    def _look_soon(self) -> None:
        if not self._looks_soon:
            self._looks_soon = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Close the connection if it has ended; else have the loop watch its socket for what it can do next."""
        self._looks_soon = False
        if self._sock is None:
            return
        if self.over:
            self.end(self.error)
            return
        self._watch(self._sock, reads=self._may_read(), writes=bool(self.rest))
        if self.busy and not self.rest:
            self._loop.call_soon(self._on_writable)  # more to write, after the other connections' turn

    def _watch(self, sock: socket.socket, *, reads: bool, writes: bool) -> None:
        if reads != self._reads:
            self._reads = reads
            if reads:
                self._loop.add_reader(sock, self._on_readable)
            else:
                self._loop.remove_reader(sock)
        if writes != self._writes:
            self._writes = writes
            if writes:
                self._loop.add_writer(sock, self._on_writable)
            else:
                self._loop.remove_writer(sock)
