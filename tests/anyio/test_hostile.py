"""Peers that lie, break off or speak something else: they are closed out, and the listener goes on."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from uuid import UUID

import anyio
import pytest
from anyio.to_thread import run_sync
from tolliver_transports._tls import client_context
from tolliver_transports.anyio import Instance

from tests.anyio.nodes import Inbox, Nodes, address, connected, noticed, until
from tests.anyio.raw import PATIENCE, RawPeer
from tests.certificates import Certificates
from tolliver_proto import (
    Closed,
    Established,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    NoticeKind,
    Revision,
    Subscription,
    encode,
)

pytestmark = pytest.mark.anyio
SOMEBODY = UUID("01890000-0000-7000-8000-00000000bbbb")


def _port(instance: Instance) -> int:
    assert instance.port is not None
    return instance.port


async def test_who_claims_anothers_uuid_is_closed_out_before_a_response(nodes: Nodes, certs: Certificates) -> None:
    """D-3: it must not even learn what we subscribe to, and the victim's queue stays."""
    async with nodes.pair():
        pass  # the right one is known, and subscribes
    async with nodes.open("left") as left:
        await left.send("news", "", b"for the right one")

        def attack() -> RawPeer:
            with RawPeer(_port(left), certs.tls("mallory"), certs.uuid("right"), ["news"]) as raw:
                raw.flush()
                raw.read_to_the_end()
                return raw

        raw = await run_sync(attack)
        assert raw.records == [b""]
        assert [type(event) for event in raw.events] == [Closed]
        [detail] = noticed(left, NoticeKind.IDENTITY_MISMATCH)
        assert str(certs.uuid("mallory")) in detail
        inbox = Inbox()
        async with nodes.open("right") as right:
            right.register_callback("news", "", inbox)
            await left.new_connection(address(right))
            await inbox.holds(1)


@pytest.mark.parametrize("tls12", [False, True])
async def test_who_shows_no_certificate_gets_nowhere(nodes: Nodes, certs: Certificates, tls12: bool) -> None:
    async with nodes.open("right", tls=certs.tls("right", tls12=tls12)) as right, nodes.open("left") as left:

        def attack() -> bytes:
            context = ssl.create_default_context(cafile=str(certs.ca))
            if tls12:
                context.maximum_version = ssl.TLSVersion.TLSv1_2
            with socket.create_connection(("127.0.0.1", _port(right)), timeout=PATIENCE) as plain, suppress(OSError):
                stream = context.wrap_socket(plain, server_hostname="127.0.0.1")
                with stream:
                    stream.sendall(encode(HandshakeRequest(1, SOMEBODY), Revision.DRAFT_2))
                    return stream.recv(1)
            return b""

        assert await run_sync(attack) == b""
        await left.new_connection(address(right))
        assert [peer.uuid for peer in right.peers()] == [left.instance_id]


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x00", bytes(70_000)])
async def test_what_is_no_tls_ends_and_nothing_else_does(nodes: Nodes, garbage: bytes) -> None:
    async with nodes.open("right") as right, nodes.open("left") as left:

        def attack() -> None:
            server = ("127.0.0.1", _port(right))
            with socket.create_connection(server, timeout=PATIENCE) as stream, suppress(ConnectionError):
                stream.sendall(garbage)
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(65536):
                    pass

        await run_sync(attack)
        await left.new_connection(address(right))
        await until(lambda: right.stats()["connections"] == 1)


async def test_tls_to_a_plaintext_port_ends_and_nothing_else_does(nodes: Nodes, certs: Certificates) -> None:
    async with nodes.open("plain right", plaintext=True) as right, nodes.open("plain left", plaintext=True) as left:

        def attack() -> None:
            server = ("127.0.0.1", _port(right))
            with socket.create_connection(server, timeout=PATIENCE) as stream, suppress(OSError):
                client_context(certs.tls("left")).wrap_socket(stream, server_hostname="127.0.0.1")

        await run_sync(attack)
        await left.new_connection(address(right))
        assert noticed(right, NoticeKind.PROTOCOL_ERROR)


async def test_an_instance_with_tls_goes_on_dialling_a_plaintext_port(nodes: Nodes) -> None:
    """It may be somebody else's for the moment: T-73 retries what is no certificate error."""
    async with nodes.open("plain", plaintext=True) as plain, nodes.open("left") as left:
        with pytest.raises(TimeoutError):
            await left.new_connection(address(plain), timeout=0.3)
        assert connected(left) == 0


async def test_a_peer_that_breaks_off_anywhere_harms_nobody(nodes: Nodes, certs: Certificates) -> None:
    async with nodes.open("right") as right, nodes.open("left") as left:
        await left.new_connection(address(right))

        def attack(kept: int) -> None:
            with RawPeer(_port(right), certs.tls("mallory"), certs.uuid("mallory"), ["news"]) as raw:
                [unit] = raw.connection.data_to_send()
                raw._socket.sendall(unit[:kept])

        for kept in (0, 1, 20, 44):
            await run_sync(attack, kept)
        await until(lambda: right.stats()["connections"] == 1)
        assert connected(left) == 1


async def test_a_response_is_a_record_of_its_own(nodes: Nodes, certs: Certificates) -> None:
    """T-69: a peer that reads record by record loses nothing, though a message waits for it already."""
    async with nodes.open("left") as left:
        await run_sync(_meet, left, certs, 0)
        await left.send("news", "", b"waiting")
        raw = await run_sync(_meet, left, certs, 1)
        response = HandshakeResponse(1, left.instance_id, HandshakeStatus.SAME_VERSION)
        assert raw.records[0] == encode(response, Revision.DRAFT_2)
        assert [message.body for message in raw.messages] == [b"waiting"]


def _meet(left: Instance, certs: Certificates, messages: int) -> RawPeer:
    with RawPeer(_port(left), certs.tls("right"), certs.uuid("right"), ["news"]) as raw:
        raw.establish()
        raw.receive_messages(messages)
        return raw


async def test_control_messages_and_rubbish_from_a_member_are_survived(nodes: Nodes, certs: Certificates) -> None:
    """T-27, T-05: a wildcard of the reserved channel is not stored; an unknown frame ends that connection alone."""
    async with nodes.open("right") as right, nodes.open("left") as left:
        await left.new_connection(address(right))

        def attack() -> None:
            with RawPeer(_port(right), certs.tls("mallory"), certs.uuid("mallory"), ["tolliver", "news"]) as raw:
                raw.establish()
                assert any(isinstance(event, Established) for event in raw.events)
                raw._socket.sendall(b"\xff" * 100)
                raw.read_to_the_end()

        await run_sync(attack)
        assert noticed(right, NoticeKind.PROTOCOL_ERROR)
        [mallory] = [peer for peer in right.peers() if peer.uuid == certs.uuid("mallory")]
        assert mallory.subscriptions == (Subscription("news", ""),)
        assert connected(left) == 1
        with anyio.fail_after(5):
            await until(lambda: right.stats()["connections"] == 1)


async def test_a_reset_while_its_list_is_being_stored_harms_nobody(nodes: Nodes, certs: Certificates) -> None:
    """Reading is paused meanwhile, so the reset is seen only afterwards."""
    async with nodes.open("right", plaintext=True) as right, nodes.open("left", plaintext=True) as left:
        await left.new_connection(address(right))

        def attack() -> None:
            with RawPeer(_port(right), None, SOMEBODY, ["news"]) as raw:
                linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
                raw._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                raw._socket.sendall(b"".join(raw.connection.data_to_send()) + bytes(1_000_000))

        for _ in range(10):
            with suppress(ConnectionError):
                await run_sync(attack)
        await until(lambda: right.stats()["connections"] == 1)
        assert connected(left) == 1
