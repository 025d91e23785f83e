"""Publisher half: answers, demand, packing, refusals, bad subscribers (R-13 to R-24)."""

from __future__ import annotations

import pytest

from tolliver_proto import LimitExceeded, LocalProtocolError, OwnLimitExceeded, UnexpectedFrame
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Subscribe,
    Subscribed,
)

from .drive import Engine

#


def test_an_id_that_is_active() -> None:
    engine = Engine()
    stream = engine.opened()
    events = engine.feed(Subscribe("q", stream, 0))
    assert events[0] == Cancel(stream)
    assert isinstance(engine.closed.error, UnexpectedFrame)
    assert "duplicate subscriber id" in engine.said()[-1].reason


def test_a_refusal() -> None:
    engine = Engine()
    engine.feed(Subscribe("nobody", 1, 5), Subscribe("empty", 2, 5))
    assert engine.conn.error(1, "no such publisher")
    assert engine.conn.complete(2)
    assert engine.said() == [Subscribed(1), OnError(1, "no such publisher"), Subscribed(2), OnComplete(2)]


@pytest.mark.parametrize("count", [0, -1, -(2**63)])
@pytest.mark.parametrize("answered", [True, False])
def test_a_request_of_nothing(count: int, answered: bool) -> None:
    engine = Engine()
    if answered:
        engine.opened(demand=1)
    else:
        engine.feed(Subscribe("p", 1, 1))
    assert engine.feed(Request(1, count), Request(1, 1)) == [Cancel(1)]
    *before, error = engine.said()
    assert before == ([] if answered else [Subscribed(1)])
    assert "3.9" in error.message
    assert not engine.conn.next(1, b"late")


def test_what_comes_for_ids_that_are_over_or_unknown() -> None:
    engine = Engine()
    assert engine.feed(Request(5, 1), Request(5, -1), Cancel(5)) == []
    assert engine.said() == []


# Cancels.


def test_a_cancel_ends_it_at_once() -> None:
    engine = Engine()
    stream = engine.opened(demand=100)
    engine.conn.next(stream, b"one")
    engine.said()
    assert engine.feed(Cancel(stream)) == [Cancel(stream)]
    assert not engine.conn.next(stream, b"two")
    assert engine.conn.next_many(stream, [b"two"]) == 0
    assert not engine.conn.complete(stream)
    assert engine.conn.demand(stream) == 0
    assert engine.said() == []
    assert engine.feed(Subscribe("p", stream, 0)) == [Subscribe("p", stream, 0)]


# without bound.


@pytest.mark.parametrize("counts", [[UNBOUNDED], [UNBOUNDED - 1, 1], [2**62, 2**62], [UNBOUNDED, UNBOUNDED]])
def test_without_bound(counts: list[int]) -> None:
    engine = Engine()
    stream = engine.opened()
    engine.feed(*(Request(stream, count) for count in counts))
    assert engine.conn.demand(stream) == UNBOUNDED
    engine.conn.next_many(stream, [b""] * 100)
    assert engine.conn.demand(stream) == UNBOUNDED


# Packing.


def test_elements_of_a_fixed_size_are_packed() -> None:
    engine = Engine(limits=Limits(max_packed=12))
    stream = engine.opened(demand=8, size=4)
    elements = [bytes([number] * 4) for number in range(8)]
    assert engine.conn.next_many(stream, elements[:1]) == 1
    assert engine.conn.next_many(stream, elements[1:]) == 7
    assert engine.conn.next_many(stream, []) == 0
    assert engine.said() == [
        OnNext(stream, elements[0]),
        OnNextPacked(stream, tuple(elements[1:4])),
        OnNextPacked(stream, tuple(elements[4:7])),
        OnNext(stream, elements[7]),
    ]


def test_elements_larger_than_a_pack() -> None:
    engine = Engine(limits=Limits(max_packed=3))
    stream = engine.opened(demand=8, size=4)
    assert engine.conn.next_many(stream, [b"1234", b"5678"]) == 2
    assert engine.said() == [OnNext(stream, b"1234"), OnNext(stream, b"5678")]


@pytest.mark.parametrize("good", [0, 1, 3])
def test_an_element_of_the_wrong_size(good: int) -> None:
    """R-24, 1.4: what stood before it goes out, then one error."""
    engine = Engine()
    stream = engine.opened(demand=9, size=4)
    assert engine.conn.next_many(stream, [b"good"] * good + [b"wrong"] + [b"good"] * bool(good)) == good
    assert not engine.conn.next(stream, b"good")
    *elements, error = engine.said()
    assert sum(len(one.elements) if isinstance(one, OnNextPacked) else 1 for one in elements) == good
    assert isinstance(error, OnError)
    assert "1.4" in error.message


# error texts.


def test_error_texts_are_cut_on_a_character() -> None:
    engine = Engine()
    engine.opened()
    engine.conn.error(1, "x" + "é" * 40_000)
    assert engine.said() == [OnError(1, "x" + "é" * 32_767)]
    engine.feed(Subscribe("p", 1, 0))
    engine.conn.error(1, "a\ud800b")
    assert engine.said() == [Subscribed(1), OnError(1, "a?b")]


# Misuse: raised before anything changes.


def test_calls_that_break_a_rule() -> None:
    engine = Engine(limits=Limits(max_element=8))
    conn = engine.conn
    engine.feed(Subscribe("p", 1, 2))
    with pytest.raises(LocalProtocolError, match=r"1\.9"):
        conn.next(1, b"")
    for size in (-1, "4", None):
        with pytest.raises(LocalProtocolError):
            conn.subscribed(1, size)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(OwnLimitExceeded):
        conn.subscribed(1, 9)
    conn.subscribed(1)
    with pytest.raises(LocalProtocolError, match=r"1\.9"):
        conn.subscribed(1)
    with pytest.raises(LocalProtocolError, match=r"1\.1"):
        conn.next_many(1, [b""] * 3)
    with pytest.raises(OwnLimitExceeded):
        conn.next_many(1, [b"", bytes(9)])
    for element in ("text", None, bytearray(3)):
        with pytest.raises(LocalProtocolError):
            conn.next(1, element)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(LocalProtocolError):
        conn.error(1, None)  # type: ignore[arg-type]  # on purpose
    assert conn.demand(1) == 2
    assert engine.said() == [Subscribed(1)]


@pytest.mark.parametrize("name", ["name", "\u20ac\u20ac"], ids=["characters", "bytes"])
def test_a_name_above_the_limit_is_refused(name: str) -> None:
    engine = Engine(limits=Limits(max_name=3))
    assert engine.feed(Subscribe(name, 1, 0)) == []
    answer, refusal = engine.said()
    assert answer == Subscribed(1)
    assert "the limit is 3 bytes" in refusal.message
    assert engine.feed(Subscribe("nam", 1, 0)) == [Subscribe("nam", 1, 0)], "the connection goes on"


def test_a_name_that_is_longer_than_a_packed_frame_is_the_end() -> None:
    engine = Engine(limits=Limits(max_name=3, max_packed=8, max_text=8))
    engine.feed(Subscribe("n" * 9, 1, 0))
    assert isinstance(engine.closed.error, LimitExceeded)
