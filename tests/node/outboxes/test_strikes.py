"""Strikes: which ends park a message, and that it then stays parked (T-09)."""

from __future__ import annotations

import pytest

from tolliver_proto import ConnectionLost, Limits, NoticeKind, PeerIdentity, Role
from tolliver_proto._node.outboxes.suspicion import Exposure
from tolliver_proto._testing.inspection import inside

from ..play import LOW, Play, Wire, notices
from .test_upkeep import WANTED, back, parked, sound, strikes, up


def aside(play: Play) -> int:
    return play.node.peers()[0].parked


# Ends that are strikes.


@pytest.mark.parametrize("works", [3.0, 30.0])
def test_a_program_that_is_restarted_while_its_handler_works_refuses_nothing(works: float) -> None:
    """A handler of 30 s and many deploys."""
    play = Play(retry_interval=300.0)
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"slow")
    for _ in range(20):
        play.wait(works)
        assert wire.bodies() == [b"slow"]
        wire.end()
        wire.lose()
        wire = play.accepted(LOW)
        wire.request(WANTED)
    assert (aside(play), play.pending()) == (0, 1)


def test_a_program_that_starts_again_and_again_refuses_nothing() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    for number in range(20):
        play.send("c", "k", b"%d" % number)
    for _ in range(45):
        play.wait(0.2)
        wire.end()
        wire.lose()
        wire = play.accepted(LOW)
        wire.request(WANTED)
    assert (aside(play), play.pending()) == (0, 20)
    play.wait(5.0)
    wire.ack(*wire.messages())
    assert len(wire.messages()) == 19, "and the rest at once"


def test_an_end_soon_after_another_was_acknowledged_is_no_strike() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"taken")
    play.send("c", "k", b"x")
    wire.ack(wire.messages()[0])
    wire = back(play, wire)
    wire = strikes(play, wire, 4)
    assert aside(play) == 0
    strikes(play, wire, 1)
    assert aside(play) == 1


@pytest.mark.parametrize(("late", "is_strike"), [(1.9, True), (2.1, False)])
def test_an_end_counts_two_seconds_from_the_last_byte(late: float, is_strike: bool) -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"x")
    wire = strikes(play, wire, 4)
    play.wait(late)
    wire.end()
    assert aside(play) == is_strike


def test_an_end_while_a_message_is_written_counts_however_long_that_takes() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"x")
    strikes(play, wire, 4).lose()
    play.hold_fetches = True
    wire = play.accepted(LOW)
    wire.request(WANTED)
    play.wait(5.0)
    play.hold_writes = True
    play.fetched()
    play.wait(30.0)
    wire.end()
    assert aside(play) == 1


@pytest.mark.parametrize(("late", "is_strike"), [(4.9, True), (5.1, False)])
def test_over_a_long_way_an_end_comes_later(late: float, is_strike: bool) -> None:
    """Of who dials us the handshake of TLS shows how long."""
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"x")
    strikes(play, wire, 4).lose()
    wire = far(play)
    play.wait(5.0)
    play.wait(late)
    wire.end()
    assert aside(play) == is_strike


def far(play: Play) -> Wire:
    """A peer three seconds away."""
    cid = play.new_cid()
    play.wait(3.0)
    wire = play.wires[cid] = Wire(play, cid, LOW)
    play.node.opened(cid, Role.SERVER, PeerIdentity(address="far"), now=play.now)
    play.run()
    wire.request(WANTED)
    return wire


def test_the_way_to_whom_we_dial_is_measured_by_its_response() -> None:
    play = Play()
    play.node.connect("there", now=0.0)
    wire = play.dialled(play.run())
    play.wait(3.0)
    wire.respond(WANTED)
    assert inside(play.node).context.up[wire.cid].sending.exposure.round_trip == 3.0


def test_an_ack_that_is_quicker_than_the_handshake_shows_a_shorter_way() -> None:
    exposure = Exposure()
    exposure.round_trip = 3.0
    exposure.handed([1])
    exposure.taken(10.0)
    exposure.taken(10.0)
    assert exposure.at(14.9) == [1]
    exposure.acked(11.0)
    exposure.acked(12.0)
    assert (exposure.round_trip, exposure.at(12.0)) == (1.0, [])
    exposure.handed([2])
    assert exposure.at(50.0) == [2]
    exposure.acked(60.0)
    assert exposure.at(60.0) == []


def test_each_message_is_exposed_for_two_seconds_of_its_own() -> None:
    exposure = Exposure()
    for message_id, now in ((3, 70.0), (4, 71.5)):
        exposure.handed([message_id])
        exposure.taken(now)
    assert [exposure.at(now) for now in (72.0, 72.1, 73.5, 73.6)] == [[3, 4], [4], [4], []]


# Parked messages.


def test_a_parked_message_is_never_sent_again_by_itself() -> None:
    play = Play()
    wire = parked(play, b"x")
    for _ in range(12):
        play.send("c", "k", b"other")
        wire.ack(*wire.messages())
        play.wait(3600.0)
        assert (aside(play), wire.messages()) == (1, [])
        wire.lose(ConnectionLost("reset"))
        wire = up(play)
    assert (aside(play), wire.messages()) == (1, [])


def test_a_row_that_cannot_be_read_is_parked_again_by_each_retry() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    for body in (b"bad", b"good"):
        play.send("c", "k", body)
    play.store.corrupt(1)
    wire = play.accepted(LOW)
    wire.request(WANTED)
    assert (wire.bodies(), aside(play)) == ([b"good"], 1)
    for _ in range(3):
        fetches = len(play.fetches)
        actions = play.call("retry", LOW)
        assert notices(actions).count(NoticeKind.CORRUPT_MESSAGE) == 1
        assert (wire.bodies(), aside(play), len(play.fetches) - fetches) == ([], 1, 1)
    again = play.restart()
    wire = again.accepted(LOW)
    wire.request(WANTED)
    assert notices(again.wait(3600.0)).count(NoticeKind.CORRUPT_MESSAGE) == 0
    assert (set(wire.bodies()), aside(again)) == ({b"good"}, 1)
    sound(again)


def test_a_retry_that_the_peer_closes_for_is_parked_after_five_more_strikes() -> None:
    play = Play()
    wire = parked(play, b"x")
    play.call("retry", LOW)
    assert wire.bodies() == [b"x"]
    wire = strikes(play, wire, 4)
    assert aside(play) == 0
    assert NoticeKind.PARKED in notices(wire.end())
    assert aside(play) == 1


def test_what_waits_before_a_parked_one_that_is_retried_is_not_passed_over() -> None:
    """Of eight rows four are in flight and the seventh cannot be read: the fifth and the sixth wait in memory."""
    play = Play(limits=Limits(window_messages=4))
    play.peer(LOW, WANTED).lose()
    for number in range(1, 9):
        play.send("c", "k", b"%d" % number)
    play.store.corrupt(7)
    wire = play.accepted(LOW)
    wire.request(WANTED)
    first = wire.messages()
    play.call("retry", LOW)
    wire.ack(*first)
    assert [message.body for message in first] == [b"1", b"2", b"3", b"4"]
    assert wire.bodies() == [b"5", b"6", b"8"]
