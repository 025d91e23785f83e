"""Hub, call by call: dials that fail, and why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reactive.wires import IDENTITY, NO_FAILURES, Wires, downs
from tolliver_proto import ConnectionLost
from tolliver_proto.node import DialCause
from tolliver_proto.reactive import CertificateExpires, DialFailure, Goodbye, OnNext, Role, ServerHello, encode

REFUSED = ConnectionLost("connection refused", DialCause.REFUSED)


def failure(actions: list[Any]) -> DialFailure | None:
    (down,) = downs(actions)
    assert down.remote == "there"
    return down.failure


def test_a_dial_that_fails_says_why_and_is_counted() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", wires.now)
    wires.hub.lost(cid, REFUSED, wires.now)
    assert failure(wires.actions()) == DialFailure(DialCause.REFUSED, "connection refused")
    stats = wires.hub.stats()
    assert (stats.dials, stats.dials_failed[DialCause.REFUSED], stats["dials_failed_refused"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (b"HTTP/1.1 400 Bad Request", DialCause.HTTP),
        (bytes((21, 3, 3, 0, 2, 2, 70)), DialCause.NEEDS_TLS),
        (b"SSH-2.0-x", DialCause.PROTOCOL),
        (encode(OnNext(1, b"x")), DialCause.PROTOCOL),
        (encode(Goodbye("no")), DialCause.VERSION),
        (encode(ServerHello(version=5)), DialCause.VERSION),
        (b"", DialCause.CLOSED),
        (encode(ServerHello())[:1], DialCause.CLOSED),
    ],
)
def test_what_answers_is_known_by_its_first_bytes(said: bytes, cause: DialCause) -> None:
    """Those of this protocol are no cause."""
    wires = Wires()
    cid = wires.link()
    wires.hub.receive_data(cid, said, wires.now)
    wires.hub.receive_eof(cid, wires.now)
    found = failure(wires.actions())
    assert found is not None
    assert found.cause is cause


def test_streams_where_tls_was_dialled_are_no_tls() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", wires.now)
    wires.hub.lost(cid, ConnectionLost("no TLS", DialCause.STREAMS), wires.now)
    assert failure(wires.actions()) == DialFailure(DialCause.NOT_TLS, "no TLS")


def test_silence_is_no_answer() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", wires.now)
    assert str(wires.hub.why_not_up(cid)) == "nobody answers: no connection stands yet"
    wires.hub.opened(cid, Role.CLIENT, IDENTITY, wires.now)
    assert str(wires.hub.why_not_up(cid)) == (
        "nobody answers: it is connected, and has said no hello: is it a port of streams?"
    )
    found = failure(wires.wait(wires.hub.limits.handshake_timeout))
    assert found is not None
    assert found.cause is DialCause.NO_ANSWER


@pytest.mark.parametrize("stands", [False, True])
def test_a_dial_that_is_given_up_says_what_was_missing(stands: bool) -> None:
    wires = Wires()
    cid = wires.link() if stands else wires.hub.connect("there", wires.now)
    wires.said(cid) if stands else wires.actions()
    wires.hub.give_up(cid, wires.now)
    found = failure(wires.actions())
    assert found is not None
    assert found.cause is DialCause.NO_ANSWER
    assert found.detail.startswith("given up: ")
    wires.hub.give_up(cid, wires.now)
    assert downs(wires.actions()) == []
    assert wires.hub.stats().dials_failed[DialCause.NO_ANSWER] == 1


def test_a_peer_that_was_up_is_no_dial_that_failed() -> None:
    wires = Wires()
    cid = wires.up()
    assert wires.hub.why_not_up(cid) is None
    wires.hub.give_up(cid, wires.now)
    (down,) = downs(wires.feed(cid, Goodbye()))
    assert (down.failure, down.reason) == (None, "given up")
    assert wires.hub.stats().dials_failed == NO_FAILURES


def test_the_end_of_our_certificate_is_told_at_the_start_and_daily() -> None:
    wires, day = Wires(), 86400.0
    wires.hub.watch_certificate(31.5 * day, "a.pem", wires.now)
    assert [wires.wait(0.0), wires.wait(day)] == [[], []]
    text = "our certificate a.pem ends in {} days: make a new one with the same UUID, and open the streams again"
    assert [wires.wait(day), wires.wait(day)] == [
        [CertificateExpires(left * day, text.format(left), None)] for left in (29.5, 28.5)
    ]
    wires.hub.watch_certificate(day, "b.pem", wires.now, has_uuid=False)
    [told] = wires.wait(0.0)
    assert told == CertificateExpires(
        day, "our certificate b.pem ends in 1.0 days: make a new one, and open the streams again", None
    )
