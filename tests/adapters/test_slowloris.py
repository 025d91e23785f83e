"""Strangers that connect and say nothing: closed in time (V13, D-7).

`python -m scripts.prove.hostile slowloris KIND` does it with two thousand.
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tolliver._tls.policy import client_context

from tolliver_proto import HandshakeRequest, Limits, NoticeKind, Revision, encode
from tolliver_proto import reactive as rs

from .facade import until
from .kinds import EVERY_LOOP
from .nodes import Nodes, address, connected, noticed
from .scenarios import siege, siege_of_streams
from .strangers import Slow, Stranger, Watch, missing_sources, source
from .streams import Stage

pytestmark = pytest.mark.skipif(bool(missing_sources()), reason=missing_sources() or "there are many addresses")

AT_ONCE = 2.0  # seconds, where the limit is 10
LIMIT = 2.0  # seconds for a handshake: whoever had to wait for the strangers would wait that long
SOON = 1.5
LATE = 8.0  # seconds, where the limit would be 10 by itself: a loaded machine has its time


def all_shut(watch: Watch, strangers: list[Stranger]) -> bool:
    watch.look()
    return all(one.shut is not None for one in strangers)


def test_strangers_hold_up_nobody_and_are_closed_at_the_limit(nodes: Nodes) -> None:
    """120 of 8 addresses: within both bounds, so that all of them are let in."""
    limits = Limits(handshake_timeout=LIMIT, close_timeout=0.2)
    seen = siege(nodes, 60, 60, 8, limits)
    assert seen.joined < SOON
    assert len(seen.silent) == len(seen.only_tls) == 60
    for shut in (seen.silent, seen.only_tls):
        assert min(shut) > SOON
        assert max(shut) < LATE


@pytest.mark.parametrize("shakes", [False, True])
def test_an_address_with_too_many_is_refused_at_once_and_another_is_not(nodes: Nodes, shakes: bool) -> None:
    context = client_context(nodes.certs.tls("mallory")) if shakes else None
    with nodes.open("right") as right, nodes.open("left") as left, Watch() as watch:
        strangers = [watch.add(Stranger(right.port or 0, source(0), context)) for _ in range(20)]
        held, refused = strangers[:16], strangers[16:]
        until(lambda: all_shut(watch, refused))
        assert [one.shut for one in held] == [None] * 16
        assert all((one.shut or 0.0) < AT_ONCE for one in refused)
        left.new_connection(address(right))
        assert right.stats()["refused_handshakes"] == 4
        [told] = noticed(right, NoticeKind.TOO_MANY_HANDSHAKES)
        assert f"from {source(0)}" in told


def test_when_all_places_are_taken_a_good_peer_waits_for_the_limit_at_most(nodes: Nodes) -> None:
    """The bound in all holds against any number of addresses, and holds up good peers too, until it has passed."""
    limits = Limits(handshake_timeout=0.5, close_timeout=0.1, max_handshakes=8, max_handshakes_per_address=4)
    again = Limits(redial_first=0.05, redial_max=0.1)
    with nodes.open("right", limits=limits) as right, nodes.open("left", limits=again) as left, Watch() as watch:
        strangers = [watch.add(Stranger(right.port or 0, source(number % 4))) for number in range(12)]
        left.new_connection(address(right))
        watch.look(AT_ONCE)
        assert all(one.shut is not None for one in strangers)
        assert "in all" in noticed(right, NoticeKind.TOO_MANY_HANDSHAKES)[0]
        until(lambda: right.stats()["connections"] == 1)
        assert connected(left) == 1


@EVERY_LOOP
def test_a_client_hello_has_two_seconds_and_the_rest_of_tls_its_own_time(nodes: Nodes, stage: Stage) -> None:
    """D-7, in both protocols. The patient ones come first, and are served when the others have been closed."""
    context = client_context(nodes.certs.tls("mallory"))
    request = encode(HandshakeRequest(1, nodes.certs.uuid("mallory"), ()), Revision.DRAFT_2)
    greetings = (request, rs.encode(rs.ClientHello(0, ())))
    with nodes.open("right") as right, Watch() as watch, ExitStack() as closing:
        ports = [port for port in (right.port, stage.open(tls="right").port) if port is not None]
        patient = [Slow(port, source(0), context) for port in ports]
        for one in patient:
            closing.callback(one.close)
        for one in patient:
            one.drip(100)
            one.drip()
        drippers = [Slow(port, source(1), context) for port in ports]
        for stranger in (*drippers, *(Stranger(port, source(2)) for port in ports)):
            watch.add(stranger)
        for _ in range(int(LATE / 0.1)):
            for one in drippers:
                one.drip(1)
            watch.look(0.1)
        assert all(SOON < (one.shut or LATE) < LATE for one in drippers)
        assert [bool(one.finish(first)) for one, first in zip(patient, greetings, strict=True)] == [True, True]
        assert right.stats()["handshakes_timed_out"] == 2


def test_streams_are_held_up_by_nobody_either(stage: Stage) -> None:
    """R-25: who says no hello is a stranger, with TLS or without."""
    limits = rs.Limits(handshake_timeout=LIMIT, close_timeout=0.2)
    seen = siege_of_streams(stage, 30, 30, 8, limits)
    assert seen.joined < SOON
    for shut in (seen.silent, seen.only_tls):
        assert len(shut) == 30
        assert min(shut) > SOON
        assert max(shut) < LATE
