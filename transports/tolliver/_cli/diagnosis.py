"""Diagnosis for `tolliver doctor`: from facts about a set-up to findings.

This module uses no socket, file or clock. `probe` and `endpoints` collect facts about the peer, `doctor` about this
machine. Texts of faults are in the table of `causes`; this module decides which row applies.
"""

from __future__ import annotations

import ipaddress
import math
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tolliver_proto import ConnectionLost, HandshakeResponse, PeerIdentity, TolliverError, UnexpectedFrame
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import DialCause, failure_of
from tolliver_proto.reactive import VERSION, ServerHello, VersionMismatch

from .._options.instance import Remote
from .._tls.x509 import identity_of
from .causes import Finding, Grade, fault, ok

SKEW = 60.0  # seconds between two clocks that are reported
SOON = 30.0  # days left of a certificate that are reported
_DAY = 86400.0
_GIB = 2**30
_LEAST_FREE = 16 * 2**20  # bytes: twice the reserve, which it needs (D-13)
_OTHER_CA = (7, 18, 19, 20, 21)  # OpenSSL's X509_V_ERR_ numbers: the chain does not lead to our CA
_NAMES = (62, 64)

# Certificates.


@dataclass(frozen=True, slots=True)
class Papers:
    """Names and period of validity that a certificate has. Times are seconds since 1970."""

    name: str
    issuer: str
    begins: float
    ends: float
    uuids: frozenset[UUID]
    prefixes: frozenset[str]
    hosts: tuple[str, ...]

    def __str__(self) -> str:
        who = ", ".join([*map(str, sorted(self.uuids)), *(f"derives from {one}" for one in sorted(self.prefixes))])
        return f"{self.name!r} ({who or 'without a UUID'})"


def names_in(certificate: x509.Certificate, peer: str) -> tuple[PeerIdentity, list[str]]:
    """Identity that the peer's certificate proves, and the host names and addresses in it. Raises CertificateError for
    invalid names.
    """
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        names = x509.SubjectAlternativeName([])
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    return identity_of(certificate.public_bytes(Encoding.DER), uris, peer), hosts


def papers_of(certificate: x509.Certificate, peer: str) -> Papers:
    """Names and times of a certificate. Raises CertificateError for invalid names."""
    proved, hosts = names_in(certificate, peer)
    return Papers(
        name=_common_name(certificate.subject),
        issuer=_common_name(certificate.issuer),
        begins=certificate.not_valid_before_utc.timestamp(),
        ends=certificate.not_valid_after_utc.timestamp(),
        uuids=proved.uuids,
        prefixes=proved.prefixes,
        hosts=tuple(hosts),
    )


def our_certificate(papers: Papers, path: object, now: float) -> Iterator[Finding]:
    """Findings about the validity of our own certificate."""
    found = list(_validity("certificate", "ours", str(path), papers, now))
    yield from found or [ok("certificate", f"{path} is of {papers}, valid until {_when(papers.ends)}")]
    yield from _made_in_the_future("certificate", str(path), papers.uuids, now)


def their_certificate(
    papers: Papers, remote: Remote, now: float, *, code: int | None = None, verified: bool = False
) -> Iterator[Finding]:
    """Findings about the peer's certificate. `code` is OpenSSL's X509_V_ERR_ number if OpenSSL refused the certificate;
    `verified` is True if OpenSSL accepted it.
    """
    whose = f"the certificate of {remote}, {papers},"
    found: list[Finding] = []
    if code in _OTHER_CA:
        found.append(fault("peer.other_ca", whose=whose, issuer=papers.issuer))
    found += _validity("peer", "theirs", whose, papers, now)
    if remote.identity is not None and remote.identity not in papers.uuids:
        found.append(fault("peer.uuid", remote=remote, papers=papers))
    if remote.identity is None and not verified and (code in _NAMES or not is_named(remote.host, papers.hosts)):
        found.append(fault("peer.host_name", remote=remote, names=", ".join(papers.hosts) or "no name at all"))
    yield from found
    if not found and code is None:
        yield ok("peer", f"it is {papers}, valid until {_when(papers.ends)}")
    yield from _made_in_the_future("peer", f"the certificate of {remote}", papers.uuids, now)


def _validity(check: str, side: str, whose: str, papers: Papers, now: float) -> Iterator[Finding]:
    facts = {"whose": whose, "uuid": min(papers.uuids, default="UUID", key=str), "now": _when(now)}
    if now > papers.ends:
        yield fault(f"{check}.{side}_expired", ago=_span(now - papers.ends), **facts)
    elif now < papers.begins:
        yield fault(f"{check}.clock", begins=_when(papers.begins), **facts)
    elif papers.ends - now < SOON * _DAY:
        yield fault(f"{check}.{side}_expires", left=_span(papers.ends - now), **facts)


def _made_in_the_future(check: str, whose: str, uuids: Collection[UUID], now: float) -> Iterator[Finding]:
    """Finding of the check `check` about a certificate, `whose` in words, with a UUIDv7 made in the future."""
    made = max(((one.int >> 80) / 1000 for one in uuids if one.version == 7), default=0.0)
    if made > now + SKEW:
        yield fault(f"{check}.clock.uuid", whose=whose, made=_when(made), now=_when(now))


def refused_for(remote: Remote, error: Exception) -> Finding:
    """Finding about a peer's certificate that was refused with `error`, for a reason that is not visible in it."""
    text = error.verify_message.rstrip(".") if isinstance(error, ssl.SSLCertVerificationError) else str(error)
    return fault("peer.theirs_refused", remote=remote, why=text)


def is_named(host: str, names: Collection[str]) -> bool:
    """True if one of the names of a certificate stands for the host by TLS's rules (RFC 6125), with wildcards."""
    bare = host.partition("%")[0]
    address = _address(bare)
    if address is not None:
        return any(_address(name) == address for name in names)
    host = bare.rstrip(".").lower()
    rest = host.partition(".")[2]
    return any(name.lower() in (host, rest and f"*.{rest}") for name in names)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


# TLS.


def tls_failed(remote: Remote, error: TolliverError | TimeoutError, first: bytes) -> Finding:
    """Finding about a TLS handshake that failed with `error`, and not for a certificate that we refuse. `first` are the
    first bytes received.
    """
    told = DialCause.told_by(first)
    cause = error.cause if isinstance(error, ConnectionLost) else None
    if told is DialCause.HTTP:
        name = "http"
    elif told is DialCause.STREAMS:
        name = "not_tls.streams"
    elif isinstance(error, TimeoutError):
        name = "silent"
    elif isinstance(error, CertificateError):
        name = "ours_refused"  # by an alert
    elif "no application protocol" in str(error):  # by an alert
        name = "protocol"
    elif cause is DialCause.NOT_TLS or (first and told is not DialCause.NEEDS_TLS and cause is not DialCause.TLS):
        name = "not_tls"
    else:
        name = "not_tls.closes" if cause is DialCause.CLOSED and not first else "tls"
    return fault(f"tls.{name}", remote=remote, said=first[:16], why=error)


def shaken(remote: Remote, version: str | None, error: TolliverError | TimeoutError | None) -> Finding:
    """Finding whether the peer accepts our certificate, which it tells only after the TLS handshake. `version` is that
    of TLS, None without TLS; `error` is what the peer or the network said then, None for nothing: the certificate is
    accepted.
    """
    if error is None:
        return ok("tls", f"{version} with {remote}, which takes our certificate")
    refused = "ours_refused" if isinstance(error, CertificateError) else "tls.later"
    name = "silent.later" if isinstance(error, TimeoutError) else refused
    return fault(f"tls.{name}", remote=remote, version=version, why=error)


def spoken(remote: Remote, alpn: str | None, wanted: str, other: str, streams: bool) -> Finding:
    """Finding about the protocol that the peer chose by ALPN, of `wanted` and `other`, which were offered (R-35).
    `alpn` is its choice, None without one; `streams` is True if `wanted` is that of streams.
    """
    what, others = ("streams", "messages") if streams else ("messages", "streams")
    if alpn == wanted:
        return ok("protocol", f"{what}, by ALPN {alpn}")
    return fault(f"protocol.{others if alpn == other else 'no_alpn'}", remote=remote, alpn=alpn, what=what)


# The handshake.


def answered(
    answer: HandshakeResponse | None, error: TolliverError | None, first: bytes, remote: Remote, version: int
) -> Finding:
    """Finding about the handshake of messages: the peer's `answer`, or None and the `error`. `first` are the first
    bytes received, `version` is our protocol version.
    """
    if answer is None:
        return _unanswered(remote, error, first)
    uuid, theirs = answer.instance_id, answer.version
    if remote.identity not in (None, uuid):
        return fault("handshake.uuid", remote=remote, uuid=uuid)
    if theirs != version:
        lower, higher = sorted((theirs, version))
        facts = {"theirs": theirs, "ours": version, "lower": lower, "higher": higher}
        return fault("handshake.version", remote=remote, uuid=uuid, **facts)
    return ok("handshake", f"{uuid} at {remote} announces version {theirs} of the protocol, and the layout is ours")


def greeted(hello: ServerHello | None, error: TolliverError | None, first: bytes, remote: Remote) -> Finding:
    """Finding about the handshake of streams: the peer's `hello`, or None and the `error`. `first` are the first bytes
    received.
    """
    if hello is not None:
        return ok("handshake", f"{remote} says hello in version {hello.version} of the streams")
    if isinstance(error, VersionMismatch):
        why = f"it announces version {error.peer_version} of the streams, and this side speaks {VERSION} alone"
        return fault("handshake.version.there", remote=remote, why=why)
    return _unanswered(remote, error, first, DialCause.STREAMS)


_HANDSHAKE = {
    DialCause.CLOSED: "closed",
    DialCause.LOST: "closed",
    DialCause.HERE: "closed",
    DialCause.NO_ANSWER: "silent",
    DialCause.HTTP: "http",
    DialCause.NEEDS_TLS: "needs_tls",
    DialCause.STREAMS: "streams",
    DialCause.LAYOUT: "layout",
    DialCause.VERSION: "version.there",
    DialCause.CERTIFICATE: "ours_refused",
}


def _unanswered(remote: Remote, error: TolliverError | None, first: bytes, *ours: DialCause) -> Finding:
    failure = failure_of(error, first, *ours)
    name = _HANDSHAKE.get(failure.cause, "protocol")
    if isinstance(error, UnexpectedFrame) and not ours:  # valid frames of this protocol, but contradictory
        name = "protocol"
    return fault(f"handshake.{name}", remote=remote, why=failure)


# This machine.


def our_pair(error: CertificateError) -> Finding:
    """Finding about our certificate and key, which `error` says cannot be loaded together."""
    reason = getattr(error.__cause__, "reason", "")
    is_key = reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH")
    return fault("certificate.key" if is_key else "certificate.unusable", why=error)


def disk(directory: object, free: int, min_free: int) -> Finding:
    """Finding about a database's directory, with `free` bytes of disk. `min_free` is the option of that name, in
    bytes.
    """
    size = f"{free / _GIB:,.1f} GiB" if free >= _GIB else f"{free / 2**20:,.1f} MiB"
    if free >= min_free + _GIB:
        return ok("disk", f"the disk of {directory} has {size} free")
    full = free < max(min_free, _LEAST_FREE)
    return fault("disk.disk_low", Grade.FAIL if full else Grade.WARN, directory=directory, free=size)


def spark_python(name: str, path: str | None, missing: Collection[str] | None) -> Finding:
    """Finding about the Python that Spark uses: called `name`, at `path`, None if it was not found. `missing` are the
    packages that it lacks, None if it could not be run.
    """
    if path is None:
        return fault("python.python", python=f"there is no {name} on the PATH, which Spark runs")
    if missing is None:
        return fault("python.python", python=f"{path}, which Spark runs, does not work")
    if missing:
        return fault("python.python", python=f"{path}, which Spark runs, has no {', '.join(missing)}")
    return ok("python", f"{path}, which Spark runs, has pyspark and tolliver")


def clocks(where: object, theirs: float, ours: float, precision: float) -> Finding:
    """Finding about the clock of `where` and ours, both read at one moment, in seconds since 1970. The difference is
    known to within `precision` seconds.
    """
    apart = max(abs(theirs - ours) - precision, 0.0)
    if apart <= SKEW:
        return ok("clock", f"that of {where} and ours are {math.ceil(apart)} s apart at most")
    way = "ahead of" if theirs > ours else "behind"
    return fault("clock.clock", where=where, apart=_span(apart), way=way, theirs=_when(theirs), ours=_when(ours))


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string()


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a UUID's year may be outside datetime's range
        return f"{seconds:.0f} s after 1970"


def _span(seconds: float) -> str:
    for unit, size in (("day", _DAY), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= size or unit == "second":
            number = int(seconds / size)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    raise AssertionError
