"""Hub, call by call: connections, writes, demand, pressure and turns.

The peer is a script that obeys no rule, or another hub.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.reactive.wires import IDENTITY, NO_FAILURES, TIGHT, Wires, downs, paused
from tolliver_proto import Dial, PauseReading, ResumeReading, Transmit
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    ConnectionClosed,
    Drained,
    Elements,
    Goodbye,
    Happened,
    HubStats,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    PeerDown,
    PeerUp,
    Request,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)
from tolliver_proto.reactive._hub import ELEMENT_COST

OURS = {Role.CLIENT: ClientHello(extensions=(1,)), Role.SERVER: ServerHello(extensions=(1,))}

# A connection, from its cid on.


def test_dialled() -> None:
    wires = Wires()
    cid = wires.hub.connect("there", 0.0)
    assert wires.actions() == [Dial(cid, "there")]
    wires.hub.opened(cid, Role.CLIENT, IDENTITY)
    assert wires.actions() == [Transmit(cid, [encode(OURS[Role.CLIENT])])], "a client says hello at once (R-25)"
    assert wires.feed(cid, ServerHello()) == [PeerUp(cid, IDENTITY, "there")]
    assert not wires.hub.idle
    assert repr(wires.hub) == "<Hub, 1 connections>"
    wires.hub.close()
    assert repr(wires.hub) == "<Hub, 1 connections, closing>"


def test_came_in() -> None:
    wires = Wires()
    cid = wires.hub.new_cid(0.0, "192.0.2.1")
    assert cid is not None
    wires.hub.opened(cid, Role.SERVER, IDENTITY)
    assert wires.actions() == [], "a server waits for the client's hello (R-25)"
    assert wires.feed(cid, ClientHello()) == [
        PeerUp(cid, IDENTITY, None),
        Transmit(cid, [encode(OURS[Role.SERVER])]),
    ]


def test_cids_are_never_used_twice() -> None:
    wires = Wires()
    first = wires.link()
    wires.hub.lost(first, None)
    assert wires.link() != first


def test_streams_both_ways_between_two_hubs() -> None:
    one, two = Wires(), Wires()
    near, far = one.link(Role.CLIENT), two.link(Role.SERVER)
    seen: list[tuple[str, Any]] = []

    def move() -> None:
        for _ in range(8):
            for name, here, cid, there, other in (("one", one, near, two, far), ("two", two, far, one, near)):
                for action in here.actions():
                    if isinstance(action, Transmit):
                        here.hub.sent(cid)
                        there.hub.receive_data(other, b"".join(action.units))
                    elif isinstance(action, Happened):
                        seen.append((name, action.event))

    move()
    taken, given = one.hub.subscribe(near, "p", 2), two.hub.subscribe(far, "q")
    move()
    two.hub.subscribed(far, taken, 1)
    one.hub.error(near, given, "no q here")
    assert two.hub.next_many(far, taken, [b"a", b"b"]) == 2
    assert two.hub.wanted(far, taken) == 0
    move()
    one.hub.request(near, taken, 1)
    move()
    assert two.hub.wanted(far, taken) == 1
    assert two.hub.complete(far, taken)
    move()
    assert [event for name, event in seen if name == "one"] == [
        Subscribe("q", given, 0),
        Subscribed(taken, 1),
        Elements(taken, [b"a", b"b"]),
        OnComplete(taken),
    ]
    assert [event for name, event in seen if name == "two"] == [
        Subscribe("p", taken, 2),
        Subscribed(given, 0),
        OnError(given, "no q here"),
        Request(taken, 1),
    ]


# One Transmit at a time.


def test_frames_gather_while_a_transmit_is_outstanding() -> None:
    wires = Wires()
    cid = wires.up()
    first, second = wires.hub.subscribe(cid, "p"), wires.hub.subscribe(cid, "q")
    assert wires.actions() == [Transmit(cid, [encode(Subscribe("p", first)) + encode(Subscribe("q", second))])]
    wires.hub.request(cid, first, 3)
    assert wires.actions() == []
    wires.hub.cancel(cid, second)
    assert wires.hub.stats()["unsent_bytes"] > 0
    wires.hub.sent(cid)
    assert wires.actions() == [Transmit(cid, [encode(Request(first, 3)) + encode(Cancel(second))])]
    wires.hub.sent(cid)
    assert wires.actions() == []
    assert wires.hub.stats()["unsent_bytes"] == 0


def test_each_connection_is_written_for_itself() -> None:
    wires = Wires()
    one, two = wires.up(), wires.up()
    wires.hub.subscribe(one, "p")
    wires.hub.subscribe(two, "p")
    assert sorted(action.cid for action in wires.actions()) == [one, two]


# Demand and pressure.


def test_whoever_was_told_zero_is_told_drained() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    assert wires.hub.wanted(cid, 1) == UNBOUNDED
    wires.hub.next_many(cid, 1, [bytes(100)])
    assert wires.hub.wanted(cid, 1) == 0, "at high water"
    (transmit,) = wires.actions()
    assert wires.hub.wanted(cid, 1) == 0, "what is in transit counts"
    wires.hub.sent(cid)
    assert wires.actions() == [Drained(cid)], (transmit, "and once")
    assert wires.hub.wanted(cid, 1) == UNBOUNDED
    wires.hub.sent(cid)
    assert wires.actions() == []


def test_drained_waits_for_low_water() -> None:
    """The bytes behind the Transmit that is outstanding are still too many."""
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    wires.hub.next_many(cid, 1, [bytes(50)])
    assert len(wires.actions()) == 1
    wires.hub.next_many(cid, 1, [bytes(50)])
    assert wires.hub.wanted(cid, 1) == 0
    wires.hub.sent(cid)
    (transmit,) = wires.actions()
    assert isinstance(transmit, Transmit)
    assert wires.hub.wanted(cid, 1) == 0, "54 bytes are above low water"
    wires.hub.sent(cid)
    assert wires.actions() == [Drained(cid)]


def test_drained_below_low_water_while_a_little_is_queued() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    wires.hub.next_many(cid, 1, [bytes(100)])
    assert len(wires.actions()) == 1
    wires.hub.next_many(cid, 1, [b"a"])
    assert wires.hub.wanted(cid, 1) == 0
    wires.hub.sent(cid)
    drained, transmit = wires.actions()
    assert drained == Drained(cid)
    assert isinstance(transmit, Transmit)
    assert wires.hub.wanted(cid, 1) == UNBOUNDED


def test_zero_without_demand_is_told_by_the_request() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, 1)
    wires.hub.next_many(cid, 1, [bytes(200)])
    assert wires.hub.wanted(cid, 1) == 0
    assert len(wires.actions()) == 1
    wires.hub.sent(cid)
    assert wires.actions() == [], "nobody waits for room: there is no demand"
    assert wires.feed(cid, Request(1, 5)) == [Happened(cid, Request(1, 5))]
    assert wires.hub.wanted(cid, 1) == 5


def test_zero_of_a_stream_that_ends_is_told_by_cancel() -> None:
    wires = Wires(limits=TIGHT)
    cid = wires.up(Role.SERVER)
    wires.giving(cid, UNBOUNDED)
    wires.hub.next_many(cid, 1, [bytes(200)])
    assert wires.hub.wanted(cid, 1) == 0
    wires.hub.lost(cid, None)
    assert Happened(cid, Cancel(1)) in wires.actions()


# Reading stops where the application does not follow (D-9).


def test_reading_pauses_and_goes_on() -> None:
    wires = Wires(limits=Limits(max_unread=10 * ELEMENT_COST))
    cid = wires.up()
    stream = wires.taking(cid)
    assert not any(isinstance(action, PauseReading) for action in wires.feed(cid, *[OnNext(stream, b"")] * 10))
    over = wires.feed(cid, OnNext(stream, b"x"))
    assert over == [PauseReading(cid), Happened(cid, Elements(stream, [b"x"]))]
    assert wires.feed(cid, OnNext(stream, b"y")) == [Happened(cid, Elements(stream, [b"y"]))], "told once"
    assert wires.hub.stats()["unread_bytes"] == 12 * ELEMENT_COST + 2
    wires.hub.took(cid, 0, 6)
    assert wires.actions() == [], "more than half is left"
    wires.hub.took(cid, 2, 1)
    assert wires.actions() == [ResumeReading(cid)]
    wires.hub.took(cid, 0, 5)
    assert wires.actions() == []
    assert wires.hub.stats() == HubStats(connections=1, paused=1, dials=1, dials_failed=NO_FAILURES)


def test_elements_of_a_packed_frame_each_cost() -> None:
    wires = Wires(limits=Limits(max_unread=10 * ELEMENT_COST))
    cid = wires.up()
    stream = wires.taking(cid, size=1)
    packed = OnNextPacked(stream, (b"x",) * 11)
    assert wires.feed(cid, packed) == [PauseReading(cid), Happened(cid, Elements(stream, [b"x"] * 11))]


def test_our_goodbye_reads_on() -> None:
    """Frames that come are dropped now, and the peer's goodbye is behind them."""
    wires, cid, stream = paused()
    wires.hub.goodbye(cid, "bye")
    actions = wires.actions()
    assert ResumeReading(cid) in actions
    assert Happened(cid, OnError(stream, str(ConnectionClosed("bye")))) in actions
    wires.hub.sent(cid)
    assert wires.feed(cid, OnNext(stream, b"x"), OnNext(stream, b"x"), Goodbye())[0] == PeerDown(
        cid, "there", None, "bye"
    )


def test_the_peers_goodbye_reads_on() -> None:
    wires, cid, _ = paused()
    actions = wires.feed(cid, Goodbye("enough"))
    assert downs(actions) == [PeerDown(cid, "there", None, "enough")]
    assert ResumeReading(cid) in actions


def test_took_on_a_connection_that_is_gone() -> None:
    wires, cid, _ = paused()
    wires.hub.lost(cid, None)
    wires.actions()
    wires.hub.took(cid, 1, 1)
    assert wires.actions() == []


# A peer that says much at once waits for the others (D-12).


def subscribes(count: int) -> list[Subscribe]:
    return [Subscribe("p", number, 0) for number in range(1, count + 1)]


def events(actions: list[Any], cid: int) -> list[Any]:
    return [action.event for action in actions if isinstance(action, Happened) and action.cid == cid]


def test_a_turn_has_a_share_for_each_connection() -> None:
    """Order and number are as they were; what waits is not read beyond, and the others come in between."""
    wires = Wires(limits=Limits(max_turn=10))
    loud, good = wires.up(Role.SERVER), wires.up(Role.SERVER)
    said = subscribes(35)
    wires.hub.receive_data(loud, b"".join(map(encode, said)), 0.0)
    first = wires.feed(good, Subscribe("p", 1, 0))
    assert events(first, loud) == said[:10]
    assert events(first, good) == [Subscribe("p", 1, 0)], "in the same turn"
    assert PauseReading(loud) in first
    assert wires.hub.next_timeout() == 0.0, "at once"
    assert wires.actions() == [], "not before all others had their turn"
    assert events(wires.feed(good, Request(1, 1)), good) == [Request(1, 1)]
    assert events(wires.feed(loud, Subscribe("p", 36, 0)), loud) == [], "nor because more has come"
    assert events(wires.wait(0.0), loud) == said[10:20]
    assert events(wires.wait(0.0), loud) == said[20:30]
    last = wires.wait(0.0)
    assert events(last, loud) == [*said[30:], Subscribe("p", 36, 0)]
    assert last[-1] == ResumeReading(loud)
    assert wires.hub.next_timeout() is None
    assert wires.hub.stats() == HubStats(connections=2, rested=3, dials_failed=NO_FAILURES)


def test_what_waits_for_its_turn_is_answered_meanwhile() -> None:
    wires = Wires(limits=Limits(max_turn=10))
    cid = wires.up(Role.SERVER)
    wires.feed(cid, *subscribes(15))
    for number in range(1, 11):
        wires.hub.error(cid, number, "no")
    assert len([frame for frame in wires.said(cid) if isinstance(frame, OnError)]) == 10
    assert events(wires.wait(0.0), cid) == subscribes(15)[10:], "a call leads to none before its turn"


@pytest.mark.parametrize("how", ["goodbye", "lost", "close"])
def test_an_end_comes_after_what_waits_for_its_turn(how: str) -> None:
    wires = Wires(limits=Limits(max_turn=10))
    cid = wires.up(Role.SERVER)
    wires.feed(cid, *subscribes(25), Goodbye("enough"))
    if how == "lost":
        wires.hub.lost(cid, None)
    elif how == "close":
        wires.hub.close()
    told = wires.actions()
    for _ in range(10):
        told += wires.wait(0.0)
    given = subscribes(25 if how == "lost" or how == "goodbye" else 10)
    ended = [Cancel(one.subscriber_id) for one in given]
    assert events(told, cid) == [*given[10:], *ended]
    assert isinstance(next(action for action in reversed(told) if isinstance(action, Happened | PeerDown)), PeerDown)
    assert wires.hub.next_timeout() in (None, wires.hub.limits.close_timeout), "no turn is due"


def test_a_connection_that_is_gone_has_no_turn() -> None:
    wires = Wires(limits=Limits(max_turn=1))
    cid = wires.up(Role.SERVER)
    wires.feed(cid, *subscribes(2))
    wires.hub.lost(cid, None)
    for _ in range(10):
        wires.wait(0.0)
    assert wires.hub.idle
    assert wires.hub.next_timeout() is None
