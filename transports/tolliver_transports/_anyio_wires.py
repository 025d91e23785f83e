"""One connection on asyncio or trio, and what tasks wait for.

The idea: a task that only reads and a task that only writes. There is no await between `receive` and the session, so
a cancelled task loses nothing; the reader never waits for a write (two peers that both did would wait for ever), and
nobody but the writer touches the socket's other half, ciphertext included, so nothing can cut a frame.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
from anyio.abc import SocketAttribute, SocketStream

from tolliver_proto import Role, TolliverError

from ._driver import Driver
from ._session import CHUNK, Session, broken
from ._tls import AnyPump

T = TypeVar("T")
BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class Promise(Generic[T]):
    """An answer that is still to come, for any number of tasks."""

    __slots__ = ("_error", "_event", "_value")

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._error: TolliverError | None = None

    def resolve(self, value: T) -> None:
        self._value = value
        self._event.set()

    def fail(self, error: TolliverError) -> None:
        self._error = error
        self._event.set()

    async def wait(self, timeout: float | None = None) -> T:
        """Raises TimeoutError after `timeout` seconds; the promise stays."""
        with anyio.fail_after(timeout):
            await self._event.wait()
        if self._error is not None:
            raise self._error
        return self._value


class Bell:
    """An event that can be rung again and again. One task listens."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def ring(self) -> None:
        self._event.set()

    async def heard(self) -> None:
        await self._event.wait()
        self._event = anyio.Event()


class Wire(Session):
    """A connection of the instance."""

    def __init__(self, driver: Driver, cid: int, role: Role, pump: AnyPump) -> None:
        super().__init__(driver, cid, role, pump)
        self._scope = anyio.CancelScope()
        self._bell = Bell()
        self._resumed: anyio.Event | None = None

    def write_soon(self) -> None:
        self._bell.ring()

    def pause(self) -> None:
        self._resumed = anyio.Event()

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def abort(self) -> None:
        self._scope.cancel()

    async def run(self, connect: Callable[[], Awaitable[SocketStream]]) -> TolliverError | None:
        """From the socket to the end; returns why, or None if it ended in order or was aborted."""
        try:
            with self._scope:
                async with await connect() as stream:
                    self.start(stream.extra(SocketAttribute.raw_socket))
                    await self._talk(stream)
        except TolliverError as failure:
            return failure
        except BROKEN as failure:
            return broken(failure)
        return self.error

    async def _talk(self, stream: SocketStream) -> None:
        async with anyio.create_task_group() as both:
            both.start_soon(self._write, stream)
            await self._read(stream)
            if self.over:
                both.cancel_scope.cancel()

    async def _read(self, stream: SocketStream) -> None:
        while not self.reading_over:
            if self._resumed is not None:
                await self._resumed.wait()
            try:
                ciphertext = await stream.receive(CHUNK)
            except anyio.EndOfStream:
                ciphertext = b""
            except BROKEN as failure:
                self.broken(failure)
                break
            self.receive(ciphertext)

    async def _write(self, stream: SocketStream) -> None:
        with suppress(*BROKEN):
            while (ciphertext := self.next_output()) is not None:
                if ciphertext:
                    await stream.send(ciphertext)
                else:
                    await self._bell.heard()
            await stream.send_eof()
        self.written()
