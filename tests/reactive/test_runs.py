"""Reading by `next_run`, which must agree with reading by `events`.

The items come in the same order, with the same answers. Two engines get the same bytes in the same pieces, and the
application calls the same things after the same item. Items that one of them reads by events, the other reads by runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import ConnectionClosing, UnexpectedFrame
from tolliver_proto.reactive import (
    DRAFT,
    UNBOUNDED,
    Cancel,
    ClientHello,
    Closed,
    Connection,
    Decoder,
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
    Subscribe,
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
DOUBTFUL = [
    b"\x0a\x02\x00",  # packed, none
    b"\x87\x80\x00\x81\x00\x82\x80\x00hi",  # numbers longer than they need to be
    b"\x8a\x00\x82\x00\x81\x00four",
    b"\x0a\x02\x0b" + bytes(44),  # above max_packed
    b"\x0a\x01\x01four",  # packed, without an element size
    b"\x07\x01\xad\x02" + bytes(301),  # above max_element
    b"\x07\xff\x01\x00",  # an id that was never used
    b"\x07" + b"\xff" * 10,  # a number of more than 64 bits
    b"\x07\x01" + b"\xff" * 9 + b"\x02",
    b"\x0a\x02" + b"\xff" * 9 + b"\x02",
    b"\x00",
]
raw = st.sampled_from(DOUBTFUL)
others = st.one_of(
    st.builds(Subscribed, ids, st.sampled_from([0, 4])),
    st.builds(OnComplete, ids),
    st.builds(OnError, ids, st.just("gone")),
    st.builds(Goodbye, st.just("end")),
)
# Most go wrong late, so that runs are long.
spoken = st.lists(st.one_of(*[element_frames] * 9, others, raw), max_size=40)
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
"""Other type numbers, one of them longer."""

ODD = Layout(
    [
        *(form for form in DRAFT.forms if form.frame is not OnNext),
        Form(7, OnNext, {"subscriber_id": Kind.NUMBER, "element": Kind.ELEMENT}),
    ]
)
"""A single element has its length in every stream."""

layouts = pytest.mark.parametrize("layout", [DRAFT, SWAPPED, ODD], ids=["draft", "swapped", "odd"])


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


@pytest.mark.search
@layouts
@given(
    frames=spoken,
    demand=demands,
    pieces=sizes | st.just([10_000]),
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


@pytest.mark.parametrize("doubtful", DOUBTFUL, ids=bytes.hex)
@pytest.mark.parametrize("good", [OnNext(FREE, b"good"), OnNext(FIXED, b"good")], ids=repr)
def test_elements_before_what_is_wrong(good: OnNext, doubtful: bytes) -> None:
    """They are handed out, in one run; what is behind them is said as it is by events."""
    data = encode(good, {FIXED: 4}) * 2 + doubtful
    runs, events = began([99] * 4), began([99] * 4)
    seen = read(runs, runs.next_run, [data], {})
    assert seen == read(events, events.next_event, [data], {})
    again = began([99] * 4)
    again.receive_data(data)
    assert again.next_run() == Elements(good.subscriber_id, [b"good"] * 2)


FOUR = [b"four", b"five", b"six ", b"    "]


def test_a_run_is_all_that_stands_there() -> None:
    conn = began([UNBOUNDED, 100, 1, 1])
    free = [bytes(length) for length in (0, 1, 127, 128, 300)]
    frames = [OnNextPacked(FIXED, tuple(FOUR)), OnNext(FIXED, b"more"), *(OnNext(FREE, element) for element in free)]
    data = b"".join(encode(frame, {FIXED: 4}) for frame in frames)
    conn.receive_data(data + encode(OnNext(OTHER_FREE, b"one")) + encode(OnNext(LONG_ID, b"two")) + b"\x07")
    assert conn.next_run() == Elements(FIXED, [*FOUR, b"more"])
    assert conn.next_run() == Elements(FREE, free)
    assert conn.next_run() == Elements(OTHER_FREE, [b"one"])
    assert conn.next_run() == Elements(LONG_ID, [b"two"])
    assert conn.next_run() is None
    assert conn.buffered_bytes == 1


@pytest.mark.parametrize(
    "frame", [OnNext(FREE, b""), OnNext(FIXED, b"four"), OnNextPacked(FIXED, (b"four", b"five"))], ids=repr
)
def test_what_was_not_asked_for_is_judged_in_its_turn(frame: OnNext | OnNextPacked) -> None:
    """R-18: a run ends in front of it, so that there is still time to ask."""
    conn, stream = began([2, 2, 0, 0]), frame.subscriber_id
    elements = [element for _, element in flat(frame)]
    conn.receive_data(encode(frame, {FIXED: 4}) * 4)
    assert conn.next_run() == Elements(stream, elements * (2 // len(elements)))
    conn.request(stream, len(elements))
    assert conn.next_run() == Elements(stream, elements)
    conn.data_to_send()
    refused = conn.next_run()
    assert isinstance(refused, OnError)
    assert "1.1" in refused.message
    assert conn.data_to_send() == [encode(Cancel(stream))]
    assert conn.next_run() is None


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 128, 129, 200])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_pack_is_cut_where_its_elements_are(size: int, count: int) -> None:
    elements = [(number % 251).to_bytes(1, "big") * size for number in range(count)]
    conn = reader(Limits())
    conn.request(FREE, count)
    pack = encode(OnNextPacked(FREE, tuple(elements)), {FREE: size})
    conn.receive_data(encode(Subscribed(FREE, size)) + pack)
    assert conn.next_run() == Subscribed(FREE, size)
    assert conn.next_run() == Elements(FREE, elements)
    assert conn.next_run() is None


def test_late_elements_are_no_run() -> None:
    """R-10: what comes before the answer belongs to the subscription before."""
    conn = began([5, 5, 5, 5])
    conn.cancel(FIXED)
    assert conn.subscribe("p", 5) == FIXED
    late = encode(OnNext(FIXED, b"late"), {FIXED: 4})
    conn.receive_data(late * 2 + encode(Subscribed(FIXED, 2)) + encode(OnNext(FIXED, b"ok"), {FIXED: 2}))
    assert [*iter(conn.next_run, None)] == [Subscribed(FIXED, 2), Elements(FIXED, [b"ok"])]


def test_elements_before_the_answer_are_no_run() -> None:
    """R-19."""
    conn = reader()
    conn.request(FREE, 5)
    conn.receive_data(encode(OnNext(FREE, b"early")))
    assert isinstance([*iter(conn.next_run, None)][-1], Closed)


def test_an_event_of_our_own_comes_before_the_elements_behind_it() -> None:
    conn = began([5, 5, 5, 5])
    conn.receive_data(encode(OnNext(OTHER_FREE, b"one")))
    conn.request(FREE, 0)
    first, second = conn.next_run(), conn.next_run()
    assert isinstance(first, OnError)
    assert second == Elements(OTHER_FREE, [b"one"])


def test_a_decoder_that_failed_gives_no_run() -> None:
    decoder = Decoder(known=lambda subscriber_id: subscriber_id != FREE)
    decoder.feed(encode(OnNext(FREE, b"one")))
    with pytest.raises(UnexpectedFrame):
        decoder.next_frame()
    assert decoder.next_run(lambda _: 5) is None


@layouts
@given(
    elements=st.lists(lengths.map(bytes) | st.binary(max_size=5), max_size=20),
    few=st.lists(fixed, max_size=25),
)
def test_written_at_once_as_one_by_one(elements: list[bytes], few: list[bytes], layout: Layout) -> None:
    conn = Connection(Role.SERVER, limits=SMALL, layout=layout)
    conn.receive_data(encode(ClientHello(), layout=layout))
    conn.receive_data(b"".join(encode(Subscribe("p", stream, 100), layout=layout) for stream in (LONG_ID, FIXED)))
    list(conn.events())
    conn.subscribed(LONG_ID)
    conn.subscribed(FIXED, 4)
    conn.data_to_send()
    packs = [few[at : at + 10] for at in range(0, len(few), 10)]  # as many as max_packed allows
    for stream, some, frames in (
        (LONG_ID, elements, [OnNext(LONG_ID, element) for element in elements]),
        (FIXED, few, [OnNextPacked(FIXED, tuple(pack)) if pack[1:] else OnNext(FIXED, pack[0]) for pack in packs]),
    ):
        assert conn.next_many(stream, some) == len(some)
        said = conn.data_to_send()
        assert len(said) == bool(some)
        assert b"".join(said) == b"".join(encode(frame, {FIXED: 4}, layout=layout) for frame in frames)
        assert conn.demand(stream) == 100 - len(some)
