"""Two live instances of one UUID (T-70): a cloned machine and its original."""

from __future__ import annotations

from typing import Any

import pytest

from tolliver_proto import (
    Ack,
    Action,
    ConnectionLost,
    Dial,
    Notice,
    NoticeKind,
    PeerUp,
    Policy,
    ShutdownWrite,
    Subscribe,
)
from tolliver_proto._testing.inspection import inside

from ..play import LOW, OTHER, Play, Wire, aborted, every, notices, only
from ..table import Table

WANTED = ("c", "")


def clones(play: Play, *wanted: tuple[str, str]) -> tuple[Wire, Wire]:
    """A connection that has taken the place of another one twice, and one that comes after it."""
    for _ in range(3):
        older = play.peer(LOW, *wanted)
        play.wait(1.0)
    newer = play.accepted(LOW)
    newer.request(*wanted)
    return older, newer


def up(play: Play, wire: Wire) -> bool:
    return inside(play.node).context.up.get(wire.cid) is not None


def probed(wire: Wire) -> int:
    [probe] = [one for one in wire.messages() if one.channel == "tolliver.probe"]
    assert probe.message_id is not None
    return probe.message_id


def test_the_older_one_stays_if_it_answers() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    assert (up(play, older), up(play, newer)) == (True, False)
    assert newer.got() == []
    older.send(Ack(probed(older)))
    actions = play.wait(0.0)
    assert only(actions, ShutdownWrite).cid == newer.cid
    assert NoticeKind.DUPLICATE_IDENTITY in notices(actions)
    assert (up(play, older), newer.got()) == (True, [])
    play.send("c", "k", b"x")
    assert older.bodies() == [b"x"]


def test_the_newer_one_is_taken_if_no_answer_comes_in_five_seconds() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    probed(older)
    assert every(play.wait(4.9), PeerUp) == []
    assert only(play.wait(0.2), PeerUp).cid == newer.cid
    assert (up(play, older), up(play, newer)) == (False, True)
    play.send("c", "k", b"x")
    assert newer.bodies() == [b"x"]


@pytest.mark.parametrize("answers", [False, True])
def test_a_peer_that_we_dial_at_two_places_is_asked_too(answers: bool) -> None:
    """Both connections are ours: the handshake goes on, or fails, after its response came."""
    play = Play()
    wires = []
    for number in range(4):  # all dialled before anybody answers
        wires.append(play.dialled(play.call("connect", f"there {number}")))
    for wire in wires:
        wire.respond(WANTED)
    older, newer = wires[2:]
    assert (up(play, older), up(play, newer)) == (True, False)
    if answers:
        older.send(Ack(probed(older)))
    actions = play.wait(5.0)
    assert bool(every(actions, PeerUp)) is not answers
    assert (up(play, older), up(play, newer)) == (answers, not answers)


def test_for_a_minute_no_newer_one_is_taken_unless_the_older_one_ends() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    older.send(Ack(probed(older)))
    play.wait(0.0)
    newer.lose()
    for _ in range(2):
        play.wait(29.0)
        again = play.accepted(LOW)
        assert only(again.request(WANTED), ShutdownWrite).cid == again.cid
    assert up(play, older)
    older.lose(ConnectionLost("reset"))
    again = play.accepted(LOW)
    assert only(again.request(WANTED), PeerUp).cid == again.cid


def test_after_a_minute_the_newest_wins_again() -> None:
    play = Play()
    older, _ = clones(play, WANTED)
    older.send(Ack(probed(older)))
    play.wait(60.1)
    assert up(play, play.peer(LOW, WANTED))


def test_while_one_waits_others_are_closed() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    third = play.accepted(LOW)
    assert only(third.request(WANTED), ShutdownWrite).cid == third.cid
    older.lose()
    play.wait(0.0)
    assert up(play, newer), "and as the older one has ended, who waited goes on at once"


def test_while_one_waits_the_end_of_a_third_decides_nothing() -> None:
    """Of one that we dialled, while its list is being stored."""
    play = Play()
    older, newer = clones(play, WANTED)
    play.hold_commits = True
    third = play.dialled(play.call("connect", "there"))
    third.respond(WANTED, ("d", ""))
    third.lose()
    play.wait(0.0)
    play.hold_commits = False
    play.finish()
    assert (up(play, older), up(play, newer)) == (True, False)


def test_an_older_one_that_is_being_closed_is_not_asked() -> None:
    """By us, and its peer has not ended its half."""
    play = Play()
    for _ in range(3):
        older = play.peer(LOW, WANTED)
    inside(play.node).links.end(inside(play.node).context.links[older.cid])
    play.run()
    newer = play.accepted(LOW)
    assert every(newer.request(WANTED), PeerUp) == []
    assert older.messages() == []
    older.end()
    older.lose()
    play.wait(0.0)
    assert up(play, newer)


def test_three_times_in_more_than_a_minute_is_no_duel() -> None:
    play = Play()
    for _ in range(5):
        wire = play.peer(LOW, WANTED)
        assert up(play, wire)
        play.wait(31.0)


def test_one_that_waits_and_ends_is_gone() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    newer.lose(ConnectionLost("reset"))
    play.wait(0.0)
    assert play.node.stats()["connections"] == 3, "the older one, and those that were replaced and not closed"
    older.send(Ack(probed(older)))
    play.wait(6.0)
    assert up(play, older)


@pytest.mark.parametrize(("probe", "is_lost"), [("off", False), ("message", True)])
def test_an_older_one_that_does_not_answer_is_lost_where_probes_are_asked_for(probe: Any, is_lost: bool) -> None:
    """Though nobody waits for its place any more."""
    play = Play(policy=Policy(probe=probe, probe_interval=1000.0, probe_timeout=100.0))
    older, newer = clones(play, WANTED)
    newer.lose()
    assert older.cid not in aborted(play.wait(99.9))
    assert aborted(play.wait(0.2)) == [older.cid] * is_lost
    assert play.node.stats().probes == 1


def test_one_that_waits_and_is_closed_by_us_is_gone() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    inside(play.node).links.end(inside(play.node).context.links[newer.cid])
    play.run()
    older.send(Ack(probed(older)))
    play.wait(0.0)
    newer.end()
    newer.lose()
    assert newer.cid not in inside(play.node).context.links


def test_one_that_waits_and_is_aborted_is_gone() -> None:
    play = Play()
    older, newer = clones(play, WANTED)
    inside(play.node).links._abort(inside(play.node).context.links[newer.cid])
    older.send(Ack(probed(older)))
    play.wait(0.0)
    assert up(play, older)


def test_one_that_waits_and_is_forgotten_or_closed_is_gone() -> None:
    for call, argument in (("forget_peer", LOW), ("close", None)):
        play = Play()
        clones(play, WANTED)
        play.call(call, *([argument] if argument else []))
        for cid in list(play.wires):
            play.wires[cid].end()
            play.wires[cid].lose()
        play.wait(10.0)
        assert play.node.stats()["connections"] == 0


@pytest.mark.parametrize(("heard", "stays"), [(None, False), (0.5, False), (2.0, True)])
def test_one_that_wants_everything_cannot_be_asked_and_is_listened_to(heard: float | None, stays: bool) -> None:
    """A probe would be handed to its application, if it is not one of ours (T-80)."""
    play = Play()
    older, newer = clones(play, ("", ""))
    assert older.messages() == []
    if heard is not None:
        play.wait(heard)
        older.send(Subscribe("more", "", 7))
    play.wait(5.0)
    assert (up(play, older), up(play, newer)) == (stays, not stays)


@pytest.mark.parametrize("probe", ["off", "message"])
def test_a_probe_that_is_on_its_way_is_question_enough(probe: str) -> None:
    policy = Policy(probe=probe, probe_interval=2.5, probe_timeout=30.0)  # type: ignore[arg-type]  # one of its words
    play = Play(policy=policy)
    older, _ = clones(play, WANTED)
    play.wait(4.0)
    older.send(Ack(probed(older)))
    play.wait(0.0)
    assert up(play, older)


def test_without_an_id_for_a_probe_the_newest_wins() -> None:
    play = Play()
    inside(play.node).ledger.ids.live.add(1, 2**31 - 2)
    _, newer = clones(play, WANTED)
    play.wait(5.0)
    assert up(play, newer)


def test_an_instance_whose_connections_end_at_once_is_told() -> None:
    play = Play()
    told: list[Notice] = []
    actions = play.call("connect", "there")
    for number in range(4):
        wire = play.dialled(actions, OTHER)
        wire.respond(WANTED)
        play.wait(0.5)
        told += told_of_clones(wire.end())
        actions = wire.lose()
        while not every(actions, Dial):
            actions = play.wait(1.0)
        assert len(told) == (number >= 2)
    assert str(play.node.instance_id) in told[0].detail
    [more] = told_of_clones(play.wait(60.0))
    assert more.detail.startswith("4 connections")


def told_of_clones(actions: list[Action]) -> list[Notice]:
    return [one for one in every(actions, Notice) if one.kind is NoticeKind.DUPLICATE_IDENTITY]


def test_who_dials_us_may_be_brief() -> None:
    """As `tolliver send` is, run after run."""
    play = Play()
    for _ in range(6):
        wire = play.peer(OTHER, WANTED)
        assert told_of_clones(wire.end() + wire.lose()) == []


@pytest.mark.parametrize("how", ["long", "reset"])
def test_other_ends_are_no_sign_of_a_clone(how: str) -> None:
    play = Play()
    for _ in range(6):
        wire = play.peer(OTHER, WANTED)
        if how == "long":
            play.wait(3.0)
            actions = wire.end()
            wire.lose()
        else:
            actions = wire.lose(ConnectionLost("reset"))
        assert NoticeKind.DUPLICATE_IDENTITY not in notices(actions)


# No storm.


@pytest.mark.search
@pytest.mark.parametrize("wildcard", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_two_clones_cost_at_most_sixty_handshakes_a_minute(seed: int, wildcard: bool) -> None:
    """Seats 0 and 1 are one instance, twice; both dial seat 2."""
    table = Table(seed, seats=3)
    original, clone, third = table.seats
    clone.uuid, clone.store = original.uuid, original.store.snapshot()
    clone.start()
    for seat in (original, clone):
        seat.call("subscribe", "", "" if wildcard else "k")
        seat.connect(2)
    minutes: list[int] = []
    for _ in range(3):
        before, end = table.dials, table.now + 60.0
        while table.now < end:
            third.send("news", "k", b"%f" % table.now)
            table.run_for(1.0)
        minutes.append(table.dials - before)
    assert max(minutes) <= 60
    assert third.node.stats().notices[NoticeKind.DUPLICATE_IDENTITY] >= (not wildcard)
