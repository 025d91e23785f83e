"""TLS as policy for Twisted: the contexts of `_tls.py`, in pyOpenSSL.

The idea: what pyOpenSSL cannot say, its connection has to remember. A context's callback that refuses a certificate
leaves the reason in the connection's `session` (see `_twisted_tls`), and here is what an error of OpenSSL's is called.

The theory, for pyOpenSSL 23 to 26:

- A callback that refuses a certificate cannot tell OpenSSL why, so that a peer under another name is told
  "internal error" where `_tls.py` says "bad certificate". pyOpenSSL has no other way to check a name.
- `service_identity.pyopenssl`, and so Twisted's `optionsForClientTLS`, refuses each certificate with a urn:uuid: name,
  as it wants a host in every URI. So we hand it the names of the kind that we dialled, and no others.
- TLS 1.3 session tickets cannot be switched off here. They are of no use to who gets them: no session is kept.
"""

from __future__ import annotations

import re
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from cryptography import x509
from OpenSSL import SSL, crypto
from service_identity import CertificateError as MalformedCertificate
from service_identity import VerificationError
from service_identity.hazmat import DNS_ID, DNSPattern, IPAddress_ID, IPAddressPattern, verify_service_identity

from tolliver_proto import CertificateError

from .._options.instance import TLS
from .._tls.policy import ALPN

UNREADABLE = (x509.DuplicateExtension, x509.UnsupportedGeneralNameType)
_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_VERDICTS = {  # OpenSSL's words for its X509_V_ERR_ numbers, which pyOpenSSL does not hand out
    7: "certificate signature failure",
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: "self-signed certificate",
    19: "self-signed certificate in certificate chain",
    20: "unable to get local issuer certificate",
    21: "unable to verify the first certificate",
    22: "certificate chain too long",
    26: "unsuitable certificate purpose",
    66: "EE certificate key too weak",
    67: "CA certificate key too weak",
    68: "CA signature digest algorithm too weak",
    79: "invalid CA certificate",
}
_NEWER_ALERT = re.compile("^(SSL/)?TLS_ALERT_")  # what 3.2 to 3.6, and 4, say for SSLV3_ALERT_


def make_context(tls: TLS, *, server: bool, alpn: str = ALPN) -> SSL.Context:
    """The context for dialling or listening (D-1). Call `own_identity` first: it names the file that does not fit, and
    refuses a locked key, for whose passphrase OpenSSL would ask at the terminal.

    Raises CertificateError where a file has changed since.
    """
    context = SSL.Context(SSL.TLS_SERVER_METHOD if server else SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION if tls.tls12 else SSL.TLS1_3_VERSION)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_TICKET)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(alpn.encode())  # without one, a client that tries to resume would be an error
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _verify)
    if server:
        context.set_alpn_select_callback(partial(_select, alpn.encode()))
    else:
        context.set_alpn_protos([alpn.encode()])
    try:
        context.load_verify_locations(str(tls.ca))
        context.use_certificate_chain_file(str(tls.cert))
        context.use_privatekey_file(str(tls.key))
        context.check_privatekey()
    except SSL.Error as error:
        raise CertificateError(f"{tls.cert}, {tls.key} and {tls.ca} do not fit ({words_of(error)})") from error
    return context


def _select(ours: bytes, _connection: SSL.Connection, offers: list[bytes]) -> Any:
    return ours if ours in offers else SSL.NO_OVERLAPPING_PROTOCOLS


def _verify(connection: Any, certificate: crypto.X509, code: int, depth: int, ok: int) -> bool:
    session = connection.session
    if not ok:
        session.refused = (code, _VERDICTS.get(code, f"verification error {code}"))
    elif depth == 0 and session.host is not None and not _is_for(certificate, session.host):
        session.refused = _mismatch(session.host)
    return session.refused is None


def _is_for(certificate: crypto.X509, host: str) -> bool:
    try:
        names = names_of(certificate.to_cryptography())
        if is_address(host):
            found = names.get_values_for_type(x509.IPAddress)
            addresses = [IPAddressPattern(one) for one in found if isinstance(one, IPv4Address | IPv6Address)]
            verify_service_identity(addresses, [IPAddress_ID(host)], [])
        else:
            hosts = [DNSPattern.from_bytes(name.encode()) for name in names.get_values_for_type(x509.DNSName)]
            verify_service_identity(hosts, [DNS_ID(to_ascii(host))], [])
    except (VerificationError, MalformedCertificate, ValueError, *UNREADABLE):
        return False
    return True


def names_of(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])


def _mismatch(host: str) -> tuple[int, str]:
    what = "IP address" if is_address(host) else "Hostname"
    code = _ADDRESS_MISMATCH if is_address(host) else _HOSTNAME_MISMATCH
    return code, f"{what} mismatch, certificate is not valid for '{host}'"


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def to_ascii(host: str) -> str:
    return host.encode("idna").decode("ascii")


def reason_of(error: SSL.Error) -> str:
    """The reason by its name in `ssl`. pyOpenSSL gives texts, the newest last; OpenSSL 3.2 and 4 vary some."""
    queue = error.args[0] if error.args and isinstance(error.args[0], list) else []
    text = str(queue[-1][2]) if queue else ""
    return _NEWER_ALERT.sub("SSLV3_ALERT_", text.upper().replace(" ", "_"))


def words_of(error: SSL.Error) -> str:
    return reason_of(error).replace("_", " ").lower() or "unknown error"


def is_abrupt_end(error: SSL.Error) -> bool:
    """The transport ended without close_notify: OpenSSL 4 has no reason for it, and pyOpenSSL sometimes its own."""
    return isinstance(error, SSL.SysCallError) or error.args == ([],) or reason_of(error).startswith("UNEXPECTED_EOF")
