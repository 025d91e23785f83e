"""Session between a socket and a machine, without I/O.

An adapter moves ciphertext: it gives arriving bytes to `receive`, and writes the bytes that `next_output` returns.
Everything between (TLS handshake, units that need a TLS record of their own, the order of writes, the steps of a close)
is the same for every loop and is done here. An adapter's transport inherits from `Session` and adds the waiting.

Each direction ends by itself. Reading ends at the peer's close_notify, at an error or when the connection breaks;
writing ends when we have shut our side, or when a write fails. A failed write does not tell the reason: the peer's TLS
alert may still be unread (T-74). So the session's error comes from the reading side alone.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from tolliver_proto import ConnectionLost, PeerIdentity, Role, TolliverError
from tolliver_proto._common.compiling import mypyc_attr
from tolliver_proto.node import DialCause

from .._tls.pump import AnyPump
from .forks import note
from .sockets import SELF_CONNECTED, is_self_connected, peer_of, tune


class SessionMachine(Protocol):
    """Inputs of a machine that a session calls."""

    def shaking(self, cid: int, greeted: bool, now: float | None = None) -> None: ...

    def opened(self, cid: int, role: Role, identity: PeerIdentity, now: float | None = None) -> None: ...

    def receive_eof(self, cid: int, now: float | None = None) -> None: ...

    def sent(self, cid: int, now: float | None = None) -> None: ...


class SessionDriver(Protocol):
    """The part of a `Driver` that sessions call."""

    @property
    def machine(self) -> SessionMachine: ...

    @property
    def has_company(self) -> bool:
        """True if there is more than one connection."""

    def received(self, cid: int, plaintext: bytes) -> None: ...

    def run_actions(self) -> None: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class Session(ABC):
    """Life of one connection, from its cid to its end: passes bytes between the socket, TLS and the machine. A subclass
    implements `write_soon`, `pause`, `resume` and `abort`.
    """

    def __init__(self, driver: SessionDriver, cid: int, role: Role, pump: AnyPump) -> None:
        self.cid = cid
        self.error: TolliverError | None = None
        """Reason of the end; None while open and after an orderly end."""
        self._driver = driver
        self._role = role
        self._pump = pump
        self._address = ""
        self._opened = False  # TLS is established, and the machine knows the connection
        self._units: list[bytes] = []  # to be written; short, so `pop(0)` is cheap
        self._owes_sent = False  # the machine waits for `sent`, the report that all units are written
        self._closing = False
        self._shut = False
        self.reading_over: bool = False
        """True once no more bytes from the peer are wanted."""
        self.writing_over: bool = False
        """True once no more bytes can be sent to the peer."""

    @abstractmethod
    def write_soon(self) -> None:
        """Arrange a write: `next_output` may have bytes, or the connection may be `over`. Never waits."""

    # Called by the driver.

    def transmit(self, units: Sequence[bytes]) -> None:
        self._units.extend(units)
        self._owes_sent = True
        self.write_soon()

    def shutdown_write(self) -> None:
        self._closing = True
        self.write_soon()

    # Called by the endpoint.

    def is_revoked(self) -> bool:
        """True if the peer's certificate is on the current revocation list. Reading stops then, and the caller must
        abort the connection."""
        revocation = self._pump.revocation if self._opened else None
        self.error = self.error or revocation
        return revocation is not None

    # Called by the adapter.

    def start(self, sock: socket.socket) -> None:
        """Begin on a connected socket. Raises OSError if the connection has ended already."""
        note(sock)
        tune(sock)
        self._address = peer_of(sock)
        if is_self_connected(sock):
            self._end(ConnectionLost(SELF_CONNECTED, DialCause.REFUSED))
        self._go_on()

    def receive(self, ciphertext: bytes) -> None:
        """Process ciphertext as it arrives, in pieces of any size; b"" is the peer's end of stream."""
        if ciphertext:
            self._pump.receive(ciphertext)
        else:
            self._pump.receive_eof()
        self._go_on()
        if not ciphertext and not self.reading_over:
            self._end(None)

    def broken(self, cause: BaseException) -> None:
        """End the session, because reading from the socket failed with `cause`."""
        self._go_on()
        if not self.reading_over:
            self._end(broken(cause))
        self.writing_over = True
        self.write_soon()

    def written(self) -> None:
        """Note that nothing more can be written: our side is shut, or a write failed."""
        self.writing_over = True

    def next_output(self) -> bytes | None:
        """Bytes to write, once all earlier ones are written; b"" if there are none now.

        None: shut down the socket's sending side, then call `written`.
        """
        while not self.writing_over:
            try:
                more = self._next_unit()
            except TolliverError:
                return self._pump.outgoing() or None  # possibly a TLS alert; the reading side reports the error
            ciphertext = self._pump.outgoing()
            if ciphertext or not more:
                return ciphertext or (None if self._shut else b"")
        return None

    @property
    def over(self) -> bool:
        """True once both directions have ended, so that the socket can be closed."""
        return self.reading_over and self.writing_over

    # Between driver and adapter.

    def _next_unit(self) -> bool:
        """Pass the next piece of the machine's output to TLS; returns False if there is nothing to do. Called once all
        earlier bytes are written.
        """
        if self._owes_sent and not self._units:
            self._owes_sent = False
            self._driver.machine.sent(self.cid, time.monotonic())
            self._driver.run_actions()
        if self._units:
            self._pump.write(self._units.pop(0))
        elif self._closing and not self._shut:
            self._shut = True
            self._pump.close_notify()
        else:
            return False
        return True

    def _go_on(self) -> None:
        if not self.reading_over and self.error is None:
            try:
                if self._opened or self._shake():
                    self._hand_over()
            except TolliverError as failure:
                self._fail(failure)
        self._driver.run_actions()

    def _shake(self) -> bool:
        done = self._pump.handshake()
        if done:
            self._opened = True
            identity = self._pump.identity(self._address)
            self._driver.machine.opened(self.cid, self._role, identity, time.monotonic())
        elif self._role is Role.SERVER:
            self._driver.machine.shaking(self.cid, self._pump.answered, time.monotonic())
        self.write_soon()
        return done

    def _hand_over(self) -> None:
        """Pass plaintext to the machine. The last bytes of the TLS handshake may have brought the peer's first frames
        along."""
        pump = self._pump
        plaintext = pump.read()
        while plaintext is not None:
            self._driver.received(self.cid, plaintext)
            plaintext = pump.read() if pump.failed else None
        if pump.peer_closed:
            self._driver.machine.receive_eof(self.cid, time.monotonic())
            self.reading_over = True
        elif pump.truncated:
            self._end(ConnectionLost("the peer ended the connection without closing it: it crashed, or was cut off"))

    def _fail(self, failure: TolliverError) -> None:
        """Process a failure of TLS. In the handshake the peer is told the reason, by an alert.

        A client may have sent more already. To close now would reset the connection, and the reset could overtake the
        alert. So a server reads to the end of the stream, or until the machine's handshake timeout.
        """
        failure.with_traceback(None)  # breaks a reference cycle between the error's frames and this object
        if self._opened:
            self._end(failure)
            return
        self.error = failure
        self._closing = True
        self.reading_over = self._role is Role.CLIENT
        self.write_soon()

    def _end(self, error: TolliverError | None) -> None:
        self.error = self.error or error
        self.reading_over = True
        self.writing_over = True
        self.write_soon()


def broken(cause: BaseException) -> ConnectionLost:
    return ConnectionLost(f"the connection broke: {cause.__cause__ or cause}")
