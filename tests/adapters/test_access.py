"""Access rules between real instances, and the bound on handshakes."""

from __future__ import annotations

import socket

import pytest

from tests.certificates import Certificates
from tolliver_proto import Acl, Limits, NoticeKind, Rights
from tolliver_proto.errors import AccessDenied

from .facade import until
from .kinds import ONE_KIND
from .nodes import Nodes, address, connected, error_of, noticed

QUICK = Limits(redial_first=0.005, redial_max=0.05)


@ONE_KIND
def test_rules_hold_from_the_start_and_change_at_once(nodes: Nodes, certs: Certificates) -> None:
    rules = Acl(peers={certs.uuid("right"): Rights(subscribe=(("news", "*"),))})
    with nodes.pair(["news", "secret"], left={"acl": rules}) as (left, right, inbox):
        assert (left.send("secret", "k", b"x")).recipients == 0
        left.send("news", "k", b"1")
        inbox.holds(1)
        left.set_acl(Acl())
        until(lambda: any(len(peer.subscriptions) == 2 for peer in left.peers()))
        left.send("secret", "k", b"2")
        inbox.holds(2)
        before = right.stats()["connects"]
        right.set_acl(Acl(peers={certs.uuid("left"): Rights(publish=())}))
        until(lambda: right.stats()["connects"] > before and connected(left) == connected(right) == 1)
        left.wait_acked(left.send("news", "k", b"3"))
        assert inbox.bodies == [b"1", b"2"]
        assert right.stats()["refused_messages"] == 1


def test_who_is_kept_out_cannot_connect_and_is_not_dialled(nodes: Nodes, certs: Certificates) -> None:
    nobody = Acl(default=Rights.none())
    with nodes.open("left", limits=QUICK) as left, nodes.open("right", acl=nobody) as right:
        waiting = left.start("new_connection", address(right))
        until(lambda: noticed(right, NoticeKind.ACCESS_DENIED))
        assert str(certs.uuid("left")) in noticed(right, NoticeKind.ACCESS_DENIED)[0]
        assert not waiting.done
        assert isinstance(error_of(right, address(left)), AccessDenied)
        right.set_acl(Acl())
        assert waiting.wait() == certs.uuid("right")


@ONE_KIND
def test_a_blocked_peer_stays_away(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("left") as left, nodes.open("right", limits=QUICK) as right:
        left.new_connection(address(right))
        left.remove_connection(address(right), block=True)
        with pytest.raises(TimeoutError):
            right.new_connection(address(left), timeout=0.1)
        left.new_connection(address(right))
        assert right.new_connection(address(left)) == certs.uuid("left")


def test_idle_sockets_keep_no_good_peer_out(nodes: Nodes) -> None:
    """D-7: they come from its own address, and would be there for a minute."""
    limits = Limits(max_handshakes_per_address=2, handshake_timeout=60.0)
    with nodes.open("right", limits=limits) as right, nodes.open("left") as left:
        there = ("127.0.0.1", right.port)
        with socket.create_connection(there), socket.create_connection(there):
            until(lambda: right.stats()["connections"] == 2)
            left.new_connection(address(right), timeout=30.0)


def test_one_connection_too_many_is_closed_at_once(nodes: Nodes) -> None:
    """D-7."""
    limits = Limits(max_handshakes_per_address=2)
    with nodes.open("right", limits=limits) as right:
        there = ("127.0.0.1", right.port)
        with socket.create_connection(there), socket.create_connection(there):
            until(lambda: right.stats()["connections"] == 2)
            with socket.create_connection(there, timeout=5.0) as third:
                until(lambda: noticed(right, NoticeKind.TOO_MANY_HANDSHAKES))
                assert third.recv(1) == b""
        until(lambda: right.stats()["connections"] == 0)
        assert right.stats()["refused_handshakes"] == 1
        with nodes.open("left") as left:
            left.new_connection(address(right))
