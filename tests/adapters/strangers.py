"""Strangers: connections that say nothing, or stop after TLS (D-7).

All of 127.0.0.0/8 is this machine, so a test has as many addresses as it wants. A stranger remembers when it came and
when it was closed; a `Watch` sees it.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from .facade import PATIENCE


def source(number: int) -> str:
    """An address of this machine that is not 127.0.0.1, from which good peers come."""
    return f"127.0.{1 + number // 200}.{1 + number % 200}"


def missing_sources() -> str:
    """Why there are no such addresses here, or ""."""
    try:
        with socket.socket() as probe:
            probe.bind((source(0), 0))
    except OSError as error:
        return f"{source(0)} is no address of this machine: {error}"
    return ""


class Stranger:
    """Connects, with a context also in TLS, and then waits to be closed. `shut` is how long that took, in seconds."""

    def __init__(self, port: int, address: str, context: ssl.SSLContext | None = None) -> None:
        self.shut: float | None = None
        self._came = time.monotonic()
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0))
        if context is not None:
            try:
                self.sock = context.wrap_socket(self.sock, server_hostname="127.0.0.1")
            except OSError:  # ssl.SSLError is one
                self._is_shut()

    def look(self) -> bool:
        """True if it is closed. There is something to read."""
        data = b""
        with suppress(ConnectionError):
            data = socket.socket.recv(self.sock, 65536)  # beneath TLS: its close_notify is not the end yet
        if not data:
            self._is_shut()
        return not data

    def _is_shut(self) -> None:
        self.shut = time.monotonic() - self._came

    def close(self) -> None:
        self.sock.close()


class Slow(Stranger):
    """A stranger that gives its ClientHello in pieces, by `drip`, and goes on with TLS when it is told to `finish`."""

    def __init__(self, port: int, address: str, context: ssl.SSLContext) -> None:
        super().__init__(port, address)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()

    def drip(self, size: int = -1) -> None:
        """Send so many bytes of what is left of the ClientHello; all by default."""
        with suppress(ConnectionError):
            self.sock.sendall(self._outgoing.read(size))

    def finish(self, first: bytes) -> bytes:
        """Finish TLS, say `first`, and return what the other side says to it. Raises OSError if it has closed."""
        self._go_on(self._tls.do_handshake)
        self._tls.write(first)
        said: bytes = self._go_on(self._tls.read)
        return said

    def _go_on(self, step: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self.sock.sendall(self._outgoing.read())
                data = self.sock.recv(65536)
                self._incoming.write(data) if data else self._incoming.write_eof()
            else:
                self.sock.sendall(self._outgoing.read())
                return done
        raise TimeoutError


class Watch:
    """Sees when each is closed. Use it as a context manager, which closes the rest."""

    def __init__(self) -> None:
        self._strangers: list[Stranger] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._selector.close()
        for one in self._strangers:
            one.close()

    def add(self, stranger: Stranger) -> Stranger:
        self._strangers.append(stranger)
        if stranger.shut is None:
            self._selector.register(stranger.sock, selectors.EVENT_READ, stranger)
        return stranger

    def look(self, seconds: float = 0.0) -> None:
        """Until all are closed, or for so long; once in any case."""
        end = time.monotonic() + seconds
        while self._selector.get_map():
            left = end - time.monotonic()
            for key, _ in self._selector.select(max(left, 0.0)):
                if key.data.look():
                    self._selector.unregister(key.fileobj)
            if left <= 0:
                return
