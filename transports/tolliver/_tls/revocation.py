"""Certificate revocation lists (RFC 5280, 5), and the certificates in them.

OpenSSL checks each certificate against the lists during a handshake. It cannot do so for open connections, so the
entries are read here, too: pairs of issuer and serial number, in DER.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from tolliver_proto.errors import CertificateError

from .material import PEM
from .x509 import contents

_LIST = re.compile(rb"-----BEGIN X509 CRL-----(.*?)-----END X509 CRL-----", re.DOTALL)
_INTEGER, _SEQUENCE, _VERSION = 0x02, 0x30, 0xA0  # tags
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}  # UTCTime, and GeneralizedTime from 2050 on

Serial = tuple[bytes, bytes]
"""Issuer and serial number of a certificate, in DER."""


class RevocationList:
    """Certificates that are revoked by the lists of one file; empty before `read`."""

    def __init__(self) -> None:
        self.name: str = ""
        self.text: bytes = b""
        """The lists alone, in PEM: OpenSSL would trust any certificate that stands between them."""
        self.ends: float | None = None
        """Earliest end of a list, in seconds since 1970; None if no list has one."""
        self._serials: frozenset[Serial] = frozenset()

    @classmethod
    def read(cls, pem: PEM) -> RevocationList:
        """Parse the lists in PEM data. Raises CertificateError."""
        made = cls()
        made.name = str(pem)
        found = _LIST.findall(pem.text)
        if not found:
            raise CertificateError(
                f"{pem} holds no certificate revocation list in PEM form: write one with `tolliver revoke`, or make it "
                "of one in DER, with `openssl crl -inform DER`"
            )
        try:
            lists = [base64.b64decode(one) for one in found]
            made._serials = frozenset(serial for one in lists for serial in _serials(one))
            made.ends = min((end for one in lists for end in _times(one)[1:]), default=None)
        except (ValueError, IndexError) as error:
            raise CertificateError(f"{pem} holds a revocation list that cannot be read ({error})") from error
        made.text = b"".join(b"-----BEGIN X509 CRL-----%b-----END X509 CRL-----\n" % one for one in found)
        return made

    def replace(self, newer: RevocationList) -> None:
        """Take over the content of the newer list, for all that refer to this one."""
        self.name, self.text, self.ends, self._serials = newer.name, newer.text, newer.ends, newer._serials

    def lists(self, certificate: bytes) -> bool:
        """True if the certificate, in DER, is revoked."""
        return bool(self._serials) and _serial(certificate) in self._serials


def _serial(certificate: bytes) -> Serial:
    fields = contents(contents(certificate)[0])
    if fields[0][0] == _VERSION:
        del fields[0]
    serial, _algorithm, issuer, *_ = fields
    return issuer, serial


def _fields(der: bytes) -> list[bytes]:
    """Fields of a list in DER: issuer, one or two times, revoked certificates if there are any, extensions."""
    fields = contents(contents(der)[0])
    return fields[2:] if fields[0][0] == _INTEGER else fields[1:]


def _times(der: bytes) -> list[float]:
    """Times of this and of the next update of a revocation list in DER, in seconds since 1970."""
    found = [(_TIMES[one[0]], one[2:].decode("ascii")) for one in _fields(der)[1:] if one[0] in _TIMES]
    return [datetime.strptime(text, form).replace(tzinfo=UTC).timestamp() for form, text in found]


def _serials(der: bytes) -> Iterator[Serial]:
    issuer, *others = _fields(der)
    for one in others:
        if one[0] == _SEQUENCE:
            for entry in contents(one):
                yield issuer, contents(entry)[0]
