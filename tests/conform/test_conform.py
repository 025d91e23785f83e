"""Kit of `tolliver conform`, against our own peers: each must hold in what the kit asks of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tolliver._conform.cases import Case, Result, Verdict, chosen
from tolliver._conform.flow import Streams
from tolliver._conform.kit import Setup
from tolliver._conform.running import MESSAGES, holds, run
from tolliver._conform.talk import Messages
from tolliver._options.instance import InstanceOptions
from tolliver._options.tls import TLS
from tolliver._tls.policy import ALPN
from tolliver.certs import make_anonymous_certificate

from tests.certificates import Certificates
from tests.ports import free_address
from tolliver_proto import reactive

from .contract import contract
from .streams_contract import ADAPTERS

HOST = "127.0.0.1"
PATIENCE = 30.0  # seconds: the machine may have other work
WHERE_IT_DIALS = ("HL", "REL-0", "SUB-0")
"""Short cases that need few dials: each costs a pause."""


def kit_tls(certs: Certificates) -> TLS:
    """The kit's certificate has no UUID; the directory has the CA's key."""
    made = TLS(certs.directory / "kit.pem", certs.directory / "kit.key", certs.ca)
    return made if made.cert.exists() else make_anonymous_certificate(certs.directory, "kit")


def played(cases: Sequence[Case[Any]], setup: Setup, *, streams: bool = False) -> list[Result]:
    return [*run(cases, setup, Streams if streams else Messages)]


def refuted(results: Sequence[Result]) -> list[str]:
    """Failures of any level, in words."""
    return [
        f"{result.id} {result.role}: expected {result.expected}, saw {result.seen}"
        for result in results
        if result.verdict is Verdict.FAILED
    ]


def setup_of(certs: Certificates, *, streams: bool = False, **where: Any) -> Setup:
    return Setup(kit_tls(certs), reactive.ALPN if streams else ALPN, patience=PATIENCE, **where)


def listening(adapter: str, tmp_path: Path, certs: Certificates, cases: Sequence[Case[Any]]) -> list[Result]:
    options = InstanceOptions(database=tmp_path / "peer.db", listen=f"{HOST}:0", tls=certs.tls("peer"))
    with contract(adapter, options) as port:
        return played(cases, setup_of(certs, dial=(HOST, port)))


def dialling(adapter: str, tmp_path: Path, certs: Certificates, cases: Sequence[Case[Any]]) -> list[Result]:
    address = free_address()
    host, _, port = address.rpartition(":")
    options = InstanceOptions(database=tmp_path / "peer.db", remotes=[address], tls=certs.tls("peer"))
    with contract(adapter, options):
        return played(cases, setup_of(certs, listen=(host, int(port))))


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_our_peer_that_listens_holds(adapter: str, tmp_path: Path, certs: Certificates) -> None:
    results = listening(adapter, tmp_path, certs, chosen(MESSAGES, (), short=True))
    assert refuted(results) == []
    assert holds(results)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_our_peer_that_dials_holds(adapter: str, tmp_path: Path, certs: Certificates) -> None:
    results = dialling(adapter, tmp_path, certs, chosen(MESSAGES, WHERE_IT_DIALS, short=True))
    assert refuted(results) == []
    assert holds(results)
