"""Sends and remotes that are silent: who waits for how long, and what is kept (T-62, T-68)."""

from __future__ import annotations

import pytest

from tolliver_proto import Action, Dial, Limits, Notice, NoticeKind, Policy, Role, Stored
from tolliver_proto._node.link import Link
from tolliver_proto._node.outboxes.connect_windows import _REMEMBERED, Keeping
from tolliver_proto._testing.inspection import inside

from ..play import HIGH, LOW, OTHER, Play, Wire, every, notices

WANTED = ("c", "")
SMALL = Limits(keep_bytes=100)


def silent(play: Play, actions: list[Action]) -> list[Wire]:
    """All dials among these stand, and nobody says anything."""
    return [play.dialled([dial]) for dial in every(actions, Dial)]


def waits(play: Play, seconds: int) -> float:
    """Seconds that a send waits in this time, in all, while a remote takes connections and says nothing."""
    play.dice.value = 0.5
    known = play.peer(OTHER, WANTED)
    silent(play, play.call("connect", "there"))
    waited = 0
    for number in range(10 * seconds):
        play.node.send("c", "k", bytes(60) + b"%d" % number, now=play.now)
        play.run()
        waited += bool(inside(play.node).sender.blocked)
        silent(play, play.wait(0.1))
        known.ack(*known.messages())
    return waited / 10


@pytest.mark.search
@pytest.mark.parametrize("strict", [False, True])
def test_a_silent_remote_holds_up_sends_for_one_handshake_in_all(strict: bool) -> None:
    play = Play(limits=SMALL, policy=Policy(strict_block=strict))
    assert waits(play, 300) <= 10.2


def test_what_is_sent_is_still_kept_for_it_up_to_its_share() -> None:
    play = Play(limits=SMALL)
    play.dice.value = 0.5
    known = play.peer(OTHER, WANTED)
    silent(play, play.call("connect", "there"))
    [wire] = silent(play, play.wait(16.0))
    play.wait(5.0)  # its window is over, and this connection keeps for itself
    actions: list[Action] = []
    for number in range(6):
        receipt = play.node.send("c", "k", bytes(50) + b"%d" % number, now=play.now)
        actions += play.run()
        assert [one for stored in every(actions, Stored) for one in stored.tokens][-1] is receipt
    assert len(known.messages()) == 6
    assert notices(actions).count(NoticeKind.NOT_KEPT) == 1
    assert play.node.stats().not_kept == 4
    wire.respond(WANTED)
    assert [body[-1:] for body in wire.bodies()] == [b"0", b"1"]
    told = [notice for notice in every(play.wait(61.0), Notice) if notice.kind is NoticeKind.NOT_KEPT]
    assert [notice.detail.split()[0] for notice in told] == ["3"], "the sum a minute later"


def test_a_remote_that_has_been_up_is_waited_for_again() -> None:
    play = Play(limits=SMALL)
    play.dice.value = 0.5
    play.peer(OTHER, WANTED)
    silent(play, play.call("connect", "there"))
    [wire] = silent(play, play.wait(16.0))
    wire.respond(WANTED)
    wire.lose()
    [wire] = silent(play, play.wait(2.0))
    for _ in range(3):
        play.send("c", "k", bytes(50))
    assert inside(play.node).sender.blocked
    wire.respond(WANTED)
    assert not inside(play.node).sender.blocked
    assert play.node.stats().not_kept == 0


def test_no_send_waits_for_a_connection_that_is_being_closed() -> None:
    """T-68: closing is within the ten seconds, though it takes five."""
    play = Play(limits=SMALL)
    silent(play, play.call("connect", "there"))
    for _ in range(3):
        play.send("c", "k", bytes(60))
    assert inside(play.node).sender.blocked
    play.wait(10.0)
    assert not inside(play.node).sender.blocked
    assert play.node.stats()["connections"] == 1, "it is still there"


def test_a_peer_that_dials_us_and_never_finishes_is_waited_for_once() -> None:
    """From status 3 to the final."""
    play = Play(limits=SMALL, version=2)
    play.peer(HIGH, WANTED)
    for number in range(3):
        wire = play.accepted(LOW)
        wire.request(version=3)
        for _ in range(3):
            play.send("c", "k", bytes(60))
        assert bool(inside(play.node).sender.blocked) is (number == 0)
        play.wait(16.0)
        assert not inside(play.node).sender.blocked


def test_those_that_failed_are_remembered_within_a_bound() -> None:
    keeping = Keeping(100)
    links = [Link(number, Role.CLIENT, number, 1) for number in range(_REMEMBERED + 5)]
    for link in links:
        keeping.lose(link)
    keeping.regain(links[6])
    waited_for = {}
    for number in (4, 5, 6):
        keeping.begin(links[number], 1)
        waited_for[number] = keeping.keeps_enough(True)
        keeping.end(links[number])
    assert waited_for == {4: True, 5: False, 6: True}
