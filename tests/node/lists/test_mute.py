"""Peers that are sent no control messages (T-29, G7)."""

from __future__ import annotations

import pytest

from tolliver_proto import HandshakeResponse, Subscribe, Subscription, Unsubscribe
from tolliver_proto.layouts import Dialect

from ..play import LOW, OTHER, Play, Wire

MUTE = Dialect(control_messages=False)


def change(play: Play) -> None:
    play.call("subscribe", "new", "")
    play.call("unsubscribe", "old", "")


def controls(wire: Wire) -> int:
    return sum(isinstance(frame, Subscribe | Unsubscribe) for frame in wire.got())


def dialled(play: Play, remote: str, control_messages: bool) -> Wire:
    play.node.connect(remote, play.now, dialect=Dialect(control_messages=control_messages))
    wire = play.dialled(play.run())
    wire.respond()
    return wire


@pytest.mark.parametrize("given", ["as everybody", "by its UUID", "as a remote", "as a remote, and it dials us"])
@pytest.mark.parametrize("announces", [False, True])
def test_a_peer_that_dies_of_control_messages_is_sent_none(given: str, announces: bool) -> None:
    everybody = Dialect(announce_after_handshake=announces, control_messages=False if given == "as everybody" else None)
    own = {"as everybody": {OTHER: Dialect(control_messages=True)}, "by its UUID": {LOW: MUTE}}
    play = Play(dialect=everybody, dialects=own.get(given, {}))
    play.call("subscribe", "old", "")
    other = play.peer(OTHER)
    wire = play.peer(LOW) if given in own else dialled(play, "there", control_messages=False)
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
    play.node.connect("there", play.now, dialect=Dialect(control_messages=True))
    wire = play.peer(LOW)
    change(play)
    assert controls(wire) == 1


def test_a_remote_stands_over_what_is_said_of_its_peer() -> None:
    play = Play(dialects={LOW: MUTE})
    wire = dialled(play, "there", control_messages=True)
    change(play)
    assert controls(wire) == 1
