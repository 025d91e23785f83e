"""Peers that speak otherwise: unreliable id, version, announcements (C6, T-42, T-33), by remote and by UUID."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from tolliver_proto import (
    Ack,
    Action,
    HandshakeRequest,
    HandshakeResponse,
    Limits,
    Message,
    PeerUp,
    Policy,
    Revision,
    ShutdownWrite,
    Subscribe,
    decode,
    encode,
)
from tolliver_proto.layouts import Dialect

from .play import LOW, OTHER, Play, Wire, deliveries, every, notices, only

MARK = 2**32 - 1
GO = Dialect(unreliable_id=MARK, announce_after_handshake=True, version=7)


def as_remote(play: Play) -> Wire:
    play.node.connect("there", play.now, dialect=GO)
    wire = play.dialled(play.run())
    [request] = wire.got()
    assert isinstance(request, HandshakeRequest)
    assert request.version == 7
    wire.respond(("c", ""), version=7)
    return wire


def as_uuid(play: Play) -> Wire:
    wire = play.accepted(LOW)
    wire.request(("c", ""), version=7)
    response = wire.got()[0]
    assert isinstance(response, HandshakeResponse)
    assert (response.version, response.status) == (7, 0)
    return wire


WAYS: dict[str, tuple[Callable[[Play], Wire], dict[str, Any]]] = {
    "as a remote": (as_remote, {}),
    "by its UUID": (as_uuid, {"dialects": {LOW: GO}}),
}
ways = pytest.mark.parametrize("way", WAYS)


def met(way: str, **policy: Any) -> tuple[Play, Wire]:
    meet, known = WAYS[way]
    play = Play(handlers=[("", "", "h")], policy=Policy(**policy), **known, limits=Limits(max_attempts=3))
    play.call("subscribe", "c", "")
    return play, meet(play)


def comes(wire: Wire, body: bytes) -> list[Action]:
    """An unreliable message, as such a peer marks it."""
    data = encode(Message("c", "k", body, 0))
    wire.play.node.receive_data(wire.cid, data[:13] + MARK.to_bytes(4, "big") + data[17:], now=wire.play.now)
    return wire.play.run()


@ways
@pytest.mark.parametrize("durable", [False, True])
def test_none_of_its_unreliable_messages_is_a_copy_or_a_dead_letter(way: str, durable: bool) -> None:
    """T-42: all of them have one id; whether handlers fail or not, each is handed out, and none acknowledged."""
    play, wire = met(way, dedupe=100, dedupe_durable=durable)
    wire.got()
    for body in (b"x", b"x", b"y"):
        for settle in (play.node.acknowledge, play.node.fail, play.node.fail, play.node.fail, play.node.fail):
            [delivery] = deliveries(comes(wire, body))
            assert (delivery.reliable, delivery.attempt) == (False, 1)
            settle([delivery], now=play.now)
            assert notices(play.run()) == []
    assert wire.acks() == []
    assert play.store.load().dead_letters == []
    assert play.node.stats()["duplicates"] == 0


@ways
def test_none_of_its_unreliable_messages_waits_for_another(way: str) -> None:
    """T-48 has copies of what is being handled wait: these are none."""
    _, wire = met(way, dedupe=100)
    handed = [deliveries(comes(wire, b"x")) for _ in range(3)]
    assert [len(one) for one in handed] == [1, 1, 1]


@ways
def test_what_it_is_sent_unreliably_has_its_mark_and_others_have_theirs(way: str) -> None:
    """T-42, T-55; an ack of that id means nothing."""
    play, wire = met(way)
    other = play.peer(OTHER, ("c", ""))
    wire.got()
    assert play.node.unreliable_send("c", "k", b"hi") == 2
    play.run()
    assert wire.messages() == [Message("c", "k", b"hi", MARK)]
    assert other.messages() == [Message("c", "k", b"hi")]
    wire.send(Ack(MARK))
    assert play.node.stats()["stray_acks"] == 0
    wire.send(Ack(2**31 - 1))
    assert play.node.stats()["stray_acks"] == 1


def test_a_probe_is_an_ack_of_its_mark() -> None:
    """T-80: that of the drafts may be one of its messages."""
    play, wire = met("by its UUID", probe="ack", probe_interval=10)
    wire.got()
    play.wait(11.0)
    assert wire.acks() == [MARK]


@ways
def test_it_alone_is_told_again_by_messages(way: str) -> None:
    """T-33."""
    _, wire = met(way)
    assert Subscribe("c", "", 1) in decode(b"".join(wire.units))
    play = Play(dialects={LOW: GO})
    play.call("subscribe", "c", "")
    other = play.peer(OTHER)
    assert [frame for frame in other.got() if isinstance(frame, Subscribe)] == []


def test_a_remote_stands_over_its_peer_and_that_over_the_instance() -> None:
    play = Play(dialect=Dialect(announce_after_handshake=True), dialects={LOW: Dialect(announce_after_handshake=False)})
    play.call("subscribe", "c", "")
    play.node.connect("there", play.now, dialect=Dialect(announce_after_handshake=True))
    wire = play.dialled(play.run())
    wire.respond()
    assert [frame for frame in wire.got() if isinstance(frame, Subscribe)]
    play.call("disconnect", "there")
    wire.end()
    wire.lose()
    wire = play.accepted(LOW)
    wire.request()
    assert [frame for frame in wire.got() if isinstance(frame, Subscribe)] == []
    play.node.connect("there", play.now)
    cid = play.run()
    play.node.disconnect("there", play.now)
    assert cid != []


def test_strict_uuid7_and_accept_either_are_the_instances_too() -> None:
    """T-03, T-22."""
    v4 = OTHER.__class__("6fa459ea-ee8a-4ca4-894e-db77e160355e")
    play = Play(dialect=Dialect(strict_uuid7=True, accept_either=True))
    stranger = play.accepted(v4)
    assert every(stranger.request(), ShutdownWrite)
    wire = play.peer(LOW)
    body = b"\x00\x00\x00\x01\x00\x00\x00\x00c"
    head = encode(Message("tollive0", "", body, 5)).replace(b"tollive0", b"tolliver")
    play.node.receive_data(wire.cid, head, now=play.now)
    play.run()
    assert {tuple(one) for one in play.knows(LOW)} == {("c", "")}
    relaxed = Play(dialect=Dialect(strict_uuid7=True), dialects={v4: Dialect(strict_uuid7=False)})
    assert only(relaxed.accepted(v4).request(), PeerUp).peer == v4


@pytest.mark.parametrize(
    "odd",
    [
        Dialect(version=2),
        Dialect(revision=Revision.DRAFT_1),
    ],
)
def test_what_is_an_argument_of_its_own_is_no_dialect_of_everybody(odd: Dialect) -> None:
    with pytest.raises(ValueError, match=r"that of everybody is the option `(version|revision)`"):
        Play(dialect=odd)


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_node_is_not_copied(take: Callable[[object], object]) -> None:
    """D-16: its copy would hand out the same ids."""
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        take(Play().node)
