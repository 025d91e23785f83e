"""Kit of `tolliver conform --streams`, against our own peers, which hold in all that the kit asks of others."""

from __future__ import annotations

from typing import Any

import pytest
from tolliver._conform.cases import Result, chosen
from tolliver._conform.flow import Streams
from tolliver._conform.kit import Setup
from tolliver._conform.running import STREAMS, holds, run
from tolliver._options.streams import StreamsOptions

from tests.certificates import Certificates
from tests.ports import free_address
from tolliver_proto import reactive

from .streams_contract import ADAPTERS, streams_contract
from .test_conform import HOST, PATIENCE, kit_tls, refuted

SHORT = chosen(STREAMS, (), short=True)


def played(certs: Certificates, **where: Any) -> list[Result]:
    return [*run(SHORT, Setup(kit_tls(certs), reactive.ALPN, patience=PATIENCE, **where), Streams)]


def test_the_ids_of_the_cases_are_their_own() -> None:
    ids = [case.id for case in STREAMS]
    assert len({*ids}) == len(ids) > 100


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_our_peer_that_listens_holds(adapter: str, certs: Certificates) -> None:
    with streams_contract(adapter, StreamsOptions(listen=f"{HOST}:0", tls=certs.tls("peer"))) as port:
        results = played(certs, dial=(HOST, port))
    assert refuted(results) == []
    assert holds(results)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_our_peer_that_dials_holds(adapter: str, certs: Certificates) -> None:
    address = free_address()
    host, _, port = address.rpartition(":")
    with streams_contract(adapter, StreamsOptions(tls=certs.tls("peer")), [address]):
        results = played(certs, listen=(host, int(port)))
    assert refuted(results) == []
    assert holds(results)
