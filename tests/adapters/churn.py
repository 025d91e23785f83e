"""Churn: connections that come and go in every way (D-12).

A visit ends where it likes: before TLS, in it, in the handshake, on a live connection; with a word, without one, or
with a reset. Nothing of them may stay: descriptors, threads, connections and memory are counted when all are gone.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Literal

from tests.certificates import Certificates

from .abuse import Attack, member, request_head
from .abuse_streams import streamer
from .facade import until
from .mallory import PATIENCE, Mallory
from .relay import reset
from .victim import Of, Usage, Victim

_WAYS = ("tcp", "a reset", "half of TLS", "TLS", "half a handshake", "live", "live, a reset", "live, a word")
Way = Literal["tcp", "a reset", "half of TLS", "TLS", "half a handshake", "live", "live, a reset", "live, a word"]


def churn(of: Of, certs: Certificates, victim: Victim, count: int) -> None:
    """So many visits; then what is there is what was there."""
    stay = victim.stats()["connections"]
    for number in range(count):
        _visit(_WAYS[number % len(_WAYS)], of, certs, victim)
    until(lambda: victim.stats()["connections"] == stay, "the end of all visits")


def left_behind(of: Of, certs: Certificates, victim: Victim, count: int) -> Usage:
    """Growth of usage over so many visits, when each kind of thing has been there once before."""
    churn(of, certs, victim, 2 * len(_WAYS))
    before = victim.usage()
    churn(of, certs, victim, count)
    until(lambda: victim.usage().descriptors <= before.descriptors, "the end of all descriptors")
    until(lambda: victim.usage().threads <= before.threads, "the end of all threads")
    after = victim.usage()
    return after.since(before)


def _visit(way: str, of: Of, certs: Certificates, victim: Victim) -> None:
    if way in ("tcp", "a reset", "half of TLS"):
        with socket.create_connection(("127.0.0.1", victim.port()), timeout=PATIENCE) as stream:
            if way == "half of TLS":
                stream.sendall(b"\x16\x03\x01\x02\x00\x01")
            if way == "a reset":
                reset(stream)
        return
    begun = way.startswith("live")
    connect = member if of == "messages" else streamer
    with connect(certs, victim, Attack(lambda *_: None, "", wish=() if begun else None)) as mallory:
        if way == "half a handshake":
            mallory.write(request_head(5)[:40] if of == "messages" else b"\x01\x00")
        elif way == "live, a word":
            mallory.say_end()
            mallory.is_shut()
        elif way == "live, a reset":
            _reset(mallory)


def _reset(mallory: Mallory) -> None:
    with suppress(OSError, ssl.SSLError):
        reset(mallory.socket)
