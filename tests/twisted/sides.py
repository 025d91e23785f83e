"""The two ends of a Twisted connection in memory, with the methods of a Pump: so each can talk to the other kind."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from OpenSSL import SSL
from tolliver_transports._options.instance import TLS, Remote
from tolliver_transports.twisted.policy import make_context
from tolliver_transports.twisted.tls import Creator, TLSFactory, TLSTransport, Transports
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.protocol import connectionDone as done
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from tests.tls import pumping
from tests.tls.pumping import LOCALHOST, TLS12, TLS13, with_version
from tolliver_proto import PeerIdentity, TolliverError


@implementer(IHandshakeListener, IHalfCloseableProtocol)
class Recorder(Protocol):
    """What an adapter's protocol hears."""

    transport: Any  # a TLSTransport or a PlainTransport

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.calls: list[str] = []
        self.error: TolliverError | None = None

    def handshakeCompleted(self) -> None:
        self.calls.append("handshake")

    def dataReceived(self, data: bytes) -> None:
        self.received.append(data)

    def readConnectionLost(self) -> None:
        self.calls.append("read end")

    def writeConnectionLost(self) -> None:
        self.calls.append("write end")

    def connectionLost(self, reason: Failure = done) -> None:
        self.error = self.transport.ended(reason)
        self.calls.append("lost")


class Line:
    """TCP in memory, as Twisted's would be: what was written is kept until `taken`."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.writes: list[int] = []
        self.ended: str | None = None
        self.half_closed = False

    def write(self, data: bytes) -> None:
        if self.ended is None and not self.half_closed:
            self.written.append(data)

    def loseWriteConnection(self) -> None:
        self.half_closed = True

    def unregisterProducer(self) -> None:
        pass

    def loseConnection(self) -> None:
        self.ended = self.ended or "lost"

    def abortConnection(self) -> None:
        self.ended = self.ended or "aborted"

    def getPeer(self) -> IPv4Address:
        return IPv4Address("TCP", "127.0.0.1", 5)


class Side:
    """One end."""

    def __init__(self, factory: TLSFactory) -> None:
        transport = factory.buildProtocol(None)
        assert isinstance(transport, TLSTransport)
        self.transport = transport
        self.protocol: Any = transport.wrappedProtocol
        self.line = Line()
        self.clock = factory.clock  # a Clock of task's
        transport.makeConnection(self.line)

    def receive(self, ciphertext: bytes) -> None:
        if ciphertext and self.line.ended is None:
            self.transport.dataReceived(ciphertext)
            self.clock.advance(0)

    def receive_eof(self) -> None:
        self.transport.readConnectionLost()
        if self.line.ended:
            self.lose()

    def lose_connection(self) -> None:
        self.transport.loseConnection()
        self.clock.advance(0)

    def lose(self, reason: Exception | None = None) -> None:
        because = reason or (ConnectionAborted() if self.line.ended == "aborted" else ConnectionDone())
        self.transport.connectionLost(Failure(because))

    def outgoing(self) -> bytes:
        data = b"".join(self.line.written)
        self.line.written.clear()
        return data

    def handshake(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return self.transport.session.identity is not None

    def read(self) -> bytes | None:
        data = b"".join(self.protocol.received)
        self.protocol.received.clear()
        if not data and self.failure is not None:
            raise self.failure
        return data or None

    def write(self, unit: bytes) -> None:
        self.transport.write(unit)

    def close_notify(self) -> None:
        self.transport.loseWriteConnection()

    def identity(self, address: str) -> PeerIdentity:
        return self.transport.identity(address)

    @property
    def failure(self) -> TolliverError | None:
        return self.transport.session.failure

    @property
    def peer_closed(self) -> bool:
        return self.transport.session.peer_closed and not self.protocol.received

    @property
    def truncated(self) -> bool:
        return self.protocol.error is not None and self.failure is None


_VERSIONS = {TLS13: SSL.TLS1_3_VERSION, TLS12: SSL.TLS1_2_VERSION}


@lru_cache
def _creator(tls: TLS, version: Any, server: bool) -> Creator:
    context = make_context(with_version(tls, version), server=server)
    context.set_max_proto_version(_VERSIONS[version])
    return Creator(context)


def side(tls: TLS, version: Any = TLS13, remote: Remote | None = None, *, check_name: bool = False) -> Side:
    factory = Factory.forProtocol(Recorder)
    creator = _creator(tls, version, remote is None)
    return Side(TLSFactory(creator, factory, Clock(), remote, check_name=check_name))


def client(tls: TLS, version: Any = TLS13, remote: Remote = LOCALHOST) -> Side:
    return side(tls, version, remote, check_name=not remote.pinned and not tls.insecure_ca_only)


def server(tls: TLS, version: Any = TLS13) -> Side:
    return side(tls, version)


def by_transports(tls: TLS, remote: Remote | None = None) -> Side:
    """As an instance makes it."""
    transports, factory = Transports(tls), Factory.forProtocol(Recorder)
    made = transports.server(factory, Clock()) if remote is None else transports.client(remote, factory, Clock())
    assert isinstance(made, TLSFactory)
    return Side(made)


def shake(dialler: Any, listener: Any) -> tuple[TolliverError | None, TolliverError | None]:
    """Runs the handshake of any two, see pumping."""
    return pumping.shake(dialler, listener)


def move(source: Any, target: Any) -> int:
    """What one has to send reaches the other."""
    return pumping.move(source, target)
