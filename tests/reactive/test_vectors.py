"""Golden vectors of streams, both directions, cut anywhere (V1)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, product

import pytest

from tolliver_proto.reactive import Decoder, decode, encode

from .vectors import FIXED, VECTORS, Vector

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


def test_every_pair_of_vectors(record_property: Record) -> None:
    """But for two in a row that give one stream two element sizes, which no peer can mean."""
    pairs = 0
    for one, two in product(VECTORS, VECTORS):
        says = "onNext" in one.name or one.name == "subscribed"  # which size the stream has
        after = FIXED if one.name == "subscribed" else one.sizes
        if says and "onNext" in two.name and after != two.sizes:
            continue
        begin = one.sizes if says else two.sizes
        data, frames = one.data + two.data, [one.frame, two.frame]
        assert decode(data, dict(begin)) == frames
        assert read([data[at : at + 1] for at in range(len(data))], begin) == frames
        for at in range(len(data) + 1):
            assert read([data[:at], data[at:]], begin) == frames, (one.name, two.name, at)
        pairs += 1
    record_property("V1 golden vectors", len(VECTORS))
    record_property("V1 ordered pairs", pairs)


def test_decode_remembers_the_sizes_that_pass() -> None:
    sizes: dict[int, int] = {7: 2}
    by_name = {vector.name: vector for vector in VECTORS}
    stream = [by_name[name] for name in ("subscribed", "onNext of a fixed size", "onNextPacked")]
    assert decode(b"".join(one.data for one in stream), sizes) == [one.frame for one in stream]
    assert sizes == {7: 2, 1: 4}
    assert decode(bytes.fromhex("060100") + by_name["onNext"].data, sizes)[1] == by_name["onNext"].frame
    assert sizes == {7: 2}
