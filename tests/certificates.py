"""Certificates for tests: a CA, its members, and bad ones.

A member is made when a test first names it. Names of `ODD` are the bad ones; any other name is a good member with a
UUID of its own, valid for localhost, 127.0.0.1 and ::1.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from tolliver._options.instance import TLS
from tolliver.certs import LOCAL_HOSTS, make_ca, make_certificate

_NOW = datetime.datetime.now(datetime.UTC)
_BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)

PREFIX = "f00dbabe0001"

ODD: dict[str, dict[str, Any]] = {
    "expired": {"days": 1, "valid_from": _NOW - datetime.timedelta(days=10)},
    "future": {"days": 1, "valid_from": _NOW + datetime.timedelta(days=10)},
    "elsewhere": {"hosts": ("elsewhere.example",)},  # a good member under another host name
    "stranger": {},  # of another CA, which it trusts
    "intruder": {},  # of another CA, but it trusts ours: only the other side refuses
    "anonymous": {},  # without a UUID
    "garbled": {},  # with a urn:uuid: that is no UUID
    "job": {"derive": PREFIX},  # a good member from which identities may be derived
    "writers": {},  # identities may be derived from it, and it has none of its own
    "low": {},  # with a derive prefix that may begin other UUIDs
    "dialler": {},  # serves as a client only
    "listener": {},  # serves as a server only
}


class Certificates:
    """`tls(name)` gives the options of a member, `uuid(name)` its UUID; `ca` is the path of the good CA."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._foreign = directory / "foreign"
        self.ca = make_ca(directory).cert
        make_ca(self._foreign)
        self._members: dict[str, TLS] = {}
        self._uuids: dict[str, UUID] = {}

    def tls(self, name: str, **options: Any) -> TLS:
        if name not in self._members:
            self._members[name] = self._make(name)
        made = self._members[name]
        return TLS(made.cert, made.key, made.ca, **options)

    def uuid(self, name: str) -> UUID:
        self.tls(name)
        return self._uuids[name]

    def _make(self, name: str) -> TLS:
        if name == "anonymous":
            return self.special(name, ())
        if name == "garbled":
            return self.special(name, (x509.UniformResourceIdentifier("urn:uuid:not-a-uuid"),))
        if name == "unreadable":  # a URI is ASCII
            return self.special(name, (), names_in_der=bytes.fromhex("30 06 86 04 75 72 69 ff"))
        if name in ("writers", "low"):
            prefix = PREFIX if name == "writers" else f"e{PREFIX[1:]}"
            return self.special(name, (x509.UniformResourceIdentifier(f"urn:tolliver:derive:{prefix}"),))
        if name == "dialler":
            return self.special(name, (), usages=_BOTH[1:])
        if name == "listener":
            return self.special(name, (), usages=_BOTH[:1])
        directory = self._foreign if name in ("stranger", "intruder") else self.directory
        member = make_certificate(directory, name, **ODD.get(name, {}))
        self._uuids[name] = member.uuid
        return TLS(member.cert, member.key, self.ca if name == "intruder" else member.ca)

    def special(
        self,
        name: str,
        names: Sequence[x509.GeneralName],
        *,
        names_in_der: bytes | None = None,
        usages: Sequence[ObjectIdentifier] = _BOTH,
        key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | None = None,
    ) -> TLS:
        """A member of the good CA that `make_certificate` would not make."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        ca = x509.load_pem_x509_certificate(self.ca.read_bytes())
        ca_key = serialization.load_pem_private_key(self.ca.with_suffix(".key").read_bytes(), password=None)
        assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
        alternatives: x509.ExtensionType = x509.SubjectAlternativeName([*names, x509.DNSName(LOCAL_HOSTS[0])])
        if names_in_der is not None:
            alternatives = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, names_in_der)
        cert = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(ca.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_NOW - datetime.timedelta(days=1))
            .not_valid_after(_NOW + datetime.timedelta(days=1))
            .add_extension(alternatives, critical=False)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        tls = TLS(self.directory / f"{name}.pem", self.directory / f"{name}.key", self.ca)
        tls.cert.write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        tls.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return tls
