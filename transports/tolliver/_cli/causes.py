"""Table of all that can be wrong with a set-up, with advice.

Each row has a cause, under the name of a check, with a variant after a dot; its grade; the text; and after `>` the
advice. Cause words never change, as scripts use them. `diagnosis` decides from the facts which row applies; `status`
and `top` use the table for an endpoint that cannot be reached.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from enum import StrEnum


class Grade(StrEnum):
    """Grade of a check, with which its line begins."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"

    @property
    def status(self) -> int:
        """Exit status if this is the worst grade."""
        return [*Grade].index(self)


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    grade: Grade
    text: str
    cause: str | None = None
    """Cause word; None if the check passed."""
    remedy: str = ""


_TABLE = """
files
unreadable FAIL: {path} cannot be read: {why}
  > correct the path, or its permissions for this user; `tolliver certs` makes such files
unusable FAIL: {path}: {why}
  > make new ones with `tolliver certs`
too_open warn: {path} has mode {mode:04o}: others on this machine may have it
  > chmod 600 {path}

certificate
key FAIL: {why}
  > give the files that `tolliver certs` made together, unchanged
unusable FAIL: {why}
  > give the files that `tolliver certs` made together, unchanged
ours_expired FAIL: {whose} has expired, {ago} ago
  > make a new one with the same UUID, `tolliver certs DIR NAME --uuid {uuid}`, or set the clock of this machine, if it
    is not {now} now
ours_expires warn: {whose} expires in {left}
  > make a new one with the same UUID, `tolliver certs DIR NAME --uuid {uuid}`, and have the
    instance read it again (SIGHUP)
ours_refused FAIL: {why}
  > give the ca.pem of the CA that signed it, or make a new certificate with `tolliver certs`

certificate peer
clock FAIL: {whose} is not valid before {begins}, and the clock here says {now}
  > set the clock of this machine, or that of the one that made the certificate, and make a new one there
clock.uuid warn: the UUID in {whose} was made at {made}, and the clock here says {now}
  > one of the clocks is wrong, that of this machine or that of the one that made the certificate: set it

database
no_database FAIL: {path} is not there, and cannot be made there
  > correct the path, or make its directory, which this user must be able to write in
in_use warn: {path} is in use by {user}
  > that is well if it is this instance, running; else stop it, or give each instance a database of its own (T-79)

disk
disk_low FAIL: the disk of {directory} has {free} left
  > free some; new messages are refused until there is more, and what peers acknowledge is removed (D-13)

python
python FAIL: {python}
  > activate the environment that has tolliver, or set PYSPARK_PYTHON to its Python

name
name FAIL: the name {host} is not found: {why}
  > correct the name, or enter it in the DNS or in /etc/hosts; or give an address in its place
name.resolver FAIL: nobody says which address {host} has: the resolver does not answer
  > look after the name servers of this machine (/etc/resolv.conf), or give an address in place of the name

tcp
refused FAIL: nobody listens at {where}
  > start the instance there, or correct the port; an instance that listens on 127.0.0.1 is reached from its own machine
    alone: its option listen is to be 0.0.0.0:PORT
refused.itself FAIL: nobody listens at {where}: the connection met itself
  > start the instance there
no_answer FAIL: {where} does not answer within {seconds:g} s: something drops the packets, or the machine is off
  > let the port through the firewalls on the way, and at a cloud through its security groups; see whether the machine
    runs and whether the address is still its own
closed FAIL: {where} takes the connection and resets it at once
  > something else answers in place of the instance: a load balancer with nobody behind it, a firewall that rejects, a
    forwarded port of a container that is down; look at what is on the way
unreachable FAIL: there is no way to {where}: {why}
  > look at the routes and the network of this machine (`ip route get ADDRESS`), and at firewalls that reject
unreachable.files FAIL: no file is left to open: {why}
  > raise `ulimit -n`

tls
http FAIL: {remote} speaks HTTP
  > correct the port: this may be a status endpoint, or a web server, and instances listen on 7011 by default
not_tls FAIL: {remote} speaks plain TCP, no TLS; it says {said!r}
  > correct the port; if an instance is there, give it certificates in place of its option plaintext
not_tls.closes FAIL: {remote} closes the connection at the first bytes of TLS, as plain TCP of something else does, or
    an instance with the option plaintext
  > correct the port; if an instance is there, give it certificates in place of its option plaintext. Its log may say
    more: too_many_handshakes, protocol_error
not_tls.streams FAIL: {remote} speaks streams, and without TLS
  > give it certificates in place of its option plaintext, or the port of messages
silent FAIL: {remote} takes the connection and does not answer in TLS: it is plain TCP of something else, or a process
    that hangs
  > correct the port; if it is the right one, see what its process waits for (py-spy dump), and start it again
silent.later warn: {version} with {remote}, which neither refuses our certificate nor ends the connection
  > a peer that hangs does so; see what its process waits for
protocol FAIL: {remote} speaks TLS, and neither messages nor streams: it refuses both by ALPN
  > correct the port: this is another service, such as a web server
ours_refused FAIL: {why}
  > the log of {remote} has the notice certificate_refused, which says more; both sides need certificates of the same
    CA, and clocks that agree
tls FAIL: {why}
  > both sides need TLS 1.3, or the option tls.tls12; its log may say more
tls.later FAIL: {why}
  > try again; if it stays so, the log of the other end may say why
no_certificate warn: {version} is there at {remote}; without certificates of ours nothing was checked but what it shows
  > give --certs DIR --name NAME, or --cert, --key-file and --ca

peer
other_ca FAIL: {whose} is of another CA, {issuer!r}
  > is it the right port? Else both sides need certificates of the same private CA: give each the same ca.pem
theirs_expired FAIL: {whose} has expired, {ago} ago
  > make a new one for it, `tolliver certs DIR NAME --uuid {uuid}`, and have it read again there
    (SIGHUP); or set the clock of this machine, if it is not {now} now
theirs_expires warn: {whose} expires in {left}
  > make a new one for it, `tolliver certs DIR NAME --uuid {uuid}`
theirs_refused FAIL: we refuse the certificate of {remote}: {why}
  > make a new one for it with `tolliver certs`: it must serve as serverAuth and clientAuth
uuid FAIL: the peer at {remote} is {papers}, and not {remote.identity}
  > correct the address, or give the UUID of the instance that runs there
host_name FAIL: the certificate of {remote} is for {names}, and not for {remote.host}
  > dial it by a name in its certificate, or by its UUID: UUID@HOST:PORT, here --uuid; or make it one with --host

protocol
messages FAIL: {remote} is a port of messages ({alpn}), where streams were meant
  > dial the port of its streams, 7012 by default; without --streams this one is examined
streams FAIL: {remote} is a port of streams ({alpn}), where messages were meant
  > dial the port of its messages, 7011 by default; with --streams this one is examined
no_alpn warn: {remote} does not say by ALPN whether it speaks {what}
  > another implementation may be there, or another service under the same CA: --handshake asks it

handshake
uuid FAIL: the peer at {remote} says that it is {uuid}, and not {remote.identity}
  > correct the address, or give the UUID of the instance that runs there
version FAIL: {uuid} at {remote} announces version {theirs} of the protocol, and this side version {ours}
  > give both the same option version, or let the one of version {higher} speak {lower}, too, by its option speaks
    (T-60); if ours has version {theirs}, say --protocol-version {theirs} here
version.there FAIL: {remote}: {why}
  > run versions of tolliver that have the same
closed FAIL: {remote}: {why}
  > its notices say why: access_denied (its access rules keep this instance out), identity_mismatch (another key had
    this UUID first), protocol_error or handshake_timeout (another layout may be spoken there)
silent FAIL: {remote}: {why}
  > see what its process waits for; or another layout is spoken there, which waits for more: both sides need the same
    revision
http FAIL: {remote}: {why}
  > correct the port: this is a web server or a status endpoint
needs_tls FAIL: {remote}: {why}
  > give certificates in place of --plaintext
streams FAIL: {remote}: {why}
  > dial the port of its messages; with --streams this one is examined
layout FAIL: {remote}: {why}
  > its frames have another layout: both sides need the same revision of the protocol
ours_refused FAIL: {remote}: {why}
  > its log has the notice certificate_refused, which says more
protocol FAIL: {remote}: {why}
  > correct the port: this is another service, or another implementation, which answers otherwise

clock
clock warn: that of {where} is {apart} {way} ours: {theirs}, and here {ours}
  > let both machines set their clocks by NTP (`timedatectl`): certificates and expiries depend on them
status warn: {where} does not answer with a time: {why}
  > give the address of its status endpoint: the option status of that instance has it

remotes
remote FAIL: the instance at {where} is not connected to {remote:.100}: {why:.300}
  > run `tolliver doctor {remote:.100}` with the files of that instance, and mend what is told; the remote is dialled
    every 1 to 5 minutes, and at once after a reload (SIGHUP)
"""


def _rows() -> dict[str, tuple[Grade, str, str]]:
    rows: dict[str, tuple[Grade, str, str]] = {}
    for part in _TABLE.strip().split("\n\n"):
        checks, *lines = re.split(r"\n(?=\S)", part)
        for line in lines:
            said, remedy = (" ".join(half.split()) for half in line.split("\n  > "))
            head, text = said.split(": ", 1)
            cause, grade = head.split()
            rows |= {f"{check}.{cause}": (Grade(grade), text, remedy) for check in checks.split()}
    return rows


ROWS = _rows()
CAUSES = frozenset(name.split(".")[1] for name in ROWS)


def ok(check: str, text: str) -> Finding:
    """Makes the finding of a check that passed, with this text."""
    return Finding(check, Grade.OK, text)


def fault(name: str, grade: Grade | None = None, /, **facts: object) -> Finding:
    """Makes the finding of a failed check: the row `name` of the table, with these facts in its text and advice;
    `grade`, if given, replaces the row's own.
    """
    (usual, text, remedy), (check, cause, *_) = ROWS[name], name.split(".")
    return Finding(check, grade or usual, text.format(**facts), cause, remedy.format(**facts))


def no_name(host: str, error: OSError) -> Finding:
    """Makes the finding of a host name that has no address; `error` is the resolver's."""
    if isinstance(error, TimeoutError):
        return fault("name.name.resolver", host=host)
    return fault("name.name", host=host, why=strerror(error))


_WAYS: tuple[tuple[str, tuple[type[OSError], ...], tuple[int, ...]], ...] = (
    ("tcp.refused", (ConnectionRefusedError,), ()),
    ("tcp.no_answer", (TimeoutError,), (errno.ETIMEDOUT,)),
    ("tcp.closed", (ConnectionResetError, ConnectionAbortedError), ()),
    ("tcp.unreachable.files", (), (errno.EMFILE, errno.ENFILE)),
    ("tcp.unreachable", (OSError,), ()),
)


def unreached(where: object, error: OSError, seconds: float, grade: Grade = Grade.FAIL) -> Finding:
    """Makes the finding of a TCP connection to `where` that failed with `error` after `seconds`."""
    name = next(name for name, kinds, numbers in _WAYS if isinstance(error, kinds) or error.errno in numbers)
    return fault(name, grade, where=where, seconds=seconds, why=strerror(error))


def strerror(error: OSError) -> str:
    """The system's text for the error."""
    return error.strerror or str(error)
