"""Half-open connections (V14): a stopped peer, a line that drops packets.

They are noticed, dialled again, and nothing is lost.

`python -m scripts.prove.hostile half-open KIND` does it with the figures that an application has by default.
"""

from __future__ import annotations

import os

import pytest

from tolliver_proto import Limits, Policy

from .kinds import EACH_ADAPTER
from .member import Member
from .nodes import Nodes, subscribed
from .scenarios import outage, seconds_until
from .silence import missing_filters, silence

SOON = {
    "policy": Policy(probe="message", probe_interval=0.1, probe_timeout=0.2),
    "limits": Limits(handshake_timeout=0.5, redial_first=0.02, redial_max=0.1),
}


@pytest.mark.skipif(os.name != "posix", reason="only POSIX can stop a process")
def test_a_peer_that_is_stopped_gets_everything_when_it_goes_on(nodes: Nodes, kind: str) -> None:
    """Its kernel goes on acknowledging, so only a probe (T-80) can tell."""
    member = Member(kind, nodes.directory / "member.db", nodes.certs.tls("member"))
    with member, nodes.open("left", **SOON) as left:
        left.new_connection(member.address)
        subscribed(left)
        seen = outage(left, member, member.stopped(), under_way=10, most=10.0)
        assert seen.lost == 0
        assert left.stats()["probes_unanswered"] >= 1


@EACH_ADAPTER
@pytest.mark.skipif(os.name != "posix", reason="only POSIX can stop a process")
def test_a_peer_that_is_stopped_is_noticed_by_somebody_who_goes_on_talking(nodes: Nodes, kind: str) -> None:
    member = Member(kind, nodes.directory / "member.db", nodes.certs.tls("member"))
    with member, nodes.open("left", **SOON) as left:
        left.new_connection(member.address)
        subscribed(left)

        def has_noticed() -> bool:
            return not left.unreliable_send("news", "", b"are you there?")

        with member.stopped():
            assert seconds_until(has_noticed, 10.0) < 10.0


@EACH_ADAPTER
@pytest.mark.skipif(bool(missing_filters()), reason=missing_filters() or "there are filters")
def test_a_line_that_drops_everything_is_noticed_and_loses_nothing(nodes: Nodes) -> None:
    with nodes.pair(left=SOON, right={"limits": Limits(close_timeout=0.1)}) as (left, right, inbox):
        subscribed(left)
        seen = outage(left, inbox, silence(right.port or 0), under_way=10, most=10.0)
        assert seen.lost == 0
        assert left.stats()["probes_unanswered"] >= 1
