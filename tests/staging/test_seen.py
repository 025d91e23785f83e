"""Dedupe of a stage: exact in any order of ids, and bounded."""

from __future__ import annotations

import zlib
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tolliver.staging._seen import Ids, Key, Seen

from tests.staging.stages import ALICE, BOB, JOB, LAST_ID, of_layout_1

SENDERS = st.sampled_from([ALICE, BOB, JOB])
NEAR = st.integers(1, 40) | st.integers(LAST_ID - 20, LAST_ID)  # ids near the wrap, and so many that they meet
CHECKSUMS = st.sampled_from([0, 1, 2**32 - 1])
MESSAGES = st.lists(st.tuples(NEAR | st.none(), CHECKSUMS), max_size=12)
RUNS = st.lists(st.tuples(SENDERS, MESSAGES), max_size=20)


@settings(max_examples=50)
@given(RUNS)
def test_each_message_of_a_sender_is_new_once(runs: list[tuple[UUID, list[tuple[int | None, int]]]]) -> None:
    seen, model, reused = Seen(1000), set[tuple[UUID, int, int]](), 0
    for sender, messages in runs:
        expected = []
        for at, (number, checksum) in enumerate(messages):
            if number is None:
                expected.append(at)
                continue
            if (sender, number, checksum) in model:
                continue
            reused += any(one[:2] == (sender, number) for one in model)
            model.add((sender, number, checksum))
            expected.append(at)
        assert seen.take(sender, messages) == expected
    assert seen.ids_reused == reused
    assert (seen.last_reused is None) is (reused == 0)


@settings(max_examples=50)
@given(RUNS)
def test_what_is_written_is_read(runs: list[tuple[UUID, list[tuple[int | None, int]]]]) -> None:
    ids, seen = Ids(), Seen(1000)
    for sender, messages in runs:
        fresh = [messages[at] for at in seen.take(sender, messages)]
        ids.add(sender, [(number, checksum) for number, checksum in fresh if number is not None], len(fresh))
    data = ids.encode()
    back = Ids.decode(data)
    assert back is not None
    assert (back.frames, back.count) == (ids.frames, ids.count)
    assert [*back] == [*ids]
    again = Seen(1000)
    again.add(back)
    for sender, messages in runs:
        assert all(messages[at][0] is None for at in again.take(sender, messages))


def filled() -> Ids:
    ids = Ids()
    ids.add(ALICE, [(number, 7 * number) for number in (*range(20, 30), *range(1, 10), 5)], 20)
    ids.add(BOB, [(5, 2**32 - 1), (6, 0)], 2)
    return ids


@settings(max_examples=50)
@given(st.data())
def test_what_is_damaged_is_not_read(data: st.DataObject) -> None:
    encoded = filled().encode()
    at = data.draw(st.integers(0, len(encoded) - 1))
    flipped = bytearray(encoded)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    assert Ids.decode(bytes(flipped)) is None
    assert Ids.decode(encoded[:at]) is None


def keys(*numbers: int) -> list[Key]:
    return [(number, number) for number in numbers]


def closed(seen: Seen, number: int, first: int, last: int) -> None:
    ids, messages = Ids(), keys(*range(first, last + 1))
    assert len(seen.take(ALICE, messages)) == len(messages)
    ids.add(ALICE, messages, len(messages))
    seen.close(number, ids)


def test_a_segment_is_forgotten_when_those_after_it_have_enough() -> None:
    seen = Seen(10)
    closed(seen, 1, 1, 6)
    closed(seen, 2, 7, 12)
    assert seen.oldest == 1, "without the first there are six"
    assert seen.take(ALICE, keys(1, 12, 13)) == [2]
    closed(seen, 3, 20, 23)
    assert seen.oldest == 2, "ten are left without it"
    assert seen.take(ALICE, keys(1, 6, 7, 12)) == [0, 1]


def test_nothing_is_kept_of_what_is_forgotten() -> None:
    seen = Seen(0)
    closed(seen, 1, 1, 6)
    assert seen.oldest is None
    assert len(seen._known) == 0


def test_what_two_segments_have_counts_for_the_first() -> None:
    """A copy that came after its original was forgotten; at the next opening both are there."""
    seen = Seen(3)
    for number, numbers in enumerate(([1, 2], [3, 1], [4, 5]), 1):
        ids = Ids()
        ids.add(ALICE, keys(*numbers), len(numbers))
        seen.add(ids)
        seen.close(number, ids)
    assert seen.oldest == 2
    assert seen.take(ALICE, keys(1, 2, 3, 4, 5)) == [0, 1]


# Layouts of the file.


def test_what_the_first_layout_has_is_known_by_its_id() -> None:
    data = of_layout_1((ALICE, [(1, 9), (20, 29)]), (BOB, [(2**32 - 1, 2**32 - 1)]))
    ids = Ids.decode(data)
    assert ids is not None
    assert (ids.frames, ids.count) == (20, 20)
    seen = Seen(1000)
    seen.add(ids)
    for checksum in (0, 1, 2**32 - 1):
        assert seen.take(ALICE, [(number, checksum) for number in (1, 9, 20, 29)]) == []
        assert seen.take(BOB, [(2**32 - 1, checksum)]) == []
    assert seen.take(ALICE, [(10, 0)]) == [0]
    assert seen.ids_reused == 0


def test_another_layout_is_not_read() -> None:
    data = bytearray(Ids().encode())
    data[5] = 3
    data[-4:] = zlib.crc32(data[:-4]).to_bytes(4, "big")
    assert Ids.decode(bytes(data)) is None


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("byte", [0, 0xFF])
def test_numbers_that_do_not_fit_each_other_are_not_read(byte: int, layout: int) -> None:
    """Not even where the checksum is right: the file of a program with a mistake is refused, whatever it says."""
    old = of_layout_1((ALICE, [(1, 9), (20, 29)]), (BOB, [(5, 6)]))
    good = (old if layout == 1 else filled().encode())[:-4]
    numbers = [at for at in range(len(good)) if not 6 <= at < 14]  # all but the number of messages
    changed = [good[:at] + bytes([byte]) + good[at + 1 :] for at in numbers]
    cut = [good[:at] for at in range(len(good))]
    for wrong in (*changed, *cut, good + b"\0", good + good[18:]):
        data = wrong + zlib.crc32(wrong).to_bytes(4, "big")
        read = Ids.decode(data)
        assert read is None or read.encode() == data
        assert read is None or wrong in changed
