"""Foreign peer: the Go implementation of the drafts' era (V22).

It does on the wire what that implementation did, with its defects.

The one peer that this project did not write is also the one that is allowed to misread it, so nothing here comes from
`tolliver_proto`: `struct`, `ssl`, blocking sockets and one thread per connection, which is also how it waits, blocks
and dies. Its mistakes are data, a frozen set of `Defect`, and `PRESETS` has the sets of the commits of that era. A
panic of the Go process is `panic`: every socket of the double is torn down, as a dead process's is.

It dials and it listens. As a server it asks for no certificate (G16), so our dialling side shows its own to nobody. As
a client it shows its own when it is asked, as Go's TLS does (its options required one), so our listener, which insists
on a certificate of our CA (D-1), takes one made by `go_identity`; `identity=None` is a client that has none to show.

Loops that are endless in Go (G3, G14) turn here once per `_TICK` and end with the double.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import socket
import ssl
import struct
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, NoReturn, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.certificates import Certificates

VERSION = 1
RESERVED = "tolliver"
GO_UNRELIABLE = 2**32 - 1  # G18
DRAFT_UNRELIABLE = 2**31 - 1
_BUFFER = 4096  # bytes that Go's bufio.Reader asks the connection for, which answers with one record's at most
_MEMORY = 2**30  # bytes that the double says it has (G19)
_ENTRY = 32  # bytes of a subscription in Go's memory
_TICK = 0.02  # seconds


class Defect(StrEnum):
    """Each by its number in the table of defects; the last three are what the rulings say of the era besides."""

    LIST_THROWN_AWAY = "G1"
    RECORD_LOST = "G2"
    SPINS_ON_READ_ERROR = "G3"
    DUPLICATE_PEER = "G4"
    GOES_ON_AFTER_STATUS_2 = "G5"
    NEVER_CLOSES = "G6"
    CONTROL_KILLS = "G7"
    RETRY_PANICS = "G8"
    RETRY_UNFRAMED = "G9"
    OFFLINE_RECIPIENT = "G10"
    CONTROL_BY_TABLE = "G11"
    BAD_CONTROL_STAYS = "G12"
    REQUEST_STAYS = "G13"
    SPINS_ON_WRITE_ERROR = "G14"
    ACCEPTS_INLINE = "G15"
    VERIFIES_NOBODY = "G16"
    KEEPS_ROWS = "G17"
    UNRELIABLE_ID = "G18"
    ALLOCATES_BY_COUNT = "G19"
    ACK_ID_UNREAD = "G20"
    CALLBACKS_SKIPPED = "G21"
    NO_HOST_NAME = "G22"
    DUPLICATE_UNREAD = "G4, earlier"
    EXACT_MATCH = "T-24"
    ACKS_ALWAYS = "T-45"


_COMMITS = ("23c0228", "a9b5f00", "1860a51", "8c6629e", "32e5170", "65012aa", "ceecfc9", "499b76d")  # by date
_FIRST, _LAST = _COMMITS[0], _COMMITS[-1]

RANGES: dict[Defect, tuple[str, str]] = {
    Defect.LIST_THROWN_AWAY: ("23c0228", "499b76d"),
    Defect.RECORD_LOST: (_FIRST, _LAST),
    Defect.SPINS_ON_READ_ERROR: (_FIRST, _LAST),
    Defect.DUPLICATE_PEER: ("ceecfc9", _LAST),
    Defect.GOES_ON_AFTER_STATUS_2: (_FIRST, "499b76d"),
    Defect.NEVER_CLOSES: (_FIRST, _LAST),
    Defect.CONTROL_KILLS: ("32e5170", "499b76d"),
    Defect.RETRY_PANICS: ("65012aa", "499b76d"),
    Defect.RETRY_UNFRAMED: ("65012aa", "499b76d"),
    Defect.OFFLINE_RECIPIENT: ("32e5170", _LAST),
    Defect.CONTROL_BY_TABLE: ("8c6629e", "499b76d"),
    Defect.BAD_CONTROL_STAYS: (_FIRST, _LAST),
    Defect.REQUEST_STAYS: (_FIRST, _LAST),
    Defect.SPINS_ON_WRITE_ERROR: (_FIRST, _LAST),
    Defect.ACCEPTS_INLINE: (_FIRST, _LAST),
    Defect.VERIFIES_NOBODY: ("a9b5f00", _LAST),
    Defect.KEEPS_ROWS: ("1860a51", _LAST),
    Defect.UNRELIABLE_ID: ("a9b5f00", _LAST),
    Defect.ALLOCATES_BY_COUNT: (_FIRST, _LAST),
    Defect.ACK_ID_UNREAD: ("a9b5f00", "a9b5f00"),
    Defect.CALLBACKS_SKIPPED: ("499b76d", "499b76d"),
    Defect.NO_HOST_NAME: (_FIRST, _LAST),
    Defect.DUPLICATE_UNREAD: ("a9b5f00", "65012aa"),
    Defect.EXACT_MATCH: ("a9b5f00", "1860a51"),
    Defect.ACKS_ALWAYS: ("a9b5f00", "ceecfc9"),
}
"""The first and the last commit that has it."""


def _at(commit: str) -> frozenset[Defect]:
    when = _COMMITS.index
    return frozenset(d for d, (first, last) in RANGES.items() if when(first) <= when(commit) <= when(last))


PRESETS: dict[str, frozenset[Defect]] = {commit: _at(commit) for commit in _COMMITS[1:]}
"""From the first commit that has messages."""

FLAWLESS: frozenset[Defect] = frozenset()


class Panicked(Exception):
    """The Go process has died of it."""


class HandshakeFailed(Exception):
    """An error that Go's `NewConnection` returns, and its acceptor swallows."""


class _Stopped(Exception):
    """The double is being closed."""


# Certificates.


@dataclass(frozen=True)
class Identity:
    """Two PEM files, and the SHA-256 of the key (SPKI) that a `Remote` may pin."""

    cert: Path
    key: Path
    ca: Path
    spki_sha256: bytes


def go_identity(certs: Certificates, name: str, defects: frozenset[Defect] = PRESETS["499b76d"]) -> Identity:
    """A member of our test CA as Go's were: without a UUID and, by G22, without any host name. Valid, unlike those."""
    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    ca = x509.load_pem_x509_certificate(certs.ca.read_bytes())
    ca_key = serialization.load_pem_private_key(certs.ca.with_suffix(".key").read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    if Defect.NO_HOST_NAME not in defects:
        hosts = [x509.IPAddress(IPv4Address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    made = Identity(
        certs.directory / f"{name}.pem",
        certs.directory / f"{name}.key",
        certs.ca,
        hashlib.sha256(
            key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        ).digest(),
    )
    made.cert.write_bytes(builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


def _context(protocol: int, identity: Identity | None, *, verifies: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
    if identity is not None:
        context.load_cert_chain(identity.cert, identity.key)
        context.load_verify_locations(identity.ca)
    return context


# Bytes.


class Conn:
    """One TLS connection, as Go's `tls.Conn`: `read` gives bytes of one record, and never of two.

    An SSLObject between two BIOs, because one thread reads while others write, which an SSLSocket does not allow.
    """

    def __init__(self, raw: socket.socket, context: ssl.SSLContext, *, server: bool) -> None:
        self.records: list[bytes] = []  # the bytes of each read
        self.peer_certificate: bytes | None = None
        self.ended = False  # the other side is heard to have closed
        self.spins = 0  # G3
        self._socket = raw
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # Go's default
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._using = threading.Lock()
        self._writing = threading.Lock()

    def shake(self) -> None:
        """The TLS handshake. Raises EOFError."""
        self._drive(self._tls.do_handshake)
        self.peer_certificate = self._tls.getpeercert(binary_form=True)

    def read(self) -> bytes:
        """Raises EOFError at the end, whichever it is, again and again."""
        data: bytes = self._drive(lambda: self._tls.read(_BUFFER))
        if not data:
            self.ended = True
            raise EOFError
        self.records.append(data)
        return data

    def write(self, data: bytes) -> None:
        """One record, up to 16 KiB. Raises OSError."""
        with self._writing:
            with self._using:
                self._tls.write(data)
                ciphertext = self._outgoing.read()
            self._socket.sendall(ciphertext)

    def close(self) -> None:
        _close(self._socket)

    def _drive(self, step: Callable[[], Any]) -> Any:
        """Feed it until the step is done."""
        while True:
            try:
                return self._try(step)
            except ssl.SSLWantReadError:
                self._receive()
            except ssl.SSLError as error:
                self.ended = True
                raise EOFError(str(error)) from error

    def _try(self, step: Callable[[], Any]) -> Any:
        """Bytes that the step makes are written; a read makes none, and waits for no write."""
        made = 0
        try:
            with self._using:
                try:
                    return step()
                finally:
                    made = self._outgoing.pending
        finally:
            if made:
                with self._writing, suppress(OSError):  # the end of reading tells more
                    with self._using:
                        ciphertext = self._outgoing.read()
                    self._socket.sendall(ciphertext)

    def _receive(self) -> None:
        data = b""
        with suppress(OSError):
            data = self._socket.recv(65536)
        with self._using:
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()


def _close(one: socket.socket) -> None:
    """At once, whoever waits in it."""
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


class Reader:
    """Go's `bufio.Reader`: what came with a record and was not asked for yet is in here, and lost with it (G2)."""

    def __init__(self, conn: Conn) -> None:
        self._conn = conn
        self._buffer = bytearray()

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._buffer += self._conn.read()
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))

    def byte(self) -> int:
        return self.take(1)[0]

    def text(self, size: int) -> str:
        return _text(self.take(size))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # Go compares bytes; so does this


def _names(channel: str, key: str) -> tuple[bytes, bytes]:
    return channel.encode("utf-8", "surrogateescape"), key.encode("utf-8", "surrogateescape")


def entry(channel: str, key: str) -> bytes:
    """A subscription in a handshake, and behind the code of a control body."""
    chan, k = _names(channel, key)
    return struct.pack(">II", len(chan), len(k)) + chan + k


def request(version: int, who: uuid.UUID, subscriptions: Iterable[tuple[str, str]] = ()) -> bytes:
    entries = [entry(*one) for one in subscriptions]
    return struct.pack(">BQ16sI", 0, version, who.bytes, len(entries)) + b"".join(entries)


def response(version: int, who: uuid.UUID, status: int, subscriptions: Iterable[tuple[str, str]] = ()) -> bytes:
    entries = [entry(*one) for one in subscriptions]
    return struct.pack(">BQ16sBI", 1, version, who.bytes, status, len(entries)) + b"".join(entries)


def final(code: int) -> bytes:
    return bytes((2, code))


def regular(channel: str, key: str, body: bytes, message_id: int) -> bytes:
    chan, k = _names(channel, key)
    return struct.pack(">BIIII", 3, len(chan), len(k), len(body), message_id) + chan + k + body


def control(code: int, channel: str, key: str, message_id: int) -> bytes:
    return regular(RESERVED, "", bytes([code]) + entry(channel, key), message_id)


def ack(message_id: int) -> bytes:
    return struct.pack(">BI", 4, message_id)


class Forms:
    """The bytes of the drafts' era: draft 2's."""

    older, newer = 2, 3  # statuses of a response where the other side's version is
    compatible, failure = 1, 2  # finals
    unreliable_id: int | None = None  # as the defects say

    def request(self, who: uuid.UUID, subscriptions: Iterable[tuple[str, str]]) -> bytes:
        return request(VERSION, who, subscriptions)

    def response(self, who: uuid.UUID, status: int, subscriptions: Iterable[tuple[str, str]]) -> bytes:
        return response(VERSION, who, status, subscriptions)

    def regular(self, channel: str, key: str, body: bytes, message_id: int) -> bytes:
        return regular(channel, key, body, message_id)

    def ack(self, message_id: int) -> bytes:
        return ack(message_id)

    def refusal(self, message_id: int) -> bytes:
        """Nothing: to refuse is to be silent."""
        return b""

    def control_body(self, code: int, subscriptions: Sequence[tuple[str, str]]) -> bytes:
        return bytes([code]) + entry(*subscriptions[0])

    def read_count(self, reader: Reader) -> int:
        return int(reader.unpack("I")[0])

    def read_entry(self, reader: Reader) -> tuple[str, str]:
        channel, key = reader.unpack("II")
        return reader.text(channel), reader.text(key)

    def read_ack(self, reader: Reader) -> tuple[bool, int]:
        """True if it was handled, and the id."""
        return True, int(reader.unpack("I")[0])

    def read_message(self, reader: Reader) -> tuple[str, str, int, int]:
        """Channel, key, size of the body that follows, id."""
        channel, key, size, message_id = reader.unpack("IIII")
        return reader.text(channel), reader.text(key), size, message_id


class Forms2026(Forms):
    """The bytes of today's: 64 bits for every length and count, each before its part, acks with a status."""

    older, newer = 3, 4
    compatible, failure = 0, 2
    unreliable_id = 0

    def request(self, who: uuid.UUID, subscriptions: Iterable[tuple[str, str]]) -> bytes:
        return struct.pack(">BQ16s", 0, VERSION, who.bytes) + self._list(subscriptions)

    def response(self, who: uuid.UUID, status: int, subscriptions: Iterable[tuple[str, str]]) -> bytes:
        return struct.pack(">BQ16sB", 1, VERSION, who.bytes, status) + self._list(subscriptions)

    def regular(self, channel: str, key: str, body: bytes, message_id: int) -> bytes:
        return struct.pack(">BQ", 3, message_id) + self._parts(*_names(channel, key), body)

    def ack(self, message_id: int) -> bytes:
        return struct.pack(">BBQ", 4, 0, message_id)

    def refusal(self, message_id: int) -> bytes:
        return struct.pack(">BBQ", 4, 1, message_id)

    def control_body(self, code: int, subscriptions: Sequence[tuple[str, str]]) -> bytes:
        return bytes([code]) + self._list(subscriptions)

    def read_count(self, reader: Reader) -> int:
        return int(reader.unpack("Q")[0])

    def read_entry(self, reader: Reader) -> tuple[str, str]:
        return self._text(reader), self._text(reader)

    def read_ack(self, reader: Reader) -> tuple[bool, int]:
        status, message_id = reader.unpack("BQ")
        return status == 0, message_id

    def read_message(self, reader: Reader) -> tuple[str, str, int, int]:
        message_id, channel, key = reader.unpack("Q")[0], self._text(reader), self._text(reader)
        return channel, key, reader.unpack("Q")[0], message_id

    def split_control(self, body: bytes) -> tuple[int, list[tuple[str, str]]] | None:
        """The code and the entries of a body, where they are all of it."""
        code, count = struct.unpack_from(">BQ", body)
        names, at = list[str](), 9
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">Q", body, at)
            names.append(_text(body[at + 8 : at + 8 + size]))
            at += 8 + size
        return (code, list(zip(names[::2], names[1::2], strict=True))) if at == len(body) else None

    @staticmethod
    def _parts(*parts: bytes) -> bytes:
        return b"".join(struct.pack(">Q", len(part)) + part for part in parts)

    def _list(self, subscriptions: Iterable[tuple[str, str]]) -> bytes:
        entries = [self._parts(*_names(*one)) for one in subscriptions]
        return struct.pack(">Q", len(entries)) + b"".join(entries)

    @staticmethod
    def _text(reader: Reader) -> str:
        return reader.text(reader.unpack("Q")[0])


TODAY: frozenset[Defect] = frozenset(
    (
        Defect.RECORD_LOST,
        Defect.SPINS_ON_READ_ERROR,
        Defect.DUPLICATE_PEER,
        Defect.NEVER_CLOSES,
        Defect.OFFLINE_RECIPIENT,
        Defect.SPINS_ON_WRITE_ERROR,
        Defect.ACCEPTS_INLINE,
        Defect.VERIFIES_NOBODY,
        Defect.ALLOCATES_BY_COUNT,
        Defect.NO_HOST_NAME,
    )
)
"""Of the Go program of 2026, to be used with `Forms2026`."""


# The peer.

Callback = Callable[[bytes], bool]


@dataclass(frozen=True)
class Received:
    channel: str
    key: str
    body: bytes
    message_id: int


@dataclass
class _Row:
    channel: str
    key: str
    body: bytes
    waiting: set[uuid.UUID] = field(default_factory=set)


class GoPeer:
    """Use it as a context manager. `listen()` and `dial(port)`, then Go's calls; what it saw is in the lists.

    - `defects`: which it has; a preset, or any set.
    - `identity`: its certificate, or None for a client without one.
    - `subscriptions`: the list that its handshakes carry. `table`: who subscribes to what, from an earlier run.
    - `forms`: its bytes, the drafts' era's if none are given.
    """

    def __init__(
        self,
        defects: frozenset[Defect],
        identity: Identity | None,
        *,
        instance_id: uuid.UUID | None = None,
        subscriptions: Iterable[tuple[str, str]] = (),
        table: Iterable[tuple[str, str, uuid.UUID]] = (),
        forms: Forms | None = None,
    ) -> None:
        self.defects = defects
        self.forms = forms or Forms()
        self.instance_id = instance_id or uuid.uuid4()
        self.subscriptions = list(subscriptions)
        self.table = list(table)
        self.connections: dict[uuid.UUID, Conn] = {}
        self.conns: list[Conn] = []  # every one that ever was
        self.rows: dict[int, _Row] = {}
        self.messages: list[Received] = []
        self.controls: list[tuple[int, str, str]] = []
        self.acks: list[int] = []
        self.acked: list[int] = []  # acked by itself
        self.stray = bytearray()  # bytes that were skipped: there is one only where the stream is out of step
        self.malformed = 0  # control bodies
        self.write_spins = 0  # G14
        self.panic: str | None = None
        self._callbacks: list[tuple[str, str, Callback]] = []
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listeners: list[socket.socket] = []
        self._identity = identity
        self._verifies = Defect.VERIFIES_NOBODY not in defects

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._tear_down()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive(), f"{thread.name} of the double did not end"

    # Go's calls.

    def listen(self, port: int = 0) -> int:
        """Returns the port."""
        server = socket.create_server(("127.0.0.1", port))
        server.settimeout(_TICK)
        self._listeners.append(server)
        self._start("accept", lambda: self._accept_all(server))
        bound: int = server.getsockname()[1]
        return bound

    def restore(self, last_id: int, rows: Iterable[tuple[int, str, str, bytes]], peer: uuid.UUID) -> None:
        """From its database: the counter, and messages for that peer that nobody has acknowledged."""
        self._ids = itertools.count(last_id + 1)
        self.rows = {message_id: _Row(channel, key, body, {peer}) for message_id, channel, key, body in rows}

    def dial(self, port: int) -> uuid.UUID:
        """Returns whom it reached. Raises HandshakeFailed, Panicked."""
        raw = socket.create_connection(("127.0.0.1", port))
        conn = self._new_conn(raw, server=False)
        reader = Reader(conn)
        try:
            conn.shake()
            conn.write(self.forms.request(self.instance_id, self.subscriptions))
            peer, wants = self._read_response(conn, reader)
        except (EOFError, OSError) as error:
            raise HandshakeFailed(str(error)) from error
        self._acquire()
        if peer in self.connections and Defect.DUPLICATE_PEER in self.defects:
            self._panic("this instance already has a connection to the requested remote address")
        self._register(conn, reader, peer, wants)
        self._lock.release()
        return peer

    def subscribe(self, channel: str, key: str = "") -> None:
        self.subscriptions.append((channel, key))
        self._send(RESERVED, "", self.forms.control_body(0, [(channel, key)]), reliable=True)

    def unsubscribe(self, channel: str, key: str = "") -> None:
        with suppress(ValueError):
            self.subscriptions.remove((channel, key))
        self._send(RESERVED, "", self.forms.control_body(1, [(channel, key)]), reliable=True)

    def subscribe_all(self, *wanted: tuple[str, str]) -> int:
        """In one message, which only `Forms2026` has. Returns its id."""
        self.subscriptions += wanted
        return self._send(RESERVED, "", self.forms.control_body(0, wanted), reliable=True)

    def register(self, channel: str, key: str, callback: Callback) -> None:
        self._callbacks.append((channel, key, callback))

    def send(self, channel: str, key: str, body: bytes) -> int:
        """Returns the id."""
        return self._send(channel, key, body, reliable=True)

    def unreliable_send(self, channel: str, key: str, body: bytes) -> int:
        return self._send(channel, key, body, reliable=False)

    def retry(self) -> None:
        """The work of Go's timer; the double has none, as up to 65012aa nothing was resent and then it panicked."""
        if Defect.RETRY_PANICS in self.defects:
            self._panic("row value misused")
        for message_id, row in list(self.rows.items()):
            for peer in row.waiting & self.connections.keys():
                frame = self.forms.regular(row.channel, row.key, row.body, message_id)
                self._write(self.connections[peer], row.body if Defect.RETRY_UNFRAMED in self.defects else frame)

    # Handshakes.

    def _accept_all(self, server: socket.socket) -> None:
        while not self._stopped.is_set():
            try:
                raw, _ = server.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            raw.settimeout(None)
            conn = self._new_conn(raw, server=True)
            if Defect.ACCEPTS_INLINE in self.defects:
                self._accept(conn)
            else:
                self._start("handshake", lambda conn=conn: self._accept(conn))  # type: ignore[misc]  # a default binds it

    def _accept(self, conn: Conn) -> None:
        reader = Reader(conn)
        try:
            conn.shake()
            peer, wants = self._read_request(conn, reader)
        except (EOFError, OSError, HandshakeFailed):
            self._drop(conn)
            return
        self._acquire()
        if peer in self.connections and Defect.DUPLICATE_PEER in self.defects:
            return  # with the lock held
        self._register(conn, reader, peer, wants)
        self._lock.release()

    def _read_request(self, conn: Conn, reader: Reader) -> tuple[uuid.UUID, list[tuple[str, str]]]:
        if reader.byte() != 0:
            raise HandshakeFailed("unexpected message code")
        version, who = reader.unpack("Q16s")
        wants = self._read_list(reader)
        forms = self.forms
        status = 0 if version == VERSION else forms.older if version < VERSION else forms.newer
        conn.write(forms.response(self.instance_id, status, self.subscriptions))
        if status == forms.newer and reader.unpack("BB") != (2, forms.compatible):
            raise HandshakeFailed("incompatible version")
        if status == forms.older and Defect.GOES_ON_AFTER_STATUS_2 not in self.defects:
            raise HandshakeFailed("incompatible version")
        return uuid.UUID(bytes=who), wants

    def _read_response(self, conn: Conn, reader: Reader) -> tuple[uuid.UUID, list[tuple[str, str]]]:
        """It looks at the status alone."""
        if reader.byte() != 1:
            self._drop(conn)
            raise HandshakeFailed("unexpected message code")
        _version, who, status = reader.unpack("Q16sB")
        wants = self._read_list(reader)
        if status == self.forms.newer:
            conn.write(final(self.forms.failure))
        if status not in (0, self.forms.older - 1):
            self._drop(conn)
            raise HandshakeFailed(f"status {status}")
        return uuid.UUID(bytes=who), wants

    def _read_list(self, reader: Reader) -> list[tuple[str, str]]:
        count = self.forms.read_count(reader)
        if count * _ENTRY > _MEMORY:
            if Defect.ALLOCATES_BY_COUNT in self.defects:
                self._panic(f"out of memory: {count * _ENTRY:,} bytes for {count:,} subscriptions")
            raise HandshakeFailed("too many subscriptions")
        return [self.forms.read_entry(reader) for _ in range(count)]

    def _register(self, conn: Conn, reader: Reader, peer: uuid.UUID, wants: list[tuple[str, str]]) -> None:
        if peer in self.connections and Defect.DUPLICATE_UNREAD in self.defects:
            return
        if Defect.LIST_THROWN_AWAY not in self.defects:
            self.table += [(*one, peer) for one in wants]
        self.connections[peer] = conn
        reader = Reader(conn) if Defect.RECORD_LOST in self.defects else reader
        self._start("read", lambda: self._read_all(conn, reader, peer))

    def _drop(self, conn: Conn) -> None:
        if Defect.NEVER_CLOSES not in self.defects:
            conn.close()

    # An established connection.

    def _read_all(self, conn: Conn, reader: Reader, peer: uuid.UUID) -> None:
        while True:
            try:
                self._read_one(conn, reader, peer)
            except EOFError:
                if Defect.SPINS_ON_READ_ERROR not in self.defects:
                    self._forget(conn)
                    return
                conn.spins += 1
                self._pause()

    def _read_one(self, conn: Conn, reader: Reader, peer: uuid.UUID) -> None:
        code = reader.byte()
        if code == 3:
            self._read_message(conn, reader, peer)
        elif code == 4 and Defect.ACK_ID_UNREAD not in self.defects:
            handled, message_id = self.forms.read_ack(reader)
            if handled:
                self._acked(peer, message_id)
        elif code == 0 and Defect.REQUEST_STAYS not in self.defects:
            self._read_again(conn, reader)
        elif code != 4:
            self.stray.append(code)

    def _read_again(self, conn: Conn, reader: Reader) -> None:
        reader.unpack("Q16s")
        self._read_list(reader)
        self._write(conn, self.forms.response(self.instance_id, 0, self.subscriptions))

    def _read_message(self, conn: Conn, reader: Reader, peer: uuid.UUID) -> None:
        channel, key, size, message_id = self.forms.read_message(reader)
        handled = True
        if channel == RESERVED:
            self._read_control(reader, peer, size)
        else:
            body = reader.take(size)
            self._acquire()
            try:
                self.messages.append(Received(channel, key, body, message_id))
                handled = self._call(channel, key, body) or Defect.ACKS_ALWAYS in self.defects
            finally:
                self._lock.release()
        if handled and message_id != self.unreliable_id:
            self.acked.append(message_id)
            self._write(conn, self.forms.ack(message_id))
        elif not handled:
            self._write(conn, self.forms.refusal(message_id))

    def _call(self, channel: str, key: str, body: bytes) -> bool:
        handled = True
        for *wanted, callback in self._callbacks:
            if self._matches(wanted, channel, key) and (handled or Defect.CALLBACKS_SKIPPED not in self.defects):
                handled = callback(body) and handled
        return handled

    def _read_control(self, reader: Reader, peer: uuid.UUID, size: int) -> None:
        if isinstance(self.forms, Forms2026):
            read = self.forms.split_control(reader.take(size))
            self.malformed += read is None
            for channel, key in read[1] if read is not None else ():
                self._take_control(read[0] if read is not None else 0, channel, key, peer)
            return
        head = reader.take(9 if Defect.BAD_CONTROL_STAYS in self.defects else min(size, 9))
        code, chan, k = struct.unpack(">BII", head.ljust(9))
        if code not in (0, 1) or (chan + k + 9) % 2**32 != size:
            self.malformed += 1
            if Defect.BAD_CONTROL_STAYS not in self.defects:
                reader.take(size - len(head))
            return
        names = reader.take(chan + k)
        self._take_control(code, _text(names[:chan]), _text(names[chan:]), peer)

    def _take_control(self, code: int, channel: str, key: str, peer: uuid.UUID) -> None:
        self.controls.append((code, channel, key))
        if Defect.CONTROL_KILLS in self.defects:
            self._panic("no such column" if code == 0 else 'near ")": syntax error')
        if code == 0:
            self.table.append((channel, key, peer))
        elif (channel, key, peer) in self.table:
            self.table.remove((channel, key, peer))

    def _acked(self, peer: uuid.UUID, message_id: int) -> None:
        self.acks.append(message_id)
        row = self.rows.get(message_id)
        if row is None:
            return
        row.waiting.discard(peer)
        if not row.waiting and Defect.KEEPS_ROWS not in self.defects:
            del self.rows[message_id]

    # Sending.

    @property
    def unreliable_id(self) -> int:
        if self.forms.unreliable_id is not None:
            return self.forms.unreliable_id
        return GO_UNRELIABLE if Defect.UNRELIABLE_ID in self.defects else DRAFT_UNRELIABLE

    def _send(self, channel: str, key: str, body: bytes, *, reliable: bool) -> int:
        recipients = self._recipients(channel, key)
        message_id = self.unreliable_id
        if reliable:  # the counter moves for subscriptions, and where nobody is to have it
            message_id = next(self._ids)
            if recipients or Defect.KEEPS_ROWS in self.defects:
                self.rows[message_id] = _Row(channel, key, body, set(recipients))
        for peer in recipients:
            conn = self.connections.get(peer)
            if conn is not None:
                self._write(conn, self.forms.regular(channel, key, body, message_id))
            elif Defect.OFFLINE_RECIPIENT in self.defects:
                self._panic("invalid memory address or nil pointer dereference")
        return message_id

    def _recipients(self, channel: str, key: str) -> list[uuid.UUID]:
        if channel == RESERVED and Defect.CONTROL_BY_TABLE not in self.defects:
            return list(self.connections)
        return list(dict.fromkeys(peer for *wanted, peer in self.table if self._matches(wanted, channel, key)))

    def _matches(self, wanted: Any, channel: str, key: str) -> bool:
        if Defect.EXACT_MATCH in self.defects:
            return list(wanted) == [channel, key]
        return wanted[0] in ("", channel) and wanted[1] in ("", key)

    def _write(self, conn: Conn, data: bytes) -> None:
        while True:
            try:
                conn.write(data)
            except OSError:
                if Defect.SPINS_ON_WRITE_ERROR not in self.defects:
                    self._forget(conn)
                    return
                self.write_spins += 1
                self._pause()
            else:
                return

    # Its life.

    def _new_conn(self, raw: socket.socket, *, server: bool) -> Conn:
        protocol = ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT
        conn = Conn(raw, _context(protocol, self._identity, verifies=self._verifies), server=server)
        self.conns.append(conn)
        if self._stopped.is_set():
            conn.close()
        return conn

    def _forget(self, conn: Conn) -> None:
        for peer in [peer for peer, one in self.connections.items() if one is conn]:
            del self.connections[peer]
        conn.close()

    def _acquire(self) -> None:
        while not self._lock.acquire(timeout=_TICK):
            self._pause(0)

    def _pause(self, seconds: float = _TICK) -> None:
        if self._stopped.wait(seconds):
            raise _Stopped

    def _start(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            with suppress(Panicked, _Stopped):
                work()

        thread = threading.Thread(target=run, name=f"gopeer {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _panic(self, text: str) -> NoReturn:
        self.panic = text
        self._tear_down()
        raise Panicked(text)

    def _tear_down(self) -> None:
        self._stopped.set()
        for listener in self._listeners:
            _close(listener)
        for conn in self.conns:
            conn.close()
