"""The golden vectors, in both directions and however the bytes are cut (V1)."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import pytest

from tolliver_proto.reactive import Decoder, decode, encode

from .vectors import FIXED, VECTORS, Vector

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
def test_every_cut_in_two_and_three_and_single_bytes(vector: Vector) -> None:
    data = vector.data
    places = [*((at,) for at in range(len(data) + 1)), *combinations(range(len(data) + 1), 2)]
    for cuts in places:
        edges = [0, *cuts, len(data)]
        pieces = [data[one:two] for one, two in pairwise(edges)]
        assert read(pieces, vector.sizes) == [vector.frame], cuts
    assert read([data[at : at + 1] for at in range(len(data))], vector.sizes) == [vector.frame]


def test_every_pair_of_vectors() -> None:
    for one, two in product(VECTORS, VECTORS):
        sizes = FIXED if one.name == "subscribed" else one.sizes  # it gives its stream a size
        if "onNext" not in two.name or sizes == two.sizes:
            data = one.data + two.data
            assert decode(data, dict(one.sizes)) == [one.frame, two.frame]
            assert read([data[at : at + 1] for at in range(len(data))], one.sizes) == [one.frame, two.frame]


def test_decode_remembers_the_sizes_that_pass() -> None:
    sizes: dict[int, int] = {7: 2}
    by_name = {vector.name: vector for vector in VECTORS}
    stream = [by_name[name] for name in ("subscribed", "onNext of a fixed size", "onNextPacked")]
    assert decode(b"".join(one.data for one in stream), sizes) == [one.frame for one in stream]
    assert sizes == {7: 2, 1: 4}
    assert decode(bytes.fromhex("060100") + by_name["onNext"].data, sizes)[1] == by_name["onNext"].frame
    assert sizes == {7: 2}
