"""Symptoms that are told: silence of a connected peer, a certificate that ends; and how a log names a peer."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.certificates import Certificates
from tolliver_proto import NoticeKind, Policy
from tolliver_proto.node import CertificateExpires

from .facade import until
from .kinds import EACH_ADAPTER
from .nodes import Nodes, address, noticed, subscribed
from .streams import Stage


@EACH_ADAPTER
def test_a_peer_whose_handler_hangs_is_told_and_named(
    nodes: Nodes, certs: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tolliver")
    gate = nodes.gate()
    with nodes.open("right") as right, nodes.open("left", policy=Policy(unacknowledged_after=0.05)) as left:
        right.subscribe("news", handler=lambda _delivery: gate)
        left.new_connection(address(right))
        subscribed(left)
        receipt = left.send("news", "k", b"x")
        until(lambda: noticed(left, NoticeKind.UNACKNOWLEDGED))
        (detail,) = noticed(left, NoticeKind.UNACKNOWLEDGED)
        assert "acknowledged none of 1 messages" in detail
        assert "on 'news' 'k'" in detail
        gate.open()
        left.wait_acked(receipt)
        whom = f"peer {certs.uuid('right')} at {address(right)} right"
        said = [record.getMessage() for record in caplog.records]
        assert f"unacknowledged: {detail} [{whom}]" in said
        assert f"{whom} is up, version 1" in said


@EACH_ADAPTER
def test_a_certificate_that_ends_soon_is_told_at_the_start(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("right") as right, nodes.open("left", tls=certs.tls("anonymous")) as left:
        until(lambda: noticed(left, NoticeKind.CERTIFICATE_ENDS))
        (detail,) = noticed(left, NoticeKind.CERTIFICATE_ENDS)
        assert detail.startswith(f"our certificate {certs.tls('anonymous').cert} ends in ")
        assert "UUID" not in detail
        assert noticed(right, NoticeKind.CERTIFICATE_ENDS) == []


@EACH_ADAPTER
def test_the_end_of_a_certificate_is_an_event_for_both_ends_of_a_connection(nodes: Nodes, certs: Certificates) -> None:
    seen: dict[str, list[Any]] = {"left": [], "right": []}
    with (
        nodes.open("right", on_event=seen["right"].append) as right,
        nodes.open("left", tls=certs.tls("anonymous"), on_event=seen["left"].append) as left,
    ):
        left.new_connection(address(right))
        for side, peer in (("left", None), ("right", left.instance_id)):
            until(lambda side=side: ends(seen[side]), f"the event on the {side}")  # type: ignore[misc]
            (event,) = ends(seen[side])
            assert event.peer == peer
            assert 0 < event.seconds_left < 30 * 86400
        (detail,) = noticed(right, NoticeKind.CERTIFICATE_ENDS)
        assert detail == ends(seen["right"])[0].text
        assert detail.startswith("the certificate of ")
        assert detail.endswith(": it needs a new one"), "its certificate has no UUID"


def ends(events: list[Any]) -> list[CertificateExpires]:
    return [event for event in events if isinstance(event, CertificateExpires)]


@EACH_ADAPTER
def test_streams_tell_the_end_of_their_certificate(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "tolliver")
    told: list[Any] = []
    stage.open(tls="anonymous", on_event=told.append)
    until(lambda: ends(told), "the event")
    (event,) = ends(told)
    assert event.text.startswith(f"our certificate {stage.certs.tls('anonymous').cert} ends in ")
    assert (event.peer, event.seconds_left > 0) == (None, True)
    assert event.text in [record.getMessage() for record in caplog.records]


@EACH_ADAPTER
def test_a_timer_of_months_is_no_fault(nodes: Nodes) -> None:
    with nodes.pair(left={"policy": Policy(max_connection_age=1e7)}) as (left, _right, inbox):
        left.wait_acked(left.send("news", "k", b"x"))
        assert inbox.bodies == [b"x"]
