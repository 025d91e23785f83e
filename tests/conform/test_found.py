"""All cases of the kit against our own peers, and the kit's finding of planted faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tolliver._conform.cases import Case, Place, Verdict, chosen
from tolliver._conform.flow import Streams
from tolliver._conform.kit import Setup
from tolliver._conform.running import MESSAGES, STREAMS, run
from tolliver._conform.talk import Messages
from tolliver._options.streams import StreamsOptions
from tolliver._tls.policy import ALPN

from tests.certificates import Certificates
from tests.ports import free_address
from tolliver_proto import reactive

from .fault import Fault, Role
from .faults import FAULTS, faulty
from .streams_contract import ADAPTERS, streams_contract
from .test_conform import HOST, dialling, kit_tls, listening, played, refuted, setup_of

PATIENCE = 8.0  # seconds: most faults show as silence, and one that is not found is looked for again
REFUSING = [case for case in MESSAGES if case.place is not Place.USUAL]
SLOW = ("REL-15", "REL-16", "REL-17", "SND-05", "SND-12", "SND-13", "HS-31", "HS-32", "HL-28", "FR-27")

pytestmark = pytest.mark.thorough


def usual() -> list[Case[Messages]]:
    return [case for case in MESSAGES if case.place is Place.USUAL]


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("judge", [listening, dialling], ids=["listens", "dials"])
def test_our_peer_holds_in_every_case(
    adapter: str, judge: Any, tmp_path: Path, certs: Certificates, record_property: Any
) -> None:
    results = judge(adapter, tmp_path, certs, usual())
    record_property("cases of the kit", sum(result.verdict is not Verdict.SKIPPED for result in results))
    assert refuted(results) == []


@pytest.mark.parametrize("case", REFUSING, ids=lambda case: case.id)
def test_our_peer_holds_where_it_is_refused(case: Case[Messages], tmp_path: Path, certs: Certificates) -> None:
    """Each with a peer of its own, as one that was refused dials no more for minutes."""
    [result] = dialling("asyncio", tmp_path, certs, [case])
    assert (result.verdict, result.seen) == (Verdict.PASSED, "")


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_our_streams_hold_in_every_case(adapter: str, certs: Certificates, record_property: Any) -> None:
    with streams_contract(adapter, StreamsOptions(listen=f"{HOST}:0", tls=certs.tls("peer"))) as port:
        results = played(STREAMS, setup_of(certs, streams=True, dial=(HOST, port)), streams=True)
    record_property("cases of the kit", sum(result.verdict is not Verdict.SKIPPED for result in results))
    assert refuted(results) == []


def ends_of(role: Role) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """The peer's own address, that at which the kit listens, and the peer's options."""
    if role == "listen":
        return f"{HOST}:0", {}, ()
    address = free_address()
    where = {"listen": (HOST, int(address.rpartition(":")[2]))}
    return (address, where, ()) if role == "dial" else (f"{HOST}:0", where, ("--remote", address))


def failing(fault: Fault, role: Role, certs: Certificates) -> str | None:
    """The first case of the fault's ruling that fails; the quick ones come first. A case that refuses the peer has one
    of its own, as in `test_our_peer_holds_where_it_is_refused`.
    """
    certs.tls("peer")
    cases: list[Case[Any]] = [*(STREAMS if fault.protocol == "streams" else MESSAGES)]
    cases = [case for case in chosen(cases, (), short=False) if fault.ruling in case.rulings]
    cases.sort(key=lambda case: (case.place, case.id in SLOW, not case.short))
    together = [case for case in cases if case.place < Place.REFUSES]
    groups = [together, *([case] for case in cases if case.place >= Place.REFUSES)]
    return next((case for group in groups if group and (case := failing_of(group, fault, role, certs))), None)


def failing_of(cases: Sequence[Case[Any]], fault: Fault, role: Role, certs: Certificates) -> str | None:
    streams = fault.protocol == "streams"
    address, where, options = ends_of(role)
    with faulty(fault, role, address, certs.directory, "peer", *options) as said:
        if role != "dial":
            where["dial"] = HOST, int(said.rpartition(":")[2])
        setup = Setup(kit_tls(certs), reactive.ALPN if streams else ALPN, patience=PATIENCE, grace=20.0, **where)
        results = run(cases, setup, Streams if streams else Messages)
        return next((result.id for result in results if result.verdict is Verdict.FAILED), None)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found(fault: Fault, certs: Certificates, record_property: Any) -> None:
    record_property("faults of a peer", 1)
    found = next((case for role in fault.roles if (case := failing(fault, role, certs))), None)
    record_property("faults found", found is not None)
    assert found is not None, fault.wrong
