"""Probes of a peer, with blocking sockets.

They examine its name, TCP, TLS and the first frames. Each step ends after the given seconds. No probe can replace an
instance's connection: the handshake of messages is done with a version that no instance has, and ends before it is
complete (see `ask_messages`).
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from tolliver_proto import (
    Closed,
    Connection,
    ConnectionLost,
    HandshakeResponse,
    HandshakeStatus,
    Role,
    TolliverError,
    reactive,
)
from tolliver_proto.node import DialCause

from .._options.instance import Remote
from .._tls.pump import AnyPump, PlainPump, Pump

T = TypeVar("T")
NOBODYS_VERSION = 2**64 - 1
"""Highest version that there is (T-02). A server answers that it is older and waits for our final (T-60), so the
handshake tells its version and UUID, and a final that says failure ends it: nothing is replaced (T-70) or stored
(T-61)."""

_CHUNK = 65536
_FIRST = 64  # first bytes that are kept
_ASK_HTTP = b"HEAD / HTTP/1.0\r\n\r\n"


def resolve(host: str, port: int, seconds: float) -> list[tuple[Any, ...]]:
    """Addresses of host and port, in the form of getaddrinfo. Raises OSError, and TimeoutError if the resolver does not
    respond within `seconds`.
    """
    found: list[tuple[Any, ...]] = []
    errors: list[OSError] = []

    def ask() -> None:
        try:
            found.extend(dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))
        except OSError as error:
            errors.append(error)
        except UnicodeError as error:  # a label that is invalid in IDNA
            errors.append(socket.gaierror(socket.EAI_NONAME, str(error)))

    thread = threading.Thread(target=ask, name="tolliver doctor resolve", daemon=True)  # getaddrinfo has no timeout
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not found:
        raise TimeoutError
    return found


def reach(address: tuple[Any, ...], seconds: float) -> socket.socket:
    """A socket with a TCP connection to the address, which has the form of getaddrinfo, made within `seconds`. Raises
    OSError.
    """
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(seconds)
        sock.connect(where)
    except BaseException:
        sock.close()
        raise
    return sock


class Line:
    """A connection, with or without TLS. Reading raises TimeoutError `seconds` after the step began."""

    def __init__(self, sock: socket.socket, pump: AnyPump, seconds: float) -> None:
        self._sock = sock
        self.pump = pump
        self.seconds = seconds
        self.begin_step()
        self.first = b""
        """The first bytes received, as on the network."""

    def begin_step(self) -> None:
        self._deadline = time.monotonic() + self.seconds

    def shake(self) -> None:
        """Do the TLS handshake. Raises TolliverError if it fails."""
        self.begin_step()
        while not self._step():
            self._receive()

    def _step(self) -> bool:
        try:
            return self.pump.handshake()
        finally:
            self._flush()  # also sends an alert

    def send(self, unit: bytes) -> None:
        self.pump.write(unit)
        self._flush()

    def end(self) -> None:
        """End our sending side; the peer's goes on."""
        self.pump.close_notify()
        self._flush()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def read(self) -> bytes:
        """Bytes received, b"" at the end. Raises TolliverError."""
        while True:
            data = self.pump.read()
            if data is not None:
                return data
            if self.pump.peer_closed or self.pump.truncated:
                return b""
            self._receive()

    def _flush(self) -> None:
        data = self.pump.outgoing()
        if data:
            self._sock.settimeout(self.seconds)
            with suppress(OSError):  # the peer's last bytes are more informative (T-74)
                self._sock.sendall(data)

    def _receive(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        try:
            data = self._sock.recv(_CHUNK)
        except TimeoutError:
            raise
        except OSError:
            data = b""
        if data:
            self.first = (self.first + data)[:_FIRST]
            self.pump.receive(data)
        else:
            self.pump.receive_eof()


def look_context(alpn: list[str]) -> ssl.SSLContext:
    """SSL context of a client that has no certificate and accepts any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(alpn)
    return context


def look(address: tuple[Any, ...], remote: Remote, alpn: list[str], seconds: float) -> bytes | None:
    """Certificate that the server at the address presents, in DER, None if it presents none, from a TLS handshake of at
    most `seconds`. Raises OSError or TolliverError.
    """
    with reach(address, seconds) as sock:
        pump = Pump(look_context(alpn), Remote(remote.host, remote.port), server=False)
        Line(sock, pump, seconds).shake()
        return pump.certificate


def is_http(address: tuple[Any, ...], seconds: float) -> bool:
    """True if the peer at the address answers an HTTP request with HTTP, within `seconds`."""
    with suppress(OSError), reach(address, seconds) as sock:
        line = Line(sock, PlainPump(), seconds)
        line.send(_ASK_HTTP)
        with suppress(TimeoutError):
            while len(line.first) < 5 and line.read():
                pass
        return line.first.startswith(b"HTTP/")
    return False


def last_words(line: Line) -> TolliverError | TimeoutError | None:
    """End our side after the TLS handshake, and read to the peer's end; returns the error that the peer or the network
    gives then, None without one. A server refuses our certificate only after the client's handshake (T-74).
    """
    line.begin_step()
    line.end()
    try:
        while line.read():
            pass
    except (TolliverError, TimeoutError) as error:
        return error
    return None


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """Result of the handshake of messages or of streams, which was tried after TLS: the peer's frame, or None and the
    error that ended the connection.
    """

    frame: T | None
    """The peer's response or hello."""
    error: TolliverError | None
    first: bytes
    """The first bytes of the answer, after TLS."""


def ask_messages(line: Line, instance_id: UUID) -> Answer[HandshakeResponse]:
    """Do the handshake of messages without completing it: get the response, then refuse it by a final that no draft
    takes for success.
    """
    connection = Connection(Role.CLIENT, instance_id=instance_id, version=NOBODYS_VERSION)

    def take(response: HandshakeResponse) -> None:
        if response.status is HandshakeStatus.OLDER:
            connection.reject()

    return _ask(line, connection, HandshakeResponse, take)


def ask_streams(line: Line) -> Answer[reactive.ServerHello]:
    """Exchange the hellos of streams, then a goodbye."""
    connection = reactive.Connection(Role.CLIENT)
    return _ask(line, connection, reactive.ServerHello, lambda _hello: connection.goodbye("a look, nothing more"))


def _ask(
    line: Line, connection: Connection | reactive.Connection, wanted: type[T], take: Callable[[T], object]
) -> Answer[T]:
    """Run the connection to its end; `take` is called with the peer's frame of the class `wanted`, which the result
    has.
    """
    frame: T | None = None
    error: TolliverError | None = None
    first = b""
    line.begin_step()
    try:
        ended = False
        while not ended:
            _send(line, connection)
            data = line.read()
            first = (first + data)[:_FIRST]
            if data:
                connection.receive_data(data)
            else:
                connection.receive_eof()
            for event in connection.events():
                if isinstance(event, wanted):
                    frame = event
                    take(event)
                elif isinstance(event, Closed):
                    error, ended = event.error, True
        _send(line, connection)
        last_words(line)  # so that the peer reads our last frame
    except TimeoutError:
        error = ConnectionLost(f"no answer within {line.seconds:g} s", DialCause.NO_ANSWER)
    except TolliverError as failure:
        error = failure
    return Answer(frame, error, first)


def _send(line: Line, connection: Connection | reactive.Connection) -> None:
    for unit in connection.data_to_send():
        line.send(unit)
