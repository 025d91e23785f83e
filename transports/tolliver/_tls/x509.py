"""X.509: reads certificates, and explains OpenSSL's errors.

No X.509 library is needed: `ssl` gives the names, and the public key is at a known place in the DER bytes. OpenSSL's
reasons are data here, each with a sentence that gives advice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tolliver_proto import ConnectionLost, IdentityConflict, PeerIdentity, TolliverError
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import DialCause

from .._options.instance import Remote
from ..derived import URN, check_prefix

_URN = re.compile(r"urn:uuid:([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)

_NAME_SHOWN = 64
_SAME_CA = "both sides need certificates of the same private CA"
_WITH_UUID = "`tolliver certs DIR NAME --uuid UUID`"
_THE_PEER = (
    "the peer as UUID@HOST:PORT, or, where its certificate has no UUID, with the SHA-256 of its key in front of the @, "
    "which `tolliver pin FILE` prints"
)
NEW_CERTIFICATE = "make a new certificate with `tolliver certs`"
_REMEDIES = {  # advice on a certificate that we refuse, by OpenSSL's X509_V_ERR_ number
    7: _SAME_CA,  # CERT_SIGNATURE_FAILURE
    9: "check the clocks of both machines",  # CERT_NOT_YET_VALID
    10: f"{NEW_CERTIFICATE}, or check our clock",  # CERT_HAS_EXPIRED
    18: _SAME_CA,  # DEPTH_ZERO_SELF_SIGNED_CERT
    19: _SAME_CA,  # SELF_SIGNED_CERT_IN_CHAIN
    20: _SAME_CA,  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: _SAME_CA,  # UNABLE_TO_VERIFY_LEAF_SIGNATURE
    23: "it is in our list of revoked certificates: its owner needs a new one",  # CERT_REVOKED
    26: "it needs the extended key usages serverAuth and clientAuth",  # INVALID_PURPOSE
    62: f"dial a name that is in it, or pin {_THE_PEER}",  # HOSTNAME_MISMATCH
    64: f"dial an address that is in it, or pin {_THE_PEER}",  # IP_ADDRESS_MISMATCH
}
_OUR_LIST = {  # advice on our revocation list, by the same numbers
    3: "it needs a list of each CA that signs members",  # UNABLE_TO_GET_CRL
    5: _SAME_CA,  # UNABLE_TO_DECRYPT_CRL_SIGNATURE
    8: _SAME_CA,  # CRL_SIGNATURE_FAILURE
    11: "check our clock",  # CRL_NOT_YET_VALID
    12: "put a newer one in its place, and have it read again (SIGHUP, or reload_tls)",  # CRL_HAS_EXPIRED
    33: "it needs a list of each CA that signs members",  # UNABLE_TO_GET_CRL_ISSUER
    35: "its CA may not sign lists",  # KEYUSAGE_NO_CRL_SIGN
    36: "it has an extension that OpenSSL does not know",  # UNHANDLED_CRITICAL_CRL_EXTENSION
    44: "it is no full list",  # DIFFERENT_CRL_SCOPE
}
_REFUSALS = {  # advice on our certificate, by the name of the peer's alert (RFC 8446, 6.2)
    "ACCESS_DENIED": "access denied: ask the peer's operator to let this instance in",
    "BAD_CERTIFICATE": "bad certificate: it may not hold the name that the peer dialled, not be valid yet by the "
    "peer's clock (check both), or be damaged",
    "CERTIFICATE_EXPIRED": f"certificate expired: {NEW_CERTIFICATE}, or check the peer's clock",
    "CERTIFICATE_REQUIRED": "certificate required: give one, by the options tls.cert, tls.key and tls.ca",
    "CERTIFICATE_REVOKED": f"certificate revoked: {NEW_CERTIFICATE}",
    "CERTIFICATE_UNKNOWN": f"certificate unknown: {NEW_CERTIFICATE}",
    # In TLS 1.2: no client certificate, or a key that cannot be used.
    "HANDSHAKE_FAILURE": "handshake failure: give a certificate with an EC or RSA key, by tls.cert and tls.key",
    "UNKNOWN_CA": f"unknown CA: {_SAME_CA}",
    "UNSUPPORTED_CERTIFICATE": "unsupported certificate: it needs the key usages serverAuth and clientAuth",
}
_NOT_TLS = "it does not speak TLS: is it a tolliver instance, and one without the option plaintext?"
_OTHER_VERSION = "it speaks no TLS version that we do: upgrade it, or admit TLS 1.2 on both sides by the option tls12"
_MISUNDERSTANDINGS = {  # failures that are not about certificates, by OpenSSL's reason
    "HTTP_REQUEST": _NOT_TLS,
    "HTTPS_PROXY_REQUEST": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,  # OpenSSL 3.2 and later
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OTHER_VERSION,
    "UNSUPPORTED_PROTOCOL": _OTHER_VERSION,
}


_VALID = ("notBefore", "notAfter")


def read_identity(tls: ssl.SSLObject, peer: str) -> PeerIdentity:
    try:
        shown: dict[str, Any] = dict(tls.getpeercert() or {})
        begins, ends = (ssl.cert_time_to_seconds(shown[one]) if one in shown else None for one in _VALID)
    except ValueError as error:  # UnicodeDecodeError is a ValueError
        raise not_understood(peer, error) from error
    uris = [str(entry[1]) for entry in shown.get("subjectAltName", ()) if entry[0] == "URI"]
    called = [value for part in shown.get("subject", ()) for key, value in part if key == "commonName"]
    proved = identity_of(tls.getpeercert(binary_form=True) or b"", uris, peer)
    return dataclasses.replace(proved, name=_printable("".join(called)), not_before=begins, not_after=ends)


def _printable(name: str) -> str:
    """A name that a peer chose, escaped for a log line (D-14)."""
    return "".join(c if c.isprintable() else "?" for c in name[:_NAME_SHOWN])


def identity_of(der: bytes, uris: Iterable[str], peer: str) -> PeerIdentity:
    """Identity proved by a certificate in DER, with these URIs among its names; errors call its owner `peer`. Raises
    CertificateError."""
    try:
        uuids = frozenset(_uuid(uri) for uri in uris if uri.lower().startswith("urn:uuid:"))
        prefixes = frozenset(check_prefix(uri[len(URN) :]) for uri in uris if uri.lower().startswith(URN))
        spki_sha256 = hashlib.sha256(subject_public_key_info(der)).digest()
        return PeerIdentity(uuids, spki_sha256, prefixes=prefixes)
    except (ValueError, IndexError) as error:
        raise not_understood(peer, error) from error


def not_understood(peer: str, error: Exception) -> CertificateError:
    return CertificateError(f"the certificate of {peer} cannot be understood ({error}): {NEW_CERTIFICATE}")


def _uuid(urn: str) -> UUID:
    match = _URN.fullmatch(urn)
    if match is None:
        raise ValueError(f"{urn!r} is no UUID")
    return UUID(match[1])


def check_pin(remote: Remote, identity: PeerIdentity) -> None:
    if remote.identity is not None and remote.identity not in identity.uuids:
        shown = ", ".join(map(str, identity.uuids)) or "no UUID"
        raise IdentityConflict(
            f"the peer at {remote} shows {shown} instead of {remote.identity}: {_advice(identity)} (D-2)"
        )
    if remote.spki_sha256 is not None and remote.spki_sha256 != identity.spki_sha256:
        raise IdentityConflict(
            f"the peer at {remote} has another key than the one pinned to it: correct the address, or, if its "
            f"certificate was renewed, the pin, to {_pin_of(identity)} (D-2)"
        )


def _advice(identity: PeerIdentity) -> str:
    """Advice to pin the key, for a certificate without a UUID."""
    if identity.uuids:
        return "correct the address or the identity pinned to it"
    return f"correct the address, or pin its key, {_pin_of(identity)}, or have it make a certificate with {_WITH_UUID}"


def _pin_of(identity: PeerIdentity) -> str:
    return f'spki_sha256=bytes.fromhex("{(identity.spki_sha256 or b"").hex()}")'


@dataclass(frozen=True)
class Breakdown:
    """Facts about a failure of TLS on one connection, from which its error is made."""

    peer: str
    """Name of the peer, for use in error texts."""
    reason: str
    """OpenSSL's reason, by its name in `ssl`."""
    words: str
    """OpenSSL's reason as text."""
    verdict: str | None
    """Our reason to refuse the peer's certificate; None if it was not refused."""
    our_list: str | None
    """Fault of our revocation list that caused the refusal; a newer list ends it. None without such a fault."""
    heard: bool
    """True if encrypted application data has arrived, which proves that the peer accepted our certificate."""
    shaken: bool
    """True if the handshake is complete on our side."""
    ended: bool
    """True if the peer ended the connection, in any way."""
    protocol: DialCause | None = None
    """Protocol that the peer speaks instead of TLS, if it is known."""

    @classmethod
    def of(cls, error: ssl.SSLError, peer: str, heard: bool, shaken: bool, protocol: DialCause | None) -> Breakdown:
        """The facts that OpenSSL's error tells, with those that the connection knows."""
        return cls(
            peer=peer,
            reason=error.reason or "",  # None of an error that `ssl` has no name for
            words=words(error),
            verdict=verdict(error) if isinstance(error, ssl.SSLCertVerificationError) else None,
            our_list=fault_of_our_list(error),
            heard=heard,
            shaken=shaken,
            ended=is_abrupt_end(error) or isinstance(error, ssl.SSLZeroReturnError),
            protocol=protocol,
        )

    def explain(self) -> TolliverError:
        """The error to raise, with cause and next step: CertificateError if trying again is no use, else
        ConnectionLost."""
        refusal = _REFUSALS.get(self.reason.partition("_ALERT_")[2])
        if self.our_list is not None:
            text = f"we cannot tell whether the certificate of {self.peer} is revoked: {self.our_list}"
            return ConnectionLost(text, DialCause.CERTIFICATE)
        if self.verdict is not None:
            return CertificateError(f"we refuse the certificate of {self.peer}: {self.verdict}")
        if refusal is not None and not self.heard:
            return CertificateError(f"{self.peer} refuses our certificate: {refusal}")
        if self.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return CertificateError(f"we refuse {self.peer}, as it shows no certificate: {_SAME_CA} (D-1)")
        if self.shaken:
            return ConnectionLost(f"TLS with {self.peer} broke down: {self.words}", DialCause.TLS)
        if self.ended:
            return ConnectionLost(
                f"{self.peer} closed during the TLS handshake, as one in plaintext does: its log may say why",
                DialCause.CLOSED,
            )
        text = _MISUNDERSTANDINGS.get(self.reason, self.words)
        cause = DialCause.NOT_TLS if text == _NOT_TLS else DialCause.TLS
        return ConnectionLost(f"TLS with {self.peer} failed: {text}", self._other_protocol or cause)

    @property
    def _other_protocol(self) -> DialCause | None:
        return None if self.protocol is DialCause.NEEDS_TLS else self.protocol


def words(error: ssl.SSLError) -> str:
    """OpenSSL's reason for the error as text. Some reasons have no name in `ssl`."""
    return error.reason.replace("_", " ").lower() if error.reason else str(error)


def is_abrupt_end(error: ssl.SSLError) -> bool:
    """True if the error says that the transport ended without close_notify; CPython before 3.11.3 has no exception of
    its own for that.
    """
    return isinstance(error, ssl.SSLEOFError) or error.reason == "UNEXPECTED_EOF_WHILE_READING"


def verdict(error: ssl.SSLError) -> str:
    """Text for the fault of a certificate that the error tells: OpenSSL's reason, and advice."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return words(error)
    return f"{error.verify_message.rstrip('.')}: {_REMEDIES.get(error.verify_code, NEW_CERTIFICATE)}"


def fault_of_our_list(error: BaseException | None) -> str | None:
    """Text for the fault of our revocation list that the error tells; None if the error has another reason."""
    if not isinstance(error, ssl.SSLCertVerificationError) or error.verify_code not in _OUR_LIST:
        return None
    return f"{error.verify_message.rstrip('.')}: {_OUR_LIST[error.verify_code]}"


REVOKED = f"certificate revoked: {_REMEDIES[23]}"


def subject_public_key_info(certificate: bytes) -> bytes:
    """The complete SubjectPublicKeyInfo of a DER certificate; its SHA-256 is the pin of D-3.

    Certificate and TBSCertificate are sequences (RFC 5280, 4.1). It comes after the optional version [0], serial
    number, signature algorithm, issuer, validity and subject. Raises ValueError or IndexError if the bytes are no DER
    certificate.
    """
    at, _ = _element(certificate, 0)
    at, _ = _element(certificate, at)
    if certificate[at] == 0xA0:
        _, at = _element(certificate, at)
    for _ in range(5):
        _, at = _element(certificate, at)
    return certificate[at : _element(certificate, at)[1]]


def contents(der: bytes) -> list[bytes]:
    """Elements inside the DER element at the beginning of `der`, each complete. Raises ValueError or IndexError if one
    is cut."""
    at, end = _element(der, 0)
    found = []
    while at < end:
        start, (_, at) = at, _element(der, at)
        found.append(der[start:at])
    return found


def _element(der: bytes, at: int) -> tuple[int, int]:
    """Offsets of start and end of the content of the DER element (tag, length, content) at `der[at]`."""
    length, start = der[at + 1], at + 2
    if length >= 0x80:  # long form: the low bits are the number of length bytes
        length_bytes = der[start : start + (length & 0x7F)]
        start += len(length_bytes)
        length = int.from_bytes(length_bytes)
        if not length_bytes:
            raise ValueError("an indefinite length, which DER forbids")
    if start + length > len(der):
        raise ValueError("an element longer than the whole")
    return start, start + length
