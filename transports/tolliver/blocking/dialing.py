"""Listening, name look-up and TCP connects on the selector loop.

Only the look-up of a name blocks, so it runs in a thread (`lookups`).
"""

from __future__ import annotations

import errno
import logging
import socket
from collections import deque
from collections.abc import Callable

from .._driver.lookups import Addresses, look_ups
from .._driver.sockets import (
    ACCEPT_PAUSE,
    NEXT_ADDRESS,
    NOT_YET,
    Address,
    begin_connecting,
    bound_to,
    check_connected,
    open_listeners,
)
from .loop import READ, WRITE, Loop

log: logging.Logger = logging.getLogger("tolliver.dial")


class Listeners:
    """Listening sockets on one port, one for each address of the host; with `listen=None` there are none. Raises
    CannotListen.
    """

    def __init__(self, where: tuple[str, int] | None) -> None:
        self._sockets = [] if where is None else open_listeners(*where)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [*map(bound_to, self._sockets)]

    def serve(self, loop: Loop, accepted: Callable[[socket.socket], None]) -> None:
        """Accept connections on the loop, and pass each socket to `accepted`."""
        for sock in self._sockets:
            self._serve(loop, sock, accepted)

    def _serve(self, loop: Loop, listener: socket.socket, accepted: Callable[[socket.socket], None]) -> None:
        def accept(_events: int) -> None:
            try:
                sock, _ = listener.accept()
            except (*NOT_YET, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept a connection, trying again: %s", error)
                loop.ignore(listener)
                loop.later(ACCEPT_PAUSE, wait)
                return
            sock.setblocking(False)
            accepted(sock)

        def wait() -> None:
            if listener in self._sockets:
                loop.watch(listener, READ, accept)

        wait()

    def close(self, close_socket: Callable[[socket.socket], None] = socket.socket.close) -> None:
        """Close the listening sockets, those that a loop watches through the loop. A second call does nothing."""
        while self._sockets:
            close_socket(self._sockets.pop())


def resolve(loop: Loop, host: str, port: int, done: Callable[[list[Address], OSError | None], None]) -> Addresses:
    """Look up the addresses of host and port, then call `done(addresses, error)` on the loop; `error` is None for a
    success. Cancel the result where nobody wants it any more: then `done` is not called.
    """

    def answered(answer: Addresses) -> None:
        if answer.cancelled():
            return
        try:
            found, error = answer.result(), None
        except OSError as failure:
            found, error = [], failure
        loop.soon(lambda: done(found, error))

    asked = look_ups.ask(host, port)
    asked.add_done_callback(answered)
    return asked


class Dialling:
    """One dial: TCP connects to several addresses. The next is tried when one fails or is slow, and the first
    connection wins.
    """

    def __init__(
        self, loop: Loop, addresses: list[Address], done: Callable[[socket.socket | None, OSError | None], None]
    ) -> None:
        self._loop = loop
        self._left = deque(addresses)
        self._trying: set[socket.socket] = set()
        self._done = done
        self._error = OSError(errno.EHOSTUNREACH, "its name has no address")
        self._try_next()

    def close(self) -> None:
        """Stop trying."""
        self._left.clear()
        for sock in self._trying:
            self._loop.close_socket(sock)
        self._trying.clear()

    def _try_next(self) -> None:
        while self._left:
            if self._try(self._left.popleft()):
                self._loop.later(NEXT_ADDRESS, self._go_on)
                return
        if not self._trying:
            self._done(None, self._error)

    def _go_on(self) -> None:
        if self._left:
            self._try_next()

    def _try(self, address: Address) -> bool:
        try:
            sock = begin_connecting(address)
        except OSError as error:
            self._error = error.with_traceback(None)  # else its frames and this object form a cycle
            return False
        self._trying.add(sock)
        self._loop.watch(sock, WRITE, lambda _events: self._ready(sock))
        return True

    def _ready(self, sock: socket.socket) -> None:
        if sock not in self._trying:  # another address has won in the same round of the loop
            return
        self._trying.remove(sock)
        self._loop.ignore(sock)
        try:
            check_connected(sock)
        except OSError as error:
            self._error = error.with_traceback(None)
            self._try_next()
        else:
            self.close()
            self._done(sock, None)
