"""Golden vectors of streams, both directions, cut anywhere (V1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, product

import pytest

from tolliver_proto.reactive import Decoder, OnNext, OnNextPacked, Subscribed, decode, encode

from .vectors import VECTORS, Vector

Record = Callable[[str, object], None]
vectors = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


def read(pieces: list[bytes], sizes: dict[int, int]) -> list[object]:
    decoder = Decoder(dict(sizes))
    frames = []
    for piece in pieces:
        decoder.feed(piece)
        while (frame := decoder.next_frame()) is not None:
            frames.append(frame)
    decoder.finish()
    return frames


@vectors
def test_both_directions(vector: Vector) -> None:
    assert encode(vector.frame, vector.sizes) == vector.data
    assert decode(vector.data, dict(vector.sizes)) == [vector.frame]


@pytest.mark.search
@vectors
def test_every_cut_in_two_and_three_and_single_bytes(vector: Vector, record_property: Record) -> None:
    data = vector.data
    places = [*((at,) for at in range(len(data) + 1)), *combinations(range(len(data) + 1), 2)]
    for cuts in places:
        edges = [0, *cuts, len(data)]
        pieces = [data[one:two] for one, two in pairwise(edges)]
        assert read(pieces, vector.sizes) == [vector.frame], cuts
    assert read([data[at : at + 1] for at in range(len(data))], vector.sizes) == [vector.frame]
    record_property("V1 cuts of a golden vector", len(places))


def needed(vector: Vector) -> dict[int, int]:
    """The element size by which this frame is read."""
    frame = vector.frame
    if not isinstance(frame, OnNext | OnNextPacked):
        return {}
    return {frame.subscriber_id: vector.sizes.get(frame.subscriber_id, 0)}


def sizes_before(one: Vector, two: Vector) -> dict[int, int] | None:
    """Element sizes under which these two may follow each other; None if a stream would have two."""
    sizes = needed(one)
    for stream, size in needed(two).items():
        if isinstance(one.frame, Subscribed) and one.frame.subscriber_id == stream:
            said = one.frame.element_size
        else:
            said = sizes.setdefault(stream, size)
        if said != size:
            return None
    return sizes


@pytest.mark.search
def test_every_pair_of_vectors(record_property: Record) -> None:
    """But for two in a row that give one stream two element sizes, which no peer can mean. Those of two kinds of frames
    are cut everywhere, for one frame of each kind in streams with and without an element size."""
    pairs, of_each_kind = 0, {(type(vector.frame), bool(vector.sizes)): vector for vector in VECTORS}.values()
    for one, two in product(VECTORS, VECTORS):
        begin = sizes_before(one, two)
        if begin is None:
            continue
        data, frames = one.data + two.data, [one.frame, two.frame]
        assert decode(data, dict(begin)) == frames
        assert read([data[at : at + 1] for at in range(len(data))], begin) == frames
        for at in range(len(data)) if one in of_each_kind and two in of_each_kind else ():
            assert read([data[:at], data[at:]], begin) == frames, (one.name, two.name, at)
        pairs += 1
    record_property("V1 golden vectors", len(VECTORS))
    record_property("V1 ordered pairs", pairs)


def test_decode_remembers_the_sizes_that_pass() -> None:
    sizes: dict[int, int] = {7: 2}
    by_name = {vector.name: vector for vector in VECTORS}
    stream = [by_name[name] for name in ("subscribed", "on-next-fixed", "on-next-packed")]
    assert decode(b"".join(one.data for one in stream), sizes) == [one.frame for one in stream]
    assert sizes == {7: 2, 1: 4}
    assert decode(bytes.fromhex("060100") + by_name["on-next"].data, sizes)[1] == by_name["on-next"].frame
    assert sizes == {7: 2}
