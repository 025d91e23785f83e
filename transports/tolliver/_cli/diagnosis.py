"""Diagnosis of a set-up: facts in, findings out.

It has no socket, no file and no clock. `probe` gets the facts of the other end, `doctor` those of this machine. A
finding that is not well has a cause, which is a word that never changes, a text, and what to do about it.
"""

from __future__ import annotations

import errno
import ipaddress
import math
import ssl
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tolliver_proto import ConnectionLost, HandshakeResponse, TolliverError, UnexpectedFrame
from tolliver_proto.errors import CertificateError
from tolliver_proto.node import DialCause, failure_of
from tolliver_proto.reactive import VERSION, ServerHello, VersionMismatch

from .._options.instance import Remote
from .._tls.x509 import identity_of

SKEW = 60.0  # seconds between two clocks that are worth a word
SOON = 30.0  # days to the end of a certificate
_DAY = 86400.0
_GIB = 2**30
_LEAST_FREE = 16 * 2**20  # bytes: the reserve is made where there is room for it twice (D-13)


class Grade(StrEnum):
    """Grade of a check, as its line begins."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"

    @property
    def status(self) -> int:
        """Exit status where nothing is worse."""
        return [*Grade].index(self)


class Cause(StrEnum):
    """The fault that a check has found."""

    UNREADABLE = "unreadable"
    TOO_OPEN = "too_open"
    UNUSABLE = "unusable"
    KEY = "key"
    OURS_EXPIRED = "ours_expired"
    OURS_EXPIRES = "ours_expires"
    OURS_REFUSED = "ours_refused"
    NO_CERTIFICATE = "no_certificate"
    NO_DATABASE = "no_database"
    IN_USE = "in_use"
    DISK_LOW = "disk_low"
    PYTHON = "python"
    NAME = "name"
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    UNREACHABLE = "unreachable"
    HTTP = "http"
    NOT_TLS = "not_tls"
    NEEDS_TLS = "needs_tls"
    SILENT = "silent"
    TLS = "tls"
    OTHER_CA = "other_ca"
    THEIRS_EXPIRED = "theirs_expired"
    THEIRS_EXPIRES = "theirs_expires"
    THEIRS_REFUSED = "theirs_refused"
    HOST_NAME = "host_name"
    UUID = "uuid"
    STREAMS = "streams"
    MESSAGES = "messages"
    NO_ALPN = "no_alpn"
    CLOSED = "closed"
    LAYOUT = "layout"
    PROTOCOL = "protocol"
    VERSION = "version"
    CLOCK = "clock"
    STATUS = "status"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check."""

    check: str
    grade: Grade
    text: str
    cause: Cause | None = None
    """None if it is well."""
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding(check, Grade.OK, text)


def warn(check: str, cause: Cause, text: str, remedy: str) -> Finding:
    return Finding(check, Grade.WARN, text, cause, remedy)


def fail(check: str, cause: Cause, text: str, remedy: str) -> Finding:
    return Finding(check, Grade.FAIL, text, cause, remedy)


# Certificates.


@dataclass(frozen=True, slots=True)
class Papers:
    """The names and times in a certificate. Times are seconds since 1970."""

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


def papers_of(certificate: x509.Certificate, peer: str) -> Papers:
    """Raises CertificateError where its names cannot be understood."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        names = x509.SubjectAlternativeName([])
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    hosts = [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
    proved = identity_of(certificate.public_bytes(Encoding.DER), uris, peer)
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
    """Our own: whether it is valid now, and for how long."""
    new = f"make a new one with the same UUID, `tolliver certs DIR NAME --uuid {_uuid_of(papers)}`"
    if now > papers.ends:
        yield fail(
            "certificate",
            Cause.OURS_EXPIRED,
            f"{path} has expired, {_ago(now - papers.ends)}",
            f"{new}, or set the clock of this machine, if it is not {_when(now)} now",
        )
    elif now < papers.begins:
        yield fail(
            "certificate",
            Cause.CLOCK,
            f"{path} is not valid before {_when(papers.begins)}, and the clock here says {_when(now)}",
            "set the clock of this machine, or that of the one that made the certificate, and make a new one there",
        )
    elif papers.ends - now < SOON * _DAY:
        yield warn(
            "certificate", Cause.OURS_EXPIRES, f"{path} expires {_in(papers.ends - now)}", f"{new}, and reload_tls()"
        )
    else:
        yield ok("certificate", f"{path} is of {papers}, valid until {_when(papers.ends)}")
    yield from _made_in_the_future("certificate", str(path), papers.uuids, now)


def their_certificate(
    papers: Papers, remote: Remote, now: float, *, code: int | None = None, verified: bool = False
) -> Iterator[Finding]:
    """Theirs: all that is wrong with it. `code` is OpenSSL's X509_V_ERR_ number where it refused it, `verified` says
    that it found nothing."""
    found: list[Finding] = []
    if code in _OTHER_CA:
        found.append(
            fail(
                "peer",
                Cause.OTHER_CA,
                f"the certificate of {remote}, {papers}, is of another CA, {papers.issuer!r}",
                "is it the right port? Else both sides need certificates of the same private CA: give each "
                "the same ca.pem",
            )
        )
    if now > papers.ends:
        found.append(
            fail(
                "peer",
                Cause.THEIRS_EXPIRED,
                f"the certificate of {remote}, {papers}, has expired, {_ago(now - papers.ends)}",
                f"make a new one for it, `tolliver certs DIR NAME --uuid {_uuid_of(papers)}`, and have it call "
                f"reload_tls(); or set the clock of this machine, if it is not {_when(now)} now",
            )
        )
    elif now < papers.begins:
        found.append(
            fail(
                "peer",
                Cause.CLOCK,
                f"the certificate of {remote}, {papers}, is not valid before {_when(papers.begins)}, and the clock "
                f"here says {_when(now)}",
                "set the clock of this machine, or that of the one that made the certificate, and make a new one",
            )
        )
    elif papers.ends - now < SOON * _DAY:
        found.append(
            warn(
                "peer",
                Cause.THEIRS_EXPIRES,
                f"the certificate of {remote}, {papers}, expires {_in(papers.ends - now)}",
                f"make a new one for it, `tolliver certs DIR NAME --uuid {_uuid_of(papers)}`",
            )
        )
    if remote.identity is not None and remote.identity not in papers.uuids:
        found.append(
            fail(
                "peer",
                Cause.UUID,
                f"the peer at {remote} is {papers}, and not {remote.identity}",
                "correct the address, or give the UUID of the instance that runs there",
            )
        )
    if remote.identity is None and not verified and (code in _NAMES or not is_named(remote.host, papers.hosts)):
        named = ", ".join(papers.hosts) or "no name at all"
        found.append(
            fail(
                "peer",
                Cause.HOST_NAME,
                f"the certificate of {remote} is for {named}, and not for {remote.host}",
                "dial it by a name in its certificate, or by its UUID: Remote(host, port, identity=...), here --uuid; "
                "or make it one with --host",
            )
        )
    yield from found
    if not found and code is None:
        yield ok("peer", f"it is {papers}, valid until {_when(papers.ends)}")
    yield from _made_in_the_future("peer", f"the certificate of {remote}", papers.uuids, now)


def refused_for(remote: Remote, error: Exception) -> Finding:
    """Their certificate, for what its papers do not show."""
    text = error.verify_message.rstrip(".") if isinstance(error, ssl.SSLCertVerificationError) else str(error)
    return fail(
        "peer",
        Cause.THEIRS_REFUSED,
        f"we refuse the certificate of {remote}: {text}",
        "make a new one for it with `tolliver certs`: it must serve as serverAuth and clientAuth",
    )


def is_named(host: str, names: Collection[str]) -> bool:
    """True if a certificate with these names is for this host, as TLS compares them (RFC 6125)."""
    bare = host.partition("%")[0]
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        pass
    else:
        return any(_is_address(name) and ipaddress.ip_address(name) == address for name in names)
    host = bare.rstrip(".").lower()
    rest = host.partition(".")[2]
    return any(name.lower() in (host, rest and f"*.{rest}") for name in names)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _made_in_the_future(check: str, whose: str, uuids: Collection[UUID], now: float) -> Iterator[Finding]:
    """A UUIDv7 begins with the time at which it was made."""
    made = max(((one.int >> 80) / 1000 for one in uuids if one.version == 7), default=0.0)
    if made > now + SKEW:
        yield warn(
            check,
            Cause.CLOCK,
            f"the UUID in {whose} was made at {_when(made)}, and the clock here says {_when(now)}",
            "one of the clocks is wrong, that of this machine or that of the one that made the certificate: set it",
        )


# The way there.


def no_name(host: str, error: OSError) -> Finding:
    if isinstance(error, TimeoutError):
        return fail(
            "name",
            Cause.NAME,
            f"nobody says which address {host} has: the resolver does not answer",
            "look after the name servers of this machine (/etc/resolv.conf), or give an address in place of the name",
        )
    return fail(
        "name",
        Cause.NAME,
        f"the name {host} is not found: {error.strerror or error}",
        "correct the name, or enter it in the DNS or in /etc/hosts; or give an address in its place",
    )


def unreached(where: str, error: OSError, seconds: float, others: bool = False) -> Finding:
    """Finding about a TCP connection that was not made. It is a warning where another address is there."""
    say = warn if others else fail
    if isinstance(error, ConnectionRefusedError):
        return say(
            "tcp",
            Cause.REFUSED,
            f"nobody listens at {where}",
            "start the instance there, or correct the port; an instance that listens on 127.0.0.1 is reached from its "
            'own machine alone: InstanceOptions(listen="0.0.0.0:PORT")',
        )
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return say(
            "tcp",
            Cause.NO_ANSWER,
            f"{where} does not answer within {seconds:g} s: something drops the packets, or the machine is off",
            "let the port through the firewalls on the way, and at a cloud through its security groups; see "
            "whether the machine runs and whether the address is still its own",
        )
    if isinstance(error, ConnectionResetError | ConnectionAbortedError):
        return say(
            "tcp",
            Cause.CLOSED,
            f"{where} takes the connection and resets it at once",
            "something else answers in place of the instance: a load balancer with nobody behind it, a firewall that "
            "rejects, a forwarded port of a container that is down; look at what is on the way",
        )
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return say("tcp", Cause.UNREACHABLE, f"no file is left to open: {_strerror(error)}", "raise `ulimit -n`")
    return say(
        "tcp",
        Cause.UNREACHABLE,
        f"there is no way to {where}: {_strerror(error)}",
        "look at the routes and the network of this machine (`ip route get ADDRESS`), and at firewalls that reject",
    )


def met_itself(where: str) -> Finding:
    return fail(
        "tcp", Cause.REFUSED, f"nobody listens at {where}: the connection met itself", "start the instance there"
    )


# TLS.


def tls_failed(remote: Remote, error: TolliverError | TimeoutError, first: bytes, is_http: bool) -> Finding:
    """Finding about a handshake of TLS that failed for something else than a certificate that we refuse. `first` are
    the first bytes that came; `is_http` says that a second connection was answered in HTTP."""
    told = DialCause.told_by(first)
    if is_http or told is DialCause.HTTP:
        return http_there(remote)
    if told is DialCause.STREAMS:
        return fail(
            "tls",
            Cause.NOT_TLS,
            f"{remote} speaks streams, and without TLS",
            "give it certificates in place of plaintext=True, or the port of messages",
        )
    if isinstance(error, TimeoutError):
        return fail(
            "tls",
            Cause.SILENT,
            f"{remote} takes the connection and does not answer in TLS: it is plain TCP of something else, or a "
            "process that hangs",
            "correct the port; if it is the right one, see what its process waits for (py-spy dump), and start it anew",
        )
    if isinstance(error, CertificateError):
        return refuses_us(remote, error)
    cause = error.cause if isinstance(error, ConnectionLost) else None
    if "no application protocol" in str(error):  # an alert
        return fail(
            "tls",
            Cause.PROTOCOL,
            f"{remote} speaks TLS, and neither messages nor streams: it refuses both by ALPN",
            "correct the port: this is another service, such as a web server",
        )
    if cause is DialCause.NOT_TLS or (first and told is not DialCause.NEEDS_TLS and cause is not DialCause.TLS):
        return fail(
            "tls",
            Cause.NOT_TLS,
            f"{remote} speaks plain TCP, no TLS; it says {first[:16]!r}",
            "correct the port; if an instance is there, give it certificates in place of plaintext=True",
        )
    if cause is DialCause.CLOSED and not first:
        return fail(
            "tls",
            Cause.NOT_TLS,
            f"{remote} closes the connection at the first bytes of TLS, as plain TCP of something else does, or an "
            "instance with plaintext=True",
            "correct the port; if an instance is there, give it certificates in place of plaintext=True. Its log may "
            "say more: too_many_handshakes, protocol_error",
        )
    return fail(
        "tls",
        Cause.TLS,
        f"{error}",
        "both sides need TLS 1.3, or tls12=True; its log may say more",
    )


def http_there(remote: Remote) -> Finding:
    return fail(
        "tls",
        Cause.HTTP,
        f"{remote} speaks HTTP",
        "correct the port: this may be a status endpoint, or a web server, and instances listen on 7011 by default",
    )


def refuses_us(remote: Remote, error: TolliverError) -> Finding:
    """They refuse our certificate: the alert says why."""
    return fail(
        "tls",
        Cause.OURS_REFUSED,
        f"{error}",
        f"the log of {remote} has the notice certificate_refused, which says more; both sides need certificates of "
        "the same CA, and clocks that agree",
    )


def shaken(remote: Remote, version: str | None, error: TolliverError | TimeoutError | None) -> Finding:
    """After the handshake of TLS: whether they take our certificate, as far as what came last tells."""
    if isinstance(error, TimeoutError):
        return warn(
            "tls",
            Cause.SILENT,
            f"{version} with {remote}, which neither refuses our certificate nor ends the connection",
            "a peer that hangs does so; see what its process waits for",
        )
    if isinstance(error, CertificateError):
        return refuses_us(remote, error)
    if error is not None:
        return fail("tls", Cause.TLS, str(error), "try again; if it stays so, the log of the other end may say why")
    return ok("tls", f"{version} with {remote}, which takes our certificate")


def only_looked(remote: Remote, version: str | None) -> Finding:
    return warn(
        "tls",
        Cause.NO_CERTIFICATE,
        f"{version} is there at {remote}; without certificates of ours nothing was checked but what it shows",
        "give --certs DIR --name NAME, or --cert, --key-file and --ca",
    )


def spoken(remote: Remote, alpn: str | None, wanted: str, other: str, streams: bool) -> Finding:
    """The protocol that they named by ALPN, of the two that were offered (R-35)."""
    what, default = ("streams", 7012) if streams else ("messages", 7011)
    if alpn == wanted:
        return ok("protocol", f"{what}, by ALPN {alpn}")
    if alpn == other and streams:
        return fail(
            "protocol",
            Cause.MESSAGES,
            f"{remote} is a port of messages ({alpn}), where streams were meant",
            f"dial the port of its streams, {default} by default; without --streams this one is examined",
        )
    if alpn == other:
        return fail(
            "protocol",
            Cause.STREAMS,
            f"{remote} is a port of streams ({alpn}), where messages were meant",
            f"dial the port of its messages, {default} by default; with --streams this one is examined",
        )
    return warn(
        "protocol",
        Cause.NO_ALPN,
        f"{remote} does not say by ALPN whether it speaks {what}",
        "another implementation may be there, or another service under the same CA: --handshake asks it",
    )


# The handshake.


def answered(
    answer: HandshakeResponse | None, error: TolliverError | None, first: bytes, remote: Remote, version: int
) -> Finding:
    """Finding about the handshake of messages. `first` are the first bytes that came of it."""
    if answer is not None:
        who = f"{answer.instance_id} at {remote}"
        if remote.identity not in (None, answer.instance_id):
            return fail(
                "handshake",
                Cause.UUID,
                f"the peer at {remote} says that it is {answer.instance_id}, and not {remote.identity}",
                "correct the address, or give the UUID of the instance that runs there",
            )
        if answer.version != version:
            lower, higher = sorted((answer.version, version))
            return fail(
                "handshake",
                Cause.VERSION,
                f"{who} announces version {answer.version} of the protocol, and this side version {version}",
                f"give both one version=, or let the one of version {higher} speak {lower}, by speaks= (T-60); if "
                f"ours has version={answer.version}, say --protocol-version {answer.version} here",
            )
        return ok("handshake", f"{who} announces version {answer.version} of the protocol, and the layout is ours")
    failure = failure_of(error, first)
    cause = _HANDSHAKE.get(failure.cause, Cause.PROTOCOL)
    if isinstance(error, UnexpectedFrame):  # its frames are ours, and say what cannot be
        cause = Cause.PROTOCOL
    return fail("handshake", cause, f"{remote}: {failure}", _HANDSHAKE_REMEDIES[cause])


def greeted(hello: ServerHello | None, error: TolliverError | None, first: bytes, remote: Remote) -> Finding:
    """Finding about the hello of streams."""
    if hello is not None:
        return ok("handshake", f"{remote} says hello in version {hello.version} of the streams")
    if isinstance(error, VersionMismatch):
        return fail(
            "handshake",
            Cause.VERSION,
            f"{remote} announces version {error.peer_version} of the streams, and this side speaks {VERSION} alone",
            _HANDSHAKE_REMEDIES[Cause.VERSION],
        )
    failure = failure_of(error, first, DialCause.STREAMS)
    cause = _HANDSHAKE.get(failure.cause, Cause.PROTOCOL)
    return fail("handshake", cause, f"{remote}: {failure}", _HANDSHAKE_REMEDIES[cause])


# This machine.


def cannot_read(path: object, error: OSError) -> Finding:
    return fail(
        "files",
        Cause.UNREADABLE,
        f"{path} cannot be read: {_strerror(error)}",
        "correct the path, or its permissions for this user; `tolliver certs` makes such files",
    )


def unusable(path: object, text: str) -> Finding:
    return fail("files", Cause.UNUSABLE, f"{path}: {text}", "make new ones with `tolliver certs`")


def too_open(path: object, mode: int) -> Finding:
    return warn(
        "files",
        Cause.TOO_OPEN,
        f"{path} has mode {mode:04o}: others on this machine may have it",
        f"chmod 600 {path}",
    )


def our_pair(error: CertificateError) -> Finding:
    """Certificate and key that cannot be loaded together."""
    reason = getattr(error.__cause__, "reason", "") or ""
    cause = Cause.KEY if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH") else Cause.UNUSABLE
    return fail("certificate", cause, str(error), "give the files that `tolliver certs` made together, unchanged")


def our_own_refusal(error: CertificateError) -> Finding:
    return fail(
        "certificate",
        Cause.OURS_REFUSED,
        str(error),
        "give the ca.pem of the CA that signed it, or make a new certificate with `tolliver certs`",
    )


def no_place(path: object) -> Finding:
    return fail(
        "database",
        Cause.NO_DATABASE,
        f"{path} is not there, and cannot be made there",
        "correct the path, or make its directory, which this user must be able to write in",
    )


def database_use(path: object, is_used: bool, user: int | None) -> Finding:
    if not is_used:
        return ok("database", f"{path} is free")
    who = "an instance" if user is None else f"process {user}"
    return warn(
        "database",
        Cause.IN_USE,
        f"{path} is in use by {who}",
        "that is well if it is this instance, running; else stop it, or give each instance a database of its own "
        "(T-79)",
    )


def disk(directory: object, free: int, min_free: int) -> Finding:
    """Room for a database. `min_free` is the option of that name."""
    remedy = "free some; new messages are refused until there is more, and what peers acknowledge is removed (D-13)"
    if free < max(min_free, _LEAST_FREE):
        return fail("disk", Cause.DISK_LOW, f"the disk of {directory} is nearly full: {_size(free)} are free", remedy)
    if free < min_free + _GIB:
        return warn("disk", Cause.DISK_LOW, f"the disk of {directory} has {_size(free)} left", remedy)
    return ok("disk", f"the disk of {directory} has {_size(free)} free")


def spark_python(name: str, path: str | None, missing: Collection[str] | None) -> Finding:
    """The Python with which Spark runs its Python parts. `missing` is None where it did not run."""
    remedy = "activate the environment that has tolliver, or set PYSPARK_PYTHON to its Python"
    if path is None:
        return fail("python", Cause.PYTHON, f"there is no {name} on the PATH, which Spark runs", remedy)
    if missing is None:
        return fail("python", Cause.PYTHON, f"{path}, which Spark runs, does not work", remedy)
    if missing:
        return fail("python", Cause.PYTHON, f"{path}, which Spark runs, has no {', '.join(missing)}", remedy)
    return ok("python", f"{path}, which Spark runs, has pyspark and tolliver")


def clocks(where: str, theirs: float, ours: float, precision: float) -> Finding:
    """Two clocks at one moment; the difference may be `precision` seconds less or more."""
    apart = max(abs(theirs - ours) - precision, 0.0)
    if apart <= SKEW:
        return ok("clock", f"that of {where} and ours are {math.ceil(apart)} s apart at most")
    way = "ahead of" if theirs > ours else "behind"
    return warn(
        "clock",
        Cause.CLOCK,
        f"that of {where} is {_span(apart)} {way} ours: {_when(theirs)}, and here {_when(ours)}",
        "let both machines set their clocks by NTP (`timedatectl`): certificates and expiries depend on them",
    )


def refused_remote(where: str, remote: str, error: str) -> Finding:
    return fail(
        "remotes",
        Cause.REMOTE,
        f"the instance at {where} is not connected to {remote:.100}: {error:.300}",
        f"run `tolliver doctor {remote:.100}` with the files of that instance, and mend what is told; the remote is "
        "dialled every 1 to 5 minutes, and at once after a reload (SIGHUP, reload_tls, set_acl)",
    )


def no_status(where: str, error: Exception) -> Finding:
    return warn(
        "clock",
        Cause.STATUS,
        f"{where} does not answer with a time: {error}",
        'give the address of its status endpoint, InstanceOptions(status="host:port")',
    )


_OTHER_CA = (7, 18, 19, 20, 21)  # OpenSSL's X509_V_ERR_ numbers: the chain does not lead to our CA
_NAMES = (62, 64)
_HANDSHAKE = {
    DialCause.CLOSED: Cause.CLOSED,
    DialCause.LOST: Cause.CLOSED,
    DialCause.HERE: Cause.CLOSED,
    DialCause.NO_ANSWER: Cause.SILENT,
    DialCause.HTTP: Cause.HTTP,
    DialCause.NEEDS_TLS: Cause.NEEDS_TLS,
    DialCause.STREAMS: Cause.STREAMS,
    DialCause.LAYOUT: Cause.LAYOUT,
    DialCause.VERSION: Cause.VERSION,
    DialCause.CERTIFICATE: Cause.OURS_REFUSED,
}
_HANDSHAKE_REMEDIES = {
    Cause.CLOSED: "its notices say why: access_denied (its access rules keep this instance out), identity_mismatch "
    "(another key had this UUID first), protocol_error or handshake_timeout (another layout may be spoken there)",
    Cause.SILENT: "see what its process waits for; or another layout is spoken there, which waits for more: both sides "
    "need the same revision",
    Cause.HTTP: "correct the port: this is a web server or a status endpoint",
    Cause.NEEDS_TLS: "give certificates in place of --plaintext",
    Cause.STREAMS: "dial the port of its messages; with --streams this one is examined",
    Cause.MESSAGES: "dial the port of its streams; without --streams this one is examined",
    Cause.LAYOUT: "its frames have another layout: both sides need the same revision of the protocol",
    Cause.VERSION: "run versions of tolliver that have the same",
    Cause.OURS_REFUSED: "its log has the notice certificate_refused, which says more",
    Cause.PROTOCOL: "correct the port: this is another service, or another implementation, which answers otherwise",
}


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else name.rfc4514_string()


def _uuid_of(papers: Papers) -> str:
    return str(min(papers.uuids)) if papers.uuids else "UUID"


def _strerror(error: OSError) -> str:
    return error.strerror or str(error)


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a UUID may say a year that no calendar here has
        return f"{seconds:.0f} s after 1970"


def _span(seconds: float) -> str:
    for unit, size in (("day", _DAY), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= size or unit == "second":
            number = int(seconds / size)
            return f"{number} {unit}{'' if number == 1 else 's'}"
    raise AssertionError


def _ago(seconds: float) -> str:
    return f"{_span(seconds)} ago"


def _in(seconds: float) -> str:
    return f"in {_span(seconds)}"


def _size(number: int) -> str:
    return f"{number / _GIB:,.1f} GiB" if number >= _GIB else f"{number / 2**20:,.1f} MiB"
