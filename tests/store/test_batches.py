"""Batches in bytes: each message for itself, whatever happens to the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver._store.batches import PIECE, Directory, Messages, in_columns, pack

from tolliver_proto.store import CorruptMessage, StoredMessage

names = st.text(st.characters(codec="utf-8"), max_size=6)
contents = st.tuples(st.integers(0, 2**64 - 1), names, names, st.binary(max_size=30), st.integers(0, 2**32 - 1))


def messages_of(items: list[tuple[int, str, str, bytes, int]], first_seq: int = 1) -> list[StoredMessage]:
    return [
        StoredMessage(seq, wire_id, channel, key, body, size)
        for seq, (wire_id, channel, key, body, size) in enumerate(items, first_seq)
    ]


def packed(messages: list[StoredMessage], stored_at: int = 1000) -> tuple[bytes, bytes]:
    [(_, run)] = in_columns(messages)
    return pack(run, stored_at)


def read(directory: Directory, bodies: bytes) -> list[StoredMessage | CorruptMessage]:
    """Each by itself, and all together, which must be the same."""
    rows = [directory.message(at, bodies) for at in range(directory.count)]
    assert directory.messages(range(directory.count), bodies) == rows
    return rows


@given(st.lists(contents, min_size=1, max_size=9), st.integers(1, 2**62), st.integers(0, 2**40))
def test_what_was_packed_is_read(items: list[tuple[int, str, str, bytes, int]], first_seq: int, stored_at: int) -> None:
    messages = messages_of(items, first_seq)
    data, bodies = packed(messages, stored_at)
    directory = Directory(data)
    assert read(directory, bodies) == messages
    assert (directory.first_seq, directory.last_seq) == (messages[0].seq, messages[-1].seq)
    assert (directory.stored_at, directory.whole) == (stored_at, True)


TWO, ONE = (
    "e2ab1c0101000000020000000200000002000000e80300000000000002000000160000000100000001000000636b0100"
    "0000030000006374776f000000000100000007000000000100000800000000000000130000001e000000000000000100"
    "000001000000040000003f2789e0393d69490000000001000000",
    "15d335e501000000020000000100000002000000e803000000000000010000000a0000000100000001000000636b0000"
    "000007000000000100001300000000000000010000003f2789e000000000",
)


@pytest.mark.parametrize("directory", [TWO, ONE], ids=["two", "one"])
def test_a_batch_has_the_bytes_that_its_layout_says(directory: str) -> None:
    """Else an older database of the same layout would be damaged as a whole."""
    items = [(2**40 + 7, "c", "k", b"a", 19), (8, "c", "two", b"body", 30)][: 1 + (directory is TWO)]
    assert packed(messages_of(items, 2**33 + 1))[0].hex() == directory


@given(st.lists(contents, min_size=1, max_size=9), st.data())
def test_some_of_a_batch_are_a_batch_of_the_same_seqs(
    items: list[tuple[int, str, str, bytes, int]], data: st.DataObject
) -> None:
    messages = messages_of(items)
    directory, bodies = packed(messages)
    kept = sorted(data.draw(st.sets(st.integers(0, len(items) - 1))))
    smaller, rest = Directory(directory).only(kept, bodies)
    assert read(Directory(smaller), rest) == [messages[at] for at in kept]
    assert [Directory(smaller).at(place) for place in kept] == list(range(len(kept)))
    assert all(Directory(smaller).at(place) is None for place in range(len(items)) if place not in kept)


def test_a_flipped_bit_is_told_and_never_taken_for_a_message() -> None:
    """Each bit of a batch, one after the other: one of a body costs that message."""
    several = [(2**63 + 7, "c", "one", b"body", 30), (8, "c", "two", b"", 26), (9, "d", "", b"another", 33)]
    for items in (several, several[:1], [(n, "c", "k", b"%d" % n, 19) for n in range(4)]):
        messages = messages_of(items)
        good = packed(messages)
        for part in (0, 1):
            for bit in range(8 * len(good[part])):
                content = bytearray(good[part])
                content[bit // 8] ^= 1 << bit % 8
                data, bodies = (content, good[1]) if part == 0 else (good[0], content)
                try:
                    directory = Directory(bytes(data))
                except ValueError:
                    assert part == 0
                    continue
                rows = read(directory, bytes(bodies))
                assert directory.whole is (part == 1)
                lost = [row for at, row in enumerate(rows) if row != messages[at]]
                assert part == 0 or len(lost) == 1
                if directory.first_seq == 1:  # else it is another batch's
                    assert all(isinstance(row, CorruptMessage) for row in lost)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("change", [-36, -1, 1, 36])
def test_a_directory_of_another_length_than_it_says_is_not_read(count: int, change: int) -> None:
    """Also by the columns of one message: nobody knows then which column ends where."""
    data, _ = packed(messages_of([(n, "c", "k", b"", 19) for n in range(count)]))
    with pytest.raises(ValueError, match="directory"):
        Directory((data + bytes(36))[: len(data) + change])


def test_more_than_a_bit_is_never_taken_for_a_message() -> None:
    messages = messages_of([(n, "c", "k", b"%d" % n, 19) for n in range(4)])
    data, bodies = packed(messages)
    for at in range(len(data) - 1):
        garbled = data[:at] + bytes(byte ^ 0x55 for byte in data[at : at + 2]) + data[at + 2 :]
        try:
            directory = Directory(garbled)
        except ValueError:
            continue
        assert not directory.whole
        if directory.first_seq == 1:  # else it is another batch's
            assert all(row in messages or isinstance(row, CorruptMessage) for row in read(directory, bodies))


def test_a_batch_has_a_bound_and_a_large_message_one_of_its_own() -> None:
    bodies = [bytes(size) for size in (PIECE // 2, PIECE // 2, 1, 2 * PIECE, 0, 1)]
    run = Messages(1, range(6), [0] * 6, ["c"] * 6, ["k"] * 6, bodies)
    assert list(run.pieces()) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert [run.part(*piece).first_seq for piece in run.pieces()] == [1, 3, 4, 5]


def test_runs_of_consecutive_seqs_are_told_apart() -> None:
    messages = [StoredMessage(seq, seq, "c", "k", b"", 20) for seq in (1, 2, 5, 7, 8, 9)]
    runs = [(at, run.first_seq, run.last_seq) for at, run in in_columns(messages)]
    assert runs == [(0, 1, 2), (2, 5, 5), (3, 7, 9)]
