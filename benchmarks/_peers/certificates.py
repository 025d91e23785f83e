"""Certificates of the measured processes, and TLS of those that are not ours."""

from __future__ import annotations

import ssl
from pathlib import Path

from tolliver.certs import make_ca, make_certificate

from benchmarks._peers.measuring import Setting

NAMES = ("there", "here", "flooder", "publisher", "subscriber")


def make(directory: Path) -> None:
    make_ca(directory)
    for name in NAMES:
        make_certificate(directory, name)


def server_context(setting: Setting) -> ssl.SSLContext:
    return _context(ssl.PROTOCOL_TLS_SERVER, setting, "there")


def client_context(setting: Setting, name: str = "here") -> ssl.SSLContext:
    return _context(ssl.PROTOCOL_TLS_CLIENT, setting, name)


def _context(protocol: int, setting: Setting, name: str) -> ssl.SSLContext:
    files = Path(setting.certificates)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(files / "ca.pem")
    context.load_cert_chain(files / f"{name}.pem", files / f"{name}.key")
    return context
