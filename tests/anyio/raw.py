"""A peer by hand: a Connection over a blocking socket, to do what an instance never would.

The idea: `tolliver_proto` is the protocol without I/O, so a peer that lies, stops or cuts its bytes as it likes is a
few lines. Run it on a thread of its own.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from tolliver_transports._tls import client_context
from tolliver_transports.anyio import TLS

from tolliver_proto import Closed, Connection, Established, Event, Message, Role, Subscription

PATIENCE = 10.0  # seconds


class RawPeer:
    """Dials, and speaks when it is told to. Use it as a context manager."""

    def __init__(self, port: int, tls: TLS | None, instance_id: UUID, subscriptions: Sequence[str] = ()) -> None:
        self.connection = Connection(
            Role.CLIENT, instance_id=instance_id, subscriptions=[Subscription(name, "") for name in subscriptions]
        )
        self.events: list[Event] = []
        self.records: list[bytes] = []
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        if tls is not None:
            context = client_context(tls)
            self._socket = context.wrap_socket(self._socket, server_hostname="127.0.0.1")

    def __enter__(self) -> RawPeer:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._socket.close()

    def flush(self) -> None:
        for unit in self.connection.data_to_send():
            self._socket.sendall(unit)

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
        self.events += self.connection.events()
        return bool(data)

    def establish(self) -> None:
        self.flush()
        while not any(isinstance(event, Established | Closed) for event in self.events):
            self.receive()

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
