"""Probes (T-80) and ages (D-8) on real connections."""

from __future__ import annotations

from dataclasses import replace

from tests.raw import RawPeer
from tolliver_proto import Policy

from .facade import until
from .kinds import ONE_KIND
from .nodes import Nodes, connected

OFTEN = {"policy": Policy(probe="message", probe_interval=0.02, probe_timeout=5.0)}


@ONE_KIND
def test_an_idle_connection_lives_and_answers(nodes: Nodes) -> None:
    with nodes.pair(left=OFTEN, right={"policy": Policy(probe="ack", probe_interval=0.02)}) as (left, right, inbox):
        until(lambda: left.stats().get("probes", 0) >= 5 and right.stats().get("probes", 0) >= 5)
        assert right.stats()["unwanted"] >= 4
        for instance in (left, right):
            assert instance.stats()["probes_unanswered"] == 0
            assert instance.stats()["stray_acks"] == 0
        left.wait_acked(left.send("news", "k", b"x"))
        assert inbox.bodies == [b"x"]


def test_a_peer_that_does_not_answer_is_cut_off(nodes: Nodes) -> None:
    with nodes.open("right", policy=replace(OFTEN["policy"], probe_timeout=0.2)) as right:
        tls, uuid = nodes.certs.tls("left"), nodes.certs.uuid("left")

        def says_nothing() -> bool:
            with RawPeer(right.port or 0, tls, uuid) as raw:
                raw.establish()
                raw.read_to_the_end()
                return True

        assert says_nothing()
        until(lambda: right.stats()["connections"] == 0)
        assert right.stats()["probes_unanswered"] == 1


@ONE_KIND
def test_an_old_connection_makes_room_for_a_new_one(nodes: Nodes) -> None:
    with nodes.pair(right={"policy": Policy(max_connection_age=0.2)}) as (left, right, inbox):
        until(lambda: right.stats().get("aged_out", 0) >= 2)
        until(lambda: connected(left) and connected(right))
        left.wait_acked(left.send("news", "k", b"x"))
        assert b"x" in inbox.bodies
