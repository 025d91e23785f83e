"""`tolliver doctor`: examines a set-up, from its files to the handshake.

It prints a line for each check, in the order of causes: the first failure comes first, and checks that depend on it are
left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any
from uuid import UUID

import typer
from attrs import define
from cryptography import x509

from tolliver_proto import IdentityConflict, TolliverError, reactive
from tolliver_proto.errors import CertificateError

from .._options.instance import TLS, Remote
from .._options.uuid7 import uuid7
from .._private import must_be_file
from .._store.lock import is_used
from .._tls.policy import ALPN, Pumps, client_context
from .._tls.pump import PlainPump, Pump
from ..derived import derived_identity
from . import diagnosis, probe, words
from .causes import Finding, Grade, fault, no_name, ok, strerror, unreached
from .diagnosis import Papers
from .endpoints import Endpoint, read_clock

_ADDRESSES = 4  # most addresses of a name that are tried
_PRIVATE = 0o077
_NEEDED = ("pyspark", "tolliver_proto", "tolliver", "pyspark_tolliver")
_FIND = "import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None))"


@define(frozen=True, kw_only=True)
class Job:
    """Set-up that `tolliver doctor` examines. Without `tls`, the peer is only probed, or asked without TLS if
    `plaintext`.

    `handshake=None`: do the handshake only with peers that name the expected protocol by ALPN. With others it is needed
    to see another layout or version, but only those are known to end an incomplete handshake without a change.
    """

    remote: Remote
    tls: TLS | None
    plaintext: bool
    streams: bool
    handshake: bool | None
    version: int
    database: Path | None
    min_free: int
    status: Endpoint | None
    spark: bool
    timeout: float


def examine_and_print(job: Job, as_json: bool) -> int:
    """Print each finding immediately, with `as_json` as JSON lines; returns the exit status for the worst."""
    worst = 0
    for finding in examine(job):
        worst = max(worst, finding.grade.status)
        for line in as_lines(finding, as_json):
            typer.echo(line)
    return worst


def as_lines(finding: Finding, as_json: bool) -> list[str]:
    if as_json:
        return [
            json.dumps(
                {
                    "check": finding.check,
                    "grade": finding.grade.name.lower(),
                    "cause": finding.cause,
                    "text": finding.text,
                    "remedy": finding.remedy or None,
                }
            )
        ]
    if finding.grade is Grade.OK:
        return [words.line(f"{finding.grade:4} {finding.check}: {finding.text}")]
    first = words.line(f"{finding.grade:4} {finding.cause}: {finding.text}")
    return [first, words.line(f"     {finding.remedy}")]


def examine(job: Job) -> Iterator[Finding]:
    """Findings about this machine, then the way to the peer, then the peer."""
    can_shake = True
    if job.tls is not None:
        for finding in _files(job.tls):
            can_shake = can_shake and (finding.grade is not Grade.FAIL or finding.cause in _NO_OBSTACLE)
            yield finding
    if job.database is not None:
        yield from _database(job.database, job.min_free)
    if job.spark:
        yield _spark_python(job.timeout)
    yield from _other_end(job, can_shake)
    if job.status is not None:
        yield from _status(job.status, job.timeout)


# This machine.

_NO_OBSTACLE = ("ours_expired", "ours_refused", "clock")


def _files(tls: TLS) -> Iterator[Finding]:
    read: dict[Path, bytes] = {}
    for path in (tls.cert, tls.key, tls.ca):
        try:
            read[path] = path.read_bytes()
        except OSError as error:
            yield fault("files.unreadable", path=path, why=strerror(error))
    if len(read) < 3:
        return
    yield ok("files", f"{tls.cert}, {tls.key} and {tls.ca} can be read")
    if os.name == "posix" and (mode := stat.S_IMODE(tls.key.stat().st_mode)) & _PRIVATE:
        yield fault("files.too_open", path=tls.key, mode=mode)
    try:
        client_context(tls)
    except CertificateError as error:
        yield diagnosis.our_pair(error)
        return
    try:
        papers = diagnosis.papers_of(x509.load_pem_x509_certificates(read[tls.cert])[0], str(tls.cert))
    except (ValueError, CertificateError) as error:
        yield fault("files.unusable", path=tls.cert, why=error)
        return
    found = list(diagnosis.our_certificate(papers, tls.cert, time.time()))
    yield from found
    if all(finding.grade is not Grade.FAIL for finding in found):
        try:
            Pumps(tls)
        except CertificateError as error:
            yield fault("certificate.ours_refused", why=error)


def _database(path: Path, min_free: int) -> Iterator[Finding]:
    directory = path.absolute().parent
    try:
        must_be_file(path)
        if path.is_file():
            if is_used(str(path.resolve())):
                yield fault("database.in_use", path=path, user=_user_of(path))
            else:
                yield ok("database", f"{path} is free")
            if os.name == "posix" and (mode := stat.S_IMODE(path.stat().st_mode)) & _PRIVATE:
                yield fault("files.too_open", path=path, mode=mode)
        elif directory.is_dir() and os.access(directory, os.W_OK):
            yield ok("database", f"{path} is not there: the first start makes it")
        else:
            yield fault("database.no_database", path=path)
            return
        yield diagnosis.disk(directory, shutil.disk_usage(directory).free, min_free)
    except OSError as error:
        yield fault("files.unreadable", path=path, why=strerror(error))


def _user_of(path: Path) -> str:
    """Text about the process that has locked the database, if the system tells."""
    with suppress(OSError):
        inode = os.stat(f"{path}.lock").st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            found = re.search(rf"FLOCK +\w+ +\w+ +(\d+) +[0-9a-f:]+:{inode} ", line)
            if found:
                return f"process {found[1]}"
    return "an instance"


def _spark_python(seconds: float) -> Finding:
    name = os.environ.get("PYSPARK_PYTHON") or "python3"
    path = shutil.which(name)
    missing: list[str] | None = None
    if path is not None:
        with suppress(OSError, subprocess.SubprocessError):
            ended = subprocess.run(
                [path, "-c", _FIND, *_NEEDED], capture_output=True, timeout=max(seconds, 10.0), check=True, text=True
            )
            missing = ended.stdout.split()
    return diagnosis.spark_python(name, path, missing)


# The peer.


def _other_end(job: Job, can_shake: bool) -> Iterator[Finding]:
    remote = job.remote
    try:
        addresses = probe.resolve(remote.host, remote.port, job.timeout)
    except OSError as error:
        yield no_name(remote.host, error)
        return
    found = [*dict.fromkeys(one[4][0] for one in addresses)]
    if found != [remote.host]:
        yield ok("name", f"{remote.host} is {', '.join(found)}")
    failures: list[tuple[str, OSError]] = []
    for address in addresses[:_ADDRESSES]:
        where = f"{address[4][0]} port {remote.port}"
        begun = time.monotonic()
        try:
            sock = probe.reach(address, job.timeout)
        except OSError as error:
            failures.append((where, error))
            continue
        with sock:
            yield from (unreached(*failure, job.timeout, Grade.WARN) for failure in failures)
            if sock.getsockname() == sock.getpeername():
                yield fault("tcp.refused.itself", where=where)
                return
            took = 1000 * (time.monotonic() - begun)
            yield ok("tcp", f"{where} takes connections, within {took:.1f} ms")
            if can_shake:
                yield from _talk(job, address, sock)
        return
    yield from (unreached(*failure, job.timeout) for failure in failures)


def _talk(job: Job, address: tuple[Any, ...], sock: Any) -> Iterator[Finding]:
    if job.plaintext:
        yield _handshake(job, probe.Line(sock, PlainPump(), job.timeout))[0]
        return
    wanted, other = (reactive.ALPN, ALPN) if job.streams else (ALPN, reactive.ALPN)
    remote = job.remote
    if job.tls is None:
        context, asked = probe.look_context([wanted, other]), Remote(remote.host, remote.port)
    else:
        context, asked = client_context(job.tls, check_hostname=remote.identity is None), remote
        context.set_alpn_protocols([wanted, other])
    pump = Pump.client(context, asked)
    line = probe.Line(sock, pump, job.timeout)
    try:
        line.shake()
    except (TolliverError, TimeoutError) as error:
        sock.close()  # before the next connection: some servers accept only one at a time
        yield from _not_shaken(job, address, line.first, error, [wanted, other])
        return
    papers, version = _papers(pump.certificate, remote), pump.version  # read now, as they are gone after the connection
    protocol = diagnosis.spoken(remote, pump.application_protocol, wanted, other, job.streams)
    asked_it: Finding | None = None
    if job.tls is None:
        yield fault("tls.no_certificate", remote=remote, version=version)
    else:
        refusal: TolliverError | TimeoutError | None
        is_asked = protocol.grade is Grade.OK if job.handshake is None else job.handshake
        if is_asked and protocol.grade is not Grade.FAIL:
            asked_it, end = _handshake(job, line)
            refusal = end if isinstance(end, CertificateError) else None
        else:
            refusal = probe.last_words(line)
        yield diagnosis.shaken(remote, version, refusal)
        asked_it = asked_it if refusal is None else None
    if isinstance(papers, Finding):
        yield papers
    else:
        verified = job.tls is not None
        yield from diagnosis.their_certificate(papers, remote, time.time(), verified=verified)
    yield protocol
    if asked_it is not None:
        yield asked_it


def _not_shaken(
    job: Job, address: tuple[Any, ...], first: bytes, error: TolliverError | TimeoutError, alpn: list[str]
) -> Iterator[Finding]:
    remote = job.remote
    refused = error.__cause__ if isinstance(error.__cause__, ssl.SSLCertVerificationError) else None
    if refused is None and not isinstance(error, IdentityConflict):
        told = diagnosis.tls_failed(remote, error, first)
        if told.cause in ("not_tls", "silent") and probe.is_http(address, job.timeout):
            told = fault("tls.http", remote=remote)
        yield told
        return
    with suppress(OSError, TolliverError):
        papers = _papers(probe.look(address, remote, alpn, job.timeout), remote)
        if isinstance(papers, Papers):
            code = None if refused is None else refused.verify_code
            found = [*diagnosis.their_certificate(papers, remote, time.time(), code=code)]
            yield from found
            if any(one.grade is Grade.FAIL for one in found):
                return
    yield diagnosis.refused_for(remote, error if refused is None else refused)


def _papers(der: bytes | None, remote: Remote) -> Papers | Finding:
    try:
        return diagnosis.papers_of(x509.load_der_x509_certificate(der or b""), f"the peer at {remote}")
    except (ValueError, CertificateError) as error:
        return diagnosis.refused_for(remote, error)


def _handshake(job: Job, line: probe.Line) -> tuple[Finding, TolliverError | None]:
    """Do the handshake of the protocol; returns the finding, and the error that ended the connection, None without
    one.
    """
    remote = job.remote
    if job.streams:
        hello = probe.ask_streams(line)
        return diagnosis.greeted(hello.frame, hello.error, hello.first, remote), hello.error
    answer = probe.ask_messages(line, _our_uuid(job.tls))
    return diagnosis.answered(answer.frame, answer.error, answer.first, remote, job.version), answer.error


def _our_uuid(tls: TLS | None) -> UUID:
    """A UUID that our certificate allows (T-72, T-72a)."""
    if tls is not None:
        papers = diagnosis.papers_of(x509.load_pem_x509_certificates(tls.cert.read_bytes())[0], str(tls.cert))
        if papers.uuids:
            return min(papers.uuids)
        if papers.prefixes:
            return derived_identity(min(papers.prefixes), token_hex(16))
    return uuid7()


def _status(endpoint: Endpoint, seconds: float) -> Iterator[Finding]:
    try:
        clock = read_clock(endpoint, seconds)
    except ValueError as error:
        yield fault("clock.status", where=endpoint, why=error)
        return
    yield diagnosis.clocks(endpoint, clock.theirs, clock.ours, clock.precision)
    for one in clock.status.parts("remotes"):
        if one.flag("refused"):
            yield fault("remotes.remote", where=endpoint, remote=one.text("remote"), why=one.text("error"))
