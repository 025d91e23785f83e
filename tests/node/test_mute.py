"""Peers that are sent no control messages (T-29, G7)."""

from __future__ import annotations

import pytest

from tolliver_proto import HandshakeResponse, Policy, Subscribe, Subscription, Unsubscribe

from .play import LOW, OTHER, Play, Wire


def change(play: Play) -> None:
    play.call("subscribe", "new", "")
    play.call("unsubscribe", "old", "")


def controls(wire: Wire) -> int:
    return sum(isinstance(frame, Subscribe | Unsubscribe) for frame in wire.got())


def dialled(play: Play, remote: str, control_messages: bool) -> Wire:
    play.node.connect(remote, play.now, control_messages=control_messages)
    wire = play.dialled(play.run())
    wire.respond()
    return wire


@pytest.mark.parametrize("given", ["by its UUID", "as a remote", "as a remote, and it dials us"])
@pytest.mark.parametrize("announces", [False, True])
def test_a_peer_that_dies_of_control_messages_is_sent_none(given: str, announces: bool) -> None:
    named = [LOW] if given == "by its UUID" else []
    play = Play(policy=Policy(no_control_messages=named, announce_after_handshake=announces))
    play.call("subscribe", "old", "")
    other = play.peer(OTHER)
    wire = play.peer(LOW) if given == "by its UUID" else dialled(play, "there", control_messages=False)
    if given == "as a remote, and it dials us":
        wire.lose()
        wire = play.peer(LOW)
    change(play)
    assert controls(wire) == 0
    assert controls(other) > 0
    wire.lose()
    again = play.accepted(LOW)
    again.request()
    [response] = [frame for frame in again.got() if isinstance(frame, HandshakeResponse)]
    assert response.subscriptions == (Subscription("new", ""),), "the next handshake says all"


def test_a_remote_is_what_was_said_of_it_last() -> None:
    play = Play()
    dialled(play, "there", control_messages=False).lose()
    play.node.connect("there", play.now, control_messages=True)
    wire = play.peer(LOW)
    change(play)
    assert controls(wire) == 1


def test_a_list_that_cannot_be_meant() -> None:
    with pytest.raises(ValueError, match="give UUIDs of peers"):
        Policy(no_control_messages=["bob"])  # type: ignore[list-item]  # that is the point
