"""SSL contexts that a program supplies, checked against our policy (D-1, D-2).

A context exposes its settings, but neither its certificate nor its ALPN names. So those are found as a peer would find
them: by handshakes in memory, between the contexts, and with a client that only looks.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from tolliver_proto import PeerIdentity, TolliverError
from tolliver_proto.errors import CertificateError

from .._options.instance import Remote
from .._options.tls import ContextsTLS
from .keylog import log_keys
from .material import called, read_file
from .pump import Pump
from .x509 import verdict

FORBIDDEN = ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
_ENDS = getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)  # T-09 needs to distinguish a broken connection from an orderly end
_FLIGHTS = 4  # rounds of a handshake; TLS 1.2 needs two
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_LATEST = (ssl.TLSVersion.MAXIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_3)


def check_contexts(tls: ContextsTLS, alpn: str) -> PeerIdentity:
    """Identity that the contexts prove. Sets ALPN if they do not agree on a name.

    Raises CertificateError, with all missing settings, or the reason why a peer would refuse their certificate.
    """
    missing = [*_breaches(tls)]
    if missing:
        raise CertificateError(f"the contexts of TLS.from_contexts are weaker than our own: set {'; '.join(missing)}")
    leaf = _leaf(tls)
    names = _names_shown(tls.server, leaf)
    identities = [_meet(name, context, tls.server, names, alpn) for name, context in _dialling(tls)]
    if tls.keylog is not None:
        for context in (tls.server, *(context for _, context in _dialling(tls))):
            log_keys(context, tls.keylog)
    return identities[0]


def shake(client: Pump, server: Pump) -> tuple[Pump, Pump]:
    """Do a handshake between two pumps in memory; returns both. Raises the error of either side."""
    for _ in range(_FLIGHTS):
        client.handshake()
        server.receive(client.outgoing())
        server.handshake()
        client.receive(server.outgoing())
    return client, server


def refusal(error: TolliverError) -> str:
    """Text for the reason, in `error`, of a failed handshake with ourselves."""
    cause = error.__cause__
    return verdict(cause) if isinstance(cause, ssl.SSLError) else str(cause or error)


def _dialling(tls: ContextsTLS) -> Iterator[tuple[str, ssl.SSLContext]]:
    yield "client", tls.client
    if tls.pinned is not None:
        yield "pinned", tls.pinned


def _breaches(tls: ContextsTLS) -> Iterator[str]:
    """Settings that the program's contexts lack, each as the line of code that would make it."""
    least = ssl.TLSVersion.TLSv1_2 if tls.tls12 else ssl.TLSVersion.TLSv1_3
    system = _system_store()
    for name, context in (("server", tls.server), *_dialling(tls)):
        role = ssl.PROTOCOL_TLS_SERVER if name == "server" else ssl.PROTOCOL_TLS_CLIENT
        if context.protocol not in (role, ssl.PROTOCOL_TLS):
            yield f"{name} = ssl.SSLContext(ssl.{role.name})"
            continue
        if context.minimum_version < least:
            yield f"{name}.minimum_version = ssl.TLSVersion.{least.name}"
        if context.maximum_version not in _LATEST:
            yield f"{name}.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED"
        if context.verify_mode is not ssl.CERT_REQUIRED:
            yield f"{name}.verify_mode = ssl.CERT_REQUIRED"
        for option in FORBIDDEN:
            if not context.options & option:
                yield f"{name}.options |= ssl.{option.name}"
        if context.options & _ENDS:
            yield f"{name}.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF"
        if context.keylog_filename not in (None, tls.keylog and str(tls.keylog)):
            yield f"{name}.keylog_filename = None, and keylog= of TLS.from_contexts where that is meant"
        trusted = {*context.get_ca_certs(binary_form=True)}
        if not trusted:
            yield f"{name}.load_verify_locations(...) with the file or the text of your CA"
        elif system and system <= trusted:
            yield f"{name} anew, with your own CA alone: it trusts the system's"
    yield from _breaches_of_names(tls)
    if tls.server.num_tickets:
        yield "server.num_tickets = 0"


def _breaches_of_names(tls: ContextsTLS) -> Iterator[str]:
    if not (tls.client.check_hostname or tls.insecure_ca_only):
        yield "client.check_hostname = True, and give the other one as pinned (or insecure_ca_only=True)"
    if tls.client.check_hostname and tls.client.hostname_checks_common_name:
        yield "client.hostname_checks_common_name = False"
    if tls.pinned is not None and tls.pinned.check_hostname:
        yield "pinned.check_hostname = False"


def _system_store() -> set[bytes]:
    """CAs of the system, in DER. Those that OpenSSL loads from directories on demand are missing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    return {*context.get_ca_certs(binary_form=True)}


def _leaf(tls: ContextsTLS) -> bytes:
    """The certificate given with the program's contexts, in DER."""
    given = tls.shown
    text = (
        given if isinstance(given, bytes) else called(given, "from_contexts") if callable(given) else read_file(given)
    )
    begin, end = text.find(_BEGIN), text.find(_END)
    if begin >= 0 and end >= 0:
        with suppress(ValueError):  # binascii.Error is a ValueError
            return ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)].decode("ascii"))
    raise CertificateError("cert of TLS.from_contexts holds no certificate in PEM form: give the one they have loaded")


def _names_shown(server: ssl.SSLContext, leaf: bytes) -> list[str]:
    """Host names in the certificate that the server shows. Raises CertificateError if that is not `leaf`."""
    looking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    looking.check_hostname = False
    looking.verify_mode = ssl.CERT_NONE
    if _look(looking, server).getpeercert(binary_form=True) != leaf:
        raise CertificateError(
            "the server of TLS.from_contexts shows another certificate than cert: load that into both contexts, or "
            "give the one that they have, as a path or a function if it is to be renewed"
        )
    looking.verify_mode = ssl.CERT_REQUIRED  # without this Python does not parse the names
    looking.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    looking.load_verify_locations(cadata=leaf)
    shown: dict[str, Any] = dict(_look(looking, server).getpeercert() or {})
    return [str(name) for kind, name in shown.get("subjectAltName", ()) if kind in ("DNS", "IP Address")]


def _look(looking: ssl.SSLContext, server: ssl.SSLContext) -> ssl.SSLObject:
    """A client, without a certificate, that has received the server's. The server's reaction is ignored."""
    arriving, leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls, listener = looking.wrap_bio(arriving, leaving), Pump.server(server)
    try:
        for _ in range(_FLIGHTS):
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                return tls
            listener.receive(leaving.read())
            listener.handshake()
            arriving.write(listener.outgoing())
    except (ssl.SSLError, TolliverError) as error:
        cause = error if isinstance(error, ssl.SSLError) else error.__cause__
        text = verdict(cause) if isinstance(cause, ssl.SSLError) else str(error)
        raise CertificateError(
            f"the server of TLS.from_contexts would be refused: {text}: has it server.load_cert_chain(cert, key)?"
        ) from error
    return tls


def _meet(name: str, dialling: ssl.SSLContext, server: ssl.SSLContext, names: list[str], alpn: str) -> PeerIdentity:
    """Identity that our own two contexts prove to each other. `name` is that of `dialling` in texts, `names` are the
    host names in our certificate, `alpn` is the protocol. Raises CertificateError if a peer would refuse it.
    """
    if dialling.check_hostname and not names:
        raise CertificateError(
            "our own certificate of the contexts has no host name: make one with the names under which it is dialled"
        )
    remote = Remote(names[0].replace("*", "any")) if names else None
    try:
        client, listener = shake(Pump(dialling, remote, server=False), Pump.server(server))
    except TolliverError as error:
        raise CertificateError(
            f"our own certificate of the contexts would be refused, by {name} and server: {refusal(error)}"
        ) from error.__cause__
    identity = client.identity("")
    if identity != listener.identity(""):
        raise CertificateError(
            f"{name} and server of TLS.from_contexts show different certificates: load one pair into both"
        )
    if client.application_protocol is None:
        dialling.set_alpn_protocols([alpn])
        server.set_alpn_protocols([alpn])
    elif client.application_protocol != alpn:
        raise CertificateError(
            f"{name} and server of TLS.from_contexts speak {client.application_protocol!r} by ALPN: set "
            f"set_alpn_protocols([{alpn!r}]) on each, and give an instance and streams contexts of their own (R-35)"
        )
    return identity
