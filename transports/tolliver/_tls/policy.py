"""TLS policy: contexts, trust, and the pumps made from them.

Certificates on both sides, signed by a private CA alone; TLS 1.3; no resumption (D-1, D-2).
"""

from __future__ import annotations

import ssl
from typing import NoReturn, Self

from tolliver_proto import PeerIdentity, TolliverError
from tolliver_proto.errors import CertificateError

from .._options.instance import Remote
from .._options.tls import TLS, BytesTLS, ContextsTLS
from .contexts import FORBIDDEN, check_contexts, refusal, shake
from .keylog import log_keys, warn
from .material import PEM, Material, read
from .pump import AnyPump, PlainPump, Pump
from .revocation import RevocationList
from .x509 import NEW_CERTIFICATE, fault_of_our_list, words

ALPN = "tolliver/1"  # offered, not required


def client_context(tls: TLS | Material, *, check_hostname: bool = True, alpn: str = ALPN) -> ssl.SSLContext:
    """The SSL context for dialling (D-1).

    `check_hostname=False` is for remotes with a pin; `Pumps` chooses. Raises CertificateError, which names the file.
    """
    context = _context(tls, ssl.PROTOCOL_TLS_CLIENT, alpn)
    context.check_hostname = check_hostname and not tls.insecure_ca_only
    return context


def server_context(tls: TLS | Material, *, alpn: str = ALPN) -> ssl.SSLContext:
    """The SSL context for listening (D-1). Raises CertificateError, which names the file."""
    context = _context(tls, ssl.PROTOCOL_TLS_SERVER, alpn)
    context.num_tickets = 0
    return context


def _context(tls: TLS | Material, protocol: int, alpn: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.hostname_checks_common_name = False
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if tls.tls12 else ssl.TLSVersion.TLSv1_3
    context.options |= FORBIDDEN
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    context.set_alpn_protocols([alpn])
    _load(context, read(tls))
    if tls.keylog is not None:
        log_keys(context, tls.keylog)
    return context


def _load(context: ssl.SSLContext, tls: Material) -> None:
    _trust(context, tls.ca)
    if tls.crl is not None:
        _look_up(context, tls.crl)
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tls.cert)
    try:
        with tls.cert.as_file() as cert, tls.key.as_file() as key:
            context.load_cert_chain(cert, key, password=lambda: _passphrase(tls.key))
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
            text = (
                f"{tls.key} is not the key of {tls.cert}: give the pair that was made together; in a chain the "
                "instance's own certificate comes first"
            )
        elif reason:
            text = f"{tls.cert} cannot be used ({words(error)}): {NEW_CERTIFICATE}"
        else:
            text = f"{tls.key} holds no private key in PEM form: give the key of {tls.cert}"
        raise CertificateError(text) from error


def _trust(context: ssl.SSLContext, pem: PEM) -> None:
    try:
        context.load_verify_locations(cadata=pem.text.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise CertificateError(f"{pem} holds no certificate in PEM form: {NEW_CERTIFICATE}") from error


def _look_up(context: ssl.SSLContext, crl: PEM) -> None:
    """Have OpenSSL check a peer's certificate against the revocation lists, but not its CA's certificates."""
    lists = PEM(crl.name, RevocationList.read(crl).text)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    try:
        with lists.as_file() as path:
            context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise CertificateError(f"{crl} holds a revocation list that cannot be read: {words(error)}") from error


def _passphrase(key: PEM) -> NoReturn:
    raise CertificateError(f"{key} is locked with a passphrase: give the key without one, in a file of mode 0600")


class Pumps:
    """Maker of the TLS of each connection of one instance, a Pump; `tls=None` means plaintext. `identity` is what our
    own certificate proves.

    Reads the files, or the data in their place. Raises CertificateError if one is missing, invalid, or would be refused
    by a peer.
    """

    def __init__(self, tls: TLS | None, *, alpn: str = ALPN) -> None:
        self.identity: PeerIdentity = PeerIdentity()
        self.name: str = "" if tls is None else tls.name
        self._server: ssl.SSLContext | None = None
        self._by_name: ssl.SSLContext | None = None
        self._by_pin: ssl.SSLContext | None = None
        self._revoked = RevocationList()
        if tls is not None and tls.keylog is not None:
            warn(tls.keylog)
        if isinstance(tls, ContextsTLS):
            self.identity = check_contexts(tls, alpn)
            self._server, self._by_name, self._by_pin = tls.server, tls.client, tls.pinned or tls.client
        elif tls is not None:
            read_once = read(tls)
            if read_once.crl is not None:
                self._revoked = RevocationList.read(read_once.crl)
            self._server, self._by_name = server_context(read_once, alpn=alpn), client_context(read_once, alpn=alpn)
            self._by_pin = client_context(read_once, check_hostname=False, alpn=alpn)
            self.identity = _met_by_itself(read_once, self._by_pin, self._server)

    def __repr__(self) -> str:
        ours = ", ".join(sorted(map(str, self.identity.uuids))) or self.name or "a certificate without a name"
        return f"<Pumps of {ours if self._server else 'plaintext'}>"

    @classmethod
    def renewed(cls, tls: TLS | None, *, alpn: str = ALPN) -> Self:
        """New pumps after a change of certificate or lists. Raises CertificateError for TLS given as fixed bytes."""
        if isinstance(tls, BytesTLS) and tls.load is None and tls.crl is None:
            raise CertificateError(
                "these bytes are what they were at the start: give a function that returns new ones, "
                "TLS.from_bytes(lambda: (cert, key, ca)), or open the instance again"
            )
        return cls(tls, alpn=alpn)

    @property
    def crl_next_update(self) -> float | None:
        """Earliest end of our revocation lists, in seconds since 1970; None without one."""
        return self._revoked.ends

    def succeed(self, old: Pumps) -> None:
        """Replace the `old` pumps after a reload. Connections made by those use the new revocation lists from now
        on.
        """
        old._revoked.replace(self._revoked)
        self._revoked = old._revoked

    def client(self, remote: Remote) -> AnyPump:
        """TLS of a connection that we dial. It checks the host name, or the remote's pins instead (D-2)."""
        context = self._by_pin if remote.pinned else self._by_name
        return PlainPump() if remote.is_unix or context is None else Pump.client(context, remote, self._revoked)

    def server(self) -> AnyPump:
        """TLS of a connection that we have accepted."""
        return PlainPump() if self._server is None else Pump.server(self._server, self._revoked)


def _met_by_itself(tls: Material, dialling: ssl.SSLContext, listening: ssl.SSLContext) -> PeerIdentity:
    """Identity that our own certificate proves, found by a handshake with ourselves.

    The handshake shows that the key fits, that the CA signed the certificate, that it is valid now and that it serves
    in both roles. Raises CertificateError if a peer would refuse it.
    """
    try:
        client, _ = shake(Pump(dialling, None, server=False), Pump.server(listening))
    except TolliverError as error:
        cause = error.__cause__
        fault = fault_of_our_list(cause)
        if fault is not None:
            raise CertificateError(f"{tls.crl} cannot be used: {fault}") from cause
        text = refusal(error)
        raise CertificateError(f"our own certificate {tls.cert} would be refused: {text} (CA: {tls.ca})") from cause
    return client.identity("")
