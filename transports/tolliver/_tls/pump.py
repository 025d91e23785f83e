"""TLS pump: TLS of one connection without I/O.

A Pump stands between a socket and a machine: ciphertext on one side, plaintext on the other. It neither waits nor uses
the network. `Pumps` (policy) creates one for each connection. PlainPump has the same methods, so that adapters need no
branch for plaintext.

Properties of OpenSSL 1.1.1 and 3, under `ssl.SSLObject` with two memory BIOs, that this code relies on:

- Reading from an empty BIO, or one that holds part of a record, raises SSLWantReadError and loses nothing. Writing
  never raises it: the outgoing BIO grows, and renegotiation, the only reason for a write to read, is off.
- `unwrap()` queues our close_notify and then, as it calls SSL_shutdown twice, looks for the peer's. If the incoming BIO
  has no complete record, that second step raises SSLWantReadError, which is ignored: our side is closed, and SSL_read
  still works, in TLS 1.3 and 1.2. But if application data is waiting there, the second step fails with "application
  data after close notify" and breaks the object. So everything is read and kept before `unwrap()`.
- After a fatal error SSL_read behaves as if the peer had sent close_notify. So an error is remembered here and raised
  again, and OpenSSL is not called again.
- A close_notify gives b"" or, once we have sent ours, raises SSLZeroReturnError; an abrupt end of the transport raises
  SSLEOFError. CPython before 3.11.3 sets OP_IGNORE_UNEXPECTED_EOF, which makes the two look alike, and without that
  option raises a plain SSLError. We clear the option and look at the error's reason, as T-09 needs the difference.
- A memory BIO never gets smaller while its connection is open. So large units are written in slices of whole records,
  which gives the same records as a single write.
- In TLS 1.3 a client's handshake is complete before the server has checked its certificate. A refusal is an alert that
  arrives with the client's first reads, perhaps after its first writes have failed (T-74).
"""

from __future__ import annotations

import dataclasses
import hashlib
import ssl
from typing import Final

from tolliver_proto import ConnectionClosing, ConnectionLost, PeerIdentity, TolliverError
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import DialCause

from .._options.instance import Remote
from .revocation import RevocationList
from .x509 import (
    REVOKED,
    Breakdown,
    check_pin,
    fault_of_our_list,
    is_abrupt_end,
    read_identity,
)

_RECORD = 16384  # plaintext bytes in the largest TLS record
_FIRST = 16  # bytes
_NOT_TLS = (DialCause.NOT_TLS, DialCause.HTTP, DialCause.STREAMS)
_NOT_TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 70))  # a record with the fatal alert protocol_version (RFC 8446, 6)
_SLICE = 4 * _RECORD  # a memory BIO never shrinks: this is what each may grow to


class Pump:
    """TLS of one connection. Plaintext comes out of `read`, ciphertext out of `outgoing`.

    Call `receive` with arriving bytes, then `handshake` until it returns True, then `read` until it returns None. After
    each of these calls send the bytes of `outgoing`, also after an error, as they may be the alert that tells the peer
    the reason. If sending fails, continue to receive to the end, so that `read` can raise the peer's reason (T-74).

    Raises CertificateError if either side refuses the other's certificate, IdentityConflict if a pinned remote has
    another identity, and ConnectionLost for every other failure of TLS, such as plaintext or an unknown version: like a
    failure of the network it may be temporary, so the remote is dialled again (T-73). After an error, each call raises
    it again. Not thread-safe.
    """

    def __init__(
        self, context: ssl.SSLContext, remote: Remote | None, *, server: bool, revoked: RevocationList | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # OpenSSL does not accept an address with a scope ("fe80::1%eth0").
        host = None if remote is None else remote.host.partition("%")[0]
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server, server_hostname=host)
        self._server = server
        self._remote = remote
        self._revoked = revoked or RevocationList()
        self._peer = "the peer that dialled us" if remote is None else f"the peer at {remote}"
        self._identity: PeerIdentity | None = None  # set when the handshake is complete
        self._failure: TolliverError | None = None
        self._first = b""  # the first bytes received, to recognize another protocol
        self._read_ahead: list[bytes] = []
        self._ciphertext: list[bytes] = []
        self.wait: bool = False
        """True once a byte of application data has arrived, which proves that the peer accepts our certificate."""
        self.answered: bool = False
        """True once the handshake has made output. A server's first output answers a whole ClientHello."""
        self._no_more = False  # True after `receive_eof`
        self._write_closed = False
        self._closed_by_peer = False
        self._cut_off = False

    @classmethod
    def client(cls, context: ssl.SSLContext, remote: Remote, revoked: RevocationList | None = None) -> Pump:
        """TLS of a connection that we dial. The remote's pins are checked at the end of the handshake."""
        return cls(context, remote, server=False, revoked=revoked)

    @classmethod
    def server(cls, context: ssl.SSLContext, revoked: RevocationList | None = None) -> Pump:
        """TLS of a connection that we have accepted."""
        return cls(context, None, server=True, revoked=revoked)

    @property
    def peer_closed(self) -> bool:
        """True if the peer sent close_notify and everything before it has been read: an orderly end (T-09)."""
        return self._closed_by_peer and not self._read_ahead

    @property
    def application_protocol(self) -> str | None:
        """Protocol name agreed on by ALPN; None without one (R-35)."""
        return self._tls.selected_alpn_protocol()

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER. None before the end of the handshake, and if we refuse the certificate."""
        return None if self._identity is None else self._tls.getpeercert(binary_form=True)

    @property
    def revocation(self) -> CertificateError | None:
        """The error if the peer's certificate is on our current revocation list, else None."""
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is None or not self._revoked.lists(certificate):
            return None
        return CertificateError(f"we refuse the certificate of {self._peer}: {REVOKED} ({self._revoked.name})")

    @property
    def version(self) -> str | None:
        """TLS version, such as "TLSv1.3"; None before the handshake."""
        return self._tls.version()

    @property
    def failed(self) -> bool:
        """True after a failure of TLS. `read` raises it after the plaintext received before."""
        return self._failure is not None

    @property
    def truncated(self) -> bool:
        """True if the transport ended without close_notify and everything has been read: the peer crashed, or the
        connection was cut."""
        return self._cut_off and not self._read_ahead

    def receive(self, ciphertext: bytes) -> None:
        """Take ciphertext, in pieces of any size. It is dropped after the end of the stream and after an error."""
        if not (self._no_more or self._closed_by_peer or self._failure):
            self._incoming.write(ciphertext)
            if self._identity is None:
                self._first = (self._first + ciphertext)[:_FIRST]

    def receive_eof(self) -> None:
        """Note the end of the transport."""
        self._no_more = True
        self._incoming.write_eof()

    def outgoing(self) -> bytes:
        """Remove and return the ciphertext to send; b"" if there is none."""
        if self._outgoing.pending:
            self._ciphertext.append(self._outgoing.read())
        if not self._ciphertext:
            return b""
        ciphertext = b"".join(self._ciphertext)  # does not copy a single item
        self._ciphertext.clear()
        return ciphertext

    def handshake(self) -> bool:
        """Continue the handshake. True when it is complete, False if more must be received."""
        self._raise_failure()
        if self._identity is not None:
            return True
        try:
            self._tls.do_handshake()
            self._identity = self._check_peer()
        except ssl.SSLWantReadError:
            self.answered = self.answered or bool(self._outgoing.pending)
            return False
        except ssl.SSLError as error:
            self._fail(error)
        except TolliverError as error:
            self._failure = error
            self._outgoing.read()  # do not show our certificate to an impostor
        self._raise_failure()
        return True

    def read(self) -> bytes | None:
        """All plaintext that has arrived, never b"". None if there is none now, or none will follow (`peer_closed`,
        `truncated`).

        Plaintext received before an error is returned before the error is raised.
        """
        self._pull()
        if self._read_ahead:
            plaintext = b"".join(self._read_ahead)
            self._read_ahead.clear()
            return plaintext
        self._raise_failure()
        return None

    def write(self, unit: bytes) -> None:
        """Encrypt a unit in TLS records of its own (T-69): a single one, up to 16 KiB.

        Raises ConnectionClosing after `close_notify`, and ConnectionLost once `truncated`.
        """
        self._raise_failure()
        self._require_handshake()
        if self._write_closed:
            raise ConnectionClosing("close_notify has been sent: nothing can follow it")
        if self._cut_off:
            raise ConnectionLost(f"{self._peer} has gone: nothing can be sent to it")
        try:
            for at in range(0, len(unit), _SLICE):
                self._tls.write(unit[at : at + _SLICE])
                self._ciphertext.append(self._outgoing.read())
        except ssl.SSLError as error:
            self._fail(error)
            self._raise_failure()

    def close_notify(self) -> None:
        """Close our side, once; reading continues. Never raises: an error is kept for `read`."""
        self._pull()
        if self._identity is None or self._write_closed or self._failure is not None or self._cut_off:
            return
        self._write_closed = True
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)

    def identity(self, address: str) -> PeerIdentity:
        """Identity that the peer's certificate proves. `address` is the peer's network address. Call it after the
        handshake."""
        proved = self._require_handshake()
        return dataclasses.replace(proved, address=address)

    def _require_handshake(self) -> PeerIdentity:
        if self._identity is None:
            raise RuntimeError("the TLS handshake is not over: call handshake() until it is True")
        return self._identity

    def _pull(self) -> None:
        if self._identity is None or self._failure is not None or self._closed_by_peer or self._cut_off:
            return
        incoming, tls = self._incoming, self._tls
        try:
            while incoming.pending or tls.pending() or incoming.eof:  # a check is cheaper than SSLWantReadError
                plaintext = tls.read(_RECORD)
                if not plaintext:
                    self._closed_by_peer = True
                    return
                self._read_ahead.append(plaintext)
                self.wait = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self._closed_by_peer = True
        except ssl.SSLError as error:
            if is_abrupt_end(error):
                self._cut_off = True
            else:
                self._fail(error)

    def _check_peer(self) -> PeerIdentity:
        if self._server and self._tls.session_reused:
            # Only with TLS 1.2: it can resume by session id, which `ssl` cannot disable.
            raise ConnectionLost(f"{self._peer} resumed a TLS session: each connection shows its certificate (D-1)")
        revocation = self.revocation
        if revocation is not None:  # the list may be newer than the handshake's context
            raise revocation
        identity = read_identity(self._tls, self._peer)
        if self._remote is not None:
            check_pin(self._remote, identity)
        return identity

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: ssl.SSLError) -> None:
        self._failure = self._explain(error)
        self._failure.__cause__ = error.with_traceback(None)  # its frames refer to this pump: see Session
        if fault_of_our_list(error) is not None:
            self._outgoing.read()  # no alert: it would blame the peer's certificate, and end the peer's dialling
        if self._server and self._failure_cause is not None:
            self._ciphertext.append(_NOT_TLS_ALERT)  # OpenSSL sends none: the peer would not know the reason

    @property
    def _failure_cause(self) -> DialCause | None:
        """Cause of a failure of TLS if the peer's first bytes are those of another protocol; None if they are not
        recognized.
        """
        failure = self._failure
        return failure.cause if isinstance(failure, ConnectionLost) and failure.cause in _NOT_TLS else None

    def _explain(self, error: ssl.SSLError) -> TolliverError:
        protocol = DialCause.told_by(self._first)
        return Breakdown.of(error, self._peer, self.wait, self._identity is not None, protocol).explain()


USER = "unix:user "
"""Beginning of the address of a peer at a Unix socket; the number of its user follows."""


class PlainPump:
    """Replacement for Pump without TLS, for loopback (D-15) and Unix sockets. Its peer has no identity, except that the
    user at the other end of a Unix socket stands for a key (D-18).
    """

    # Plain TCP has no close_notify.
    truncated: Final = False
    answered: Final = True
    failed: Final = False
    application_protocol: Final = None
    certificate: Final = None
    revocation: Final = None
    version: Final = None

    def __init__(self) -> None:
        self._incoming: list[bytes] = []
        self._units: list[bytes] = []
        self._no_more = False
        self._write_closed = False
        self.peer_closed: bool = False
        self.wait = True
        """Always True: there is no certificate that the peer could refuse."""

    def receive(self, ciphertext: bytes) -> None:
        if ciphertext:
            self._incoming.append(ciphertext)

    def receive_eof(self) -> None:
        self._no_more = True

    def outgoing(self) -> bytes:
        data = b"".join(self._units)
        self._units.clear()
        return data

    def handshake(self) -> bool:
        return True

    def read(self) -> bytes | None:
        data = b"".join(self._incoming)
        self._incoming.clear()
        self.peer_closed = self._no_more
        return data or None

    def write(self, unit: bytes) -> None:
        if self._write_closed:
            raise ConnectionClosing("our half is closed: nothing can follow")
        self._units.append(unit)

    def close_notify(self) -> None:
        self._write_closed = True

    def identity(self, address: str) -> PeerIdentity:
        key = hashlib.sha256(address.encode()).digest() if address.startswith(USER) else None
        return PeerIdentity(address=address, spki_sha256=key)


AnyPump = Pump | PlainPump
