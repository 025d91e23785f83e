"""A private CA and a certificate for each instance, in PEM files.

One directory holds the CA; one call adds a member. A member's certificate has the instance's UUID as a URI SAN, which
binds the UUID to the key (D-3), and is valid for both client and server, as every instance dials and listens. Files are
never overwritten, as a lost key cannot be restored. Needs `cryptography` (the [cli] extra).
"""

from __future__ import annotations

import datetime
import errno
import ipaddress
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

from ._extras import needed
from ._private import FOR_OTHERS, make_directory, must_be_file, open_private, replacing

needed("cli", "attrs", "cryptography")

from attrs import define
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tolliver_proto.errors import CertificateError
from tolliver_proto.node import is_derived
from tolliver_proto.store import is_keeper, is_kept, is_queue

from ._options.instance import TLS
from ._options.uuid7 import uuid7
from .derived import URN, check_prefix

__all__ = [
    "CA_DAYS",
    "CRL_DAYS",
    "DAYS",
    "LOCAL_HOSTS",
    "Authority",
    "Member",
    "make_anonymous_certificate",
    "make_ca",
    "make_certificate",
    "revoke",
]

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
CA_DAYS = 3650
DAYS = 365
CRL_DAYS = 30
_SKEW = datetime.timedelta(hours=1)  # certificates start earlier, for machines whose clock is behind ours
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_NOBODY = (UUID(int=0), UUID(int=2**128 - 1))  # no peer has them (RFC 9562, 5.9 and 5.10)
_CA = "ca"
_FORBIDDEN = "nothing can be written there, choose a directory of another disk, or have this one made writable"
_REMEDIES = {
    errno.EEXIST: "nothing is overwritten, choose another name or directory, or move the old pair away",
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), _FORBIDDEN),
}


@define(frozen=True)
class Authority:
    """Files of a private CA: give `cert` to every member, and keep `key` secret."""

    cert: Path
    key: Path


@define(frozen=True)
class Member:
    """Files of one instance, its UUID, and the prefix for derived identities (T-72a), if it has one."""

    cert: Path
    key: Path
    ca: Path
    uuid: UUID
    derive: str | None = None

    def tls(self, *, insecure_ca_only: bool = False, tls12: bool = False) -> TLS:
        """TLS options that use these files."""
        return TLS(self.cert, self.key, self.ca, insecure_ca_only=insecure_ca_only, tls12=tls12)


def make_ca(directory: str | os.PathLike[str], days: int = CA_DAYS) -> Authority:
    """Create `ca.pem` and `ca.key` (mode 0600) in the directory, which is created if missing.

    The CA can sign members, but no other CA. Raises CertificateError if a file exists already or cannot be written.
    """
    paths = Authority(*_paths(Path(directory), _CA))
    key = ec.generate_private_key(ec.SECP256R1())
    # A unique name: two CAs with the same name could not be distinguished in error texts.
    name = _name(f"tolliver CA {secrets.token_hex(4)}")
    builder = (
        _builder(name, name, key.public_key(), *_validity(days, None))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    _write_pair(paths.cert, builder.sign(key, hashes.SHA256()), paths.key, key)
    return paths


def make_certificate(
    directory: str | os.PathLike[str],
    name: str,
    uuid: UUID | None = None,
    hosts: Sequence[str] = LOCAL_HOSTS,
    days: int = DAYS,
    valid_from: datetime.datetime | None = None,
    derive: str | None = None,
) -> Member:
    """Create `<name>.pem` and `<name>.key` (mode 0600), signed by the directory's CA.

    - `uuid`: the instance's identity; by default a new UUIDv7.
    - `hosts`: names and addresses under which others dial it.
    - `days`, `valid_from`: validity; `valid_from` is an aware datetime, by default now.
    - `derive`: a prefix, as from `derived.new_prefix`; the certificate's owner may then use any identity derived from
      it (T-72a).

    Raises CertificateError if the CA is missing or unusable, or a file exists already or cannot be written, and
    ValueError for an invalid name, host, time, prefix or UUID.
    """
    uuid = uuid or uuid7()
    if is_derived(uuid):
        raise ValueError(f"{uuid} is a derived identity: give the certificate its prefix, derive={uuid.hex[:12]!r}")
    if uuid in _NOBODY or is_queue(uuid) or is_kept(uuid) or is_keeper(uuid):
        raise ValueError(f"{uuid} can be no instance's, every peer refuses it: leave it out, and a new one is made")
    derive = None if derive is None else check_prefix(derive)
    uris = [uuid.urn] if derive is None else [uuid.urn, URN + derive]
    files = _issue(Path(directory), name, uris, hosts, days, valid_from)
    return Member(files.cert, files.key, files.ca, uuid, derive)


def make_anonymous_certificate(
    directory: str | os.PathLike[str], name: str, hosts: Sequence[str] = LOCAL_HOSTS, days: int = DAYS
) -> TLS:
    """As `make_certificate`, but without a UUID: for a tool that plays several peers, such as `tolliver conform`. Its
    owner may claim any UUID that no other key has claimed before (T-72). Raises CertificateError and ValueError.
    """
    return _issue(Path(directory), name, (), hosts, days, None)


def _issue(
    directory: Path, name: str, uris: Sequence[str], hosts: Sequence[str], days: int,
    valid_from: datetime.datetime | None,
) -> TLS:  # fmt: skip
    if not _NAME.fullmatch(name) or name == _CA:
        raise ValueError(f"{name!r} cannot name an instance: use up to 64 letters, digits and . _ - (and not {_CA!r})")
    cert_path, key_path = _paths(directory, name)
    ca_paths, ca, ca_key = _load_ca(directory)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [*map(x509.UniformResourceIdentifier, uris), *map(_host, hosts)]
    builder = (
        _builder(_name(name), ca.subject, key.public_key(), *_validity(days, valid_from))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    _write_pair(cert_path, builder.sign(ca_key, hashes.SHA256()), key_path, key)
    return TLS(cert_path, key_path, ca_paths.cert)


def revoke(
    directory: str | os.PathLike[str], certificates: Iterable[str | os.PathLike[str]] = (), days: int = CRL_DAYS
) -> Path:
    """Write `crl.pem`, the CA's revocation list: these certificates (PEM files), and those in the list already.

    It is valid for `days`: write it again before, without new certificates if there are none. It is replaced
    atomically. Raises CertificateError if the CA or a certificate is unusable or of another CA, or the list cannot be
    written.
    """
    directory = Path(directory)
    _, ca, ca_key = _load_ca(directory)
    path = directory / "crl.pem"
    now, _ = _validity(days, None)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(ca.subject)
        .last_update(now)
        .next_update(now + _SKEW + datetime.timedelta(days=days))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    listed = {entry.serial_number: entry for entry in _revoked_before(path, ca)}
    for certificate in certificates:
        serial = _member(Path(certificate), ca).serial_number
        listed.setdefault(
            serial, x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now + _SKEW).build()
        )
    for entry in listed.values():
        builder = builder.add_revoked_certificate(entry)
    pem = builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    try:
        with replacing(path, FOR_OTHERS) as newer:
            newer.write(pem)
    except OSError as error:
        raise CertificateError(f"{path} cannot be written ({error.strerror}): it is what it was") from error
    return path


def _revoked_before(path: Path, ca: x509.Certificate) -> list[x509.RevokedCertificate]:
    try:
        must_be_file(path)
        before = x509.load_pem_x509_crl(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CertificateError(f"{path} cannot be read ({error}): restore it, or move it away to begin anew") from error
    if before.issuer != ca.subject:
        raise CertificateError(f"{path} is the list of another CA: move it away to begin anew")
    return list(before)


def _member(path: Path, ca: x509.Certificate) -> x509.Certificate:
    try:
        member = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CertificateError(f"{path} cannot be read as a certificate ({error}): give its PEM file") from error
    try:
        member.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError(f"{path} is not a certificate of this CA: its own CA revokes it") from error
    return member


def _paths(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.pem", directory / f"{name}.key"


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", host):
        raise ValueError(f"{host!r} is no host: give a DNS name (in its xn-- form) or an IP address, without a port")
    return x509.DNSName(host)


def _validity(days: int, valid_from: datetime.datetime | None) -> tuple[datetime.datetime, datetime.datetime]:
    if days < 1:
        raise ValueError(f"a certificate of {days} days is never valid: give at least one")
    start = valid_from or datetime.datetime.now(datetime.UTC)
    if start.tzinfo is None:
        raise ValueError(f"valid_from {start} has no time zone: give an aware datetime, such as one of datetime.UTC")
    return start - _SKEW, start + datetime.timedelta(days=days)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    not_before: datetime.datetime,
    not_after: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _load_ca(directory: Path) -> tuple[Authority, x509.Certificate, ec.EllipticCurvePrivateKey]:
    paths = Authority(*_paths(directory, _CA))
    try:
        cert = x509.load_pem_x509_certificate(paths.cert.read_bytes())
        key = serialization.load_pem_private_key(paths.key.read_bytes(), password=None)
    except FileNotFoundError as error:
        raise CertificateError(f"{error.filename} is missing: make a CA in this directory first") from error
    except (OSError, ValueError, TypeError) as error:
        raise CertificateError(
            f"the CA in {directory} cannot be used ({error}): restore {paths.cert.name} and {paths.key.name}"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != cert.public_key():
        raise CertificateError(
            f"{paths.key} is not the key of {paths.cert}: restore both from one backup, or make a CA in an empty "
            "directory"
        )
    return paths, cert, key


def _write_pair(cert_path: Path, cert: x509.Certificate, key_path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    written: list[Path] = []
    try:
        make_directory(cert_path.parent)
        for path, data, opener in (
            (key_path, pem, open_private),
            (cert_path, cert.public_bytes(serialization.Encoding.PEM), partial(open_private, mode=0o644)),
        ):
            with open(path, "xb", opener=opener) as file:
                written.append(path)
                file.write(data)
    except OSError as error:
        for path in written:
            path.unlink()
        remedy = _REMEDIES.get(error.errno or 0, "make room for it or choose another directory")
        raise CertificateError(f"{error.filename or cert_path.parent}: {error.strerror}: {remedy}") from error
