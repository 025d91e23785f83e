"""Session between a socket and a machine, without I/O.

An adapter moves ciphertext. Bytes that arrive it gives to `receive`, and those of `next_output` it writes; all that
lies between (handshakes, units that must be records of their own, the order of writes, the close in steps) is the same
for every loop and stands here. An adapter's wire inherits from `Session` and adds how its loop waits.

An end has two halves. Reading is over at the peer's close_notify, at an error or when the line breaks; writing is over
when our own half is shut or cannot be written any more. A write that fails says nothing yet about the reason: the
peer's alert may be waiting to be read (T-74), so only the reading side explains.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from tolliver_proto import ConnectionLost, PeerIdentity, Role, TolliverError
from tolliver_proto.node import DialCause

from .._tls.pump import AnyPump
from .sockets import SELF_CONNECTED, address_of, is_self_connected, tune


class SessionMachine(Protocol):
    """The part of a machine that sessions feed."""

    def opened(self, cid: int, role: Role, identity: PeerIdentity, now: float | None = None) -> None: ...

    def receive_eof(self, cid: int, now: float | None = None) -> None: ...

    def sent(self, cid: int, now: float | None = None) -> None: ...


class SessionDriver(Protocol):
    """The part of a `Driver` that sessions call. One for a single connection need not have more."""

    @property
    def machine(self) -> SessionMachine: ...

    @property
    def has_company(self) -> bool:
        """True if there is more than one connection."""

    def received(self, cid: int, plaintext: bytes) -> None: ...

    def run_actions(self) -> None: ...


class Session(ABC):
    """A connection, from its cid to its end. A subclass brings `write_soon`, `pause`, `resume` and `abort`."""

    def __init__(self, driver: SessionDriver, cid: int, role: Role, pump: AnyPump) -> None:
        self.cid = cid
        self.error: TolliverError | None = None
        """Why it ended; None where that was in order."""
        self._driver = driver
        self._role = role
        self._pump = pump
        self._address = ""
        self._opened = False  # the node knows it
        self._units: list[bytes] = []  # few
        self._owes_sent = False  # the node waits for `sent`
        self._closing = False
        self._shut = False
        self.reading_over: bool = False
        """Nothing more is wanted from the peer."""
        self.writing_over: bool = False
        """Nothing more can be said to the peer."""

    @abstractmethod
    def write_soon(self) -> None:
        """`next_output` may have something, or the connection may be `over`. Never waits."""

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
        """There is a new list of revoked certificates, and the peer's is in it: then nothing more is read, and it is to
        be aborted."""
        revocation = self._pump.revocation if self._opened else None
        self.error = self.error or revocation
        return revocation is not None

    # Provided by the adapter.

    def start(self, sock: socket.socket) -> None:
        """It is connected. Raises OSError where it is gone already."""
        tune(sock)
        self._address = address_of(sock.getpeername())
        if is_self_connected(sock):
            self._end(ConnectionLost(SELF_CONNECTED, DialCause.REFUSED))
        self._go_on()

    def receive(self, ciphertext: bytes) -> None:
        """Take bytes that arrived, cut anywhere; b"" when the peer has ended its half."""
        if ciphertext:
            self._pump.receive(ciphertext)
        else:
            self._pump.receive_eof()
        self._go_on()
        if not ciphertext and not self.reading_over:
            self._end(None)

    def broken(self, cause: BaseException) -> None:
        """Reading failed."""
        self._go_on()
        if not self.reading_over:
            self._end(broken(cause))
        self.writing_over = True
        self.write_soon()

    def written(self) -> None:
        """Our half is shut, or a write failed."""
        self.writing_over = True

    def next_output(self) -> bytes | None:
        """Bytes to write now that all before is written; b"": nothing yet. None: shut our half, then `written`."""
        while not self.writing_over:
            try:
                more = self._next_unit()
            except TolliverError:
                return self._pump.outgoing() or None  # an alert perhaps; the reading side will say why
            ciphertext = self._pump.outgoing()
            if ciphertext or not more:
                return ciphertext or (None if self._shut else b"")
        return None

    @property
    def over(self) -> bool:
        """The socket can be closed."""
        return self.reading_over and self.writing_over

    # Between them.

    def _next_unit(self) -> bool:
        """Put the next bytes into the pump; whether there was anything to do. All before is written."""
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
        self.write_soon()
        return done

    def _hand_over(self) -> None:
        """The last bytes of the TLS handshake may have brought the peer's first frame along, and others may follow."""
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
        """TLS failed. In its handshake the peer is told why, by an alert.

        A client may have sent more already: closing now would reset the connection, and the reset could overtake the
        alert. So a server reads to the end, or until the node's time for the handshake has passed.
        """
        failure.with_traceback(None)  # its frames hold this connection, which keeps it: nothing would be freed at once
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
