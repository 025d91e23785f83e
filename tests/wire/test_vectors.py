"""Golden vectors: written, read, cut everywhere, put behind one another (V1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, pairwise, product

import pytest

from tolliver_proto import Decoder, HandshakeFinal, Revision, Subscribe, UnexpectedEOF, decode, encode
from tolliver_proto.layouts import Decoded

from .vectors import BOTH, D1, D2, VECTORS, Vector

Record = Callable[[str, object], None]
each = pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)


def read(pieces: Iterable[bytes], revision: Revision) -> list[Decoded]:
    """All frames, taken as soon as they are whole."""
    decoder = Decoder(revision)
    frames: list[Decoded] = []
    for piece in pieces:
        decoder.feed(piece)
        frames += iter(decoder.next_frame, None)
    decoder.finish()
    assert decoder.buffered == 0
    return frames


def cuts(data: bytes, parts: int) -> Iterator[list[bytes]]:
    """Every way to cut `data` into that many pieces."""
    for places in combinations(range(1, len(data)), parts - 1):
        edges = [0, *places, len(data)]
        yield [data[start:end] for start, end in pairwise(edges)]


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@each
def test_written_as_the_table_says(vector: Vector) -> None:
    assert encode(vector.frame, vector.revision) == vector.data


@each
def test_read_whole_and_byte_by_byte(vector: Vector) -> None:
    assert decode(vector.data, vector.revision) == [vector.frame]
    assert read(single_bytes(vector.data), vector.revision) == [vector.frame]


@pytest.mark.search
@each
def test_every_two_way_and_three_way_cut(vector: Vector, record_property: Record) -> None:
    count = 0
    for parts in (2, 3):
        for pieces in cuts(vector.data, parts):
            assert read(pieces, vector.revision) == [vector.frame], pieces
            count += 1
    record_property("V1 cuts of a golden vector", count)


@pytest.mark.search
@pytest.mark.parametrize("revision", Revision)
def test_every_ordered_pair(revision: Revision, record_property: Record) -> None:
    """Those of two kinds of frames are cut everywhere, for one frame of each kind."""
    vectors = [vector for vector in VECTORS if vector.revision is revision]
    of_each_kind = {type(vector.frame): vector for vector in vectors}.values()
    for first, second in product(vectors, vectors):
        data, frames = first.data + second.data, [first.frame, second.frame]
        assert decode(data, revision) == frames
        assert read(single_bytes(data), revision) == frames
        for pieces in cuts(data, 2) if first in of_each_kind and second in of_each_kind else ():
            assert read(pieces, revision) == frames, (first.name, second.name, pieces)
    record_property("V1 golden vectors", len(vectors))
    record_property("V1 ordered pairs", len(vectors) ** 2)


@each
def test_a_part_of_a_frame_is_no_frame(vector: Vector) -> None:
    for size in range(1, len(vector.data)):
        with pytest.raises(UnexpectedEOF):
            decode(vector.data[:size], vector.revision)


def test_the_revisions_agree_on_all_but_finals_and_control_bodies() -> None:
    """C1, C2: the same two bytes mean opposite things, which is why the revision is configuration (C6)."""
    written = {
        revision: {str(vector.frame): vector.data for vector in VECTORS if vector.revision is revision}
        for revision in BOTH
    }
    shared = [vector.frame for vector in VECTORS if vector.revision is D1 and str(vector.frame) in written[D2]]
    different = {type(frame) for frame in shared if written[D1][str(frame)] != written[D2][str(frame)]}
    assert different == {HandshakeFinal, Subscribe}
    assert written[D1][str(HandshakeFinal(False))] == written[D2][str(HandshakeFinal(True))]
