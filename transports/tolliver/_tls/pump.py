"""TLS pump: TLS of one connection without I/O.

A Pump stands between a socket and a machine, takes ciphertext on one side and plaintext on the other, and neither waits
nor touches the network. `Pumps` (policy) makes one per connection. A PlainPump has the same methods, so that no adapter
has a branch.

The theory, for OpenSSL 1.1.1 and 3 under `ssl.SSLObject` with two memory BIOs:

- A read of an empty BIO, or of one that holds part of a record, raises SSLWantReadError and loses nothing. A write
  never wants anything: the outgoing BIO grows, and renegotiation, the one thing that could make a write read, is off.
- `unwrap()` queues our close_notify and then, because it calls SSL_shutdown twice, looks for the peer's. An incoming
  BIO without a whole record makes that second step raise SSLWantReadError, which we ignore: our half is closed, and
  SSL_read still works, in TLS 1.3 and 1.2. But with application data waiting there the second step fails with
  "application data after close notify" and ruins the object. So everything is read before `unwrap()`, and kept.
- After a fatal error SSL_read answers as if the peer had sent close_notify. So a failure is remembered here and raised
  again, and OpenSSL is not asked again.
- A close_notify gives b"" or, once we have sent ours, raises SSLZeroReturnError; an abrupt end of the transport raises
  SSLEOFError. CPython before 3.11.3 sets OP_IGNORE_UNEXPECTED_EOF, which makes the second look like the first, and
  without that option it raises a plain SSLError; we clear it and look at the reason, as T-09 needs both apart.
- A memory BIO keeps the size that it once had, for as long as the connection lives. So large units go through in slices
  of whole records, which gives the records that one write would have given.
- In TLS 1.3 a client's handshake is over before the server has looked at its certificate. The refusal is an alert that
  the client's first reads bring, perhaps after its first writes have failed (T-74).
"""

from __future__ import annotations

import dataclasses
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
    verdict,
    words,
)

_RECORD = 16384  # plaintext bytes in the largest TLS record
_FIRST = 16  # bytes
_NOT_TLS = (DialCause.NOT_TLS, DialCause.HTTP, DialCause.STREAMS)
_NOT_TLS_ALERT = bytes((21, 3, 3, 0, 2, 2, 70))  # a record with the fatal alert protocol_version (RFC 8446, 6)
_SLICE = 4 * _RECORD  # a memory BIO never shrinks: this is what each may grow to


class Pump:
    """TLS for one connection. Plaintext comes out of `read`, ciphertext out of `outgoing`.

    Call `receive` with what arrives, then `handshake` until it is True, then `read` until it is None; after each of
    these send what `outgoing` holds, also after an error, as it may be the alert that tells the peer why. When a
    send fails, do not report that yet: go on receiving to the end, so that `read` can raise what the peer said (T-74).

    Raises CertificateError where either side refused the other's certificate, IdentityConflict where a pinned remote is
    somebody else, and ConnectionLost for every other failure of TLS, plaintext and foreign versions among them: like
    the network's, such a one may pass, so it is tried again (T-73). Once raised, an error is raised again by each call.
    Not safe for several threads at once.
    """

    def __init__(
        self, context: ssl.SSLContext, remote: Remote | None, *, server: bool, revoked: RevocationList | None = None
    ) -> None:
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        # OpenSSL knows no scope in an address ("fe80::1%eth0").
        host = None if remote is None else remote.host.partition("%")[0]
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server, server_hostname=host)
        self._server = server
        self._remote = remote
        self._revoked = revoked or RevocationList()
        self._peer = "the peer that dialled us" if remote is None else f"the peer at {remote}"
        self._identity: PeerIdentity | None = None  # set when the handshake is over
        self._failure: TolliverError | None = None
        self._first = b""  # the first bytes, as many as tell another protocol
        self._read_ahead: list[bytes] = []
        self._ciphertext: list[bytes] = []
        self.wait: bool = False
        """An application byte has come: so the peer takes our certificate."""
        self._no_more = False  # the transport has ended
        self._write_closed = False
        self._closed_by_peer = False
        self._cut_off = False

    @classmethod
    def client(cls, context: ssl.SSLContext, remote: Remote, revoked: RevocationList | None = None) -> Pump:
        """A pump that dials; what the remote pins is checked when the handshake is over."""
        return cls(context, remote, server=False, revoked=revoked)

    @classmethod
    def server(cls, context: ssl.SSLContext, revoked: RevocationList | None = None) -> Pump:
        """A pump that was dialled."""
        return cls(context, None, server=True, revoked=revoked)

    @property
    def peer_closed(self) -> bool:
        """The peer sent close_notify, and all before it has been read: an orderly end (T-09)."""
        return self._closed_by_peer and not self._read_ahead

    @property
    def application_protocol(self) -> str | None:
        """The name that both ends have by ALPN, if any (R-35)."""
        return self._tls.selected_alpn_protocol()

    @property
    def certificate(self) -> bytes | None:
        """The peer's certificate in DER. None before the handshake is over, and where we refuse it."""
        return None if self._identity is None else self._tls.getpeercert(binary_form=True)

    @property
    def revocation(self) -> CertificateError | None:
        """Why the peer may not stay: the list that we have now has its certificate. Else None."""
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is None or not self._revoked.lists(certificate):
            return None
        return CertificateError(f"we refuse the certificate of {self._peer}: {REVOKED} ({self._revoked.name})")

    @property
    def version(self) -> str | None:
        """Version of TLS, such as "TLSv1.3"; None before the handshake."""
        return self._tls.version()

    @property
    def failed(self) -> bool:
        """TLS has failed: what follows the plaintext of before is the error."""
        return self._failure is not None

    @property
    def truncated(self) -> bool:
        """The transport ended without close_notify, and all has been read: the peer crashed, or the line was cut."""
        return self._cut_off and not self._read_ahead

    def receive(self, ciphertext: bytes) -> None:
        """Bytes from the network, cut anywhere. They are dropped where nobody would read them any more."""
        if not (self._no_more or self._closed_by_peer or self._failure):
            self._incoming.write(ciphertext)
            if self._identity is None:
                self._first = (self._first + ciphertext)[:_FIRST]

    def receive_eof(self) -> None:
        """The network will bring nothing more."""
        self._no_more = True
        self._incoming.write_eof()

    def outgoing(self) -> bytes:
        """Takes the ciphertext to send; b"" where there is none."""
        if self._outgoing.pending:
            self._ciphertext.append(self._outgoing.read())
        if not self._ciphertext:
            return b""
        ciphertext = b"".join(self._ciphertext)  # no copy of a single one
        self._ciphertext.clear()
        return ciphertext

    def handshake(self) -> bool:
        """Goes on with the handshake. True when it is over, False until more is received."""
        self._raise_failure()
        if self._identity is not None:
            return True
        try:
            self._tls.do_handshake()
            self._identity = self._check_peer()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            self._fail(error)
        except TolliverError as error:
            self._failure = error
            self._outgoing.read()  # an impostor need not see our certificate
        self._raise_failure()
        return True

    def read(self) -> bytes | None:
        """All plaintext that has come, never b"". None: nothing now, and nothing ever if `peer_closed` or `truncated`.

        Plaintext from before an error is returned before it is raised.
        """
        self._pull()
        if self._read_ahead:
            plaintext = b"".join(self._read_ahead)
            self._read_ahead.clear()
            return plaintext
        self._raise_failure()
        return None

    def write(self, unit: bytes) -> None:
        """Encrypts a unit as records of its own (T-69): one, up to 16 KiB of unit.

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
        """Ends our half, once; reading goes on. Never raises: what `read` holds, an error too, is kept for it."""
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
        """Identity that the peer's certificate proves; `address` is where the transport sees it. After the handshake
        only."""
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
            while incoming.pending or tls.pending() or incoming.eof:  # asking costs less than SSLWantReadError
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
            # Only TLS 1.2 comes here: it can resume by a session id, and `ssl` cannot switch that off.
            raise ConnectionLost(f"{self._peer} resumed a TLS session: each connection shows its certificate (D-1)")
        revocation = self.revocation
        if revocation is not None:  # the list is newer than this handshake's context
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
        self._failure.__cause__ = error.with_traceback(None)  # whose frames hold this pump: see Session
        if fault_of_our_list(error) is not None:
            self._outgoing.read()  # an alert would say that the peer's certificate is bad, and end its dialling
        if self._server and self._failure_cause is not None:
            self._ciphertext.append(_NOT_TLS_ALERT)  # OpenSSL says nothing, and the other end would not know why

    @property
    def _failure_cause(self) -> DialCause | None:
        """The protocol of a peer that does not speak TLS."""
        failure = self._failure
        return failure.cause if isinstance(failure, ConnectionLost) and failure.cause in _NOT_TLS else None

    def _explain(self, error: ssl.SSLError) -> TolliverError:
        return Breakdown(
            peer=self._peer,
            reason=error.reason or "",
            words=words(error),
            verdict=verdict(error) if isinstance(error, ssl.SSLCertVerificationError) else None,
            our_list=fault_of_our_list(error),
            heard=self.wait,
            shaken=self._identity is not None,
            ended=is_abrupt_end(error) or isinstance(error, ssl.SSLZeroReturnError),
            protocol=DialCause.told_by(self._first),
        ).explain()


class PlainPump:
    """Stand-in for Pump without TLS: for loopback (D-15). Its peer is nobody in particular."""

    # Plain TCP cannot tell.
    truncated: Final = False
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
        return PeerIdentity(address=address)


AnyPump = Pump | PlainPump
