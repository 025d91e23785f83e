"""Kit of `tolliver conform`, against our own peers: each must hold in what the kit asks of others."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tolliver._conform.cases import Case, Result, Verdict, chosen
from tolliver._conform.flow import Streams
from tolliver._conform.kit import Setup
from tolliver._conform.running import MESSAGES, STREAMS, holds, run
from tolliver._conform.talk import Messages
from tolliver._options.instance import InstanceOptions
from tolliver._options.tls import TLS
from tolliver._tls.policy import ALPN
from tolliver.certs import make_anonymous_certificate

from scripts.pages import DEFINED, HOMES
from tests.certificates import Certificates
from tests.cli.commands import tolliver
from tests.interop.test_js import NODE, Process
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
    made = TLS(certs.directory / "playing.pem", certs.directory / "playing.key", certs.ca)
    return made if made.cert.exists() else make_anonymous_certificate(certs.directory, "playing")


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


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("dials", [True, False], ids=["dials", "listens"])
def test_the_peer_in_javascript_holds(dials: bool, tmp_path: Path, certs: Certificates) -> None:
    certs.tls("jay")
    address = free_address()
    where: dict[str, Any] = {"listen" if dials else "dial": (HOST, int(address.rpartition(":")[2]))}
    who = ("--certs", certs.directory, "--name", "jay", "--database", tmp_path / "jay.outbox")
    cases = chosen(MESSAGES, WHERE_IT_DIALS if dials else (), short=True)
    script = Process(tmp_path, "conform", "--connect" if dials else "--listen", address, *who)
    with script.process:
        try:
            assert dials or script.port()
            results = played(cases, setup_of(certs, **where))
        finally:
            script.process.kill()
    assert refuted(results) == []
    assert holds(results)


def test_the_command_says_what_was_seen_and_writes_it_for_a_build_server(tmp_path: Path, certs: Certificates) -> None:
    kit_tls(certs)
    told = (
        "--certs",
        certs.directory,
        "--name",
        "playing",
        "--only",
        "HS-01,HL-01",
        "--junit",
        tmp_path / "junit.xml",
    )
    options = InstanceOptions(database=tmp_path / "peer.db", listen=f"{HOST}:0", tls=certs.tls("peer"))
    with contract("threads", options) as port:
        done = tolliver("conform", f"{HOST}:{port}", *told)
    assert done.exit_code == 0, done.stdout
    assert "1 passed, 0 failed, 1 skipped" in done.stdout
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [case.attrib["name"][:6] for case in suite.iter("testcase")] == ["HS-01 ", "HL-01 "]
    assert len([*suite.iter("skipped")]) == 1


def test_a_certificate_with_a_uuid_is_no_certificate_of_the_kit(certs: Certificates) -> None:
    """With it each handshake would be refused, and the peer under test be blamed."""
    certs.tls("named")
    done = tolliver("conform", free_address(), "--certs", certs.directory, "--name", "named", "--only", "HS-01")
    assert done.exit_code == 1
    assert "--no-uuid" in done.stderr


def test_a_peer_that_never_answers_fails(tmp_path: Path) -> None:
    """With what was expected, and what was seen."""
    told = ("--plaintext", "--only", "HS-01", "--patience", "0.2", "--junit", tmp_path / "junit.xml")
    with socket.create_server((HOST, 0)) as server:
        done = tolliver("conform", f"{HOST}:{server.getsockname()[1]}", *told)
    assert done.exit_code == 1
    assert re.search(r"expected: a response\n +saw: +nothing", done.stdout)
    [failure] = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("failure")
    assert (failure.attrib["message"], failure.text) == ("expected a response", "saw nothing")


def test_cases_are_listed_and_an_unknown_one_is_refused() -> None:
    listed = tolliver("conform", "--list", "--json")
    assert len(listed.stdout.splitlines()) == len(MESSAGES)
    refused = tolliver("conform", f"{HOST}:1", "--plaintext", "--only", "NO-01")
    assert (refused.exit_code, "no case is called NO-01" in refused.stderr) == (1, True)


def test_each_case_has_an_id_of_its_own_and_rulings_that_are_explained() -> None:
    every: list[Case[Any]] = [*MESSAGES, *STREAMS]
    assert len({case.id for case in every}) == len(every) > 300
    homes = [Path(__file__).parents[2] / "docs" / page for page in {*HOMES.values()}]
    explained = {ruling for page in homes for ruling in DEFINED.findall(page.read_text("utf-8"))}
    named = {ruling for case in every for ruling in case.rulings if re.fullmatch(r"[A-Z]-\d+\w?", ruling)}
    assert named <= explained
