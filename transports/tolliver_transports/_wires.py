"""One connection on asyncio or trio: a socket, a pump, a task that only reads and a task that only writes.

The idea: bytes go from the socket through the pump into the node with no await between `receive` and `receive_data`,
so a cancelled task loses nothing. The reader never waits for a write (two peers that both did would wait for ever), and
nobody but the writer touches the socket's other half, ciphertext included, so nothing can cut a frame.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import anyio
from anyio.abc import SocketAttribute, SocketStream

from tolliver_proto import ConnectionLost, Node, Role, TolliverError

from ._mailboxes import Bell
from ._sockets import address_of, is_self_connected, tune
from ._tls import AnyPump

_CHUNK = 65536
BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class Owner(Protocol):
    """What a wire asks of its instance."""

    node: Node

    def turn(self) -> None: ...


class Wire:
    """A connection of the instance, from its cid to its end."""

    def __init__(self, owner: Owner, cid: int, role: Role, pump: AnyPump) -> None:
        self._owner = owner
        self._cid = cid
        self._role = role
        self._pump = pump
        self._scope = anyio.CancelScope()
        self._work = Bell()  # for the writer
        self._units: Sequence[bytes] | None = None
        self._closing = False
        self._finished = anyio.Event()  # our half is shut, or cannot be written to any more
        self._resumed: anyio.Event | None = None

    # What the driver asks for.

    def transmit(self, units: Sequence[bytes]) -> None:
        self._units = units
        self._work.ring()

    def pause(self) -> None:
        self._resumed = anyio.Event()

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def shutdown_write(self) -> None:
        self._closing = True
        self._work.ring()

    def abort(self) -> None:
        self._scope.cancel()

    # The connection.

    async def run(self, connect: Callable[[], Awaitable[SocketStream]]) -> TolliverError | None:
        """From the socket to the end; returns why, or None if it ended in order or was aborted."""
        error: TolliverError | None = None
        try:
            with self._scope:
                async with await connect() as stream:
                    error = await self._talk(stream)
        except TolliverError as failure:
            error = failure
        except BROKEN as failure:
            error = _broken(failure)
        return error

    async def _talk(self, stream: SocketStream) -> TolliverError | None:
        raw = stream.extra(SocketAttribute.raw_socket)
        tune(raw)
        if is_self_connected(raw):
            raise ConnectionLost("the dial met its own socket, as nobody listens there")
        address = address_of(raw.getpeername())
        await self._shake(stream)
        self._owner.node.opened(self._cid, self._role, self._pump.identity(address), time.monotonic())
        self._owner.turn()
        async with anyio.create_task_group() as both:
            both.start_soon(self._write, stream)
            error = await self._read(stream)
            if error is None:
                await self._finished.wait()
            both.cancel_scope.cancel()
        return error

    async def _shake(self, stream: SocketStream) -> None:
        """The TLS handshake. A send that fails is not yet the reason: the peer's alert may be waiting (T-74)."""
        pump = self._pump
        while True:
            try:
                done = pump.handshake()
            except TolliverError:
                await self._say_why(stream)
                raise
            with suppress(*BROKEN):
                await stream.send(pump.outgoing())
            if done:
                return
            try:
                pump.receive(await stream.receive(_CHUNK))
            except anyio.EndOfStream:
                pump.receive_eof()

    async def _say_why(self, stream: SocketStream) -> None:
        """Send the alert. A client may have sent more already: closing then would reset the connection, and the reset
        could overtake the alert. So a server reads to the end, or until the node's time for it has passed."""
        with suppress(*BROKEN, anyio.EndOfStream):
            await stream.send(self._pump.outgoing())
            if self._role is Role.SERVER:
                await stream.send_eof()
                while True:
                    await stream.receive(_CHUNK)

    async def _read(self, stream: SocketStream) -> TolliverError | None:
        pump, node = self._pump, self._owner.node
        broken: TolliverError | None = None
        while True:
            # Before anything else is received: the last bytes of the TLS handshake may have brought the peer's first
            # frame along, and the peer waits for its answer.
            try:
                while (plaintext := pump.read()) is not None:
                    node.receive_data(self._cid, plaintext, time.monotonic())
            except TolliverError as failure:
                return failure
            if pump.peer_closed:
                node.receive_eof(self._cid, time.monotonic())
            self._owner.turn()
            if pump.peer_closed or broken is not None:
                return broken
            if pump.truncated:
                return ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off")
            if self._resumed is not None:
                await self._resumed.wait()
            try:
                pump.receive(await stream.receive(_CHUNK))
            except anyio.EndOfStream:
                pump.receive_eof()
            except BROKEN as failure:
                broken = _broken(failure)

    async def _write(self, stream: SocketStream) -> None:
        """Why a write failed, the reader learns (T-74)."""
        pump, node = self._pump, self._owner.node
        with suppress(TolliverError, *BROKEN):
            while True:
                await self._work.heard()
                while self._units is not None:
                    units, self._units = self._units, None
                    for unit in units:
                        pump.write(unit)
                        await stream.send(pump.outgoing())
                    node.sent(self._cid, time.monotonic())
                    self._owner.turn()
                if self._closing:
                    pump.close_notify()
                    ciphertext = pump.outgoing()
                    if ciphertext:
                        await stream.send(ciphertext)
                    await stream.send_eof()
                    break
        self._finished.set()


def _broken(failure: BaseException) -> ConnectionLost:
    return ConnectionLost(f"the connection broke: {failure.__cause__ or repr(failure)}")
