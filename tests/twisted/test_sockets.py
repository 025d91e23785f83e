"""On reactors and sockets: what memory cannot show, above all what becomes of a refusal when the line breaks (T-74)."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest
from tolliver_transports._options.instance import Remote
from tolliver_transports._tls.policy import client_context, server_context
from tolliver_transports.twisted.policy import make_context
from tolliver_transports.twisted.tls import Creator, TLSFactory, Transports

from tests.certificates import Certificates
from tests.tls.pumping import records
from tolliver_proto import CertificateError, ConnectionLost

from .reactors import TIMEOUT, Loop
from .sides import Recorder

MEGABYTE = 1_000_000


class Told(Recorder):
    """A Recorder that other threads can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.half, self.over = threading.Event(), threading.Event(), threading.Event()
        self.got = threading.Event()

    def handshakeCompleted(self) -> None:
        super().handshakeCompleted()
        self.begun.set()

    def dataReceived(self, data: bytes) -> None:
        super().dataReceived(data)
        self.got.set()

    def readConnectionLost(self) -> None:
        super().readConnectionLost()
        self.half.set()

    def connectionLost(self, reason: Any = None) -> None:
        super().connectionLost(reason)
        self.over.set()


def listening(loop: Loop, certs: Certificates, protocol: Recorder) -> int:
    transports = Transports(certs.tls("bob"))
    return loop.listen(lambda factory: transports.server(factory, loop.reactor), protocol)


def dialling(loop: Loop, certs: Certificates, member: str, protocol: Recorder, port: int) -> None:
    remote = Remote("localhost", port)
    creator = Creator(make_context(certs.tls(member), server=False))  # an instance would refuse some itself
    loop.dial(lambda factory: TLSFactory(creator, factory, loop.reactor, remote, check_name=True), protocol, port)


def dial(certs: Certificates, member: str, port: int) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", port), TIMEOUT)
    return client_context(certs.tls(member)).wrap_socket(sock, server_hostname="localhost")


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while data := sock.recv(65536):
        parts.append(data)
    return b"".join(parts)


def test_units_on_the_wire(loop: Loop, certs: Certificates) -> None:
    """T-69: a response and the frames that follow it in the same reactor turn are records of their own."""

    class Answering(Told):
        def handshakeCompleted(self) -> None:
            for size in (30, 40, 50):
                self.transport.write(bytes(size))
            self.transport.loseWriteConnection()

    port = listening(loop, certs, Answering())
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(certs.tls("alice")).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(("127.0.0.1", port), TIMEOUT) as sock:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(outgoing.read())
                incoming.write(sock.recv(65536))
        sock.sendall(outgoing.read())
        ciphertext = read_all(sock)
    found = records(ciphertext)
    assert found[-4:] == [(23, 30 + 17), (23, 40 + 17), (23, 50 + 17), (23, 2 + 17)], "and close_notify"
    incoming.write(ciphertext)
    assert tls.read(1000) == bytes(30)
    assert "twisted.internet.reactor" not in sys.modules, "nothing here needs the global reactor"


def test_both_ends_close_in_order(loop: Loop, certs: Certificates) -> None:
    listener, dialler = Told(), Told()
    port = listening(loop, certs, listener)
    dialling(loop, certs, "alice", dialler, port)
    assert dialler.begun.wait(TIMEOUT)
    loop.call(lambda: (dialler.transport.write(b"question"), dialler.transport.loseWriteConnection()))
    assert listener.half.wait(TIMEOUT)
    assert listener.received == [b"question"]
    loop.call(lambda: (listener.transport.write(b"answer"), listener.transport.loseWriteConnection()))
    assert dialler.half.wait(TIMEOUT)
    assert dialler.received == [b"answer"]
    for side in (listener, dialler):
        loop.call(side.transport.loseConnection)
        assert side.over.wait(TIMEOUT)
        assert side.error is None
        assert side.calls == ["handshake", *sorted(set(side.calls[1:-1]), key=side.calls.index), "lost"], "each once"


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_cut_is_told_apart(loop: Loop, certs: Certificates, how: str) -> None:
    listener = Told()
    sock = dial(certs, "alice", listening(loop, certs, listener))
    sock.sendall(b"hello")
    assert listener.got.wait(TIMEOUT)
    (reset if how == "reset" else socket.socket.close)(sock)
    assert listener.over.wait(TIMEOUT)
    assert type(listener.error) is ConnectionLost


@pytest.mark.parametrize("how", ["closed", "damaged"])
def test_what_comes_after_our_half_is_shut(loop: Loop, certs: Certificates, how: str) -> None:
    """Twisted's TCP then ends within the call that closes it, and its TLS would go on with what is gone."""
    listener = Told()
    with dial(certs, "alice", listening(loop, certs, listener)) as sock:
        assert listener.begun.wait(TIMEOUT)
        loop.call(listener.transport.loseWriteConnection)
        assert read_all(sock) == b""
        if how == "closed":
            loop.call(listener.transport.loseConnection)
            with suppress(OSError):
                sock.unwrap()
        else:
            with socket.socket(fileno=os.dup(sock.fileno())) as raw:
                raw.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
        assert listener.over.wait(TIMEOUT)
    assert type(listener.error) is (type(None) if how == "closed" else ConnectionLost)


@pytest.mark.parametrize("how", ["cut", "reset", "cut later"])
def test_a_dialler_that_goes_in_the_handshake(loop: Loop, certs: Certificates, how: str) -> None:
    listener, incoming, outgoing = Told(), ssl.MemoryBIO(), ssl.MemoryBIO()
    port = listening(loop, certs, listener)
    sock = socket.create_connection(("127.0.0.1", port), TIMEOUT)
    if how == "cut later":
        tls = client_context(certs.tls("alice")).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        sock.sendall(outgoing.read())
        sock.recv(65536)
    (reset if how == "reset" else socket.socket.close)(sock)
    assert listener.over.wait(TIMEOUT)
    assert type(listener.error) is ConnectionLost
    assert "closed during the TLS handshake" in str(listener.error)


def test_a_refusal_is_heard_although_the_client_talks(loop: Loop, certs: Certificates) -> None:
    """Bytes of the client that nobody reads would make a reset of our close, and that could overtake the alert."""
    for _ in range(10):
        listener = Told()
        with dial(certs, "expired", listening(loop, certs, listener)) as sock:
            with suppress(OSError):
                for _ in range(20):
                    sock.sendall(bytes(65536))
            with pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired"):
                read_all(sock)
        assert listener.over.wait(TIMEOUT)
        assert type(listener.error) is CertificateError


class Eager(Told):
    """Writes more than TCP takes, as a producer that waits to be resumed."""

    def pauseProducing(self) -> None:
        pass

    def resumeProducing(self) -> None:
        pass

    def stopProducing(self) -> None:
        pass

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)

    def handshakeCompleted(self) -> None:
        for _ in range(80):
            self.transport.write(bytes(50_000))


def test_a_refusal_ends_a_client_that_waits_to_be_resumed(loop: Loop, certs: Certificates) -> None:
    """TCP closes for nobody whose producer it has paused."""
    listener, dialler = Told(), Eager()
    port = listening(loop, certs, listener)
    dialling(loop, certs, "expired", dialler, port)
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


@pytest.mark.parametrize("reads", [True, False], ids=["as it comes", "the write fails first"])
def test_a_failed_write_does_not_hide_the_refusal(loop: Loop, certs: Certificates, reads: bool) -> None:
    class Dialling(Told):
        def handshakeCompleted(self) -> None:
            super().handshakeCompleted()
            if reads:
                self.transport.write(b"request")
            else:
                self.transport.pauseProducing()  # so the reactor looks at the write alone

    for _ in range(10):
        listener, dialler = Refusing(certs), Dialling()
        dialling(loop, certs, "expired", dialler, listener.port)
        if not reads:
            assert dialler.begun.wait(TIMEOUT)
            assert listener.gone.wait(TIMEOUT)
            loop.call(dialler.transport.write, b"request")
        assert dialler.over.wait(TIMEOUT)
        listener.join(TIMEOUT)
        assert type(dialler.error) is CertificateError
        assert "certificate expired" in str(dialler.error)


# Pressure.


def test_a_pause_stops_the_stream(loop: Loop, certs: Certificates) -> None:
    class Pausing(Told):
        later = 0
        paused = False

        def dataReceived(self, data: bytes) -> None:
            if self.paused:
                self.later += len(data)
            elif not self.received:
                self.transport.pauseProducing()
                self.paused = True
            super().dataReceived(data)

    listener = Pausing()
    with dial(certs, "alice", listening(loop, certs, listener)) as sock:
        sending = threading.Thread(target=sock.sendall, args=(bytes(4 * MEGABYTE),))
        sending.start()
        assert listener.got.wait(TIMEOUT)
        for _ in range(50):
            loop.call(lambda: None)  # many turns of the reactor
        assert listener.later < 65536, "what one read of the socket has brought, and no more"

        def resume() -> None:
            listener.paused = False
            listener.transport.resumeProducing()

        loop.call(resume)
        sending.join(TIMEOUT)
        assert not sending.is_alive()
        sock.shutdown(socket.SHUT_WR)  # a close with their session tickets unread would be a reset
        assert listener.over.wait(TIMEOUT)
    assert sum(map(len, listener.received)) == 4 * MEGABYTE


def test_a_producer_is_paused_and_resumed(loop: Loop, certs: Certificates) -> None:
    class Producer:
        def __init__(self) -> None:
            self.paused, self.resumed = threading.Event(), threading.Event()

        def pauseProducing(self) -> None:
            self.paused.set()

        def resumeProducing(self) -> None:
            self.resumed.set()

        def stopProducing(self) -> None:
            pass

    listener, producer = Told(), Producer()
    with dial(certs, "alice", listening(loop, certs, listener)) as sock:
        sock.sendall(b"hello")
        assert listener.got.wait(TIMEOUT)
        loop.call(listener.transport.registerProducer, producer, True)
        units = 0
        while not producer.paused.is_set() and units < 1000:
            loop.call(listener.transport.write, bytes(16384))
            units += 1
        assert producer.paused.is_set()
        assert not producer.resumed.is_set()
        loop.call(listener.transport.loseWriteConnection)
        assert len(read_all(sock)) == units * 16384
        assert producer.resumed.wait(TIMEOUT)
        loop.call(listener.transport.unregisterProducer)
