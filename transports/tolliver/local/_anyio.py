"""Client of a local program on asyncio and trio.

It has no task of its own, so it may be opened in one task and closed in another. Of the tasks that wait for answers one
reads, for all; when it has its own answer, another one goes on. A task that is cancelled in the middle of a frame
leaves the rest of it for the next one that writes.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic

import anyio

from tolliver_proto import ConnectionLost

from .._local.asking import Tries, answered, client_closed, not_open, unreached
from .._local.envelopes import Answer, Ask, Outcome
from .._local.line import Line

_CHUNK = 2**16
_NOT_YET = (BlockingIOError, InterruptedError)


class Talk:
    """A connection to an instance, which the tasks of one event loop share."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._line = Line(path)
        self._writing = anyio.Lock()
        self._waiting: dict[int, anyio.Event] = {}
        self._unsent = memoryview(b"")
        self._queued = self._sent = 0  # bytes since the beginning
        self._users = 0  # tasks that wait for the socket
        self._reads = False
        self._error: ConnectionLost | None = None
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._sock.setblocking(False)

    async def open(self) -> None:
        """Raises ConnectionLost."""
        try:
            await self._connect()
            await self._write(self._line.data_to_send())
            while not self._line.is_open:
                await self._read()
        except BaseException:
            self.close(ConnectionLost("not connected"))
            raise

    async def _connect(self) -> None:
        while True:
            try:
                self._sock.connect(self._path)
            except _NOT_YET:  # its backlog is full
                await anyio.sleep(0.01)
            except OSError as error:
                raise unreached(self._path, error) from None
            else:
                return

    @property
    def is_over(self) -> bool:
        return self._error is not None

    def close(self, error: ConnectionLost) -> None:
        """End the connection; all who wait for an answer get the error."""
        if self._error is None:
            self._error = error
            for event in self._waiting.values():
                event.set()
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)  # wakes the tasks that read and write
        self._close_unused()

    def _close_unused(self) -> None:
        """Close the socket after its end, once no task waits for it."""
        if self._error is not None and not self._users:
            self._sock.close()

    def let_go(self) -> None:
        """Close the socket of a forked child: the connection is the parent's."""
        self._sock.close()

    async def ask(self, ask: Ask, tries: Tries) -> Outcome:
        """Raises LocalProtocolError, ConnectionLost."""
        number = self._line.ask(ask)
        self._waiting[number] = anyio.Event()
        data = self._line.data_to_send()
        end = self._queued + len(data)
        try:
            await self._write(data)
            return await self._outcome(number)
        finally:
            tries.was_asked |= self._sent >= end
            self._line.forget(number)
            del self._waiting[number]
            if not self._reads:
                self._wake_next_reader()

    async def _write(self, data: bytes) -> None:
        self._unsent = memoryview(bytes(self._unsent) + data)
        self._queued += len(data)
        async with self._writing:
            while self._unsent:
                with self._breaking():
                    try:
                        count = self._sock.send(self._unsent)
                    except _NOT_YET:
                        await anyio.wait_writable(self._sock)
                    else:
                        self._unsent = self._unsent[count:]
                        self._sent += count

    async def _outcome(self, number: int) -> Outcome:
        while True:
            outcome = self._line.take(number)
            if outcome is not None:
                return outcome
            if self._error is not None:
                raise ConnectionLost(str(self._error), self._error.cause)
            if self._reads:
                await self._waiting[number].wait()
                self._waiting[number] = anyio.Event()
                continue
            self._reads = True
            try:
                await self._read()
            finally:
                self._reads = False

    def _wake_next_reader(self) -> None:
        """Wake one who waits and is not answered; whoever leaves does so, as the one who was woken may leave, too."""
        for number, event in self._waiting.items():
            if not self._line.is_answered(number):
                event.set()
                return

    async def _read(self) -> None:
        with self._breaking():
            await anyio.wait_readable(self._sock)
            try:
                data = self._sock.recv(_CHUNK)
            except _NOT_YET:
                return
            for number in self._line.receive(data):
                if number in self._waiting:
                    self._waiting[number].set()

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        """Use the socket, and end the connection at an error of it. Raises ConnectionLost."""
        self._users += 1
        try:
            yield
        except ConnectionLost as error:
            self.close(error)
            raise
        except OSError as error:
            lost = self._line.broken(error)
            self.close(lost)
            raise lost from None
        finally:
            self._users -= 1
            self._close_unused()


class Conversation:
    """The connections of a client, one after the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._talk: Talk | None = None
        self._process = os.getpid()
        self._is_closed = True

    async def open(self, tries: Tries) -> None:
        """Raises ConnectionLost, TimeoutError."""
        self._is_closed = False
        self._connecting = anyio.Lock()
        with self._within(tries):
            await self._connected()

    def close(self) -> None:
        self._is_closed = True
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close(client_closed())

    async def do(self, ask: Ask, tries: Tries) -> Answer:
        """The answer of the instance. Raises its error, ConnectionLost, TimeoutError; NotOpenYet for a client that is
        not open."""
        if self._is_closed:
            raise not_open(self._path)
        with self._within(tries):
            while True:
                try:
                    return answered(await (await self._connected()).ask(ask, tries), self._path)
                except ConnectionLost as error:
                    if self._is_closed:
                        raise client_closed() from None
                    pause = tries.pause(error)
                await anyio.sleep(pause)

    @contextmanager
    def _within(self, tries: Tries) -> Iterator[None]:
        """Raises TimeoutError when the time is over."""
        with anyio.move_on_after(tries.due - monotonic()) as scope:
            yield
        if scope.cancelled_caught:
            raise tries.too_late()

    async def _connected(self) -> Talk:
        if self._process != os.getpid():  # a fork: the connection is the parent's
            if self._talk is not None:
                self._talk.let_go()
            self._talk, self._process = None, os.getpid()
        async with self._connecting:
            talk = self._talk
            if talk is None or talk.is_over:
                if self._is_closed:
                    raise client_closed()
                self._talk = talk = Talk(self._path)  # as of now a close ends this connection
                await talk.open()
            return talk
