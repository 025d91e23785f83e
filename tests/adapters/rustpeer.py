"""Foreign peer: the Rust implementation of 2026.

As with `gopeer`, nothing here comes from `tolliver_proto`. It knows no TLS, no lists of subscriptions, no acks and no
control messages: a client says its final after every success, both ends then write messages, each in one go, and
whatever else comes ends the connection. Its user chooses the connection to write to.
"""

from __future__ import annotations

import itertools
import socket
import struct
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

VERSION = 1
_NAME = ">H"


@dataclass(frozen=True)
class Received:
    channel: str
    key: str
    body: bytes
    message_id: int


def regular(channel: str, key: str, body: bytes, message_id: int) -> bytes:
    parts = [struct.pack(_NAME, len(part)) + part for part in (channel.encode(), key.encode(), body)]
    return struct.pack(">BI", 3, message_id) + b"".join(parts)


class RustPeer:
    """Use it as a context manager: `listen()` or `dial(port)`, then `send` and `unreliable_send`."""

    def __init__(self, instance_id: uuid.UUID | None = None) -> None:
        self.instance_id = instance_id or uuid.uuid4()
        self.messages: list[Received] = []
        self.errors: list[str] = []
        self.connections: dict[uuid.UUID, socket.socket] = {}
        self._ids = itertools.count(2**31 - 2)  # the number has no sign: ids on both sides of it
        self._server: socket.socket | None = None
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for one in [*self._sockets, *([self._server] if self._server else [])]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), "a thread of the double did not end"

    def listen(self, port: int = 0) -> int:
        """Returns the port."""
        self._server = socket.create_server(("127.0.0.1", port))
        self._start(self._accept_all, self._server)
        bound: int = self._server.getsockname()[1]
        return bound

    def dial(self, port: int) -> uuid.UUID:
        """Returns whom it reached."""
        conn = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._sockets.append(conn)
        conn.sendall(struct.pack(">BQ16s", 0, VERSION, self.instance_id.bytes))
        code, version, who, status = struct.unpack(">BQ16sB", _take(conn, 26))
        assert (code, status) == (1, 0), f"response {code}, status {status}"
        conn.sendall(bytes((2, 0 if version == VERSION else 2)))
        return self._begin(conn, uuid.UUID(bytes=who))

    def send(self, peer: uuid.UUID, channel: str, key: str, body: bytes) -> None:
        """Its reliable one: with an id that nobody acknowledges."""
        self._write(peer, channel, key, body, next(self._ids))

    def unreliable_send(self, peer: uuid.UUID, channel: str, key: str, body: bytes) -> None:
        self._write(peer, channel, key, body, 0)

    def _write(self, peer: uuid.UUID, channel: str, key: str, body: bytes, message_id: int) -> None:
        self.connections[peer].sendall(regular(channel, key, body, message_id))

    def _accept_all(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                conn = server.accept()[0]
                self._sockets.append(conn)
                with suppress(EOFError):
                    self._accept(conn)

    def _accept(self, conn: socket.socket) -> None:
        code, version, who = struct.unpack(">BQ16s", _take(conn, 25))
        status = 1 if code != 0 else 0 if version == VERSION else 3
        conn.sendall(struct.pack(">BQ16sB", 1, VERSION, self.instance_id.bytes, status))
        if status or conn.recv(2) != b"\x02\x00":  # both bytes in one read, or it is no final
            conn.close()
            return
        self._begin(conn, uuid.UUID(bytes=who))

    def _begin(self, conn: socket.socket, peer: uuid.UUID) -> uuid.UUID:
        conn.settimeout(None)
        self.connections[peer] = conn
        self._start(self._read_all, conn)
        return peer

    def _read_all(self, conn: socket.socket) -> None:
        with suppress(OSError, EOFError):
            while (code := _take(conn, 1)[0]) == 3:
                (message_id,) = struct.unpack(">I", _take(conn, 4))
                channel, key, body = (_take(conn, struct.unpack(_NAME, _take(conn, 2))[0]) for _ in range(3))
                self.messages.append(Received(channel.decode(), key.decode(), body, message_id))
            self.errors.append(f"did not receive a regular message: code {code}")
            conn.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name="rustpeer", daemon=True)  # type: ignore[arg-type]  # one of the methods above
        self._threads.append(thread)
        thread.start()


def _take(conn: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = conn.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
