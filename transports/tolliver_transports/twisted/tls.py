"""TLS for Twisted: what a Pump of `_tls.py` does, through Twisted's own transport and pyOpenSSL.

The idea: Twisted asks a creator for one OpenSSL connection per transport. Ours gives a connection that writes down, in
a TLSSession, what Twisted would forget: who the peer is, why TLS failed in our own words, how the peer ended.
TLSTransport is Twisted's TLS transport with that TLSSession; PlainTransport has the same methods, so that the adapter
has no branch.

The theory, for Twisted 23.10 to 26 (`twisted.protocols.tls`):

- Its factory's default joins small writes until the next reactor turn. The class below it does not: there each write of
  up to 16 KiB is one record at once. So a unit is a record of its own as T-69 asks, as we do not use the default.
- It answers the peer's close_notify by closing both halves. We keep ours open until we close it: the connection hides
  that end from it, and the protocol hears of it as over TCP, by IHalfCloseableProtocol.
- A write that fails on the socket ends a TCP transport with what had come and was not read yet: the peer's refusal of
  our certificate, perhaps (T-74). So a client holds a second descriptor until it has heard a byte, and reads the rest.
- A TCP transport that is closed with something unread resets the connection, and the reset may overtake our alert. So
  a server that refuses shuts its half only, and waits for the end, or for the adapter's deadline.
- A TCP transport whose half is shut ends within the call that closes it, and Twisted's TLS would go on with what that
  has taken away. So it is closed in the next turn.
- Nothing here touches the global reactor: `clock` is handed on, and only Twisted's default class would use it.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import replace
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import (
    IHalfCloseableProtocol,
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
    ISystemHandle,
)
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import directlyProvides, implementer, providedBy

from tolliver_proto import ConnectionLost, PeerIdentity, TolliverError

from .._options.instance import TLS, Remote
from .._tls.policy import ALPN, own_identity
from .._tls.x509 import Breakdown, check_pin, identity_of, not_understood, verdict_of
from .policy import (
    UNREADABLE,
    is_abrupt_end,
    is_address,
    make_context,
    names_of,
    reason_of,
    to_ascii,
    words_of,
)

_REST = 65536  # bytes: more than any peer says before it has heard from us


class TLSSession:
    """What is known about one connection and its peer; it outlives the connection."""

    def __init__(self, remote: Remote | None, *, check_name: bool) -> None:
        self.remote = remote
        # OpenSSL knows no scope in an address ("fe80::1%eth0").
        self.host = remote.host.partition("%")[0] if remote is not None and check_name else None
        self.peer = "the peer that dialled us" if remote is None else f"the peer at {remote}"
        self.identity: PeerIdentity | None = None  # set when the handshake is over
        self.failure: TolliverError | None = None
        self.refused: tuple[int, str] | None = None  # why we refuse the peer's certificate
        self.heard = False  # an application byte has come
        self.peer_closed = False
        self.closing = False  # we have asked for the end of both halves
        self.over = False  # TCP has ended

    def meet(self, connection: SSL.Connection) -> None:
        """Who the peer is. Raises CertificateError, or IdentityConflict where the remote's pin is another's (D-2)."""
        shown = connection.get_peer_certificate()
        try:
            assert shown is not None, "D-1: no handshake ends without a certificate"
            certificate = shown.to_cryptography()
            uris = names_of(certificate).get_values_for_type(x509.UniformResourceIdentifier)
        except (ValueError, *UNREADABLE) as error:
            raise not_understood(self.peer, error) from error
        identity = identity_of(certificate.public_bytes(Encoding.DER), uris, self.peer)
        if self.remote is not None:
            check_pin(self.remote, identity)
        self.identity = identity

    def fail(self, error: SSL.Error) -> None:
        """Writes down why TLS ended, once. An end without close_notify is no failure after the handshake (T-09)."""
        cut_off = self.identity is not None and is_abrupt_end(error)
        if self.failure is None and not self.peer_closed and not cut_off:
            self.failure = self._breakdown(error).explain()
            self.failure.__cause__ = error

    def _breakdown(self, error: SSL.Error) -> Breakdown:
        return Breakdown(
            peer=self.peer,
            reason=reason_of(error),
            words=words_of(error),
            verdict=None if self.refused is None else verdict_of(*self.refused),
            heard=self.heard,
            shaken=self.identity is not None,
            ended=is_abrupt_end(error) or isinstance(error, SSL.ZeroReturnError),
        )


class _Connection(SSL.Connection):
    """OpenSSL's connection, which writes down in its TLSSession what happens. It raises what Twisted understands."""

    def __init__(self, context: SSL.Context, session: TLSSession) -> None:
        super().__init__(context)
        self.session = session

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except SSL.WantReadError:
            raise
        except SSL.Error as error:
            self.session.fail(error)
        else:
            self._meet()
        if self.session.failure is not None:
            # Not what OpenSSL raised: Twisted stumbles over a close_notify inside the handshake.
            raise SSL.Error([("tolliver", "", str(self.session.failure))])

    def _meet(self) -> None:
        try:
            self.session.meet(self)
        except TolliverError as error:
            self.session.failure = error
            with suppress(SSL.WantReadError):
                while True:  # an impostor need not see our certificate
                    self.bio_read(_REST)

    def recv(self, bufsiz: int, flags: int | None = None) -> bytes:
        session = self.session
        try:
            data = super().recv(bufsiz, flags)
        except SSL.WantReadError:
            raise
        except SSL.ZeroReturnError:
            session.peer_closed = session.failure is None
            if session.closing:
                raise
            raise SSL.WantReadError from None  # our half stays open: see TLSTransport
        except SSL.Error as error:
            session.fail(error)
            raise
        session.heard = True
        return data


@implementer(IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator)
class Creator:
    """Gives TLSTransport its OpenSSL connection."""

    def __init__(self, context: SSL.Context) -> None:
        self._context = context

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        connection = self.serverConnectionForTLS(tlsProtocol)
        remote = connection.session.remote
        host = "" if remote is None else remote.host.partition("%")[0]
        if host and not is_address(host):
            connection.set_tlsext_host_name(to_ascii(host).encode())
        return connection

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> _Connection:
        assert isinstance(tlsProtocol, TLSTransport)
        return _Connection(self._context, tlsProtocol.session)


class _Line:
    """The transport under TLS. A server that refuses a client closes softly, and no end comes within a call (above)."""

    def __init__(self, tcp: Any, session: TLSSession, clock: Any) -> None:
        self.tcp = tcp
        self._session = session
        self._clock = clock
        directlyProvides(self, providedBy(tcp))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tcp, name)

    def loseConnection(self) -> None:
        self.tcp.unregisterProducer()  # TCP would wait for one that it has paused, and which has nothing more to say
        refusing = self._session.failure is not None and self._session.remote is None
        if refusing and not self._session.over:
            self.tcp.loseWriteConnection()
        else:
            self._clock.callLater(0, self.tcp.loseConnection)


@implementer(IHalfCloseableProtocol)
class TLSTransport(TLSMemoryBIOProtocol):
    """What a protocol has as its transport over TLS.

    The protocol should provide IHandshakeListener (its `handshakeCompleted` is the beginning) and
    IHalfCloseableProtocol: `readConnectionLost` says once that the peer has closed in order. It may go on writing, and
    then calls `loseWriteConnection`, and `loseConnection` when both halves are closed.
    """

    factory: TLSFactory

    def __init__(self, factory: TLSFactory, wrappedProtocol: Any, _connectWrapped: bool = True) -> None:
        super().__init__(factory, wrappedProtocol, _connectWrapped)
        self.session = TLSSession(factory.remote, check_name=factory.check_name)
        self._write_closed = False
        self._told = False  # the protocol knows that the peer has closed
        self._line: _Line
        self._second: socket.socket | None = None

    def identity(self, address: str) -> PeerIdentity:
        """What the peer's certificate proves; `address` is where the transport sees it. After the handshake only."""
        proved = self.session.identity
        if proved is None:
            raise RuntimeError("the TLS handshake is not over: wait for handshakeCompleted()")
        return replace(proved, address=address)

    def ended(self, reason: Failure) -> TolliverError | None:
        """Why the connection ended, for `connectionLost`; None if the peer closed it in order (T-09)."""
        if self.session.failure is not None:
            return self.session.failure
        return None if self.session.peer_closed else _cut_off(reason)

    # As a transport.

    def write(self, data: bytes) -> None:
        """One unit (T-69). Nothing is sent after `loseWriteConnection`, as over TCP."""
        if not self._write_closed:
            super().write(data)

    def loseWriteConnection(self) -> None:
        """Ends our half, once: close_notify, then FIN. Reading goes on."""
        session = self.session
        if self._write_closed or session.over or session.identity is None or session.failure is not None:
            return
        self._write_closed = True
        connection = self.getHandle()
        with suppress(SSL.Error):
            connection.shutdown()
            self._line.write(connection.bio_read(_REST))
        self._line.loseWriteConnection()

    def loseConnection(self) -> None:
        """Ends both halves: close_notify, and TCP when the peer's has come. Only the caller can set a deadline."""
        self.session.closing = True
        super().loseConnection()

    # As a protocol over TCP.

    def makeConnection(self, transport: Any) -> None:
        if self.session.remote is not None and ISystemHandle.providedBy(transport):
            self._second = transport.getHandle().dup()
        self._line = _Line(transport, self.session, self.factory.clock)
        super().makeConnection(self._line)

    def dataReceived(self, data: bytes) -> None:
        if self.session.failure is not None:
            return  # we wait for the end only
        super().dataReceived(data)
        if self.session.heard:
            self._drop_second()
        if self.session.peer_closed and not self._told:
            self._told = True
            if IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
                self.wrappedProtocol.readConnectionLost()
            else:
                self.loseConnection()

    def readConnectionLost(self) -> None:
        if self.session.failure is not None:
            self._line.tcp.loseConnection()
        elif not self.session.peer_closed:
            self._line.abortConnection()

    def writeConnectionLost(self) -> None:
        if IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
            self.wrappedProtocol.writeConnectionLost()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.session.over = True
        if self._second is not None and not self.disconnecting:
            with suppress(OSError):
                self._hear_the_rest(self._second.recv(_REST))
        self._drop_second()
        super().connectionLost(reason)

    def _hear_the_rest(self, data: bytes) -> None:
        if data:  # pyOpenSSL does not take nothing
            self.dataReceived(data)

    def _drop_second(self) -> None:
        if self._second is not None:
            self._second.close()
            self._second = None


@implementer(IHalfCloseableProtocol)
class PlainTransport(ProtocolWrapper):
    """What TLSTransport is, without TLS: for loopback (D-15). Its peer is nobody in particular."""

    _peer_closed = False

    def identity(self, address: str) -> PeerIdentity:
        return PeerIdentity(address=address)

    def ended(self, reason: Failure) -> TolliverError | None:
        return None if self._peer_closed or reason.check(ConnectionDone) else _cut_off(reason)

    def makeConnection(self, transport: Any) -> None:
        super().makeConnection(transport)
        if IHandshakeListener.providedBy(self.wrappedProtocol):
            self.wrappedProtocol.handshakeCompleted()

    def readConnectionLost(self) -> None:
        if self._peer_closed:
            return
        self._peer_closed = True
        if IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
            self.wrappedProtocol.readConnectionLost()
        else:
            self.loseConnection()

    def writeConnectionLost(self) -> None:
        if IHalfCloseableProtocol.providedBy(self.wrappedProtocol):
            self.wrappedProtocol.writeConnectionLost()


def _cut_off(reason: Failure) -> ConnectionLost:
    return ConnectionLost(f"the connection broke: {reason.getErrorMessage()}")


AnyTransport = TLSTransport | PlainTransport


class TLSFactory(TLSMemoryBIOFactory):
    """Twisted's factory with our transport: no write waits for another (T-69)."""

    protocol = TLSTransport

    def __init__(
        self,
        creator: Any,  # a Creator; mypy does not see what provides an interface of zope's, so these three are Any
        wrapped: Any,  # an IProtocolFactory
        clock: Any,  # an IReactorTime
        remote: Remote | None,
        *,
        check_name: bool,
    ) -> None:
        super().__init__(creator, remote is not None, wrapped, clock)
        self.clock = clock
        self.remote = remote
        self.check_name = check_name


def plain_factory(wrapped: Any) -> WrappingFactory[PlainTransport]:
    """What TLSFactory is, without TLS."""
    factory: WrappingFactory[PlainTransport] = WrappingFactory(wrapped)
    factory.protocol = PlainTransport
    factory.noisy = False
    return factory


class Transports:
    """Makes the factories of one instance; None for plaintext. `identity` is what our own certificate proves.

    Reads the files, and raises CertificateError where one is missing, does not fit or would be refused by a peer.
    """

    def __init__(self, tls: TLS | None, *, alpn: str = ALPN) -> None:
        self.identity = PeerIdentity() if tls is None else own_identity(tls)
        self._check_name = tls is not None and not tls.insecure_ca_only
        self._dialling = None if tls is None else Creator(make_context(tls, server=False, alpn=alpn))
        self._listening = None if tls is None else Creator(make_context(tls, server=True, alpn=alpn))

    def client(self, remote: Remote, wrapped: Any, clock: Any) -> WrappingFactory[Any]:
        """For dialling: checks the host name, or what the remote pins instead (D-2). `clock` is the reactor."""
        if self._dialling is None:
            return plain_factory(wrapped)
        check_name = self._check_name and not remote.pinned
        return TLSFactory(self._dialling, wrapped, clock, remote, check_name=check_name)

    def server(self, wrapped: Any, clock: Any) -> WrappingFactory[Any]:
        """For listening; `clock` is the reactor."""
        if self._listening is None:
            return plain_factory(wrapped)
        return TLSFactory(self._listening, wrapped, clock, None, check_name=False)
