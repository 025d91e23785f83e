"""Strategies for frames, with fitting element sizes, and for streams."""

from __future__ import annotations

from hypothesis import strategies as st

from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)

_EDGES = [0, 1, 127, 128, 16383, 16384, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1]
number = st.sampled_from(_EDGES) | st.integers(0, 2**64 - 1)
long = st.sampled_from([-(2**63), -1, 0, 1, 127, 128, UNBOUNDED]) | st.integers(-(2**63), UNBOUNDED)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.lists(number, max_size=5).map(tuple)
SIZED, FREE = (3, 300), (5, 2**64 - 1)
"""Ids whose streams have the element size 4, and none."""

SIZES = dict.fromkeys(SIZED, 4)
_fixed = st.binary(min_size=4, max_size=4)

frame = st.one_of(
    st.builds(ClientHello, number, numbers),
    st.builds(ServerHello, number, numbers),
    st.builds(Subscribe, text, number, long),
    st.builds(Request, number, long),
    st.builds(Cancel, number),
    st.builds(OnNext, st.sampled_from(FREE), st.binary(max_size=200)),
    st.builds(OnNext, st.sampled_from(SIZED), _fixed),
    st.builds(OnNextPacked, st.sampled_from(SIZED), st.lists(_fixed, min_size=1, max_size=20).map(tuple)),
    st.builds(OnComplete, number),
    st.builds(OnError, number, text),
    st.builds(Goodbye, text),
    st.builds(Subscribed, st.sampled_from([1, 2**40]), number),
)
frames = st.lists(frame, max_size=8)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=5)


def cut(data: bytes, pieces: list[int]) -> list[bytes]:
    """`data` in pieces of these sizes, over and over."""
    found: list[bytes] = []
    at = 0
    while at < len(data):
        size = pieces[len(found) % len(pieces)]
        found.append(data[at : at + size])
        at += size
    return found
