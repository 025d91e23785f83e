"""Two pumps and the wire between them, in memory."""

from __future__ import annotations

import re
import ssl
from functools import lru_cache
from pathlib import Path

from tolliver._options.instance import TLS, Remote
from tolliver._tls.policy import client_context, server_context
from tolliver._tls.pump import AnyPump, Pump

from tolliver_proto import TolliverError

LOCALHOST = Remote("localhost")
VERSIONS = (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)
TLS13, TLS12 = VERSIONS


def with_version(tls: TLS, version: ssl.TLSVersion) -> TLS:
    return TLS(tls.cert, tls.key, tls.ca, tls12=version is TLS12, insecure_ca_only=tls.insecure_ca_only)


@lru_cache
def _client_context(tls: TLS, version: ssl.TLSVersion, check_hostname: bool) -> ssl.SSLContext:
    context = client_context(with_version(tls, version), check_hostname=check_hostname)
    context.maximum_version = version
    return context


@lru_cache
def _server_context(tls: TLS, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = server_context(with_version(tls, version))
    context.maximum_version = version
    return context


def client(tls: TLS, version: ssl.TLSVersion = TLS13, remote: Remote = LOCALHOST) -> Pump:
    return Pump.client(_client_context(tls, version, not remote.pinned), remote)


def server(tls: TLS, version: ssl.TLSVersion = TLS13) -> Pump:
    return Pump.server(_server_context(tls, version))


def client_without_certificate(ca: Path, version: ssl.TLSVersion) -> Pump:
    """No instance dials so, but anybody can."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    context.maximum_version = version
    return Pump.client(context, LOCALHOST)


def move(source: AnyPump, target: AnyPump) -> int:
    """Hand the outgoing bytes of one to the other."""
    data = source.outgoing()
    target.receive(data)
    return len(data)


def shake(dialler: AnyPump, listener: AnyPump) -> tuple[TolliverError | None, TolliverError | None]:
    """Runs the handshake until nothing moves, and says how it failed on each side."""
    errors: list[TolliverError | None] = [None, None]
    for _ in range(8):
        moved = 0
        for side, pump, other in ((0, dialler, listener), (1, listener, dialler)):
            try:
                if errors[side] is None:
                    pump.handshake()
            except TolliverError as error:
                errors[side] = error
            moved += move(pump, other)
        if not moved:
            break
    return errors[0], errors[1]


def connected(dialler: Pump, listener: Pump) -> tuple[Pump, Pump]:
    assert shake(dialler, listener) == (None, None)
    assert dialler.handshake()
    assert listener.handshake()
    return dialler, listener


def reason(error: BaseException | None) -> str | None:
    """OpenSSL's own word for what went wrong."""
    assert error is not None
    cause = error.__cause__
    assert isinstance(cause, ssl.SSLError)
    return cause.reason


def says(error: BaseException | None, kind: type[BaseException], pattern: str) -> bool:
    return type(error) is kind and re.search(pattern, str(error)) is not None


def read_all(pump: AnyPump) -> bytes:
    parts = []
    while (data := pump.read()) is not None:
        parts.append(data)
    return b"".join(parts)


def ends(pump: AnyPump) -> tuple[bool, bool]:
    """True if the peer has ended, in order, or abruptly."""
    return pump.peer_closed, pump.truncated


def records(ciphertext: bytes) -> list[tuple[int, int]]:
    """(type, length) of each TLS record: one byte type, two bytes version, two bytes length (RFC 8446, 5.1)."""
    found, at = [], 0
    while at < len(ciphertext):
        length = int.from_bytes(ciphertext[at + 3 : at + 5])
        found.append((ciphertext[at], length))
        at += 5 + length
    assert at == len(ciphertext)
    return found
