"""Numbers of a node for whoever watches it: counters of peers, ages of what waits, round trips, ends, queues."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tolliver_proto import ConnectionLost, Limits, MalformedFrame, Message, Policy
from tolliver_proto._node.outboxes.ledger import _MARKS, StoredTimes
from tolliver_proto.errors import AccessDenied, UndeliveredReason
from tolliver_proto.node import EndCause, Histogram, PeerNumbers
from tolliver_proto.testing import MemoryStore

from .play import LOW, OTHER, Play, deliveries

WANTED = ("c", "")


def of(play: Play, uuid: UUID = LOW) -> PeerNumbers:
    (found,) = (one for one in play.node.numbers(play.now) if one.info.uuid == uuid)
    return found


def age(play: Play, uuid: UUID = LOW) -> float | None:
    return of(play, uuid).oldest_unacknowledged


def counters(play: Play, **expected: int) -> None:
    found = of(play).counters
    assert {name: found[name] for name in expected} == expected


# Counters.


def test_messages_to_a_peer_are_counted_once_each_and_their_copies_apart() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"1")
    play.send("c", "k", b"2")
    play.send("c", "k", b"3")
    counters(play, sent=3, resent=0, acknowledged=0, connects=1)
    assert play.node.stats().sent == 3
    assert (of(play).in_flight, of(play).backoff) == (3, 0)
    wire.ack(wire.messages()[0])
    play.wait(12.0)
    counters(play, sent=3, resent=2, acknowledged=1)
    assert (of(play).in_flight, of(play).backoff) == (2, 2)
    wire.lose()
    counters(play, connects=1, disconnects_in_order=1)
    play.peer(LOW, WANTED)
    counters(play, sent=3, resent=4, connects=2)
    assert (play.node.stats().sent, play.node.stats().resent) == (3, 4)


def test_a_new_one_behind_copies_counts_as_sent() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.peer(LOW, WANTED)
    play.send("c", "k", b"1")
    play.wires[play.peer(LOW, WANTED).cid].messages()
    play.send("c", "k", b"2")
    counters(play, sent=2)
    assert play.node.stats().sent == 2


def test_messages_of_a_peer_are_counted() -> None:
    play = Play(handlers=[("c", "", "handler")], subscriptions=[WANTED], policy=Policy(dedupe=10))
    wire = play.peer(LOW)
    for body in (b"1", b"2"):
        play.node.acknowledge(deliveries(wire.send(Message("c", "k", body, len(body)))), now=play.now)
    counters(play, delivered=2, duplicates=0)
    wire.send(Message("c", "k", b"2", 1))
    counters(play, delivered=2, duplicates=1)
    assert of(play).counters["received_bytes"] > 0
    assert of(play).counters["sent_bytes"] > 0


def test_a_dead_letter_counts_for_its_sender() -> None:
    play = Play(handlers=[("c", "", "handler")], subscriptions=[WANTED])
    wire = play.peer(LOW)
    play.node.give_up(deliveries(wire.send(Message("c", "k", b"bad", 7))), "never", now=play.now)
    play.run()
    counters(play, dead_letters=1)


def test_deliveries_that_are_given_up_have_their_reason() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.send("c", "k", b"1")
    play.send("c", "k", b"2", expire_after=5.0)
    play.wait(10.0)
    counters(play, given_up_expired=1)
    assert play.node.stats().given_up[UndeliveredReason.EXPIRED] == 1
    assert play.node.stats().given_up[UndeliveredReason.FORGOTTEN] == 0


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (None, EndCause.IN_ORDER),
        (ConnectionLost("cut"), EndCause.LOST),
        (MalformedFrame("bad", "bad"), EndCause.PROTOCOL),
        (AccessDenied("not you"), EndCause.HERE),
    ],
)
def test_an_end_has_a_cause(error: Any, cause: EndCause) -> None:
    assert EndCause.of(error) is cause


def test_ends_are_counted_by_cause() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose(ConnectionLost("cut"))
    stats = play.node.stats()
    assert (stats.connects, sum(stats.disconnects.values())) == (1, 1)
    assert stats["disconnects_in_order"] == 0


# Ages.


def test_the_age_is_that_of_the_oldest_that_waits() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    assert age(play) is None
    play.send("c", "k", b"1")
    play.wait(3.0)
    play.send("c", "k", b"2")
    play.wait(2.0)
    first, second = wire.messages()
    assert age(play) == pytest.approx(5.0)
    wire.ack(first)
    assert age(play) == pytest.approx(2.0)
    wire.ack(second)
    assert age(play) is None


def test_it_is_so_for_one_that_is_away_and_comes_back() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"1")
    wire.ack(*wire.messages())
    wire.lose()
    play.wait(5.0)
    play.send("c", "k", b"2")
    play.wait(4.0)
    play.send("c", "k", b"3")
    play.send("c", "k", b"4")
    assert age(play) == pytest.approx(4.0)
    play.hold_fetches = True
    wire = play.peer(LOW, WANTED)
    assert age(play) == pytest.approx(4.0)
    play.fetched()
    play.wait(1.0)
    second, *_ = wire.messages()
    wire.ack(second)
    assert age(play) == pytest.approx(1.0)
    wire.lose()
    play.wait(1.0)
    assert age(play) == pytest.approx(2.0)


def test_the_oldest_may_be_on_disk_still() -> None:
    play = Play(limits=Limits(window_messages=1))
    play.peer(LOW, WANTED).lose()
    for number in range(3):
        play.send("c", "k", b"%d" % number)
        play.wait(2.0)
    wire = play.accepted(LOW)
    wire.request(WANTED)
    play.hold_fetches = True
    for oldest in (4.0, 2.0):
        wire.ack(*wire.messages())
        assert age(play) == pytest.approx(oldest)
    assert wire.messages() == []


def test_one_in_backoff_is_older_than_those_that_follow() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.send("c", "k", b"1")
    play.wait(15.0)
    play.send("c", "k", b"2")
    assert age(play) == pytest.approx(15.0)
    wire.ack(wire.messages()[0])
    assert age(play) == pytest.approx(0.0)


@pytest.mark.parametrize(("first", "second", "oldest"), [(5.0, None, 6.0), (None, 5.0, 10.0)])
def test_one_that_is_given_up_ages_no_more(first: float | None, second: float | None, oldest: float) -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.send("c", "k", b"1", expire_after=first)
    play.wait(4.0)
    play.send("c", "k", b"2", expire_after=second)
    play.wait(6.0)
    assert play.pending() == 1
    assert age(play) == pytest.approx(oldest)


def test_one_that_is_being_stored_has_no_age_yet() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.hold_commits = True
    play.send("c", "k", b"1")
    assert age(play) is None
    play.finish()
    assert age(play) == 0.0


def test_ages_go_on_after_a_restart() -> None:
    play = Play()
    play.peer(LOW, WANTED).lose()
    play.peer(OTHER, ("d", "")).lose()
    play.send("c", "k", b"1")
    store = play.store.snapshot()
    store.age = 100.0
    again = Play(store=store)
    assert not any(of(again).counters.values()), "they count from the start"
    assert age(again) == pytest.approx(100.0)
    assert age(again, OTHER) is None
    again.wait(1.0)
    again.send("c", "k", b"2")
    assert age(again) == pytest.approx(101.0)
    wire = again.accepted()
    wire.request(WANTED)
    wire.ack(wire.messages()[0])
    assert age(again) == pytest.approx(0.0)


def test_an_empty_store_has_no_ages() -> None:
    assert MemoryStore().load().ages == []


def test_marks_are_thinned_out_and_ages_are_never_too_small() -> None:
    times = StoredTimes([(10, -1.0)])
    assert times.of(11) is None
    for number in range(3 * _MARKS):
        times.stored(11 + number, float(number))
    assert times.of(10) == -1.0
    for number in range(0, 3 * _MARKS, 17):
        found = times.of(11 + number)
        assert found is not None
        assert found <= number
        assert found >= number - _MARKS / 8
    assert times.of(10 + 3 * _MARKS) == 3 * _MARKS - 1


def test_marks_that_lie_close_are_one() -> None:
    times = StoredTimes()
    times.stored(1, 1.0)
    times.stored(2, 1.05)
    times.stored(3, 1.2)
    assert [times.of(seq) for seq in (1, 2, 3)] == [1.0, 1.0, 1.2]


# Round trips.


def test_the_round_trip_is_that_of_one_message_at_a_time() -> None:
    play = Play()
    wire = play.peer(LOW, WANTED)
    play.wait(1.0)
    assert of(play).round_trip is None
    play.send("c", "k", b"1")
    play.wait(0.2)
    play.send("c", "k", b"2")
    play.wait(0.3)
    first, second = wire.messages()
    wire.ack(second)
    assert of(play).round_trip is None
    wire.ack(first)
    assert of(play).round_trip == pytest.approx(0.5)
    play.send("c", "k", b"3")
    play.wait(0.1)
    wire.ack(*wire.messages())
    assert of(play).round_trip == pytest.approx(0.1)
    assert sum(play.node.round_trips.counts) == 2
    assert play.node.round_trips.sum == pytest.approx(0.6)


def test_a_histogram_counts_by_upper_bounds() -> None:
    histogram, heard = Histogram((1.0, 2.0)), list[float]()
    histogram.listeners += (heard.append,)
    histogram.add(1.0)
    histogram.add(1.5, 3)
    histogram.add(9.0)
    assert histogram.counts == [1, 3, 1]
    assert histogram.sum == 14.5
    assert heard == [1.0, 1.5, 9.0]


# Queues.
