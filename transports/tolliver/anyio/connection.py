"""Single connection over a connected socket, on asyncio and trio.

It has no task of its own: each call drives the connection while it lasts. If several tasks call at once, one of them
drives, and the others wait for its results. Only socket readiness is awaited, so a cancelled call cuts no frame. There
is no store: nothing is kept or resent, and nothing is acknowledged unless you send the Ack.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Self
from uuid import UUID

import anyio

from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    ConnectionClosing,
    Event,
    Limits,
    Message,
    Revision,
    Role,
    Subscribe,
    Subscription,
    TolliverError,
    Unsubscribe,
)

from .._driver.line import UNDECIDED, Intake, Line
from .._driver.sockets import unreached
from .._options.instance import DEFAULT_PORT, TLS, EndpointOptions, Remote
from .._options.uuid7 import uuid7
from .._tls.policy import Pumps
from .._tls.pump import AnyPump, PlainPump
from .dialing import dial
from .threads import off_loop


class AsyncConnection:
    """A connection over a connected socket (dialled or accepted), which it owns from now on.

    - `pump`: TLS, from `Pumps(tls).client(remote)` or `.server()`; None for plaintext.
    - `intake`: as for `BlockingConnection`.
    - All other options are those of `tolliver_proto.Connection`, which is available as `machine`.

    A peer's handshake that `receive` returned is accepted when the next event is asked for; until then
    `machine.reject()` refuses it. Timeouts are in seconds. After a TimeoutError or a cancelled call, the connection can
    be used on.
    """

    def __init__(
        self,
        sock: socket.socket,
        role: Role,
        *,
        pump: AnyPump | None = None,
        instance_id: UUID | None = None,
        subscriptions: Iterable[Subscription] = (),
        version: int = 1,
        revision: Revision = Revision.DRAFT_2,
        limits: Limits | None = None,
        intake: Intake | None = None,
    ) -> None:
        self.machine: Connection = Connection(
            role,
            instance_id=instance_id or uuid7(),
            version=version,
            subscriptions=subscriptions,
            revision=revision,
            limits=limits,
            now=time.monotonic(),
        )
        self._sock = sock
        self._line = Line(self.machine, role, pump or PlainPump(), intake)
        self._over = False  # Closed was returned, or its error raised
        self._closed = False
        self._waiting: anyio.CancelScope | None = None  # wait of the task that drives
        self._writing = False  # that wait also ends when the socket can be written to
        self._moved = anyio.Event()
        sock.setblocking(False)
        self._line.begin(sock)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.machine!r}>"

    async def send(self, frame: Message | Ack | Subscribe | Unsubscribe, timeout: float | None = None) -> None:
        """Send a frame; returns when the system has taken its bytes. After a TimeoutError it will still be sent: do not
        repeat it.

        Raises LocalProtocolError before Established was received, and ConnectionClosing once the connection is ending.
        """
        self.machine.send(frame, time.monotonic())
        await self._until(timeout, self.flush, f"the system has not taken {type(frame).__name__}")

    async def send_encoded(self, frames: bytes, timeout: float | None = None) -> None:
        """Like `send`, for any number of complete frames, encoded for this revision as `encode` does. They are not
        checked.

        b"" sends nothing new, and continues a send that a TimeoutError interrupted.
        """
        if frames:
            self.machine.send_encoded(frames)
        await self._until(timeout, self.flush, "the system has not taken all frames")

    async def receive(self, timeout: float | None = None) -> Event:
        """The next event. The last one is Closed; after it ConnectionClosing is raised.

        Raises CertificateError, IdentityConflict or ConnectionLost if TLS or the network fails.
        """
        if self._over:
            raise ConnectionClosing("the connection is over: make another one")
        if self.machine.state in UNDECIDED:
            self.machine.accept(now=time.monotonic())
        found: list[Event] = []
        await self._until(timeout, lambda: self._find(found), "nothing has come")
        return found[0]

    def next_event(self) -> Event | None:
        """The next event of bytes received already, or None. Writes the machine's answers as far as the system takes
        them.

        Raises like `receive`, but accepts no handshake.
        """
        event = self.machine.next_event()
        self.flush()
        if event is None and self._line.error is not None:
            self._over = True
            raise self._line.error
        self._over = self._over or isinstance(event, Closed)
        return event

    def flush(self) -> bool:
        """Write what the system takes at once; returns True if nothing is left."""
        line = self._line
        while line.has_output():
            line.write(self._sock)
            if line.rest:
                return False
        return True

    async def step(self, timeout: float | None = None) -> None:
        """Wait until the socket can be written to or has bytes to read, at most until the machine's next deadline.

        For your own loop: call `next_event` until it returns None, then `step`. Raises ConnectionClosing if the
        connection is closed, also by another task meanwhile.
        """
        self._check_open()
        if self._waiting is not None:
            if self._line.rest and not self._writing:
                self._waiting.cancel()
            with anyio.move_on_after(timeout):
                await self._moved.wait()
            self._check_open()
            return
        now = time.monotonic()
        wait = min(math.inf if timeout is None else timeout, (self.machine.next_timeout() or math.inf) - now)
        self._writing = writing = bool(self._line.rest)
        crowded = writing and self.machine.buffered_bytes > self.machine.limits.high_water
        reading = not (crowded or self._line.reading_over)
        try:
            with anyio.move_on_after(max(0.0, wait)) as self._waiting:
                await self._ready(reading, writing)
        finally:
            self._waiting = None
            self._moved.set()
            self._moved = anyio.Event()
        self._check_open()
        if reading:
            self._line.read(self._sock)
        self.machine.handle_timeout(time.monotonic())

    def __aiter__(self) -> Self:
        """Iterate over all events except Closed, whose error is raised if it has one; the end, too, if another task
        closes.
        """
        return self

    async def __anext__(self) -> Event:
        try:
            event = await self.receive()
        except ConnectionClosing:
            raise StopAsyncIteration from None
        if not isinstance(event, Closed):
            return event
        raise event.error or StopAsyncIteration

    async def close(self) -> None:
        """Close in order, then close the socket, within `Limits.close_timeout`. Events that still arrive are dropped.
        Other tasks' calls that wait raise ConnectionClosing; their iterations end.

        If cancelled, it sends the goodbye as far as the system takes it at once, and does not wait for an answer.
        """
        if self._closed:
            return
        limit = self.machine.limits.close_timeout
        try:
            with suppress(TolliverError):
                self.machine.close(time.monotonic())
                self.flush()
            with suppress(TolliverError, TimeoutError):
                while not isinstance(await self.receive(limit), Closed):
                    pass
            with suppress(TolliverError, TimeoutError):
                await self._until(limit, self.flush, "")
        finally:
            self._over = self._closed = True
            if self._waiting is not None:
                self._waiting.cancel()
                with anyio.CancelScope(shield=True):
                    await self._moved.wait()  # until nobody waits for the socket
            self._sock.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def _find(self, found: list[Event]) -> bool:
        event = self.next_event()
        if event is not None:
            found.append(event)
        elif self._over:
            raise ConnectionClosing("another task has received the end of this connection")
        return event is not None

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionClosing("this connection was closed: make another one")

    async def _until(self, timeout: float | None, done: Callable[[], bool], late: str) -> None:
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"after {timeout:g} s {late}: go on")
            await self.step(left)

    async def _ready(self, reading: bool, writing: bool) -> None:
        if reading and writing:
            async with anyio.create_task_group() as either:
                for wait in (anyio.wait_readable, anyio.wait_writable):
                    either.start_soon(self._first, wait, either.cancel_scope)
        elif writing:
            await anyio.wait_writable(self._sock)
        elif reading:
            await anyio.wait_readable(self._sock)
        else:
            await anyio.sleep_forever()  # cancelled at the machine's deadline

    async def _first(self, wait: Callable[[Any], Any], scope: anyio.CancelScope) -> None:
        await wait(self._sock)
        scope.cancel()


@asynccontextmanager
async def open_connection(
    host: str,
    port: int = DEFAULT_PORT,
    *,
    tls: TLS | None = None,
    plaintext: bool = False,
    identity: UUID | None = None,
    spki_sha256: bytes | None = None,
    timeout: float | None = None,
    instance_id: UUID | None = None,
    subscriptions: Iterable[Subscription] = (),
    version: int = 1,
    revision: Revision = Revision.DRAFT_2,
    limits: Limits | None = None,
    intake: Intake | None = None,
) -> AsyncIterator[AsyncConnection]:
    """Context manager of a dialled connection, closed in order on leaving. Give `tls`, or `plaintext=True` on one
    machine.

    - `identity`, `spki_sha256`: pin the peer, as in `Remote`.
    - `timeout`: seconds for dialling.
    - `instance_id`: our UUID; by default that of our certificate, if it has one.
    - All other options are those of `AsyncConnection`.

    Raises ValueError, CertificateError, ConnectionLost if the peer cannot be reached, and TimeoutError.
    """
    security = EndpointOptions(tls=tls, plaintext=plaintext)
    security.check_security(None)
    remote = security.remote(Remote(host, port, identity, spki_sha256))
    pumps = await off_loop(partial(Pumps, tls))
    if instance_id is None and len(pumps.identity.uuids) == 1:
        (instance_id,) = pumps.identity.uuids
    try:
        with anyio.fail_after(timeout):
            sock = await dial(host, port)
    except TimeoutError as error:
        raise TimeoutError(f"after {timeout} s nobody has answered at {remote}") from error
    except OSError as error:
        raise unreached(remote, error) from error
    async with AsyncConnection(
        sock,
        Role.CLIENT,
        pump=pumps.client(remote),
        instance_id=instance_id,
        subscriptions=subscriptions,
        version=version,
        revision=revision,
        limits=limits,
        intake=intake,
    ) as connection:
        yield connection
