"""Dedupe of a stage: exact in any order of ids, and bounded."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolliver_transports.staging._seen import Ids, Seen

from tests.staging.stages import ALICE, BOB, LAST_ID
from tolliver_proto._node.intervals import spans_of

SENDERS = st.sampled_from([ALICE, BOB])
NEAR = st.integers(1, 40) | st.integers(LAST_ID - 20, LAST_ID)  # ids near the wrap, and so many that they meet
RUNS = st.lists(st.tuples(SENDERS, st.lists(NEAR | st.none(), max_size=12)), max_size=20)


@settings(max_examples=50)
@given(RUNS)
def test_each_id_of_a_sender_is_new_once(runs: list[tuple[object, list[int | None]]]) -> None:
    seen, model = Seen(1000), set()
    for sender, ids in runs:
        expected = []
        for at, number in enumerate(ids):
            if number is None or (sender, number) not in model:
                expected.append(at)
            model.add((sender, number))
        assert seen.take(sender, ids) == expected  # type: ignore[arg-type]  # object, for the model


@settings(max_examples=50)
@given(RUNS)
def test_what_is_written_is_read(runs: list[tuple[object, list[int | None]]]) -> None:
    ids, seen = Ids(), Seen(1000)
    for sender, numbers in runs:
        fresh = [numbers[at] for at in seen.take(sender, numbers)]  # type: ignore[arg-type]
        ids.add(sender, spans_of(one for one in fresh if one is not None), len(fresh))  # type: ignore[arg-type]
    data = ids.encode()
    back = Ids.decode(data)
    assert back is not None
    assert (back.frames, back.count) == (ids.frames, ids.count)
    assert {who: [*spans] for who, spans in back} == {who: [*spans] for who, spans in ids}
    again = Seen(1000)
    again.add(back)
    for sender, numbers in runs:
        assert [numbers[at] for at in again.take(sender, numbers)] == [one for one in numbers if one is None]  # type: ignore[arg-type]


@settings(max_examples=50)
@given(st.data())
def test_what_is_damaged_is_not_read(data: st.DataObject) -> None:
    ids = Ids()
    ids.add(ALICE, [(1, 9), (20, 29)], 19)
    encoded = ids.encode()
    at = data.draw(st.integers(0, len(encoded) - 1))
    flipped = bytearray(encoded)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    assert Ids.decode(bytes(flipped)) is None
    assert Ids.decode(encoded[:at]) is None


def closed(seen: Seen, number: int, first: int, last: int) -> None:
    ids = Ids()
    assert len(seen.take(ALICE, range(first, last + 1))) == last + 1 - first
    ids.add(ALICE, [(first, last)], last + 1 - first)
    seen.close(number, ids)


def test_a_segment_is_forgotten_when_those_after_it_have_enough() -> None:
    seen = Seen(10)
    closed(seen, 1, 1, 6)
    closed(seen, 2, 7, 12)
    assert seen.oldest == 1, "without the first there are six"
    assert seen.take(ALICE, [1, 12, 13]) == [2]
    closed(seen, 3, 20, 23)
    assert seen.oldest == 2, "ten are left without it"
    assert seen.take(ALICE, [1, 6, 7, 12]) == [0, 1]


def test_nothing_is_kept_of_a_sender_of_whom_all_is_forgotten() -> None:
    seen = Seen(0)
    closed(seen, 1, 1, 6)
    assert seen.oldest is None
    assert not seen._known


def test_another_layout_is_not_read() -> None:
    data = bytearray(Ids().encode())
    data[5] = 2
    data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "big")
    assert Ids.decode(bytes(data)) is None


@pytest.mark.parametrize("byte", [0, 0xFF])
def test_numbers_that_do_not_fit_each_other_are_not_read(byte: int) -> None:
    """Not even where the checksum is right: the file of a program with a mistake is refused, whatever it says."""
    ids = Ids()
    ids.add(ALICE, [(1, 9), (20, 29)], 19)
    ids.add(BOB, [(5, 6)], 2)
    good = ids.encode()[:-4]
    numbers = [*range(14, 18), *range(34, 54), *range(70, len(good))]  # all but UUIDs and the number of messages
    changed = [good[:at] + bytes([byte]) + good[at + 1 :] for at in numbers]
    cut = [good[:at] for at in range(len(good))]
    for wrong in (*changed, *cut, good + b"\0", good + good[18:]):
        data = wrong + zlib.crc32(wrong).to_bytes(4, "big")
        read = Ids.decode(data)
        assert read is None or read.encode() == data
        assert read is None or wrong in changed
