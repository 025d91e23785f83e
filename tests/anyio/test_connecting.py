"""Connecting: what it returns, what it raises, and what it goes on trying."""

from __future__ import annotations

import socket

import anyio
import pytest
from tolliver_transports.anyio import TLS, Instance, Remote

from tests.anyio.nodes import Inbox, Nodes, address, connected, error_of, noticed, silent_port, until
from tests.certificates import Certificates
from tolliver_proto import (
    CertificateError,
    HandshakeRejected,
    HandshakeStatus,
    IdentityConflict,
    NoticeKind,
    Revision,
    SelfConnection,
)

pytestmark = pytest.mark.anyio


def _free_port() -> int:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])


async def test_it_returns_the_peers_uuid_now_and_again(nodes: Nodes, certs: Certificates) -> None:
    async with nodes.open("left") as left, nodes.open("right") as right:
        assert await left.new_connection(address(right)) == certs.uuid("right")
        assert await left.new_connection(address(right)) == certs.uuid("right")
        assert await left.new_connection(f"localhost:{right.port}") == certs.uuid("right")
        assert connected(left) == connected(right) == 1


async def test_many_who_wait_for_one_remote_all_hear_of_it(nodes: Nodes, certs: Certificates) -> None:
    async with nodes.open("left") as left, nodes.open("right") as right:
        seen = []

        async def connect() -> None:
            seen.append(await left.new_connection(address(right)))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(connect)
        assert seen == [certs.uuid("right")] * 5


async def test_it_tries_until_somebody_listens(nodes: Nodes, certs: Certificates) -> None:
    remote = f"127.0.0.1:{_free_port()}"
    async with nodes.open("left") as left:
        with pytest.raises(TimeoutError):
            await left.new_connection(remote, timeout=0.05)
        with anyio.move_on_after(0.05) as scope:
            await left.new_connection(remote)
        assert scope.cancelled_caught
        async with nodes.open("right", listen=remote):
            assert await left.new_connection(remote) == certs.uuid("right")


async def test_a_lost_connection_is_dialled_again_until_it_is_removed(nodes: Nodes) -> None:
    remote = f"127.0.0.1:{_free_port()}"
    async with nodes.open("left") as left:
        async with nodes.open("right", listen=remote):
            await left.new_connection(remote)
        await until(lambda: connected(left) == 0)
        async with nodes.open("right", listen=remote) as right:
            await until(lambda: connected(left))  # T-76
            await left.remove_connection(remote)
            await until(lambda: connected(right) == 0)
        async with nodes.open("right", listen=remote) as right:
            assert gave_up(left)
            assert left.stats()["connections"] == 0


async def test_removing_ends_the_wait_for_it(nodes: Nodes) -> None:
    seen: list[object] = []
    with silent_port() as remote:
        async with nodes.open("left") as left, anyio.create_task_group() as tasks:

            async def dial() -> None:
                seen.append(await error_of(left, remote))

            tasks.start_soon(dial)
            await until(lambda: left.stats()["connections"])
            await left.remove_connection(remote)
            await until(lambda: seen)
    assert "was removed" in str(seen[0])


async def test_oneself_is_no_peer(nodes: Nodes) -> None:
    async with nodes.open("left") as left:
        with pytest.raises(SelfConnection):
            await left.new_connection(address(left))
    async with nodes.open("plain", plaintext=True) as plain:
        with pytest.raises(SelfConnection):
            await plain.new_connection(address(plain))
        await until(lambda: plain.stats()["connections"] == 0)
        assert plain.peers() == []


def gave_up(instance: Instance) -> bool:
    """Nothing is connected and nothing is going to be dialled."""
    return not instance.stats()["connections"] and "redial" not in str(instance.node.timeout_reason)


# Who may be there.


async def test_a_dialler_whose_certificate_is_refused_is_told_and_stops(nodes: Nodes, certs: Certificates) -> None:
    """T-74: in TLS 1.3 the refusal comes when our handshake is over already; it must never look like a bad line."""
    stranger = certs.tls("stranger")
    both = nodes.directory / "both.pem"
    both.write_bytes(stranger.ca.read_bytes() + certs.ca.read_bytes())
    tls = TLS(stranger.cert, stranger.key, both)
    async with nodes.open("right") as right, nodes.open("left", tls=tls) as left:
        async with anyio.create_task_group() as tasks:  # a request that is still being written when it is refused
            for number in range(200):
                tasks.start_soon(left.subscribe, f"{number:04}" * 1000)
        for dials in range(1, 21):
            error = await error_of(left, address(right))
            assert isinstance(error, CertificateError)
            assert "refuses our certificate" in str(error)
            assert left.node._last_cid == dials  # the first try told it, each time
        assert gave_up(left)
        assert connected(right) == 0


async def test_a_listener_of_another_ca_is_refused(nodes: Nodes) -> None:
    async with nodes.open("right", tls=nodes.certs.tls("stranger")) as right, nodes.open("left") as left:
        error = await error_of(left, address(right))
        assert isinstance(error, CertificateError)
        assert "we refuse the certificate" in str(error)
        assert gave_up(left)


async def test_a_listener_under_another_name_needs_a_pin(nodes: Nodes, certs: Certificates) -> None:
    async with nodes.open("elsewhere") as there, nodes.open("left") as left:
        assert isinstance(await error_of(left, address(there)), CertificateError)
        wrong = Remote("127.0.0.1", there.port or 0, identity=certs.uuid("right"))
        assert isinstance(await error_of(left, wrong), IdentityConflict)
        pinned = Remote("127.0.0.1", there.port or 0, identity=certs.uuid("elsewhere"))
        assert await left.new_connection(pinned) == certs.uuid("elsewhere")
    ca_only = certs.tls("left", insecure_ca_only=True)
    async with nodes.open("elsewhere") as there, nodes.open("left", tls=ca_only) as left:
        assert await left.new_connection(address(there)) == certs.uuid("elsewhere")


async def test_a_key_that_is_not_the_one_first_seen_is_refused(nodes: Nodes) -> None:
    """D-3 without a UUID in the certificate: the first key that came with it stays."""
    async with nodes.open("right") as right:
        async with nodes.open("left", tls=nodes.certs.tls("anonymous")) as left:
            await left.new_connection(address(right))
            uuid = left.instance_id
        other = nodes.certs.special("another-anonymous", ())
        async with nodes.open("impostor", tls=other, identity=uuid) as impostor:
            await error_of_closed(impostor, address(right))
        assert noticed(right, NoticeKind.IDENTITY_MISMATCH)


async def error_of_closed(instance: Instance, remote: str) -> None:
    """It is closed without a frame (T-67), which the dialler cannot tell from a bad line: it goes on trying."""
    with anyio.move_on_after(0.3):
        await instance.new_connection(remote)
    assert connected(instance) == 0


# Versions.


@pytest.mark.parametrize("revision", Revision)
@pytest.mark.parametrize(
    ("dialler", "listener", "status"),
    [
        ((1, False), (2, False), HandshakeStatus.NEWER_INCOMPATIBLE),
        ((2, False), (1, False), HandshakeStatus.OLDER),
        ((1, False), (2, True), HandshakeStatus.NEWER_COMPATIBLE),
        ((2, True), (1, False), HandshakeStatus.OLDER),
    ],
)
async def test_versions_meet_or_part(
    nodes: Nodes, revision: Revision, dialler: tuple[int, bool], listener: tuple[int, bool], status: HandshakeStatus
) -> None:
    """The version table of A5: `dialler` and `listener` are (version, whether it speaks others)."""
    here = {"version": dialler[0], "speaks": lambda _: dialler[1], "revision": revision}
    there = {"version": listener[0], "speaks": lambda _: listener[1], "revision": revision}
    inbox = Inbox()
    async with nodes.open("right", **there) as right, nodes.open("left", **here) as left:
        await right.subscribe("news", handler=inbox)
        error = await error_of(left, address(right))
        if dialler[1] or listener[1]:
            assert error is None
            await left.wait_acked(await left.send("news", "", b"x"))
            assert inbox.bodies == [b"x"]
        else:
            assert isinstance(error, HandshakeRejected)
            assert (error.status, error.peer_version) == (status, listener[0])
            await until(lambda: right.stats()["connections"] == 0)
            assert gave_up(left)


# Two at once.


async def test_two_that_dial_each_other_keep_one_connection(nodes: Nodes) -> None:
    """T-70, ten pairs: one connection remains, and what was sent meanwhile arrives."""
    async with nodes.open("left") as left, nodes.open("right") as right:
        at_left, at_right = Inbox(), Inbox()
        await left.subscribe("to left", handler=at_left)
        await right.subscribe("to right", handler=at_right)
        sent = 0
        for _ in range(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(left.new_connection, address(right))
                tasks.start_soon(right.new_connection, address(left))
            for _ in range(5):
                await left.send("to right", "", b"%d" % sent)
                await right.send("to left", "", b"%d" % sent)
                sent += 1
            await until(lambda: left.stats()["connections"] == right.stats()["connections"] == 1)
            assert connected(left) == connected(right) == 1
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(left.remove_connection, address(right))
                tasks.start_soon(right.remove_connection, address(left))
            await until(lambda: left.stats()["connections"] == right.stats()["connections"] == 0)
        await left.new_connection(address(right))
        everything = {b"%d" % number for number in range(sent)}
        await until(lambda: set(at_left.bodies) == set(at_right.bodies) == everything)
        await until(lambda: left.stats()["pending"] == right.stats()["pending"] == 0)
