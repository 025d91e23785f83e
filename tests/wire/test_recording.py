"""Recordings: round trips, cuts, and damage that is told."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import partial
from itertools import accumulate
from uuid import UUID
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import (
    Ack,
    Decoder,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Limits,
    Message,
    OwnLimitExceeded,
    Revision,
    Subscribe,
    Subscription,
    decode,
    encode,
    recording,
)
from tolliver_proto.recording import (
    BLOCK,
    INDEX,
    INDEX_STEP,
    MAGIC,
    Block,
    BlockHeader,
    Blocks,
    Damage,
    Direction,
    Entry,
    Index,
    Indexer,
    Whole,
    build_index,
    claimed_id,
    encode_block,
    in_order,
    read_blocks,
    whole_frames,
)

from .strategies import cut, frames, instance_id, sizes
from .vectors import BOTH, D1, D2, ONE, TWO, VECTORS, Vector

HEADER = BlockHeader(1_700_000_000_123_456_789, ONE, TWO, 3, Direction.OUT, D2, 1)
FRAME = encode(Message("c", "k", b"body", 1), D2)

OLD = bytes.fromhex(
    "544c5652000100000026a6b03c8e187a03d0f0fa800001890000000070008000000000000001000000000000000000000000"
    "00000000000000000000000101020000000186f4109400000000000000000101890000000070008000000000000001000000"
    "01000000010000000061"
    "544c5652000100000033778419fe187a03d0f0fa83e801890000000070008000000000000001018900000000700080000000"
    "000000020000000000000001000200000002e1fa8d8301000000000000000101890000000070008000000000000002000000"
    "0000030000000100000001000000020000000761626869"
    "544c5652000100000005adc6c47e187a03d0f0fa87d001890000000070008000000000000001018900000000700080000000"
    "000000020000000000000001010200000001f328a8990400000007"
    "544c5652000100000023a95f2f3a187a03d0f0fa8bb801890000000070008000000000000001018900000000700080000000"
    "000000020000000000000001000100000001411f76450300000008000000000000000a00000008746f6c6c69766572000000"
    "01000000016162"
)
"""A recording of a version that knew the drafts alone, with a block of each."""

headers = st.builds(
    BlockHeader,
    st.integers(0, 2**64 - 1),
    instance_id,
    st.none() | instance_id,
    st.integers(0, 2**64 - 1),
    st.sampled_from(Direction),
    st.sampled_from(Revision),
    st.integers(0, 2**32 - 1),
    st.none(),
    st.just(False),
)
recordings = st.lists(st.tuples(headers, st.binary(max_size=80)), max_size=5)


def blocks_of(data: bytes, offset: int = 0) -> list[Block | Damage]:
    return list(read_blocks([data], offset))


def written(blocks: list[tuple[BlockHeader, bytes]]) -> tuple[bytes, list[Block | Damage]]:
    """The recording, and what is to be read from it."""
    encoded = [encode_block(header, payload) for header, payload in blocks]
    starts = [0, *accumulate(map(len, encoded))]
    expected = [Block(start, *block) for start, block in zip(starts, blocks, strict=False)]
    return b"".join(encoded), list(expected)


def header_with(**values: object) -> bytes:
    """A header that is as it was written, by somebody who writes other values."""
    fields = BLOCK.unpack(encode_block(HEADER, FRAME), 0) | values
    return _checked(BLOCK.pack(fields)[:-4])


def _checked(data: bytes) -> bytes:
    return data + struct.pack(">I", crc32(data))


# Blocks.


@pytest.mark.search
@given(recordings, sizes)
def test_what_is_written_is_read_however_it_is_cut(drawn: list[tuple[BlockHeader, bytes]], steps: list[int]) -> None:
    data, expected = written(drawn)
    assert blocks_of(data) == expected
    assert list(read_blocks(cut(data, steps))) == expected
    assert list(read_blocks(map(memoryview, cut(data, steps)))) == expected


def test_what_an_old_version_wrote_is_read_and_written_as_ever() -> None:
    began = 1_763_726_400_000_000_000
    found = list(read_blocks([OLD]))
    headers = [
        BlockHeader(began, ONE, None, 1, Direction.OUT, D2, 1),
        BlockHeader(began + 1000, ONE, TWO, 1, Direction.IN, D2, 2),
        BlockHeader(began + 2000, ONE, TWO, 1, Direction.OUT, D2, 1),
        BlockHeader(began + 3000, ONE, TWO, 1, Direction.IN, D1, 1),
    ]
    written = [
        [HandshakeRequest(1, ONE, (Subscription("a", ""),))],
        [HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION), Message("a", "b", b"hi", 7)],
        [Ack(7)],
        [Subscribe("a", "b", 8)],
    ]
    blocks = [one for one in found if isinstance(one, Block)]
    assert [one.header for one in blocks] == headers
    assert [one.header.first_time_ns for one in blocks] == [one.time_ns for one in headers]
    assert [decode(one.payload, one.header.revision) for one in blocks] == written
    assert list(in_order(found)) == found
    assert b"".join(encode_block(one.header, one.payload) for one in blocks) == OLD


def test_a_block_whose_bytes_come_one_by_one_is_read_once() -> None:
    data, [expected] = written([(HEADER, FRAME)])
    blocks = Blocks()
    found = []
    for at in range(len(data)):
        blocks.feed(data[at : at + 1])
        found.append(blocks.next_block())
    assert found == [None] * (len(data) - 1) + [expected]


def test_a_block_says_where_its_frames_are() -> None:
    data, _ = written([(HEADER, FRAME), (HEADER, FRAME * 2)])
    last = blocks_of(data)[-1]
    assert isinstance(last, Block)
    assert data[last.payload_offset :] == FRAME * 2


@given(recordings.filter(bool), sizes, st.data())
def test_a_torn_file_gives_what_is_whole_and_says_where_it_is_torn(
    drawn: list[tuple[BlockHeader, bytes]], steps: list[int], data: st.DataObject
) -> None:
    whole, expected = written(drawn)
    end = data.draw(st.integers(0, len(whole) - 1))
    ends = [*(block.offset for block in expected), len(whole)]
    good = sum(one <= end for one in ends[1:])
    found = list(read_blocks(cut(whole[:end], steps)))
    assert found[:good] == expected[:good]
    if end == ends[good]:
        assert len(found) == good
    else:
        (torn,) = found[good:]
        assert isinstance(torn, Damage)
        assert (torn.offset, torn.torn, torn.resumes) == (ends[good], True, None)
        assert f"{end - ends[good]} bytes" in torn.detail


@pytest.mark.parametrize("bit", range(8))
def test_no_flipped_bit_is_silent(bit: int) -> None:
    whole, expected = written([(HEADER, FRAME), (HEADER._replace(peer=None), FRAME * 3), (HEADER, b"")])
    ends = [*(block.offset for block in expected[1:]), len(whole)]
    for at in range(len(whole)):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1 << bit
        number = sum(at >= end for end in ends)
        found = blocks_of(bytes(spoiled))
        assert found[:number] == expected[:number]
        damage = found[number]
        assert isinstance(damage, Damage)
        assert damage.offset == expected[number].offset
        if at - damage.offset < BLOCK.size:
            assert (damage.resumes, len(found)) == (None, number + 1)
        else:  # the header is good, so its length can be followed
            assert damage.resumes == ends[number]
            assert found[number + 1 :] == expected[number + 1 :]


@given(st.binary(max_size=300), sizes)
def test_garbage_is_never_a_block_and_never_raises(garbage: bytes, steps: list[int]) -> None:
    found = list(read_blocks(cut(garbage, steps)))
    assert len(found) == bool(garbage)
    assert all(isinstance(one, Damage) and one.offset == 0 for one in found)


def test_nothing_is_read_behind_a_damaged_header() -> None:
    """A body may hold a recording: what looks like a block is none."""
    inner = encode_block(HEADER, FRAME)
    data = bytearray(encode_block(HEADER, encode(Message("c", "k", inner, 1), D2)))
    data[4] ^= 1
    blocks = Blocks()
    blocks.feed(data)
    assert isinstance(blocks.next_block(), Damage)
    blocks.feed(encode_block(HEADER, FRAME))
    assert blocks.next_block() is None
    assert blocks.finish() is None


@pytest.mark.parametrize(
    ("data", "words", "resumes"),
    [
        (header_with(layout=3), "layout version 3 is not known", None),
        (header_with(length=recording.MAX_LENGTH + 1), "the limit is", None),
        (header_with(direction=2) + FRAME, "2 is not a valid Direction", BLOCK.size + len(FRAME)),
        (header_with(revision=9) + FRAME, "9 is not a valid Revision", BLOCK.size + len(FRAME)),
        (header_with(magic=b"RVLT"), "no block begins here", None),
    ],
)
def test_what_a_later_or_hostile_writer_may_say(data: bytes, words: str, resumes: int | None) -> None:
    damage = blocks_of(data + encode_block(HEADER, FRAME))[0]
    assert isinstance(damage, Damage)
    assert words in damage.detail
    assert damage.resumes == resumes


def test_a_length_above_the_bound_is_refused_at_the_header() -> None:
    blocks = Blocks(max_length=len(FRAME) - 1)
    blocks.feed(encode_block(HEADER, FRAME)[: BLOCK.size])
    damage = blocks.next_block()
    assert isinstance(damage, Damage)
    assert "the limit is" in damage.detail
    assert list(read_blocks([encode_block(HEADER, FRAME)], max_length=len(FRAME))) == blocks_of(
        encode_block(HEADER, FRAME)
    )


def test_a_block_that_nobody_would_read_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_LENGTH", 10)
    with pytest.raises(OwnLimitExceeded, match="the limit is 10"):
        encode_block(HEADER, bytes(11))


def test_no_frame_begins_as_a_recording_does() -> None:
    for revision in BOTH:
        assert whole_frames(MAGIC, revision) == Whole(0, 0, None)


# The index.


def a_recording(lengths: list[int]) -> tuple[bytes, list[Entry]]:
    """Blocks with payloads so long, and where each stands."""
    encoded = [encode_block(HEADER._replace(cid=number), bytes(size)) for number, size in enumerate(lengths)]
    starts = accumulate(map(len, encoded), initial=0)
    when = HEADER.time_ns
    places = [Entry(start, number, when, when) for number, start in zip(range(len(lengths)), starts, strict=False)]
    return b"".join(encoded), places


def indexed(data: bytes) -> Index:
    """As the writer does it."""
    indexer = Indexer()
    for block in blocks_of(data):
        assert isinstance(block, Block)
        size = BLOCK.size + len(block.payload)
        indexer.add(data[block.offset : block.offset + size], size)
    return indexer.index()


def read_at(data: bytes, offset: int, size: int) -> bytes:
    return data[offset : offset + size]


@pytest.mark.parametrize(
    "lengths",
    [[], [0], [100, 200], [300_000] * 12, [INDEX_STEP - BLOCK.size] * 3, [3 * INDEX_STEP, 5, INDEX_STEP, 7]],
    ids=str,
)
def test_the_index_has_the_first_block_of_each_mib(lengths: list[int]) -> None:
    data, places = a_recording(lengths)
    index = indexed(data)
    firsts: dict[int, Entry] = {}
    for place in places:
        firsts.setdefault(place.offset // INDEX_STEP, place)
    assert index.entries == tuple(firsts.values())
    assert index.fits(len(data), data[:200])
    assert build_index(partial(read_at, data), len(data)) == index
    assert Index.decode(index.encode()) == index
    for entry in index.entries:
        assert blocks_of(data[entry.offset :], entry.offset) == blocks_of(data)[entry.ordinal :]


def test_reading_goes_on_at_the_entry_behind_the_damage() -> None:
    data, _ = a_recording([300_000] * 12)
    index = indexed(data)
    second, third = index.entries[1:3]
    assert index.after(0) == index.after(second.offset - 1) == second
    assert index.after(second.offset) == third
    assert index.after(len(data)) is None


def test_an_index_is_only_that_of_its_recording() -> None:
    data, _ = a_recording([10, 10])
    index = indexed(data)
    assert not index.fits(len(data) - 1, data)
    assert not index.fits(len(data), encode_block(HEADER, bytes(10)) + data[BLOCK.size + 10 :])


def test_an_index_that_is_damaged_is_none() -> None:
    good = indexed(a_recording([600_000] * 4)[0]).encode()
    for at in range(len(good)):
        spoiled = bytearray(good)
        spoiled[at] ^= 0x10
        assert Index.decode(bytes(spoiled)) is None
        assert Index.decode(good[:at]) is None
    assert Index.decode(good + b"\0") is None


@pytest.mark.parametrize(
    ("values", "entries"),
    [
        ({"magic": b"TLVR"}, [(0, 0)]),
        ({"layout": 3}, [(0, 0)]),
        ({"count": 2**32 - 1}, [(0, 0)]),
        ({}, [(50, 1)]),
        ({"count": 2}, [(8, 0), (8, 1)]),
    ],
    ids=["magic", "layout", "count", "beyond the end", "order"],
)
def test_an_index_that_cannot_be_true_is_none(values: dict[str, object], entries: list[tuple[int, int]]) -> None:
    for layout, times in ((1, ()), (2, (0, 1))):
        head = {"magic": b"TLVI", "layout": layout, "length": 50, "first_header_crc32": 0, "count": 1} | values
        listed = b"".join(struct.pack(f">{len(entry + times)}Q", *entry, *times) for entry in entries)
        assert Index.decode(_checked(INDEX.pack(head) + listed)) is None


def test_an_index_of_the_first_layout_knows_no_times() -> None:
    head = {"magic": b"TLVI", "layout": 1, "length": 50, "first_header_crc32": 7, "count": 2}
    data = _checked(INDEX.pack(head) + struct.pack(">4Q", 0, 0, 40, 3))
    assert Index.decode(data) == Index(50, 7, (Entry(0, 0), Entry(40, 3)))
    assert Entry(0, 0) == Entry(0, 0, 0, 2**64 - 1)


def test_an_entry_has_the_times_of_all_blocks_up_to_the_next() -> None:
    encoded = [encode_block(HEADER._replace(time_ns=when), bytes(400_000)) for when in (5, 9, 3, 7, 20)]
    indexer = Indexer()
    for block in encoded:
        indexer.add(block, len(block))
    assert [entry[2:] for entry in indexer.index().entries] == [(3, 9), (7, 20)]


def test_an_index_that_is_made_anew_ends_where_the_damage_begins() -> None:
    data, places = a_recording([600_000] * 4)
    index = indexed(data)
    spoiled = bytearray(data)
    spoiled[places[2].offset + 20] ^= 1
    rebuilt = build_index(partial(read_at, bytes(spoiled)), len(data))
    assert rebuilt == replace(index, entries=index.entries[:1])
    torn = data[: places[2].offset + 1000]
    assert build_index(partial(read_at, torn), len(torn)) == replace(index, length=len(torn), entries=index.entries[:1])
    shrunk = data[: places[2].offset + 10]  # since its length was asked for
    assert build_index(partial(read_at, shrunk), len(data)).entries == index.entries[:1]


# Whole frames.


@pytest.mark.search
@given(st.data(), st.sampled_from(BOTH))
def test_ends_are_where_the_decoder_has_them(data: st.DataObject, revision: Revision) -> None:
    drawn = [encode(frame, revision) for frame in data.draw(st.lists(frames(revision), max_size=8))]
    stream = b"".join(drawn)
    ends = [0, *accumulate(map(len, drawn))]
    available = data.draw(st.integers(0, len(stream)))
    part = stream[:available]
    count = sum(end <= available for end in ends[1:])
    found = whole_frames(data.draw(st.sampled_from([bytes, bytearray, memoryview]))(part), revision)
    assert found[:2] == (count, ends[count])
    assert found.wanted is not None
    if available == ends[count]:
        assert found.wanted == 1
    else:  # more than there is, and never more than the frame has
        assert available - ends[count] < found.wanted <= ends[count + 1] - ends[count]
    decoder = Decoder(revision, Limits.format())
    decoder.feed(part)
    assert sum(1 for _ in iter(decoder.next_frame, None)) == count


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", Whole(0, 0, 1)),
        (b"\x05", Whole(0, 0, None)),
        (encode(Ack(1), D2) * 2 + b"\xff" * 40, Whole(2, 10, None)),
        (encode(Ack(1), D2) + struct.pack(">BIIII", 3, 0, 0, 2**31, 1), Whole(1, 5, None)),
        (struct.pack(">BIIII", 3, 2**32 - 1, 2**32 - 1, 2**31 - 1, 1), Whole(0, 0, 17 + 2**33 + 2**31 - 3)),
        (struct.pack(">BQ16sI", 0, 1, ONE.bytes, 2**32 - 1), Whole(0, 0, 29 + 8 * (2**32 - 1))),
    ],
    ids=["nothing", "no frame", "garbage", "body above the maximum", "all maxima", "all subscriptions"],
)
def test_hostile_heads(data: bytes, found: Whole) -> None:
    assert whole_frames(data, D2) == found


@pytest.mark.parametrize("names", [("", ""), ("a", ""), ("channel" * 100, "key" * 100)], ids=["", "short", "long"])
def test_a_handshake_that_trickles_in_is_looked_at_a_few_times(names: tuple[str, str]) -> None:
    data = encode(HandshakeRequest(1, ONE, (Subscription(*names),) * 500), D2)
    asked, wanted = 0, 1
    while wanted <= len(data):
        asked += 1
        found = whole_frames(data[:wanted], D2)
        assert found.wanted is not None
        wanted = found.wanted if found.frames == 0 else len(data) + 1
    assert found == Whole(1, len(data), 1)
    assert asked < 500


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_who_a_handshake_is_from(vector: Vector) -> None:
    claimed: UUID | None = getattr(vector.frame, "instance_id", None)
    assert claimed_id(vector.data, vector.revision) == claimed
    assert claimed_id(vector.data[:20], vector.revision) is None


def test_nobody_is_in_no_bytes() -> None:
    assert claimed_id(b"", D1) is None
    assert whole_frames(encode(HandshakeFinal(True), D1), D1) == Whole(1, 2, 1)
