"""One machine over one connected socket: the thinnest way to speak the protocol, and an example for those who embed it.

The idea: one step waits until the socket can give or take something, whichever comes first. So two ends that both write
do not wait for each other, as long as what one has not received yet stays below its high-water mark. There is no thread
and no store: what is sent is not kept, and nothing is acknowledged unless you say so.
"""

from __future__ import annotations

import math
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Self
from uuid import UUID

from tolliver_proto import (
    Ack,
    Closed,
    Connection,
    ConnectionClosing,
    ConnectionLost,
    Event,
    Limits,
    Message,
    Revision,
    Role,
    State,
    Subscribe,
    Subscription,
    TolliverError,
    Unsubscribe,
)

from .._driver.session import broken
from .._driver.socket_session import CHUNK
from .._driver.sockets import NOT_YET, tune
from .._options.uuid7 import uuid7
from .._tls.pump import AnyPump, PlainPump
from .loop import READ, WRITE

UNDECIDED = (State.DECIDING, State.CONFIRMING, State.RENEWING)


class BlockingConnection:
    """A connection for one thread, over a socket that is connected and that it owns from now on.

    `pump` is the TLS: `Pumps(tls).client(remote)` or `.server()`; None is plaintext. The other options are those of
    `tolliver_proto.Connection`, which is here as `machine`. A handshake that was handed out is accepted when the next
    event is asked for; until then `machine.reject()` refuses it. Timeouts are in seconds; after a TimeoutError go on.
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
    ) -> None:
        self.machine = Connection(
            role,
            instance_id=instance_id or uuid7(),
            version=version,
            subscriptions=subscriptions,
            revision=revision,
            limits=limits,
            now=time.monotonic(),
        )
        self._sock = sock
        self._pump = pump or PlainPump()
        self._units: deque[bytes] = deque()
        self._rest = b""  # what the system has not taken yet
        self._secure = False  # the TLS handshake is over
        self._finished = False  # TLS is told that nothing more is written
        self._reading_over = False
        self._writing_over = False
        self._error: TolliverError | None = None  # of what is below the machine
        self._over = False
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            tune(sock)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, READ)
        self._take_in(b"")  # a client begins the TLS handshake

    def send(self, frame: Message | Ack | Subscribe | Unsubscribe, timeout: float | None = None) -> None:
        """Returns when the system has taken it. After a TimeoutError it is still on its way: do not send it again.

        Raises LocalProtocolError before Established came, and ConnectionClosing once the connection is ending.
        """
        self.machine.send(frame, time.monotonic())
        self._until(timeout, self._flush, f"the system has not taken {type(frame).__name__}")

    def send_encoded(self, frames: bytes, timeout: float | None = None) -> None:
        """As `send`, for any number of whole frames that `encode` made, or would have, for this revision.

        b"" sends nothing new: it goes on with what a TimeoutError has left. What they say is not checked.
        """
        if frames:
            self.machine.send_encoded(frames)
        self._until(timeout, self._flush, "the system has not taken all frames")

    def receive(self, timeout: float | None = None) -> Event:
        """The next event. Closed is the last one; asking on raises ConnectionClosing.

        Raises CertificateError, IdentityConflict or ConnectionLost where TLS or the network failed.
        """
        if self._over:
            raise ConnectionClosing("the connection is over: make another one")
        if self.machine.state in UNDECIDED:
            self.machine.accept(now=time.monotonic())
        found: list[Event] = []
        self._until(timeout, lambda: self._find(found), "nothing has come")
        self._over = isinstance(found[0], Closed)
        return found[0]

    def __iter__(self) -> Iterator[Event]:
        """All events but Closed; raises its error if it has one."""
        while not isinstance(event := self.receive(), Closed):
            yield event
        if event.error is not None:
            raise event.error

    def close(self) -> None:
        """End in order, and close the socket: at most `Limits.close_timeout`. What still comes is dropped."""
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
                self._until(limit, self._flush, "")
        finally:
            self._over = True
            self._selector.close()
            self._sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _find(self, found: list[Event]) -> bool:
        event = self.machine.next_event()
        self._flush()
        if event is not None:
            found.append(event)
        elif self._error is not None:
            self._over = True
            raise self._error
        return event is not None

    def _until(self, timeout: float | None, done: Callable[[], bool], late: str) -> None:
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not done():
            now = time.monotonic()
            if now >= end:
                raise TimeoutError(f"after {timeout:g} s {late}: go on")
            self._step(min(end, self.machine.next_timeout() or math.inf) - now)

    def _step(self, wait: float) -> None:
        """Wait until something can be written or has come, whichever is first."""
        writing = WRITE if self._has_output() else 0
        crowded = writing and self.machine.buffered_bytes > self.machine.limits.high_water
        self._selector.modify(self._sock, writing if crowded or self._reading_over else writing | READ)
        for _, events in self._selector.select(None if wait == math.inf else max(0.0, wait)):
            if events & READ:
                self._read()
        self.machine.handle_timeout(time.monotonic())

    def _flush(self) -> bool:
        """Write what the system takes at once; whether that was all."""
        while self._has_output():
            try:
                self._rest = self._rest[self._sock.send(self._rest) :]
            except NOT_YET:
                return False
            except OSError:
                self._writing_over = True  # only the reading side knows why (T-74)
        return True

    def _has_output(self) -> bool:
        """Whether there is something to write; if not, and all is said, our half is shut."""
        if self._writing_over:
            return False
        self._rest = self._rest or self._pump.outgoing()
        if self._rest or not self._secure:
            return bool(self._rest)
        self._units.extend(self.machine.data_to_send())
        with suppress(TolliverError):  # the reading side will say why
            if self._units:
                self._pump.write(self._units.popleft())  # one write each (T-69)
            elif self.machine.wants_write_shutdown and not self._finished:
                self._finished = True
                self._pump.close_notify()
        self._rest = self._pump.outgoing()
        if self._finished and not self._rest:
            self._writing_over = True
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
        return bool(self._rest)

    def _read(self) -> None:
        try:
            ciphertext = self._sock.recv(CHUNK)
        except NOT_YET:
            return
        except OSError as failure:
            self._error = broken(failure)
            self._reading_over = self._writing_over = True
            return
        if not ciphertext:
            self._reading_over = True
            self._pump.receive_eof()
        self._take_in(ciphertext)

    def _received(self, plaintext: bytes, now: float) -> None:
        """What has come, in order; whoever knows a faster way for some of it begins here."""
        self.machine.receive_data(plaintext, now)

    def _take_in(self, ciphertext: bytes) -> None:
        pump, now = self._pump, time.monotonic()
        try:
            pump.receive(ciphertext)
            self._secure = self._secure or pump.handshake()
            while self._secure and (plaintext := pump.read()) is not None:
                self._received(plaintext, now)
            if pump.peer_closed:
                self.machine.receive_eof(now)
            elif pump.truncated:
                raise ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off")
        except TolliverError as failure:
            self._error = failure
