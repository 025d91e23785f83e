"""Client of a local program on threads.

Threads may share a client. Of those that wait for answers one reads, for all; when it has its own answer, another one
goes on.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress
from time import monotonic, sleep
from uuid import UUID

from tolliver_proto import ConnectionLost

from .._local.asking import Tries, answered, client_closed, not_open, unreached
from .._local.envelopes import Answer, Ask, Outcome
from .._local.line import Line

_CHUNK = 2**16


class Talk:
    """A connection to an instance, which threads share."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._line = Line(path)
        self._writing, self._state = threading.Lock(), threading.Lock()
        self._waiting: dict[int, threading.Event] = {}
        self._reads = False
        self._error: ConnectionLost | None = None
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def open(self, tries: Tries) -> None:
        """Raises ConnectionLost, TimeoutError."""
        try:
            self._connect(tries)
            self._write(self._line.data_to_send(), tries)
            while not self._line.is_open:
                self._read(tries)
        except BaseException:
            self.close(ConnectionLost("not connected"))
            raise

    def _connect(self, tries: Tries) -> None:
        try:
            self._sock.settimeout(max(0.001, tries.due - monotonic()))
            self._sock.connect(self._path)
        except TimeoutError:
            raise tries.too_late() from None
        except OSError as error:
            raise unreached(self._path, error) from None

    @property
    def instance_id(self) -> UUID:
        """UUID of the instance."""
        found = self._line.instance_id
        assert found is not None
        return found

    @property
    def is_over(self) -> bool:
        return self._error is not None

    def close(self, error: ConnectionLost | None = None) -> None:
        """End the connection; all who wait for an answer get the error."""
        with self._state:
            self._error = self._error or error or client_closed()
            waiting = [*self._waiting.values()]
        for event in waiting:
            event.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self._sock.close()

    def let_go(self) -> None:
        """Close the socket of a forked child: the connection is the parent's."""
        self._sock.close()

    def ask(self, ask: Ask, tries: Tries) -> Outcome:
        """Raises LocalProtocolError, ConnectionLost, TimeoutError."""
        with self._state:
            number, event = self._line.ask(ask), threading.Event()
            self._waiting[number] = event
            data = self._line.data_to_send()
        try:
            with self._writing:
                self._write(data, tries)
            tries.was_asked = True  # before that the frame was cut, if any of it has arrived
            return self._outcome(number, event, tries)
        finally:
            with self._state:
                self._line.forget(number)
                del self._waiting[number]
                if not self._reads:
                    self._wake_next_reader()

    def _write(self, data: bytes, tries: Tries) -> None:
        try:
            self._sock.settimeout(max(0.001, tries.due - monotonic()))
            self._sock.sendall(data)
        except BaseException as error:  # the frame may be cut
            lost = self._line.broken(error if isinstance(error, OSError) else OSError("interrupted"))
            self.close(lost)
            if isinstance(error, TimeoutError):
                raise tries.too_late() from None
            if isinstance(error, OSError):
                raise lost from None
            raise

    def _outcome(self, number: int, event: threading.Event, tries: Tries) -> Outcome:
        """Wait for the answer to this ask, as one of those who wait or as the one who reads for all."""
        while True:
            with self._state:
                if self._is_settled(number):
                    return self._taken(number)
                if not self._reads:
                    self._reads = True
                    break
                event.clear()
            if not event.wait(max(0.0, tries.due - monotonic())):
                raise tries.too_late()
        try:
            while True:
                self._read(tries)
                with self._state:
                    if self._is_settled(number):
                        return self._taken(number)
        except ConnectionLost as error:
            self.close(error)
            raise
        finally:
            self._reads = False

    def _wake_next_reader(self) -> None:
        """Wake one who waits and is not answered; whoever leaves does so, as the one who was woken may leave, too."""
        for number, event in self._waiting.items():
            if not self._line.is_answered(number):
                event.set()
                return

    def _is_settled(self, number: int) -> bool:
        return self._error is not None or self._line.is_answered(number)

    def _taken(self, number: int) -> Outcome:
        outcome = self._line.take(number)
        if outcome is None:
            assert self._error is not None
            raise ConnectionLost(str(self._error), self._error.cause)
        return outcome

    def _read(self, tries: Tries) -> None:
        try:
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            if not poll.poll(max(0.0, tries.due - monotonic()) * 1000):
                raise tries.too_late()
            data = self._sock.recv(_CHUNK)
        except TimeoutError:
            raise
        except (OSError, ValueError) as error:  # ValueError: closed meanwhile
            raise self._line.broken(error) from None
        with self._state:
            for number in self._line.receive(data):
                event = self._waiting.get(number)
                if event is not None:
                    event.set()


class Conversation:
    """The connections of a client, one after the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._talk: Talk | None = None
        self._process = os.getpid()
        self._is_closed = True

    def open(self, tries: Tries) -> None:
        """Raises ConnectionLost, TimeoutError."""
        self._is_closed = False
        self._connected(tries)

    def close(self) -> None:
        self._is_closed = True
        talk, self._talk = self._talk, None
        if talk is not None:
            talk.close()

    def do(self, ask: Ask, tries: Tries) -> Answer:
        """The answer of the instance. Raises its error, ConnectionLost, TimeoutError; NotOpenYet for a client that is
        not open."""
        if self._is_closed:
            raise not_open(self._path)
        while True:
            try:
                return answered(self._connected(tries).ask(ask, tries), self._path)
            except ConnectionLost as error:
                if self._is_closed:
                    raise client_closed() from None
                pause = tries.pause(error)
            sleep(pause)

    def _connected(self, tries: Tries) -> Talk:
        if self._process != os.getpid():  # a fork: the connection is the parent's, and a lock may be held for ever
            if self._talk is not None:
                self._talk.let_go()
            self._lock, self._talk, self._process = threading.Lock(), None, os.getpid()
        with self._lock:
            talk = self._talk
            if talk is None or talk.is_over:
                self._talk = talk = Talk(self._path)
                if self._is_closed:  # as of now a close ends this connection
                    talk.close()
                talk.open(tries)
            return talk
