"""Single connection over a connected socket, without a thread.

Each step waits until the socket can be read or written, whichever comes first. So two peers that both write do not wait
for each other, as long as the unread bytes of each stay below its high-water mark. This is the thinnest way to speak
the protocol, and an example for programs that embed it. There is no store: nothing is kept or resent, and nothing is
acknowledged unless you send the Ack.
"""

from __future__ import annotations

import math
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, Protocol, Self, TypeVar
from uuid import UUID

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

from .._driver.line import UNDECIDED, Intake, Line, LineMachine, OnOutput
from .._options.uuid7 import uuid7
from .._tls.pump import AnyPump, PlainPump
from .loop import READ, WRITE
from .waits import end_of

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class SocketMachine(LineMachine, Protocol[E_co]):
    """The part of a `Connection`, of either protocol, that a loop over its socket calls."""

    @property
    def limits(self) -> Any: ...

    @property
    def buffered_bytes(self) -> int: ...

    def next_event(self) -> E_co | None: ...

    def next_timeout(self) -> float | None: ...

    def handle_timeout(self, now: float | None = None) -> None: ...


class SocketConnection(Generic[E]):
    """A machine of either protocol over a connected socket, which it owns from now on; for your own loop.

    `pump` is TLS, None for plaintext; `intake` is as for `BlockingConnection`. `on_output` gets all plaintext output
    before it is written.
    """

    machine: SocketMachine[E]

    def __init__(
        self,
        sock: socket.socket,
        machine: SocketMachine[E],
        role: Role,
        *,
        pump: AnyPump | None = None,
        intake: Intake | None = None,
        on_output: OnOutput | None = None,
    ) -> None:
        self.machine = machine
        self._sock = sock
        self._line = Line(machine, role, pump or PlainPump(), intake, on_output)
        self._over = False
        sock.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, READ)
        self._line.begin(sock)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.machine!r}>"

    def next_event(self) -> E | None:
        """The next event of bytes received already, None if there is none yet. Writes the machine's answers as far as
        the system takes them.

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

    def step(self, timeout: float | None = None) -> None:
        """Wait until the socket can be written to or has bytes to read, at most until the machine's next deadline.

        For your own loop: call `next_event` until it returns None, then `step`.
        """
        now = time.monotonic()
        wait = min(math.inf if timeout is None else timeout, (self.machine.next_timeout() or math.inf) - now)
        writing = WRITE if self._line.rest else 0
        crowded = writing and self.machine.buffered_bytes > self.machine.limits.high_water
        self._selector.modify(self._sock, writing if crowded or self._line.reading_over else writing | READ)
        for _, events in self._selector.select(None if wait == math.inf else max(0.0, wait)):
            if events & READ:
                self._line.read(self._sock)
        self.machine.handle_timeout(time.monotonic())

    def abandon(self) -> None:
        """Close the socket at once, without the closing handshake."""
        self._over = True
        self._selector.close()
        self._sock.close()

    def _until(self, timeout: float | None, done: Callable[[], bool], late: str) -> None:
        end = end_of(timeout)
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"after {timeout:g} s {late}: go on")
            self.step(left)


class BlockingConnection(SocketConnection[Event]):
    """A connection for one thread, over a connected socket, which it owns from now on.

    - `pump`: TLS, from `Pumps(tls).client(remote)` or `.server()`; None for plaintext.
    - `intake`: a faster parser of yours for some frames. It is called with all plaintext, in pieces of any size, and
      returns the rest for the machine, which is between two frames if `machine.buffered_bytes` is 0.
    - `on_output`: called with all plaintext output.
    - All other options are those of `tolliver_proto.Connection`, which is available as `machine`.

    A peer's handshake that `receive` returned is accepted when the next event is asked for; until then
    `machine.reject()` refuses it. Timeouts are in seconds; after a TimeoutError the connection can be used on.
    """

    machine: Connection

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
        on_output: OnOutput | None = None,
    ) -> None:
        machine = Connection(
            role,
            instance_id=instance_id or uuid7(),
            version=version,
            subscriptions=subscriptions,
            revision=revision,
            limits=limits,
            now=time.monotonic(),
        )
        super().__init__(sock, machine, role, pump=pump, intake=intake, on_output=on_output)

    def send(self, frame: Message | Ack | Subscribe | Unsubscribe, timeout: float | None = None) -> None:
        """Send a frame; returns when the system has taken its bytes. After a TimeoutError it will still be sent: do not
        repeat it.

        Raises LocalProtocolError before Established was received, and ConnectionClosing once the connection is ending.
        """
        self.machine.send(frame, time.monotonic())
        self._until(timeout, self.flush, f"the system has not taken {type(frame).__name__}")

    def send_encoded(self, frames: bytes, timeout: float | None = None) -> None:
        """Like `send`, for any number of complete frames, encoded for this revision as `encode` does. They are not
        checked.

        b"" sends nothing new, and continues a send that a TimeoutError interrupted.
        """
        if frames:
            self.machine.send_encoded(frames)
        self._until(timeout, self.flush, "the system has not taken all frames")

    def receive(self, timeout: float | None = None) -> Event:
        """The next event. The last one is Closed; after it ConnectionClosing is raised.

        Raises CertificateError, IdentityConflict or ConnectionLost if TLS or the network fails.
        """
        if self._over:
            raise ConnectionClosing("the connection is over: make another one")
        if self.machine.state in UNDECIDED:
            self.machine.accept(now=time.monotonic())
        found: list[Event] = []
        self._until(timeout, lambda: self._find(found), "nothing has come")
        return found[0]

    def __iter__(self) -> Self:
        """Iterate over all events except Closed, whose error is raised if it has one."""
        return self

    def __next__(self) -> Event:
        event = self.receive()
        if not isinstance(event, Closed):
            return event
        raise event.error or StopIteration

    def close(self) -> None:
        """Close in order, then close the socket, within `Limits.close_timeout`. Events that still arrive are
        dropped."""
        if self._sock.fileno() < 0:
            return
        limit = self.machine.limits.close_timeout
        try:
            with suppress(TolliverError, TimeoutError):
                self.machine.close(time.monotonic())
            with suppress(TolliverError, TimeoutError):
                while not isinstance(self.receive(limit), Closed):
                    pass
            with suppress(TolliverError, TimeoutError):
                self._until(limit, self.flush, "")
        finally:
            self.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _find(self, found: list[Event]) -> bool:
        event = self.next_event()
        if event is not None:
            found.append(event)
        return event is not None
