"""Session of one connection that has no endpoint.

The program's own calls drive it, so there are no other connections and no threads or tasks to wake.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from tolliver_proto import PeerIdentity, Role
from tolliver_proto.layouts import State

from .._tls.pump import AnyPump
from .socket_session import SocketSession

UNDECIDED = (State.DECIDING, State.CONFIRMING, State.RENEWING)
Intake = Callable[[bytes], bytes]
OnOutput = Callable[[Sequence[bytes]], object]


class LineMachine(Protocol):
    """The part of a `Connection`, of either protocol, that takes and gives bytes."""

    @property
    def unsent_bytes(self) -> int: ...

    @property
    def wants_write_shutdown(self) -> bool: ...

    def data_to_send(self) -> Sequence[bytes]: ...

    def receive_data(self, data: bytes, now: float | None = None) -> None: ...

    def receive_eof(self, now: float | None = None) -> None: ...


class Line(SocketSession):
    """Session of a single `Connection` without an endpoint, for a program with its own loop; it is its own driver and
    machine.
    """

    def __init__(
        self,
        connection: LineMachine,
        role: Role,
        pump: AnyPump,
        intake: Intake | None,
        on_output: OnOutput | None = None,
    ) -> None:
        super().__init__(self, 0, role, pump)
        self.paused = True  # makes each `read` take one chunk
        self.has_company = False
        self._connection = connection
        self._intake = intake
        self._on_output = on_output

    def begin(self, sock: socket.socket) -> None:
        """Start on a connected socket. A client's TLS handshake begins."""
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            try:
                self.start(sock)
            except OSError as failure:
                self.broken(failure)
        else:  # a Unix socket pair: no TCP options, no addresses
            self._go_on()

    def has_output(self) -> bool:
        """True if `write` has bytes to send. Takes new output from the connection only once the last is written."""
        if self._opened and not self.busy:
            if self._connection.unsent_bytes:
                units = self._connection.data_to_send()
                if self._on_output is not None:
                    self._on_output(units)
                self.transmit(units)
            elif self._connection.wants_write_shutdown and not self._closing:
                self.shutdown_write()
        return self.busy

    # Implementation of SessionDriver and SessionMachine.

    @property
    def machine(self) -> Self:
        return self

    def shaking(self, cid: int, greeted: bool, now: float | None = None) -> None:
        """Does nothing: how long the handshake may take is the program's own business."""

    def opened(self, cid: int, role: Role, identity: PeerIdentity, now: float | None = None) -> None:
        """Does nothing: `has_output` starts to ask the connection once the session is open."""

    def received(self, cid: int, plaintext: bytes) -> None:
        if self._intake is not None:
            plaintext = self._intake(plaintext)
        if plaintext:
            self._connection.receive_data(plaintext, time.monotonic())

    def receive_eof(self, cid: int, now: float | None = None) -> None:
        self._connection.receive_eof(now)

    def sent(self, cid: int, now: float | None = None) -> None:
        """Does nothing: `has_output` notices that all is written."""

    def run_actions(self) -> None:
        """Does nothing: the program asks its connection for events."""

    def write_soon(self) -> None:
        self.busy = True
