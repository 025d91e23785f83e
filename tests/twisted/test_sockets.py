"""Transport on reactors and sockets: refusals (T-74), and closing.

A test stands for the machine, so that it says when something is sent, and hears what a node would hear.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections import deque
from contextlib import suppress
from math import inf
from typing import Any

import psutil
import pytest
from tolliver._driver.driver import Driver
from tolliver._options.instance import Remote
from tolliver._tls.policy import client_context, server_context
from tolliver._tls.pump import AnyPump
from tolliver.twisted.wire import Transport, Wires
from twisted.internet.protocol import ClientFactory

from tests.certificates import Certificates
from tests.tls import pumping
from tolliver_proto import Abort, ConnectionLost, PauseReading, Role, ShutdownWrite, TolliverError, Transmit
from tolliver_proto.errors import CertificateError

from .reactors import TIMEOUT, Loop

MIB = 2**20


class Machine:
    """A driver's machine and its loop adapter, by hand: one connection, which does what a test asks for with `do`.

    `at_first` is asked for as soon as the connection stands.
    """

    def __init__(self, loop: Loop, role: Role, pump: AnyPump, *at_first: object) -> None:
        self.loop = loop
        self.error: TolliverError | None = None
        self.begun, self.heard, self.over = threading.Event(), threading.Event(), threading.Event()
        self._at_first = at_first
        self._actions: deque[object] = deque()
        self.timers = self
        self.first = inf  # nothing is ever due
        both: Any = self
        self.driver = Driver(both, both)
        self.transport = Transport(self.driver, 1, role, pump, self._lost, loop.reactor)
        self.wires = {1: self.transport}

    def do(self, *actions: object) -> None:
        self._actions.extend(actions)
        self.loop.call(self.driver.run_actions)

    def promise(self) -> None: ...

    def shaking(self, *_: object) -> None: ...

    def next_action(self) -> object:
        return self._actions.popleft() if self._actions else None

    def opened(self, *_: object) -> None:
        self._actions.extend(self._at_first)
        self.begun.set()

    def receive_data(self, *_: object) -> None:
        self.heard.set()

    def receive_eof(self, *_: object) -> None: ...

    def sent(self, *_: object) -> None: ...

    def _lost(self, _cid: int, error: TolliverError | None) -> None:
        self.error = error
        self.over.set()


class Dials(ClientFactory[Any]):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def buildProtocol(self, addr: object) -> Any:
        return self._machine.transport


def listening(loop: Loop, certs: Certificates) -> tuple[Machine, int]:
    machine = Machine(loop, Role.SERVER, pumping.server(certs.tls("bob")))
    port = loop.call(loop.reactor.listenTCP, 0, Wires(lambda _: machine.transport), 50, "127.0.0.1")
    return machine, port.getHost().port


def dialling(loop: Loop, certs: Certificates, port: int, member: str, *at_first: object) -> Machine:
    pump = pumping.client(certs.tls(member), remote=Remote("localhost", port))
    machine = Machine(loop, Role.CLIENT, pump, *at_first)
    loop.call(loop.reactor.connectTCP, "127.0.0.1", port, Dials(machine))
    return machine


def dial(certs: Certificates, member: str, port: int) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", port), TIMEOUT)
    return client_context(certs.tls(member)).wrap_socket(sock, server_hostname="localhost")


def read_all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(65536), b""))


@pytest.mark.parametrize("how", ["closed", "damaged"])
def test_what_comes_after_our_half_is_shut(loop: Loop, certs: Certificates, how: str) -> None:
    """Twisted's TCP then ends within the call that closes it."""
    listener, port = listening(loop, certs)
    with dial(certs, "alice", port) as sock:
        assert listener.begun.wait(TIMEOUT)
        listener.do(ShutdownWrite(1))
        assert read_all(sock) == b""
        if how == "closed":
            with suppress(OSError):
                sock.unwrap()
        else:
            with socket.socket(fileno=os.dup(sock.fileno())) as raw:
                raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert listener.over.wait(TIMEOUT)
    assert type(listener.error) is (type(None) if how == "closed" else ConnectionLost)


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_line_that_breaks_is_no_end_in_order(loop: Loop, certs: Certificates, how: str) -> None:
    listener, port = listening(loop, certs)
    sock = dial(certs, "alice", port)
    assert listener.begun.wait(TIMEOUT)
    (reset if how == "reset" else socket.socket.close)(sock)
    assert listener.over.wait(TIMEOUT)
    assert type(listener.error) is ConnectionLost


# Refusals.


def test_a_refusal_is_heard_although_the_client_talks(loop: Loop, certs: Certificates) -> None:
    """Bytes of the client that nobody reads would make a reset of our close, and that could overtake the alert."""
    listener, port = listening(loop, certs)
    with dial(certs, "expired", port) as sock:
        for _ in range(16):  # more than a system takes that nobody reads from
            sock.sendall(bytes(MIB))
        with pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired"):
            read_all(sock)
    assert listener.over.wait(TIMEOUT)
    assert type(listener.error) is CertificateError


def test_a_refusal_ends_a_client_that_waits_to_be_resumed(loop: Loop, certs: Certificates) -> None:
    """TCP closes for nobody whose producer it has paused."""
    listener, port = listening(loop, certs)
    dialler = dialling(loop, certs, port, "expired", Transmit(1, [bytes(MIB)] * 8))
    assert dialler.over.wait(TIMEOUT)
    assert listener.over.wait(TIMEOUT)
    assert type(dialler.error) is type(listener.error) is CertificateError


class Refusing(threading.Thread):
    """A listener that refuses the client, and then resets the connection."""

    def __init__(self, certs: Certificates) -> None:
        super().__init__()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(TIMEOUT)
        self.port = self.socket.getsockname()[1]
        self.context = server_context(certs.tls("bob"))
        self.gone = threading.Event()
        self.start()

    def run(self) -> None:
        with self.socket:
            plain, _ = self.socket.accept()
            # A copy, as `wrap_socket` takes the socket away and closes it when it fails.
            copy = plain.dup()
            plain.settimeout(TIMEOUT)
            with suppress(ssl.SSLError):
                self.context.wrap_socket(plain, server_side=True)
            reset(copy)
        self.gone.set()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("reads", [True, False], ids=["as it comes", "the write fails first"])
def test_a_failed_write_does_not_hide_the_refusal(loop: Loop, certs: Certificates, reads: bool) -> None:
    """T-74: Twisted closes the socket then, with what has come and was not read."""
    request = Transmit(1, [b"request"])
    for _ in range(10):
        listener = Refusing(certs)
        dialler = dialling(loop, certs, listener.port, "expired", request if reads else PauseReading(1))
        if not reads:  # so the reactor looks at the write alone
            assert dialler.begun.wait(TIMEOUT)
            assert listener.gone.wait(TIMEOUT)
            dialler.do(request)
        assert dialler.over.wait(TIMEOUT)
        listener.join(TIMEOUT)
        assert type(dialler.error) is CertificateError
        assert "certificate expired" in str(dialler.error)


def test_a_client_has_two_descriptors_until_it_has_heard_a_byte(loop: Loop, certs: Certificates) -> None:
    listener, port = listening(loop, certs)
    before = psutil.Process().num_fds()
    dialler = dialling(loop, certs, port, "alice")
    assert dialler.begun.wait(TIMEOUT)
    assert listener.begun.wait(TIMEOUT)
    counts = [psutil.Process().num_fds()]
    listener.do(Transmit(1, [b"hello"]))
    assert dialler.heard.wait(TIMEOUT)
    counts.append(loop.call(psutil.Process().num_fds))
    dialler.do(Abort(1))
    assert dialler.over.wait(TIMEOUT)
    assert listener.over.wait(TIMEOUT)
    assert [count - before for count in counts] == [3, 2]
