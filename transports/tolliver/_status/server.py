"""HTTP endpoint of the status.

It has one thread, and limits on connections, bytes and time. It is meant for scrapers, probes and browsers on this
machine, but withstands hostile clients: each connection has one request, without a body, within a few seconds. If there
are too many connections, the oldest one that has sent no request, or has its response, is closed.

The thread never calls the instance itself. It has the loop take a snapshot, at most twice a second. If none comes in
time, it responds with 503, as detecting a hanging loop is the purpose of a probe.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from weakref import WeakSet

from .._driver.sockets import ACCEPT_PAUSE, close_all, open_listeners
from .._driver.threads import start
from .pages import Response, broken, requested, respond, too_late
from .snapshot import InstanceStatus

log = logging.getLogger("tolliver.status")

CONNECTIONS = 64
"""Most connections at a time."""
HEAD = 8 * 1024
"""Most bytes of a request."""
PATIENCE = 5.0
"""Seconds for a client to send its request, and to take each 64 KiB of a response."""
ANSWER = 2.0
"""Seconds for the loop to take a snapshot."""
FRESH = 0.5
"""Seconds for which a snapshot is reused."""
_CHUNK = 64 * 1024
_UNREAD = 2**20  # most bytes read and dropped after a request: unread ones would reset the connection
_ROUND = 16  # most connections accepted before existing ones get their turn

Answered = Callable[[InstanceStatus], None]
Ask = Callable[[Answered], None]
"""Has a snapshot taken on the loop and passed to the function, on the loop."""


class _Client:
    """One connection of the status endpoint: first the received part of its request, then the unsent part of its
    response.
    """

    def __init__(self, sock: socket.socket, due: float) -> None:
        self.sock = sock
        self.due = due
        self.head = bytearray()
        self.path: str | None = None  # None until the request is complete
        self.sends_body = True  # False for HEAD
        self.answer: memoryview | None = None
        self.events = 0  # selector events waited for
        self.has_ended = False  # the client has shut its sending side
        self.ended = False  # we have shut our sending side
        self.unread = 0


class StatusServer:
    """HTTP server of the status endpoint, on a thread of its own. Listens from its creation, and serves from `start` to
    `close`. Raises CannotListen.
    """

    def __init__(
        self,
        host: str,
        port: int,
        ask: Ask,
        *,
        anywhere: bool = False,
        patience: float = PATIENCE,
        answer: float = ANSWER,
    ) -> None:
        """`anywhere`: accept any Host header, not only IP addresses and localhost. `patience` and `answer` are seconds,
        for clients and for the loop."""
        self._ask = ask
        self._anywhere = anywhere
        self._patience = patience
        self._answer_within = answer
        self._listeners = open_listeners(host, port)
        self.address: tuple[str, int] = self._listeners[0].getsockname()[:2]
        self._near, self._far = socket.socketpair()
        for one in (self._near, self._far):
            one.setblocking(False)
        self._clients: dict[socket.socket, _Client] = {}  # oldest first
        self._waiting: list[_Client] = []  # clients that wait for a snapshot
        self._snapshot: InstanceStatus | None = None
        self._made: dict[str, Response] = {}  # responses from the current snapshot, by path
        self._made_at = float("-inf")
        self._asked_at: float | None = None  # monotonic seconds of the unanswered request to the loop
        self._stopped = False
        self._thread: threading.Thread | None = None
        _open.add(self)

    def start(self) -> None:
        """Start the thread. Raises OutOfThreads."""
        thread = threading.Thread(target=self._run, name="tolliver status", daemon=True)
        start(thread)
        self._thread = thread

    def close(self) -> None:
        """End the thread, which waits for no client, and close all sockets. A second call does nothing."""
        self._stopped = True
        self._wake()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
        self.let_go()

    def let_go(self) -> None:
        """Close all sockets."""
        _open.discard(self)
        close_all([*self._listeners, *self._clients, self._near, self._far])
        self._clients.clear()

    # Called on the loop.

    def _answered(self, status: InstanceStatus) -> None:
        self._snapshot, self._made_at, self._asked_at = status, monotonic(), None
        self._wake()

    def _wake(self) -> None:
        with suppress(OSError):  # buffer full: it wakes anyway; or closed
            self._far.send(b"\0")

    # Called on the thread.

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as self._selector:
                for one in (self._near, *self._listeners):
                    self._selector.register(one, selectors.EVENT_READ)
                while not self._stopped:
                    self._turn()
        except Exception:
            log.exception("the status endpoint has failed and is gone, the instance goes on: report this")

    def _turn(self) -> None:
        for key, events in self._selector.select(self._seconds()):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            if sock is self._near:
                with suppress(OSError):
                    self._near.recv(_CHUNK)
            elif sock in self._listeners:
                self._accept(sock)
            elif (client := self._clients.get(sock)) is not None:
                self._serve(client, events)
        self._look_for_answer()
        now = monotonic()
        for client in [one for one in self._clients.values() if one.due <= now]:
            self._drop(client)

    def _seconds(self) -> float | None:
        """Seconds until the next deadline, of a client or of an awaited snapshot; None without one."""
        due = [client.due for client in self._clients.values()]
        if self._waiting and self._asked_at is not None:
            due.append(self._asked_at + self._answer_within)
        return max(0.0, min(due) - monotonic()) if due else None

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ROUND):
            try:
                sock, _where = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError:  # no file descriptors left
                sleep(ACCEPT_PAUSE)
                return
            if len(self._clients) >= CONNECTIONS:
                self._drop(next((one for one in self._clients.values() if one.path is None or one.ended), None))
            if len(self._clients) >= CONNECTIONS:
                sock.close()
                continue
            sock.setblocking(False)
            client = self._clients[sock] = _Client(sock, monotonic() + self._patience)
            self._watch(client, selectors.EVENT_READ)

    def _serve(self, client: _Client, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                self._read(client)
            if events & selectors.EVENT_WRITE and client.answer is not None:
                self._write(client)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._drop(client)

    def _read(self, client: _Client) -> None:
        data = client.sock.recv(HEAD)
        client.has_ended = not data
        client.unread += len(data)
        if client.path is None and data:
            client.head += data
            if b"\r\n\r\n" in client.head or len(client.head) >= HEAD:
                self._take(client)
        elif client.path is None or (client.ended and not data) or client.unread > _UNREAD:
            self._drop(client)
        elif not data:  # the client has shut its sending side, and waits for the response
            self._watch(client, client.events & selectors.EVENT_WRITE)

    def _watch(self, client: _Client, events: int) -> None:
        """Wait for these selector events of the client, until its time has passed."""
        before, client.events = client.events, events
        if not before and events:
            self._selector.register(client.sock, events)
        elif events:
            self._selector.modify(client.sock, events)
        elif before:
            self._selector.unregister(client.sock)

    def _take(self, client: _Client) -> None:
        """Process the client's request if it is complete or too long."""
        request = requested(bytes(client.head), self._anywhere)
        client.head.clear()
        client.path, client.sends_body = request.path, request.sends_body
        if request.refusal is not None:
            self._answer(client, request.refusal)
        elif request.needs_snapshot:
            client.due = monotonic() + self._patience + self._answer_within
            self._waiting.append(client)
            now = monotonic()
            if self._asked_at is None and now - self._made_at > FRESH:
                self._snapshot, self._asked_at = None, now
                self._made.clear()
                self._ask(self._answered)
        else:
            self._answer(client, respond(request.path, None))

    def _look_for_answer(self) -> None:
        """Respond to waiting clients with the snapshot if it has come from the loop, or with 503 if it is late."""
        if not self._waiting:
            return
        snapshot, asked_at = self._snapshot, self._asked_at
        late = 0.0 if asked_at is None else monotonic() - asked_at
        if snapshot is None and late < self._answer_within:
            return
        waiting, self._waiting = self._waiting, []
        for client in waiting:
            if client.sock in self._clients and client.path is not None:
                self._answer(client, too_late(late) if snapshot is None else self._response(client.path, snapshot))

    def _response(self, path: str, snapshot: InstanceStatus) -> Response:
        """Response for a path, created once for each snapshot."""
        if path not in self._made:
            try:
                self._made[path] = respond(path, snapshot)
            except Exception:
                log.exception("the status endpoint has no answer for %s: report this", path)
                self._made[path] = broken()
        return self._made[path]

    def _answer(self, client: _Client, response: Response) -> None:
        client.answer = memoryview(response.whole if client.sends_body else response.head)
        client.due = monotonic() + self._patience
        self._watch(client, selectors.EVENT_WRITE | (0 if client.has_ended else selectors.EVENT_READ))

    def _write(self, client: _Client) -> None:
        assert client.answer is not None
        sent = client.sock.send(client.answer[:_CHUNK])
        client.answer = client.answer[sent:]
        client.due = monotonic() + self._patience
        if client.answer:
            return
        client.answer, client.ended = None, True
        client.sock.shutdown(socket.SHUT_WR)  # closed once the client has closed too, so that the response is not lost
        if client.has_ended:
            self._drop(client)
        else:
            self._watch(client, selectors.EVENT_READ)

    def _drop(self, client: _Client | None) -> None:
        if client is not None and self._clients.pop(client.sock, None) is not None:
            self._watch(client, 0)
            client.sock.close()


_open: WeakSet[StatusServer] = WeakSet()


def _let_go_in_child() -> None:
    """Close the sockets in a forked child, which has no such thread: the port belongs to the parent."""
    for server in [*_open]:
        server.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
