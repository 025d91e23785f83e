"""Selector loop: the one thread that has all sockets.

It has a selector, calls that other threads leave (`soon`), and a few of its own for later. Only this thread touches the
selector and the sockets. Others wake it through a socket pair, and only when it sleeps: a thousand calls in one round
cost one byte.
"""

from __future__ import annotations

import errno
import heapq
import itertools
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from tolliver_proto import ConnectionLost

from .._driver.sockets import (
    ACCEPT_PAUSE,
    MORE_FILES,
    NEXT_ADDRESS,
    NOT_YET,
    Address,
    begin_connecting,
    check_connected,
    find_addresses,
    open_listeners,
)

log = logging.getLogger("tolliver")
_LONGEST = 86400.0  # seconds: what a selector counts in milliseconds ends after 24 days
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Loop:
    """`tick` is called in each round; it returns the seconds until it wants to be called again, or None.

    Raises ConnectionLost where the system has no room for what it needs.
    """

    def __init__(self, tick: Callable[[], float | None]) -> None:
        self._tick = tick
        try:
            self._selector = selectors.DefaultSelector()
            near, self._far = socket.socketpair()
        except OSError as error:
            raise ConnectionLost(f"the thread of the sockets cannot begin: {error}. {MORE_FILES}") from error
        for end in (near, self._far):
            end.setblocking(False)
        self._selector.register(near, READ, lambda _events: near.recv(4096))
        self._calls: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._woken = False
        self._asleep = False
        self._stopped = False

    # From any thread, and from a finalizer: without a lock.

    def wake(self) -> None:
        """Have another round."""
        self._woken = True
        if self._asleep:
            self._asleep = False
            with suppress(OSError):  # it is full, then the thread wakes; or closed, then nobody is to be woken
                self._far.send(b"\0")

    def soon(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        self.wake()

    def stop(self) -> None:
        """`run` returns when this round is over."""
        self._stopped = True
        self.wake()

    # On the thread itself.

    def run(self) -> None:
        while not self._stopped:
            self._woken = False
            wait = self._tick()
            for _ in range(len(self._calls)):
                self._calls.popleft()()
            wait = self._run_timers(_LONGEST if wait is None else min(wait, _LONGEST))
            self._asleep = True  # and only then look whether somebody called meanwhile
            ready = self._selector.select(0 if self._woken else wait)
            self._asleep = False
            for key, events in ready:
                key.data(events)

    def watch(self, sock: socket.socket, events: int, act: Callable[[int], object]) -> None:
        """Call `act(events)` whenever one of them is true; 0: no longer."""
        key = self._selector.get_map().get(sock)
        if not events:
            self.ignore(sock)
        elif key is None:
            self._selector.register(sock, events, act)
        elif events != key.events:
            self._selector.modify(sock, events, act)

    def ignore(self, sock: socket.socket) -> None:
        if sock in self._selector.get_map():
            self._selector.unregister(sock)

    def close_socket(self, sock: socket.socket) -> None:
        self.ignore(sock)
        sock.close()

    def later(self, delay: float, call: Callable[[], object]) -> None:
        heapq.heappush(self._timers, (time.monotonic() + delay, next(self._numbers), call))

    def _run_timers(self, wait: float | None) -> float | None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        if not self._timers:
            return wait
        own = max(0.0, self._timers[0][0] - now)
        return own if wait is None else min(own, wait)

    # When the thread is no more: after its end, or in a forked child.

    def close(self) -> None:
        """Close every socket that is watched. The second time does nothing."""
        for key in list((self._selector.get_map() or {}).values()):
            key.fileobj.close()  # type: ignore[union-attr]  # sockets are all that `watch` takes
        self._selector.close()
        self._far.close()


class Listeners:
    """Listening sockets, one for each address of the host, on one port; none for None. Raises CannotListen."""

    def __init__(self, where: tuple[str, int] | None) -> None:
        self._sockets = [] if where is None else open_listeners(*where)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [sock.getsockname()[:2] for sock in self._sockets]

    def serve(self, loop: Loop, accepted: Callable[[socket.socket], None]) -> None:
        """Call `accepted` on the loop with each connection that comes in."""
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
        """Those that a loop watches are closed by that. The second time does nothing."""
        while self._sockets:
            close_socket(self._sockets.pop())


def resolve(loop: Loop, host: str, port: int, done: Callable[[list[Address], OSError | None], None]) -> None:
    """Call `done(addresses, error)` on the loop. A name may take long to look up: it gets a thread for that."""

    def look_up(flags: int = 0) -> None:
        try:
            found, error = find_addresses(host, port, flags), None
        except OSError as failure:
            found, error = [], failure
        loop.soon(lambda: done(found, error))

    try:
        socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:
        try:
            threading.Thread(target=look_up, name=f"tolliver looks up {host:.100}", daemon=True).start()
        except RuntimeError as error:  # no threads left, or the interpreter is ending
            failure = OSError(errno.EAGAIN, str(error))
            loop.soon(lambda: done([], failure))
    else:
        look_up(socket.AI_NUMERICHOST)


class Dialling:
    """TCP connects to some addresses: the next is tried when one fails or takes its time, the first one there wins."""

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
            self._error = error.with_traceback(None)  # its frames hold this object
            return False
        self._trying.add(sock)
        self._loop.watch(sock, WRITE, lambda _events: self._ready(sock))
        return True

    def _ready(self, sock: socket.socket) -> None:
        if sock not in self._trying:  # another one has won in the same round
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
