"""Scripted peer: a Connection over a blocking socket.

It does what an instance never would: `tolliver_proto` is the protocol without I/O, so a peer that lies, stops or cuts
its bytes as it likes is a few lines. Each waits with a limit.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Self
from uuid import UUID

from tolliver._options.instance import TLS
from tolliver._tls.policy import client_context

from tolliver_proto import (
    Closed,
    Connection,
    Established,
    Event,
    HandshakeRequest,
    Message,
    Role,
    Subscription,
)

PATIENCE = 60.0  # seconds


class RawPeer:
    """Dials, and speaks when it is told to. Use it as a context manager.

    `tls` is a member's certificate, or a context for one that is none.
    """

    def __init__(
        self,
        port: int,
        tls: TLS | ssl.SSLContext | None,
        instance_id: UUID,
        subscriptions: Sequence[str] = (),
    ) -> None:
        self._speak(Role.CLIENT, instance_id, subscriptions)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        if tls is not None:
            context = tls if isinstance(tls, ssl.SSLContext) else client_context(tls)
            self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")

    def _speak(self, role: Role, instance_id: UUID, subscriptions: Sequence[str] = ()) -> None:
        listed = [Subscription(name, "") for name in subscriptions]
        self.connection = Connection(role, instance_id=instance_id, subscriptions=listed)
        self.events: list[Event] = []
        self.records: list[bytes] = []

    @classmethod
    def accepted(cls, stream: socket.socket, instance_id: UUID, subscriptions: Sequence[str] = ()) -> Self:
        """The other role: on a connection that somebody dialled."""
        raw = cls.__new__(cls)
        raw._speak(Role.SERVER, instance_id, subscriptions)
        raw._socket = stream
        return raw

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def flush(self) -> None:
        for unit in self.connection.data_to_send():
            self._socket.sendall(unit)

    def unacknowledged(self) -> int:
        """Bytes that the other end's system has not taken yet."""
        return int.from_bytes(ioctl(self._socket, TIOCOUTQ, bytes(4)), "little")

    def send_raw(self, data: bytes) -> None:
        """Any bytes, well-formed or not."""
        self._socket.sendall(data)

    def close_with_a_reset(self) -> None:
        """The close, when it comes, is a reset."""
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def receive(self) -> bool:
        """One read, which of TLS is one record at most. False at the end, however it came."""
        data = b""
        with suppress(ConnectionError, ssl.SSLError):
            data = self._socket.recv(65536)
        self.records.append(data)
        if data:
            self.connection.receive_data(data)
        else:
            self.connection.receive_eof()
        for event in self.connection.events():
            self.events.append(event)
            if isinstance(event, HandshakeRequest):
                self.connection.accept()
        return bool(data)

    def establish(self) -> None:
        self.flush()
        while not any(isinstance(event, Established | Closed) for event in self.events):
            self.receive()
            self.flush()

    def read_to_the_end(self) -> None:
        while self.receive():
            pass

    def receive_messages(self, count: int) -> list[Message]:
        while len(self.messages) < count:
            assert self.receive(), "the connection ended"
        return self.messages

    @property
    def messages(self) -> list[Message]:
        return [event for event in self.events if isinstance(event, Message)]


class RawListener:
    """Listens on a thread of its own, and has each connection served, one after the other.

    `errors` are those of TLS, in words; `accepted` counts the dials. Whom it refuses it hears to the end, so that its
    alert arrives; unless it is `rude`: then it closes at once, and the reset may overtake the alert (T-74).
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        serve: Callable[[socket.socket], None],
        *,
        rude: bool = False,
        port: int = 0,
    ) -> None:
        self.accepted = 0
        self.errors: list[str] = []
        self._context = context
        self._serve = serve
        self._rude = rude
        self._server = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more; the second time does nothing."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                stream, _ = self._server.accept()
                self.accepted += 1
                stream.settimeout(PATIENCE)
                with stream:
                    self._handle(stream)

    def _handle(self, stream: socket.socket) -> None:
        try:
            if self._context is None:
                self._serve(stream)
                return
            with self._context.wrap_socket(stream, server_side=True, do_handshake_on_connect=False) as wrapped:
                self._shake(wrapped)
                self._serve(wrapped)
        except OSError as error:  # ssl.SSLError is one
            self.errors.append(str(error))

    def _shake(self, wrapped: ssl.SSLSocket) -> None:
        try:
            wrapped.do_handshake()
        except ssl.SSLError:
            if not self._rude:
                socket.socket.shutdown(wrapped, socket.SHUT_WR)
                while socket.socket.recv(wrapped, 65536):
                    pass
            raise
