"""Reading by `next_run` says the same as reading by `events`: the same items in the same order, and the same answers.

The idea: two engines get the same bytes in the same pieces, and the application calls the same things after the same
item. What one of them reads by events, the other reads by runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import ConnectionClosing
from tolliver_proto.reactive import (
    DRAFT,
    UNBOUNDED,
    Connection,
    Elements,
    Form,
    Goodbye,
    Kind,
    Layout,
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

from .strategies import cut, sizes

FREE, FIXED, OTHER_FREE, LONG_ID = 1, 2, 3, 130
SMALL = Limits(max_element=300, max_packed=40)
Step = Callable[[Connection], object]


def reader(limits: Limits = SMALL, layout: Layout = DRAFT) -> Connection:
    """Takes streams with the ids from 1 to 130: without demand, and none is answered yet."""
    conn = Connection(Role.CLIENT, limits=limits, layout=layout)
    conn.receive_data(encode(ServerHello(), layout=layout))
    list(conn.events())
    for _ in range(LONG_ID):
        conn.subscribe("p")
    conn.data_to_send()
    return conn


def flat(item: Any) -> list[Any]:
    """An event or a run as what the application sees, element by element."""
    if isinstance(item, OnNext):
        return [(item.subscriber_id, item.element)]
    if isinstance(item, OnNextPacked | Elements):
        return [(item.subscriber_id, element) for element in item.elements]
    return [item]


def read(conn: Connection, take: Callable[[], Any], pieces: list[bytes], calls: Mapping[int, Step]) -> list[str]:
    """Everything that is seen; `calls` are made after so many items. The bytes that are said go among the items."""
    seen: list[Any] = []
    for piece in [*pieces, None]:
        if piece is None:
            seen.append((conn.buffered_bytes, conn.empty_packs))
            conn.receive_eof()
        else:
            conn.receive_data(piece)
        while (item := take()) is not None:
            seen += flat(item)
            if len(seen) in calls:
                calls[len(seen)](conn)
            said = b"".join(conn.data_to_send())
            if said:
                seen.append(said)
    return [str(item) for item in seen]


class Every(dict[int, Step]):
    """These steps in turn at every place that is asked for; what was asked is remembered."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    def __contains__(self, place: object) -> bool:
        return bool(self._steps)

    def __missing__(self, place: int) -> Step:
        return self.setdefault(place, self._steps[len(self) % len(self._steps)])


ids = st.sampled_from([FREE, FIXED, OTHER_FREE, LONG_ID])
fixed = st.binary(min_size=4, max_size=4)
lengths = st.sampled_from([0, 1, 2, 127, 128, 300])
element_frames = st.one_of(
    st.builds(OnNext, st.sampled_from([FREE, FREE, OTHER_FREE, LONG_ID]), lengths.map(bytes) | st.binary(max_size=5)),
    st.builds(OnNext, st.just(FIXED), fixed),
    st.builds(OnNextPacked, st.just(FIXED), st.lists(fixed, min_size=1, max_size=6).map(tuple)),
)
raw = st.sampled_from(
    [
        b"\x0a\x02\x00",  # packed, none
        b"\x87\x80\x00\x81\x00\x82\x80\x00hi",  # numbers longer than they need to be
        b"\x8a\x00\x82\x00\x81\x00four",
        b"\x0a\x02\x0b" + bytes(44),  # above max_packed
        b"\x0a\x01\x01four",  # packed, without an element size
        b"\x07\x01\xad\x02" + bytes(301),  # above max_element
        b"\x07\xff\x01\x00",  # an id that was never used
        b"\x07" + b"\xff" * 10,  # a number of more than 64 bits
        b"\x07\x01" + b"\xff" * 9 + b"\x02",
        b"\x00",
    ]
)
others = st.one_of(
    st.builds(Subscribed, ids, st.sampled_from([0, 4])),
    st.builds(OnComplete, ids),
    st.builds(OnError, ids, st.just("gone")),
    st.builds(Goodbye, st.just("end")),
)
spoken = st.lists(st.one_of(element_frames, element_frames, element_frames, element_frames, others, raw), max_size=30)
demands = st.lists(st.sampled_from([0, 1, 3, 8, 1000, UNBOUNDED]), min_size=4, max_size=4)


def say(frame: Any, layout: Layout) -> bytes:
    return frame if isinstance(frame, bytes) else encode(frame, {FIXED: 4}, layout=layout)


def began(demand: list[int], layout: Layout = DRAFT) -> Connection:
    conn = reader(layout=layout)
    streams = (FREE, FIXED, OTHER_FREE, LONG_ID)
    conn.receive_data(b"".join(encode(Subscribed(stream, 4 * (stream == FIXED)), layout=layout) for stream in streams))
    list(conn.events())
    for stream, count in zip(streams, demand, strict=True):
        if count:
            conn.request(stream, count)
    conn.data_to_send()
    return conn


SWAPPED = Layout(
    [
        *(form for form in DRAFT.forms if form.frame not in (OnNext, OnNextPacked)),
        Form(300, OnNext, {"subscriber_id": Kind.STREAM, "element": Kind.ELEMENT}),
        Form(7, OnNextPacked, {"subscriber_id": Kind.STREAM, "elements": Kind.ELEMENTS}),
    ]
)
layouts = st.sampled_from([DRAFT, DRAFT, SWAPPED])


def nothing(_conn: Connection) -> None: ...


def subscribe(conn: Connection) -> None:
    with suppress(ConnectionClosing):
        conn.subscribe("p", 2)


counts = st.sampled_from([0, 1, 5, UNBOUNDED])
calls = st.one_of(
    st.just(nothing),
    st.builds(
        lambda stream, count: lambda conn: conn.request(stream, count), ids, st.sampled_from([0, 1, 5, UNBOUNDED])
    ),
    st.builds(lambda stream: lambda conn: conn.cancel(stream), ids),
    st.just(subscribe),
    st.just(lambda conn: conn.goodbye("enough")),
)


@given(
    frames=spoken,
    demand=demands,
    pieces=sizes | st.just([10_000]),
    layout=layouts,
    missing=st.integers(0, 6),
    steps=st.lists(calls, max_size=5),
)
def test_the_same_as_by_events(
    frames: list[Any], demand: list[int], pieces: list[int], layout: Layout, missing: int, steps: list[Step]
) -> None:
    data = b"".join(say(frame, layout) for frame in frames)
    parts = cut(data[: max(0, len(data) - missing)], pieces)
    runs, events = began(demand, layout), began(demand, layout)
    made = Every(steps)
    seen = read(runs, runs.next_run, parts, made)
    assert seen == read(events, events.next_event, parts, dict(made))
