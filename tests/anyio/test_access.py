"""Access rules between real instances: at the start, changed while they run, and the bound on handshakes."""

from __future__ import annotations

import socket

import pytest

from tests.anyio.nodes import Nodes, address, connected, error_of, noticed, until
from tests.certificates import Certificates
from tolliver_proto import AccessDenied, Acl, Limits, NoticeKind, Rights

pytestmark = pytest.mark.anyio


async def test_rules_hold_from_the_start_and_change_at_once(nodes: Nodes, certs: Certificates) -> None:
    rules = Acl(peers={certs.uuid("right"): Rights(subscribe=(("news", "*"),))})
    async with nodes.pair(["news", "secret"], left={"acl": rules}) as (left, right, inbox):
        assert (await left.send("secret", "k", b"x")).recipients == 0
        await left.send("news", "k", b"1")
        await inbox.holds(1)
        left.set_acl(Acl())
        await until(lambda: any(len(peer.subscriptions) == 2 for peer in left.peers()))
        await left.send("secret", "k", b"2")
        await inbox.holds(2)
        right.set_acl(Acl(peers={certs.uuid("left"): Rights(publish=())}))
        await until(lambda: connected(left) == connected(right) == 0)
        await until(lambda: connected(left) == connected(right) == 1)
        await left.wait_acked(await left.send("news", "k", b"3"))
        assert inbox.bodies == [b"1", b"2"]
        assert right.stats()["refused_messages"] == 1


async def test_who_is_kept_out_cannot_connect_and_is_not_dialled(nodes: Nodes, certs: Certificates) -> None:
    nobody = Acl(default=Rights.none())
    async with nodes.open("left") as left, nodes.open("right", acl=nobody) as right:
        with pytest.raises(TimeoutError):
            await left.new_connection(address(right), timeout=0.2)
        assert str(certs.uuid("left")) in noticed(right, NoticeKind.ACCESS_DENIED)[0]
        assert isinstance(await error_of(right, address(left)), AccessDenied)
        right.set_acl(Acl())
        assert await left.new_connection(address(right)) == certs.uuid("right")


async def test_a_blocked_peer_stays_away(nodes: Nodes, certs: Certificates) -> None:
    async with nodes.open("left") as left, nodes.open("right") as right:
        await left.new_connection(address(right))
        await left.remove_connection(address(right), block=True)
        with pytest.raises(TimeoutError):
            await right.new_connection(address(left), timeout=0.2)
        await left.new_connection(address(right))
        assert await right.new_connection(address(left)) == certs.uuid("left")


async def test_one_connection_too_many_is_closed_at_once(nodes: Nodes) -> None:
    """D-7."""
    limits = Limits(max_handshakes_per_address=2)
    async with nodes.open("right", limits=limits) as right:
        there = ("127.0.0.1", right.port)
        with socket.create_connection(there), socket.create_connection(there):
            await until(lambda: right.stats()["connections"] == 2)
            with socket.create_connection(there, timeout=5.0) as third:
                await until(lambda: noticed(right, NoticeKind.TOO_MANY_HANDSHAKES))
                assert third.recv(1) == b""
        await until(lambda: right.stats()["connections"] == 0)
        assert right.stats()["refused_handshakes"] == 1
        async with nodes.open("left") as left:
            await left.new_connection(address(right))
