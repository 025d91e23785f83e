"""Frames that are too long for one stream end that stream alone, and a long packed frame that is wanted is taken (R-18,
R-22, R-23, R-34)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reactive.drive import Engine
from tolliver_proto import LimitExceeded, UnexpectedEOF
from tolliver_proto.reactive import (
    UNBOUNDED,
    Closed,
    Connection,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Role,
    ServerHello,
    Subscribed,
    encode,
)

SMALL = Limits(max_packed=20, max_text=8, max_name=8)
SIZE = 4


def taking(demand: int = UNBOUNDED) -> Connection:
    """A stream 1 with elements of four bytes."""
    conn = Connection(Role.CLIENT, limits=SMALL, now=0.0)
    conn.subscribe("p", demand)
    conn.receive_data(encode(ServerHello()) + encode(Subscribed(1, SIZE)))
    list(conn.events())
    conn.data_to_send()
    return conn


def packed(elements: list[bytes]) -> bytes:
    return encode(OnNextPacked(1, tuple(elements)), {1: SIZE})


def taken(conn: Connection, take: Callable[[Connection], Any]) -> tuple[list[bytes], list[Any]]:
    """Elements that come now, and the other events."""
    elements: list[bytes] = []
    others: list[Any] = []
    while (event := take(conn)) is not None:
        found = [event.element] if isinstance(event, OnNext) else getattr(event, "elements", None)
        elements += found or ()
        others += [event] if found is None else []
    return elements, others


@given(st.integers(6, 40), st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_a_long_packed_frame_that_is_wanted_is_handed_out_in_parts(count: int, cuts: list[int], runs: bool) -> None:
    """However the bytes are cut, whole elements come as soon as they are here, and what is behind the frame is read."""
    elements = [b"%04d" % number for number in range(count)]
    data = packed(elements) + packed(elements[:2]) + encode(OnComplete(1))
    conn = taking(demand=count + 2)
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    came: list[bytes] = []
    rest: list[Any] = []
    for start, stop in pairwise(places):
        conn.receive_data(data[start:stop])
        now, others = taken(conn, Connection.next_run if runs else Connection.next_event)
        came += now
        rest += others
        assert len(came) >= min(count, (stop - 3) // SIZE)
        assert conn.buffered_bytes < 3 + 2 * SIZE, "no more is kept than the short frame, before its last byte"
    assert (came, rest) == (elements + elements[:2], [OnComplete(1)])


def test_a_part_is_no_longer_than_a_packed_frame_may_be() -> None:
    conn = taking()
    conn.receive_data(packed([b"abcd"] * 12))
    assert [len(event.elements) for event in conn.events() if isinstance(event, OnNextPacked)] == [5, 5, 2]


def test_an_element_that_is_longer_than_a_packed_frame_comes_alone() -> None:
    conn = Connection(Role.CLIENT, limits=SMALL, now=0.0)
    conn.subscribe("p", 2)
    conn.receive_data(encode(ServerHello()) + encode(Subscribed(1, 30)))
    conn.receive_data(encode(OnNextPacked(1, (b"a" * 30, b"b" * 30)), {1: 30}))
    assert [event.elements for event in conn.events() if isinstance(event, OnNextPacked)] == [
        (b"a" * 30,),
        (b"b" * 30,),
    ]


def test_a_long_packed_frame_beyond_the_demand_is_the_end() -> None:
    conn = taking(demand=5)
    conn.receive_data(packed([b"abcd"] * 6)[:4])
    *_, closed = conn.events()
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, LimitExceeded)


def test_a_packed_frame_beyond_the_demand_that_is_not_long_ends_its_stream_alone() -> None:
    conn = taking(demand=4)
    conn.receive_data(packed([b"abcd"] * 5))
    [error] = conn.events()
    assert isinstance(error, OnError)
    conn.receive_data(packed([b"abcd"] * 5))
    assert list(conn.events()) == [], "the connection goes on"


def test_a_long_packed_frame_of_a_stream_that_is_over_is_dropped() -> None:
    """It was on its way when the stream was cancelled; or is cancelled in its middle."""
    conn = taking()
    data = packed([b"abcd"] * 10)
    conn.receive_data(data[:13])
    assert list(conn.events()) == [OnNextPacked(1, (b"abcd", b"abcd"))]
    conn.cancel(1)
    conn.receive_data(data[13:] + data)
    assert list(conn.events()) == []
    again = conn.subscribe("p", 1)
    conn.receive_data(encode(Subscribed(again, 0)))
    assert list(conn.events()) == [Subscribed(again, 0)]


def test_the_end_inside_a_long_packed_frame() -> None:
    conn = taking()
    conn.receive_data(packed([b"abcd"] * 10)[:11])
    assert len(list(conn.events())) == 1
    conn.receive_eof()
    *_, closed = conn.events()
    assert isinstance(closed, Closed)
    assert isinstance(closed.error, UnexpectedEOF)


@pytest.mark.parametrize("text", ["a" * 20, "\u20ac" * 6], ids=["ascii", "characters of three bytes"])
def test_a_long_error_ends_its_stream_with_the_beginning_of_its_text(text: str) -> None:
    engine = Engine(Role.CLIENT, limits=SMALL)
    stream, other = engine.joined(demand=1), engine.joined(demand=1)
    [error] = engine.feed(OnError(stream, text))
    assert error == OnError(stream, text.encode()[:8].decode(errors="ignore"))
    assert engine.feed(OnNext(other, b"x")) == [OnNext(other, b"x")]


def test_a_text_that_is_longer_than_a_packed_frame_is_the_end() -> None:
    engine = Engine(Role.CLIENT, limits=SMALL)
    engine.feed(OnError(engine.joined(demand=1), "a" * 21))
    assert isinstance(engine.closed.error, LimitExceeded)
