"""Subscriber half: ids, demand, late signals, bad publishers (R-08 to R-20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tolliver_proto import LocalProtocolError, OwnLimitExceeded, RemoteProtocolError, UnexpectedFrame
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Subscribe,
    Subscribed,
)
from tolliver_proto.reactive._ids import Ids

from .drive import Engine

ENDS: list[Any] = [OnComplete, lambda number: OnError(number, "over")]
ends = pytest.mark.parametrize("end", ENDS, ids=["OnComplete", "OnError"])


# more than was asked for.


@pytest.mark.parametrize("packed", [False, True])
def test_more_elements_than_demand(packed: bool) -> None:
    engine = Engine()
    other = engine.joined(demand=5)
    stream = engine.joined(demand=2, size=1)
    too_many = [OnNextPacked(stream, (b"a", b"b", b"c"))] if packed else [OnNext(stream, b"a")] * 3
    events = engine.feed(*too_many, OnNext(stream, b"d"), OnComplete(stream))
    assert events[:-1] == ([] if packed else [OnNext(stream, b"a")] * 2), "a packed batch is refused whole"
    assert events[-1].subscriber_id == stream
    assert "1.1" in events[-1].message
    assert engine.said() == [Cancel(stream)]
    assert engine.feed(OnNext(other, b"x")) == [OnNext(other, b"x")], "the connection and other streams live"


def test_an_empty_pack() -> None:
    """R-22: accepted as nothing, counted."""
    engine = Engine()
    stream = engine.joined(demand=0, size=4)
    raw = bytes([10, stream, 0])
    assert engine.feed(raw, raw) == []
    assert engine.conn.empty_packs == 2
    engine.conn.request(stream, 1)
    assert engine.feed(OnNext(stream, b"abcd")) == [OnNext(stream, b"abcd")]


# a local request below one.


@pytest.mark.parametrize("count", [0, -1, -(2**70)])
def test_a_request_of_nothing(count: int) -> None:
    engine = Engine()
    stream = engine.joined()
    engine.conn.request(stream, count)
    (event,) = engine.feed()
    assert event.subscriber_id == stream
    assert "3.9" in event.message
    assert engine.said() == [Cancel(stream)]
    engine.conn.request(stream, 0)
    assert engine.feed() == []


def test_an_id_is_not_used_again_before_its_error_is_handed_out() -> None:
    engine = Engine(limits=Limits(max_streams=200))
    streams = [engine.conn.subscribe("p") for _ in range(127)]
    engine.conn.request(streams[0], 0)
    assert engine.conn.subscribe("p") == 128
    assert "3.9" in engine.feed()[0].message
    assert engine.conn.subscribe("p") == streams[0]


# without bound.


@pytest.mark.parametrize(
    "counts", [[UNBOUNDED], [UNBOUNDED + 5], [UNBOUNDED - 1, 1], [2**62, 2**62, 2**62], [2**70, 1]]
)
def test_without_bound(counts: list[int]) -> None:
    engine = Engine()
    stream = engine.joined(demand=0, size=1)
    for count in counts:
        engine.conn.request(stream, count)
    assert [frame.count for frame in engine.said()] == [min(count, UNBOUNDED) for count in counts]
    events = engine.feed(*[OnNextPacked(stream, (b"x",) * 1000)] * 3)
    assert len(events) == 3


def test_an_initial_demand_without_bound() -> None:
    engine = Engine()
    stream = engine.conn.subscribe("p", 2**80)
    assert engine.said() == [Subscribe("p", stream, UNBOUNDED)]


# R-19 and what else may not come.

FORBIDDEN: dict[str, Callable[[int], list[Any]]] = {
    "an element before subscribed": lambda number: [OnNext(number, b"")],
    "an end before subscribed": lambda number: [OnComplete(number)],
    "an error before subscribed": lambda number: [OnError(number, "")],
    "a second subscribed": lambda number: [Subscribed(number), Subscribed(number)],
    "subscribed after the end": lambda number: [Subscribed(number), OnComplete(number), Subscribed(number)],
    "an id that was never used": lambda number: [OnComplete(number + 1)],
    "the id 0": lambda _number: [OnComplete(0)],
    "packed without a size": lambda number: [Subscribed(number), bytes([10, number, 1, 0])],
    "a size above the limit": lambda number: [Subscribed(number, 16 * 2**20 + 1)],
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_ends_the_connection(what: str) -> None:
    engine = Engine()
    stream = engine.conn.subscribe("p", 5)
    events = engine.feed(*FORBIDDEN[what](stream))
    assert isinstance(engine.closed.error, RemoteProtocolError)
    if "the end" not in what:
        assert events[-2].subscriber_id == stream
        assert events[-2].cause is engine.closed.error


# late signals.


@pytest.mark.parametrize("size", [0, 4])
def test_signals_after_our_cancel(size: int) -> None:
    """R-08: dropped, and still read by the remembered size."""
    engine = Engine()
    stream = engine.joined(demand=100, size=size)
    other = engine.joined(demand=1)
    engine.conn.cancel(stream)
    engine.conn.cancel(stream)
    assert engine.said() == [Cancel(stream)]
    late = [OnNext(stream, b"\7\7\7\7")] * 100
    packed = [OnNextPacked(stream, (b"\7\7\7\7",) * 3)] if size else []
    assert engine.feed(*late, *packed, OnComplete(stream), OnComplete(other)) == [OnComplete(other)]


@pytest.mark.parametrize("old", [0, 4])
@pytest.mark.parametrize("new", [0, 3])
def test_an_id_that_is_used_again(old: int, new: int) -> None:
    """R-10: what comes before the answer is of the old subscription, with the old size."""
    engine = reusing()
    stream = engine.joined(demand=9, size=old)
    engine.conn.cancel(stream)
    again = engine.conn.subscribe("q", 1)
    assert again == stream
    engine.said()
    element = b"abc" if new else b"hello"
    late = [OnNext(stream, b"late"), OnNext(stream, b"late"), OnError(stream, "late")]
    fresh = [Subscribed(stream, new), OnNext(stream, element), OnComplete(stream)]
    assert engine.feed(*late, *fresh) == fresh


def reusing() -> Engine:
    """An engine that has to use the next id again at once: all ids of one byte are taken but one."""
    engine = Engine()
    for _ in range(126):
        engine.conn.subscribe("busy")
    engine.said()
    return engine


@pytest.mark.parametrize("times", [1, 2, 5])
def test_subscriptions_that_are_cancelled_before_the_answer(times: int) -> None:
    """Each is answered, and only the last answer counts."""
    engine = reusing()
    for turn in range(times):
        stream = engine.conn.subscribe(f"p{turn}", 1)
        engine.conn.cancel(stream)
    assert engine.conn.subscribe("last", 1) == stream == 127
    old: list[Any] = [Subscribed(stream, 4), OnNext(stream, b"late"), OnComplete(stream)]
    assert engine.feed(*old * times) == []
    fresh = [Subscribed(stream), OnNext(stream, b"fresh"), OnComplete(stream)]
    assert engine.feed(*fresh) == fresh


def test_cancelled_again_before_any_answer() -> None:
    engine = reusing()
    for _ in range(3):
        stream = engine.conn.subscribe("p", 1)
        engine.conn.cancel(stream)
    answers = [Subscribed(stream, 4), OnNext(stream, b"late"), Subscribed(stream), OnComplete(stream)]
    assert engine.feed(*answers, OnNext(stream, b"later"), Subscribed(stream, 2), OnNext(stream, b"xx")) == []
    engine.feed(Subscribed(stream))
    assert isinstance(engine.closed.error, UnexpectedFrame)


# which id.


@ends
def test_the_lowest_id_that_has_ended_comes_next(end: Any) -> None:
    engine = Engine()
    streams = [engine.joined() for _ in range(5)]
    assert streams == [1, 2, 3, 4, 5]
    engine.feed(end(4), end(2))
    assert [engine.joined() for _ in range(3)] == [2, 4, 6]


def test_cancelled_ids_come_last() -> None:
    ids = Ids()
    taken = [ids.take() for _ in range(126)]
    for number in (5, 3):
        ids.cancelled(number)
    ids.ended(taken[9])
    assert [ids.take() for _ in range(5)] == [10, 127, 5, 3, 128]


def test_nothing_is_kept_of_streams_that_are_over() -> None:
    """R-09, 3.13: but for the sizes of fixed ones, of ids that fit a byte."""
    engine = Engine()
    for turn in range(300):
        stream = engine.joined(demand=1, size=turn % 2 * 8)
        engine.conn.cancel(stream)
    assert not engine.conn._subscriber._streams
    assert engine.conn._subscriber._ids.highest == 127
    assert set(engine.conn._subscriber.sizes) <= set(range(1, 128))


# Misuse.


def test_calls_that_break_a_rule() -> None:
    engine = Engine(limits=Limits(max_streams=2, max_name=4))
    conn = engine.conn
    for name, demand in ((b"name", 0), ("\ud800", 0), ("p", "1"), ("p", 1.5)):
        with pytest.raises(LocalProtocolError):
            conn.subscribe(name, demand)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(OwnLimitExceeded):
        conn.subscribe("éé!")
    stream = conn.subscribe("éé")
    with pytest.raises(LocalProtocolError):
        conn.request(stream, None)  # type: ignore[arg-type]  # on purpose
    conn.subscribe("p")
    with pytest.raises(OwnLimitExceeded):
        conn.subscribe("p")
    conn.cancel(stream)
    assert conn.subscribe("p") == 3
    assert [type(frame) for frame in engine.said()] == [Subscribe, Subscribe, Cancel, Subscribe]
