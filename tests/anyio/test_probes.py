"""Probes (T-80) and ages (D-8) on real connections."""

from __future__ import annotations

import pytest
from anyio.to_thread import run_sync

from tests.anyio.nodes import Nodes, connected, until
from tests.anyio.raw import RawPeer

pytestmark = pytest.mark.anyio

OFTEN = {"probe": "message", "probe_interval": 0.02, "probe_timeout": 5.0}


async def test_an_idle_connection_lives_and_answers(nodes: Nodes) -> None:
    async with nodes.pair(left=OFTEN, right={"probe": "ack", "probe_interval": 0.02}) as (left, right, inbox):
        await until(lambda: left.stats().get("probes", 0) >= 5 and right.stats().get("probes", 0) >= 5)
        assert right.stats()["unwanted"] >= 4
        for instance in (left, right):
            assert "probes_unanswered" not in instance.stats()
            assert "stray_acks" not in instance.stats()
        await left.wait_acked(await left.send("news", "k", b"x"))
        assert inbox.bodies == [b"x"]


async def test_a_peer_that_does_not_answer_is_cut_off(nodes: Nodes) -> None:
    async with nodes.open("right", **(OFTEN | {"probe_timeout": 0.2})) as right:
        tls, uuid = nodes.certs.tls("left"), nodes.certs.uuid("left")

        def says_nothing() -> bool:
            with RawPeer(right.port or 0, tls, uuid) as raw:
                raw.establish()
                raw.read_to_the_end()
                return True

        assert await run_sync(says_nothing)
        await until(lambda: right.stats()["connections"] == 0)
        assert right.stats()["probes_unanswered"] == 1


async def test_an_old_connection_makes_room_for_a_new_one(nodes: Nodes) -> None:
    async with nodes.pair(right={"max_connection_age": 0.2}) as (left, right, inbox):
        await until(lambda: right.stats().get("aged_out", 0) >= 2)
        await until(lambda: connected(left) and connected(right))
        await left.wait_acked(await left.send("news", "k", b"x"))
        assert b"x" in inbox.bodies
