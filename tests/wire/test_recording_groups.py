"""Groups of blocks: round trips, the order of what came, and damage that is told."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any
from unittest.mock import patch
from uuid import UUID
from zlib import compress, crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import Ack, Message, OwnLimitExceeded, Revision, encode, recording
from tolliver_proto.recording import (
    BLOCK,
    GROUP,
    GROUPED,
    Block,
    BlockHeader,
    Codec,
    Damage,
    Direction,
    Gathered,
    Index,
    Indexer,
    Runs,
    build_index,
    encode_block,
    encode_group,
    frame_sizes,
    in_order,
    read_blocks,
    read_taken,
)

from .strategies import cut, frames, sizes
from .vectors import BOTH, D2, ONE, TWO

NOW = 1_700_000_000_123_456_789
IN, OUT = Direction.IN, Direction.OUT
Call = tuple[int, Direction, bytes, int]
"""Whole frames of a connection that one call brought, and its time."""

calls = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(Direction),
        st.lists(frames(D2), min_size=1, max_size=3).map(lambda some: b"".join(encode(one, D2) for one in some)),
        st.integers(0, 2**64 - 1) | st.integers(NOW, NOW + 10**6),
    ),
    min_size=1,
    max_size=12,
)


def gathered(made: list[Call], begin: int = 0, carried: int = 0) -> list[Gathered]:
    """The calls in blocks, as a recorder puts them together. `carried`: bytes of the first that had come before."""
    streams: dict[tuple[int, Direction], tuple[list[bytes], Runs]] = {}
    position = begin - carried
    for cid, direction, data, time_ns in made:
        position += len(data)
        parts, runs = streams.setdefault((cid, direction), ([], Runs([], [], [])))
        parts.append(data)
        for column, number in zip(runs, (len(data), position, time_ns), strict=True):
            column.append(number)
    return [
        Gathered(cid, TWO if cid else None, direction, D2, frame_sizes(b"".join(parts), D2)[0], runs, b"".join(parts))
        for (cid, direction), (parts, runs) in streams.items()
    ]


def group(made: list[Call], codec: Codec = Codec.NONE, *, begin: int = 0, base: int = 0) -> bytes:
    return encode_group(ONE, gathered(made, begin), codec=codec, base=base)


def read(data: bytes, offset: int = 0) -> list[Block | Damage]:
    return list(read_blocks([data], offset))


def good(items: list[Block | Damage]) -> list[Block]:
    return [item for item in items if isinstance(item, Block)]


ACK, MESSAGE = encode(Ack(5), D2), encode(Message("c", "k", b"body", 1), D2)
CALLS: list[Call] = [
    (1, IN, MESSAGE, NOW),
    (2, IN, MESSAGE * 2, NOW + 1),
    (1, OUT, ACK, NOW + 300),
    (1, IN, MESSAGE + ACK, NOW + 2),
    (2, OUT, ACK * 2, NOW + 70_000),
]


@pytest.mark.search
@given(calls, st.sampled_from(Codec), sizes, st.integers(0, 10**6))
def test_what_is_written_is_read_however_it_is_cut(
    made: list[Call], codec: Codec, steps: list[int], begin: int
) -> None:
    data = group(made, codec, begin=begin) + encode_block(BlockHeader(7, ONE, None, 1, IN, D2, 1), ACK) + group(made)
    found = list(read_blocks(cut(data, steps)))
    assert found == read(data)
    whole = good(found)
    assert len(whole) == len(found)
    blocks = gathered(made)
    assert [block.payload for block in whole] == [
        *(one.payload for one in blocks),
        ACK,
        *(one.payload for one in blocks),
    ]
    for block, expected in zip(whole, blocks, strict=False):
        header = block.header
        assert (header.cid, header.peer, header.direction) == (expected.cid, expected.peer, expected.direction)
        assert (header.local, header.revision, header.frames) == (ONE, D2, len(expected.sizes))
        assert (header.first_time_ns, header.time_ns) == (min(expected.runs.times), max(expected.runs.times))
        if codec is Codec.NONE:
            assert data[block.payload_offset :].startswith(block.payload)
    head = GROUP.unpack(data, 0)
    times = [time_ns for *_, time_ns in made]
    assert (head["first_time_ns"], head["time_ns"]) == (min(times), max(times))
    assert head["frames"] == sum(len(one.sizes) for one in blocks)


@pytest.mark.search
@given(st.lists(calls, min_size=1, max_size=3), st.sampled_from(Codec))
def test_calls_come_back_in_their_order_with_their_times(groups: list[list[Call]], codec: Codec) -> None:
    data, begin = b"", 0
    for made in groups:
        data += group(made, codec, begin=begin)
        begin += sum(len(part) for _, _, part, _ in made)
    found = [
        (one.header.cid, one.header.direction, one.payload, one.header.time_ns)
        for one in good(list(in_order(read(data))))
    ]
    assert found == [one for made in groups for one in made]
    if codec is Codec.NONE:
        for block in good(list(in_order(read(data)))):
            assert data[block.payload_offset :].startswith(block.payload)
            assert block.header.frames == len(frame_sizes(block.payload, D2)[0])


def test_ordinals_are_of_last_bytes_and_count_from_the_base() -> None:
    blocks = good(read(group(CALLS, begin=1000, base=1000)))
    pieces = sorted(
        (piece.ordinal, block.header.cid) for block in blocks if block.columns for piece in block.columns.pieces()
    )
    assert [ordinal for ordinal, _ in pieces] == list(accumulate(len(data) for _, _, data, _ in CALLS))
    assert [cid for _, cid in pieces] == [1, 2, 1, 1, 2]


def test_a_run_that_was_begun_before_the_file_has_an_ordinal_of_it() -> None:
    blocks = gathered(CALLS, 1000, carried=10)
    (block, *_) = good(read(encode_group(ONE, blocks, base=1000)))
    assert block.columns is not None
    assert next(piece.ordinal for piece in block.columns.pieces()) == len(MESSAGE) - 10


def test_a_run_that_makes_nothing_whole_is_no_piece() -> None:
    runs = Runs([10, len(MESSAGE) - 10, 3, len(MESSAGE) - 3], [10, 900, 903, 1200], [1, 2, 3, 4])
    block = Gathered(1, None, IN, D2, [len(MESSAGE)] * 2, runs, MESSAGE * 2)
    (found,) = good(read(encode_group(ONE, [block])))
    assert found.columns is not None
    assert [(one.ordinal, one.time_ns, one.frames) for one in found.columns.pieces()] == [(900, 2, 1), (1200, 4, 1)]


def test_bytes_of_streams_are_for_those_who_ask() -> None:
    runs = Runs([3, 2], [3, 5], [NOW, NOW + 1])
    group = encode_group(ONE, [Gathered(7, None, IN, None, [3, 2], runs, b"abcde")])
    single = encode_block(BlockHeader(NOW + 2, ONE, None, 8, OUT, D2, 1, streams=True), b"f")
    found = [item for item in in_order(read_blocks([group + single], streams=True)) if isinstance(item, Block)]
    assert [(one.header.time_ns, one.header.cid, one.payload) for one in found] == [
        (NOW, 7, b"abc"),
        (NOW + 1, 7, b"de"),
        (NOW + 2, 8, b"f"),
    ]
    assert all(one.header.streams for one in found)
    refused = list(read_blocks([group + single]))
    assert all(isinstance(one, Damage) and one.detail.startswith("bytes of streams") for one in refused)
    assert [one.resumes for one in refused if isinstance(one, Damage)] == [len(group), len(group + single)]


def test_single_blocks_are_in_order_as_they_stand() -> None:
    data = b"".join(encode_block(BlockHeader(9 - number, ONE, TWO, 1, IN, D2, 1), ACK) for number in range(3))
    assert list(in_order(read(data))) == read(data)


def test_damage_stands_behind_the_group_that_has_it() -> None:
    data = bytearray(group(CALLS))
    single = encode_block(BlockHeader(9, ONE, TWO, 7, IN, D2, 1), ACK)
    data[-1] ^= 1
    found = list(in_order(read(bytes(data) + single + b"T")))
    assert [isinstance(item, Damage) for item in found] == [False] * 4 + [True, False, True]
    assert [block.header.cid for block in good(found)] == [1, 2, 1, 1, 7]


@pytest.mark.search
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("bit", range(8))
def test_no_flipped_bit_is_silent(bit: int, codec: Codec) -> None:
    one = group([*CALLS, (3, IN, MESSAGE * 30, NOW)], codec)
    whole = one + group(CALLS)
    expected = read(whole)
    starts = [item.offset for item in expected[:5]]
    table = GROUP.size + 5 * GROUPED.size
    for at in range(len(one)):
        spoiled = bytearray(whole)
        spoiled[at] ^= 1 << bit
        found = read(bytes(spoiled))
        if at < GROUP.size:
            assert [type(item) for item in found] == [Damage]
            assert (found[0].offset, found[0].resumes) == (0, None)  # type: ignore[union-attr]  # it is a Damage
        elif at < table:
            damage, *rest = found
            assert damage == Damage(0, "the checksum of the group's table is wrong", resumes=len(one))
            assert rest == expected[5:]
        else:
            number = sum(at >= start for start in starts) - 1
            end = [*starts, len(one)][number + 1]
            assert found[number] == Damage(starts[number], "the block's checksum is wrong", resumes=end)
            assert found[:number] + found[number + 1 :] == expected[:number] + expected[number + 1 :]


def test_a_torn_group_gives_nothing() -> None:
    data = group(CALLS)
    for end in range(1, len(data)):
        (torn,) = read(data[:end])
        assert torn == Damage(0, f"the file ends inside a block, of which {end} bytes are there", torn=True)


def test_the_index_knows_groups() -> None:
    data = group(CALLS) + group(CALLS)
    indexer = Indexer()
    for _ in range(2):
        indexer.add(data, len(data) // 2)
    assert build_index(lambda at, size: data[at : at + size], len(data)) == indexer.index()
    assert Index.decode(indexer.index().encode()) == indexer.index()
    assert indexer.index().entries[0][2:] == (NOW, NOW + 70_000)


def taken(data: bytes, start: int = 0, end: int | None = None, *, cid: int | None = None) -> list[Block | Damage]:
    """As a file of which `data` is left is read."""

    def takes(header: BlockHeader) -> bool:
        return cid is None or header.cid == cid

    return list(read_taken(lambda at, size: data[at : at + size], start, len(data) if end is None else end, takes))


@given(st.lists(calls, max_size=3), st.sampled_from(Codec), st.integers(1, 400))
def test_a_file_is_read_as_its_bytes_are(groups: list[list[Call]], codec: Codec, window: int) -> None:
    single = encode_block(BlockHeader(7, ONE, None, 1, IN, D2, 1), ACK)
    data = b"".join(group(made, codec) + single for made in groups)
    with patch.object(recording, "_WINDOW", window):
        assert taken(data) == read(data)
        for cid in range(4):
            wanted = [item for item in good(read(data)) if item.header.cid == cid]
            assert taken(data, cid=cid) == wanted
        for end in (len(data) - 1, len(data) // 2, 1):
            if 0 < end < len(data):
                assert taken(data, 0, end) == read(data[:end])
                assert taken(data[:end], 0, len(data)) == read(data[:end])


def test_reading_begins_at_any_group() -> None:
    one = group(CALLS)
    data = one + group(CALLS) + encode_block(BlockHeader(7, ONE, None, 1, IN, D2, 1), ACK)
    assert taken(data, len(one)) == read(data[len(one) :], len(one))
    assert taken(data, len(one), 2 * len(one)) == read(data)[4:8]


def test_a_file_of_which_whole_groups_are_gone_ends_at_the_last() -> None:
    one = group(CALLS)
    assert taken(one, 0, 2 * len(one)) == read(one)


def test_damage_in_a_file_is_told_where_it_is_read() -> None:
    one = group(CALLS)
    data = one + one
    for at in (3, GROUP.size + 1, len(one) - 1):
        spoiled = bytearray(data)
        spoiled[at] ^= 1
        assert taken(bytes(spoiled)) == read(bytes(spoiled))
    assert [block.header.cid for block in good(taken(bytes(spoiled), cid=1))] == [1] * 4
    single = bytearray(encode_block(BlockHeader(7, ONE, None, 1, IN, D2, 1), ACK))
    single[-1] ^= 1
    assert taken(bytes(single)) == read(bytes(single))
    assert taken(bytes(single), cid=2) == []


def test_what_is_refused_is_not_read() -> None:
    asked: list[int] = []
    data = b"".join(group([(cid, IN, MESSAGE * 20_000, NOW)]) for cid in range(1, 9))

    def read_at(at: int, size: int) -> bytes:
        asked.append(size)
        return data[at : at + size]

    with patch.object(recording, "_WINDOW", 1000):
        found = list(read_taken(read_at, 0, len(data), lambda header: header.cid == 5))
    assert [block.header.cid for block in good(found)] == [5]
    assert sum(asked) < len(data) / 4


def hostile(made: bytes, /, *, group_head: dict[str, Any] | None = None, **row: Any) -> bytes:
    """The group with other values in its header and in its first row, and all checksums right."""
    count = GROUP.unpack(made, 0)["blocks"]
    behind = GROUP.size + count * GROUPED.size
    rows = [GROUPED.unpack(made, GROUP.size + number * GROUPED.size) for number in range(count)]
    stored = row.pop("data", None)
    rest = made[behind:]
    if stored is not None:
        rest = stored + rest[rows[0]["stored"] :]
        rows[0] |= {"stored": len(stored), "stored_crc32": crc32(stored)}
    rows[0] |= row
    table = b"".join(map(GROUPED.pack, rows))
    head = GROUP.unpack(made, 0) | {"table_crc32": crc32(table), "length": len(table + rest)} | (group_head or {})
    packed = GROUP.pack(head)[:-4]
    return packed + struct.pack(">I", crc32(packed)) + table + rest


ONLY: list[Call] = [(1, IN, MESSAGE * 3, NOW)]
STORED = group(ONLY)[GROUP.size + GROUPED.size :]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"direction": 2}, "2 is not a valid Direction"),
        ({"revision": 9}, "9 is not a valid Revision"),
        ({"codec": 7}, "7 is not a valid Codec"),
        ({"codec": 1}, "columns are not those"),
        ({"codec": 1, "data": compress(STORED)[:-1]}, "columns are not those"),
        ({"codec": 1, "data": compress(STORED + b"x")}, "columns are not those"),
        ({"codec": 1, "data": compress(bytes(10**6))}, "columns are not those"),
        ({"payload": 2**32 - 1}, "columns are not those"),
        ({"columns": 2**32 - 1}, "columns are not those"),
        ({"columns": 3, "payload": len(STORED) - 3}, "columns are not those"),
        ({"frames": 2}, "columns are not those"),
        ({"frames": 2**32 - 1}, "columns are not those"),
        ({"runs": 2**32 - 1}, "columns are not those"),
        ({"data": b"\3" + STORED[1:]}, "columns are not those"),
        ({"data": b"\3" + STORED[1:4] + bytes(9) + STORED[7:], "columns": 14}, "columns are not those"),
        ({"data": STORED[:4] + b"\1" + STORED[5:]}, "columns are not those"),
        ({"stored": 2**32 - 1}, "the group's table does not say"),
        ({"stored": 1}, "the group's table does not say"),
        ({"group_head": {"blocks": 0, "table_crc32": 0}}, "the group's table does not say"),
    ],
)
def test_what_a_hostile_writer_may_say(values: dict[str, Any], words: str) -> None:
    data = hostile(group(ONLY), **values)
    damage, *rest = read(data + group(CALLS))
    assert isinstance(damage, Damage)
    assert words in damage.detail
    assert damage.resumes == len(data)
    assert len(good(rest)) == 4


def test_a_table_larger_than_its_group() -> None:
    data = group(ONLY)
    count = 2**32 - 1
    table_crc32 = crc32(data[GROUP.size :])
    found = read(hostile(data, group_head={"blocks": count, "table_crc32": table_crc32}))
    assert isinstance(found[0], Damage)
    assert "the group's table does not say" in found[0].detail


def test_a_group_of_nothing_is_passed_over() -> None:
    empty = hostile(group(ONLY), group_head={"blocks": 0, "table_crc32": 0, "length": 0})[: GROUP.size]
    assert [block.header.cid for block in good(read(empty + group(ONLY)))] == [1]


def test_a_group_that_nobody_would_read_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_LENGTH", 100)
    with pytest.raises(OwnLimitExceeded, match="the limit is 100"):
        group(CALLS)


def test_what_does_not_shrink_is_not_compressed() -> None:
    data = group([(1, IN, ACK, NOW)], Codec.ZLIB)
    assert GROUPED.unpack(data, GROUP.size)["codec"] == Codec.NONE


def test_headers_of_both_layouts_begin_alike() -> None:
    """So whoever only walks over headers need not tell them apart."""
    assert BLOCK.size == GROUP.size
    places = [
        {
            part.split()[1]: struct.calcsize(">" + "".join(one.split()[0] for one in spec[:at]))
            for at, part in enumerate(spec)
        }
        for spec in (BLOCK.spec.split(","), GROUP.spec.split(","))
    ]
    for name in ("magic", "layout", "length", "time_ns", "local", "frames", "header_crc32"):
        assert places[0][name] == places[1][name]


@pytest.mark.search
@given(st.data(), st.sampled_from(BOTH))
def test_sizes_of_frames(data: st.DataObject, revision: Revision) -> None:
    drawn = [encode(frame, revision) for frame in data.draw(st.lists(frames(revision), max_size=8))]
    acks = [encode(Ack(1), revision)] * data.draw(st.integers(0, 200))
    found, whole = frame_sizes(b"".join((*acks, *drawn, *acks)), revision)
    assert found == list(map(len, (*acks, *drawn, *acks)))
    assert whole == recording.whole_frames(b"".join((*acks, *drawn, *acks)), revision)


def test_the_beginning_of_an_ack_is_none() -> None:
    for acks in (b"", ACK, ACK * 70):
        for size in range(1, len(ACK)):
            sizes, found = frame_sizes(acks + ACK[:size], D2)
            assert (len(sizes), found.end, found.wanted) == (len(acks) // len(ACK), len(acks), len(ACK))


@pytest.mark.parametrize("codec", Codec)
def test_a_small_message_by_itself_costs_little(codec: Codec) -> None:
    made: list[Call] = []
    for number in range(1000):
        made += [(1, OUT, MESSAGE, NOW + 50_000 * number), (1, IN, ACK, NOW + 50_000 * number + 7)]
    data = encode_group(UUID(int=1), gathered(made), codec=codec)
    assert len(data) - 1000 * len(MESSAGE + ACK) < 1000 * 22
