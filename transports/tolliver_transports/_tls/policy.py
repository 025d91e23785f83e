"""TLS policy: contexts, trust, and the pumps made from them.

Certificates both ways, our private CA alone, TLS 1.3, nothing resumed (D-1, D-2).
"""

from __future__ import annotations

import ssl
from typing import NoReturn, Self

from tolliver_proto import CertificateError, PeerIdentity, TolliverError

from .._options.instance import Remote
from .._options.tls import TLS, BytesTLS, ContextsTLS
from .contexts import FORBIDDEN, check_contexts, refusal, shake
from .material import PEM, Material, read
from .pump import AnyPump, PlainPump, Pump
from .x509 import NEW_CERTIFICATE, words

ALPN = "tolliver/1"  # offered, not required


def client_context(tls: TLS | Material, *, check_hostname: bool = True, alpn: str = ALPN) -> ssl.SSLContext:
    """The context for dialling (D-1).

    `check_hostname=False` is for remotes that are pinned; `Pumps` chooses. Raises CertificateError, naming the file.
    """
    context = _context(tls, ssl.PROTOCOL_TLS_CLIENT, alpn)
    context.check_hostname = check_hostname and not tls.insecure_ca_only
    return context


def server_context(tls: TLS | Material, *, alpn: str = ALPN) -> ssl.SSLContext:
    """The context for listening (D-1). Raises CertificateError, naming the file."""
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
    return context


def _load(context: ssl.SSLContext, tls: Material) -> None:
    _trust(context, tls.ca)
    _trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tls.cert)
    try:
        with tls.cert.as_file() as cert, tls.key.as_file() as key:
            context.load_cert_chain(cert, key, password=lambda: _passphrase(tls.key))
    except ssl.SSLError as error:
        reason = error.reason or ""
        if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
            text = f"{tls.key} is not the key of {tls.cert}: give the pair that was made together"
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


def _passphrase(key: PEM) -> NoReturn:
    raise CertificateError(f"{key} is locked with a passphrase: give the key without one, in a file of mode 0600")


class Pumps:
    """Makes the pumps of one instance; None for plaintext. `identity` is what our own certificate proves.

    Reads the files, or what stands for them. Raises CertificateError where one is missing, does not fit or would be
    refused by a peer.
    """

    def __init__(self, tls: TLS | None, *, alpn: str = ALPN) -> None:
        self.identity = PeerIdentity()
        self.name = "" if tls is None else tls.name
        self._server: ssl.SSLContext | None = None
        self._by_name: ssl.SSLContext | None = None
        self._by_pin: ssl.SSLContext | None = None
        if isinstance(tls, ContextsTLS):
            self.identity = check_contexts(tls, alpn)
            self._server, self._by_name, self._by_pin = tls.server, tls.client, tls.pinned or tls.client
        elif tls is not None:
            read_once = read(tls)
            self._server, self._by_name = server_context(read_once, alpn=alpn), client_context(read_once, alpn=alpn)
            self._by_pin = client_context(read_once, check_hostname=False, alpn=alpn)
            self.identity = _met_by_itself(read_once, self._by_pin, self._server)

    @classmethod
    def renewed(cls, tls: TLS | None) -> Self:
        """Those of an instance whose certificate has changed. Raises CertificateError where it cannot have."""
        if isinstance(tls, BytesTLS) and tls.load is None:
            raise CertificateError(
                "these bytes are what they were at the start: give a function that returns new ones, "
                "TLS.from_bytes(lambda: (cert, key, ca)), or open the instance again"
            )
        return cls(tls)

    def client(self, remote: Remote) -> AnyPump:
        """A pump that dials: checks the host name, or what the remote pins instead (D-2)."""
        context = self._by_pin if remote.pinned else self._by_name
        return PlainPump() if context is None else Pump.client(context, remote)

    def server(self) -> AnyPump:
        """A pump that was dialled."""
        return PlainPump() if self._server is None else Pump.server(self._server)


def _met_by_itself(tls: Material, dialling: ssl.SSLContext, listening: ssl.SSLContext) -> PeerIdentity:
    """Identity that our own certificate proves to others, found by a handshake with ourselves.

    It shows that the key fits, that the CA signed the certificate, that it is valid now and that it serves in both
    roles. Raises CertificateError where a peer would refuse it.
    """
    try:
        client, _ = shake(Pump(dialling, None, server=False), Pump.server(listening))
    except TolliverError as error:
        cause = error.__cause__
        text = refusal(error)
        raise CertificateError(f"our own certificate {tls.cert} would be refused: {text} (CA: {tls.ca})") from cause
    return client.identity("")
