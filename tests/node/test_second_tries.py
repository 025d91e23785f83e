"""Parked messages: what parks one, and the tries that follow by themselves (T-09)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tolliver_proto import ConnectionLost, Limits, Message, NoticeKind, PeerIdentity, Role, StoreError
from tolliver_proto._node.exposure import Exposure

from .play import LOW, Play, Wire, notices
from .test_upkeep import WANTED, back, parked, sound, strikes, up

MINUTE = 60.0


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
    assert play.node._up[wire.cid].exposure.round_trip == 3.0


def test_an_ack_that_is_quicker_than_the_handshake_shows_a_shorter_way() -> None:
    exposure = Exposure()
    exposure.round_trip = 3.0
    exposure.handed([1])
    exposure.taken(10.0)
    exposure.taken(10.0)
    assert (exposure.at(14.9), exposure.over_at(14.9)) == ([1], 15.0)
    exposure.acked(11.0)
    exposure.acked(12.0)
    assert (exposure.round_trip, exposure.at(12.0), exposure.over_at(12.0)) == (1.0, [], 12.0)
    exposure.handed([2])
    assert (exposure.at(50.0), exposure.over_at(50.0)) == ([2], 53.0)
    exposure.acked(60.0)
    assert exposure.at(60.0) == []


# Second tries.


def test_a_parked_message_is_tried_again_when_the_peer_has_been_up_for_a_minute() -> None:
    play = Play()
    wire = parked(play, b"x")
    play.wait(MINUTE - 2.0)
    assert (aside(play), wire.messages()) == (1, [])
    play.wait(2.0)
    [message] = wire.messages()
    assert (message.body, aside(play)) == (b"x", 0)
    wire.ack(message)
    play.wait(1.0)
    assert (play.pending(), play.store.messages) == (0, [])
    sound(play)


def test_an_ack_of_another_message_lets_one_be_tried_when_the_pause_is_over() -> None:
    play = Play()
    wire = parked(play, b"x")
    for _ in range(3):  # never up for a minute
        play.wait(25.0)
        wire.lose(ConnectionLost("reset"))
        wire = up(play)
    assert aside(play) == 1
    play.send("c", "k", b"other")
    wire.ack(*wire.messages())
    play.wait(0.0)
    assert (wire.bodies(), aside(play)) == ([b"x"], 0)


def test_while_one_is_tried_nothing_else_is_sent_for_ten_seconds() -> None:
    play = Play()
    wire = parked(play, b"x")
    play.wait(MINUTE)
    assert wire.bodies() == [b"x"]
    play.send("c", "k", b"later")
    play.wait(8.0)
    assert wire.bodies() == []
    play.wait(2.0)
    assert b"later" in wire.bodies(), "it is an ordinary message again"
    assert aside(play) == 0


def test_another_that_is_due_first_does_not_go_before_it() -> None:
    play = Play(retry_interval=60.5)
    wire = parked(play, b"x")
    play.send("c", "k", b"due")
    wire.got()
    play.wait(MINUTE - 2.0)
    play.hold_fetches = True
    play.wait(2.0)
    play.wait(2.0)
    play.hold_fetches = False
    play.fetched()
    assert wire.bodies() == [b"x"]
    play.wait(10.0)
    assert b"due" in wire.bodies()


def test_it_is_sent_when_nothing_else_may_be_what_the_peer_closes_for() -> None:
    play = Play()
    wire = parked(play, b"x")
    play.wait(MINUTE - 2.5)
    play.send("c", "k", b"other")
    assert wire.bodies() == [b"other"]
    play.wait(1.6)
    assert (aside(play), wire.bodies()) == (0, [])
    play.wait(1.0)
    assert wire.bodies() == [b"x"]


def test_it_waits_for_its_turn_no_longer_than_ten_seconds() -> None:
    """The socket is slow: something else is on its way all the time."""
    play = Play(retry_interval=300.0)
    wire = parked(play, b"x")
    play.wait(MINUTE - 1.5)
    play.hold_writes = True
    play.send("c", "k", b"slow")
    play.wait(12.0)
    play.hold_writes = False
    play.written()
    assert wire.bodies() == [b"slow", b"x"]


def test_one_that_fails_again_is_set_aside_at_once_and_tried_after_twice_the_pause() -> None:
    play = Play()
    wire = parked(play, b"x")
    tries = []
    began = play.now
    for _ in range(12):
        for _ in range(10_000):
            play.wait(10.0)
            if wire.messages():
                break
        tries.append(play.now - began)
        began = play.now
        assert NoticeKind.PARKED in notices(wire.end())
        wire.lose()
        assert aside(play) == 1
        wire = up(play)
    assert [round(one / MINUTE) for one in tries] == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]


def test_of_a_thousand_one_forced_end_a_minute_at_most() -> None:
    """And those that are taken go a minute apart."""
    play = Play()
    wire = parked(play, b"x", b"y")
    ends: list[float] = []
    for number in range(1_000):
        play.send("c", "k", b"%d" % number)
    for one in range(1_000):
        play.node._park(play.node._peers[LOW].outbox, LOW, 3 + one, play.store.messages[2 + one].size)
    wire.lose(ConnectionLost("reset"))
    wire = up(play)
    assert aside(play) == 1_002
    for _ in range(6 * 120):
        play.wait(10.0)
        if wire.messages():
            ends.append(play.now)
            wire.end()
            wire.lose()
            wire = up(play)
    assert 3 <= len(ends) <= 120
    assert all(later - one >= MINUTE for one, later in pairwise(ends))


def tried(play: Play, wire: Wire) -> Message:
    """The message that is tried next."""
    for _ in range(40):
        play.wait(10.0)
        messages = wire.messages()
        if messages:
            [message] = messages
            return message
    raise AssertionError("nothing is tried")


def refused(play: Play, wire: Wire) -> Wire:
    wire.end()
    wire.lose()
    return up(play)


def test_what_is_as_large_as_one_that_failed_is_left_alone() -> None:
    play = Play()
    wire = parked(play, b"large", b"as large or larger", b"s")
    assert tried(play, wire).body == b"large"
    wire = refused(play, wire)
    small = tried(play, wire)
    assert small.body == b"s"
    wire.ack(small)
    assert tried(play, wire).body == b"large", "by itself it may be tried, and shows when the peer takes more"
    wire = refused(play, wire)
    large = tried(play, wire)
    assert large.body == b"large"
    wire.ack(large)
    assert tried(play, wire).body == b"as large or larger"


def test_after_another_end_all_may_be_tried_again() -> None:
    play = Play()
    wire = parked(play, b"same size 1", b"same size 2")
    assert tried(play, wire).body == b"same size 1"
    wire = refused(play, wire)
    assert tried(play, wire).body == b"same size 1", "the other is as large"
    wire = refused(play, wire)
    wire.lose(ConnectionLost("reset"))
    wire = up(play)
    assert tried(play, wire).body == b"same size 2"


def test_a_row_that_cannot_be_read_is_never_tried() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    for body in (b"bad", b"good"):
        play.send("c", "k", body)
    play.store.corrupt(1)
    wire = play.accepted(LOW)
    wire.request(WANTED)
    assert (wire.bodies(), aside(play)) == ([b"good"], 1)
    fetches = len(play.fetches)
    play.wait(20 * MINUTE)
    assert aside(play) == 1
    assert len([one for one in play.fetches[fetches:] if one.after_seq == 0]) == 0
    again = play.restart()
    wire = again.accepted(LOW)
    wire.request(WANTED)
    actions = again.wait(20 * MINUTE)
    assert notices(actions).count(NoticeKind.CORRUPT_MESSAGE) == 1, "found again, and remembered"
    assert [message.body for message in wire.messages() if message.body == b"bad"] == []
    sound(again)


def test_what_waits_before_one_that_is_tried_again_is_not_passed_over() -> None:
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


def test_a_peer_that_is_away_or_under_suspicion_is_not_tried() -> None:
    play = Play()
    wire = parked(play, b"x")
    play.send("c", "k", b"next")
    wire = strikes(play, wire, 3)
    assert play.node._peers[LOW].outbox.poison.alone
    play.node._on_parked_timeout(LOW)
    play.node._on_parked_timeout(LOW)
    assert aside(play) == 1
    wire.lose()
    play.wait(3 * MINUTE)
    play.node._on_parked_timeout(LOW)
    assert aside(play) == 1


def test_a_try_that_is_not_stored_or_not_found_changes_nothing() -> None:
    play = Play()
    parked(play, b"x")
    play.search_error = StoreError("no more file descriptors")
    play.wait(MINUTE)
    play.search_error = None
    assert aside(play) == 1
    play.hold_commits = True
    play.wait(3 * MINUTE)
    play.fail()
    play.hold_commits = False
    assert aside(play) == 1
    sound(play)


def test_a_try_whose_connection_is_lost_leaves_an_ordinary_message() -> None:
    play = Play()
    wire = parked(play, b"x", b"y")
    play.hold_commits = True
    play.wait(MINUTE)
    wire.lose(ConnectionLost("reset"))
    play.hold_commits = False
    play.finish()
    assert (aside(play), play.pending()) == (1, 1)
    wire = up(play)
    assert wire.bodies() == [b"x"]
    sound(play)
