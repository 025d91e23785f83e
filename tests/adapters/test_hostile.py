"""Peers that lie, break off or speak otherwise are disconnected."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress

import pytest
from tolliver._tls.policy import server_context

from tests.certificates import Certificates
from tests.raw import PATIENCE, RawListener, RawPeer
from tolliver_proto import (
    Established,
    HandshakeFinal,
    HandshakeResponse,
    HandshakeStatus,
    NoticeKind,
    Revision,
    Subscription,
    encode,
)
from tolliver_proto.layouts import Dialect

from .facade import Facade, until
from .nodes import SOMEBODY, Nodes, address, connected, noticed
from .relay import reset


@pytest.mark.parametrize("garbage", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x00", bytes(70_000)])
def test_what_is_no_tls_ends_and_nothing_else_does(nodes: Nodes, garbage: bytes) -> None:
    with nodes.open("right") as right, nodes.open("left") as left:
        server = ("127.0.0.1", right.port or 0)
        with socket.create_connection(server, timeout=PATIENCE) as stream, suppress(ConnectionError):
            stream.sendall(garbage)
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(65536):
                pass
        left.new_connection(address(right))
        until(lambda: right.stats()["connections"] == 1)


def test_a_peer_that_breaks_off_anywhere_harms_nobody(nodes: Nodes, certs: Certificates) -> None:
    with nodes.open("right") as right, nodes.open("left") as left:
        left.new_connection(address(right))
        for kept in (0, 1, 20, 44):
            with RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["news"]) as raw:
                [unit] = raw.connection.data_to_send()
                raw.send_raw(unit[:kept])
        until(lambda: right.stats()["connections"] == 1)
        assert connected(left) == 1


TALKATIVE = {"dialect": Dialect(announce_after_handshake=True)}  # T-33: it has more to say at once, in the same go


def test_a_response_is_a_record_of_its_own(nodes: Nodes, certs: Certificates) -> None:
    """T-69: a peer that reads record by record loses nothing, though a message waits for it already."""
    with nodes.open("left", **TALKATIVE) as left:
        left.subscribe("sport")
        _meet(left, certs, 0)
        left.send("news", "", b"waiting")
        raw = _meet(left, certs, 1)
        sport = (Subscription("sport", ""),)
        response = HandshakeResponse(1, left.instance_id, HandshakeStatus.SAME_VERSION, sport)
        assert raw.records[0] == encode(response, Revision.DRAFT_2)
        assert [message.body for message in raw.messages] == [b"waiting"]


def _meet(left: Facade, certs: Certificates, messages: int) -> RawPeer:
    with RawPeer(left.port or 0, certs.tls("right"), certs.uuid("right"), ["news"]) as raw:
        raw.establish()
        raw.receive_messages(messages)
        return raw


def test_a_final_is_a_record_of_its_own(nodes: Nodes, certs: Certificates) -> None:
    """T-69 in the other role."""
    seen: list[RawPeer] = []

    def serve(stream: socket.socket) -> None:
        raw = RawPeer.accepted(stream, certs.uuid("right"), ["news"])
        seen.append(raw)
        raw.establish()
        raw.read_to_the_end()

    newer = {"version": 2, "speaks": lambda _: True, **TALKATIVE}  # only a newer dialler sends a final (T-60)
    with RawListener(server_context(certs.tls("right")), serve) as listener, nodes.open("left", **newer) as left:
        left.subscribe("sport")
        left.new_connection(listener.address)
        left.remove_connection(listener.address)
        left.send("news", "", b"waiting")
        left.new_connection(listener.address)
        until(lambda: seen[1].messages)
    assert seen[1].records[1] == encode(HandshakeFinal(True), Revision.DRAFT_2)
    assert [message.body for message in seen[1].messages] == [b"waiting"]


def test_control_messages_and_rubbish_from_a_member_are_survived(nodes: Nodes, certs: Certificates) -> None:
    """T-27, T-05: a wildcard of the reserved channel is not stored; an unknown frame ends that connection alone."""
    with nodes.open("right") as right, nodes.open("left") as left:
        left.new_connection(address(right))
        with RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["tolliver", "news"]) as raw:
            raw.establish()
            assert any(isinstance(event, Established) for event in raw.events)
            raw.send_raw(b"\xff" * 100)
            raw.read_to_the_end()
        assert noticed(right, NoticeKind.PROTOCOL_ERROR)
        [mallory] = [peer for peer in right.peers() if peer.uuid == certs.uuid("mallory")]
        assert mallory.subscriptions == (Subscription("news", ""),)
        assert connected(left) == 1
        until(lambda: right.stats()["connections"] == 1)


def test_a_line_that_is_cut_is_no_end_in_order(
    nodes: Nodes, certs: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    """T-09: only an end in order may be a complaint about what was sent."""
    caplog.set_level(logging.INFO, "tolliver")
    with nodes.open("right") as right:
        with RawPeer(right.port or 0, certs.tls("mallory"), certs.uuid("mallory"), ["news"]) as raw:
            raw.establish()
        until(lambda: right.stats()["connections"] == 0)
    assert "is gone: " in caplog.text
    assert "closed in order" not in caplog.text


def test_a_reset_while_its_list_is_being_stored_harms_nobody(nodes: Nodes) -> None:
    """Reading is paused meanwhile, so the reset is seen only afterwards."""
    with nodes.open("right", plaintext=True) as right, nodes.open("left", plaintext=True) as left:
        left.new_connection(address(right))
        for _ in range(10):
            with suppress(ConnectionError), RawPeer(right.port or 0, None, SOMEBODY, ["news"]) as raw:
                raw.close_with_a_reset()
                raw.send_raw(b"".join(raw.connection.data_to_send()) + bytes(1_000_000))
        until(lambda: right.stats()["connections"] == 1)
        assert connected(left) == 1


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_stranger_that_ends_with_a_reset_harms_nobody(nodes: Nodes, said: bytes) -> None:
    """Nobody needs a certificate for that, so no loop's way to tell of it may get past the connection."""
    with nodes.open("right") as right, nodes.open("left") as left:
        left.new_connection(address(right))
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", right.port or 0), timeout=PATIENCE) as stream:
                stream.sendall(said)
                reset(stream)
        until(lambda: right.stats()["connections"] == 1)
        assert connected(left) == 1


def test_connections_that_are_gone_before_they_are_accepted_harm_nobody(nodes: Nodes) -> None:
    with nodes.open("right") as right, nodes.open("left") as left:
        busy, go_on = threading.Event(), threading.Event()

        def hold_up() -> None:
            busy.set()
            go_on.wait(PATIENCE)

        nodes.world.start("be busy", hold_up)  # its loop accepts nobody meanwhile
        assert busy.wait(PATIENCE)
        for _ in range(5):
            reset(socket.create_connection(("127.0.0.1", right.port or 0), timeout=PATIENCE))
        go_on.set()
        left.new_connection(address(right))
        until(lambda: right.stats()["connections"] == 1)
