"""Columns made from bytes, which must agree with the machine."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'tolliver-proto[spark]'")

import numpy as np
from tolliver.spark.read import _columns
from tolliver.spark.read._columns import Columns, as_text, find_frames

from fuzz.columns_bodies import same
from tests.wire.drive import REVISIONS
from tests.wire.strategies import frames
from tests.wire.test_decoding import BAD_UTF8, control, names, regular, request
from tolliver_proto import Ack, HandshakeRequest, Message, OwnLimitExceeded, Revision, Subscription, encode
from tolliver_proto._wire.layouts import LAYOUTS
from tolliver_proto.layouts import Refusal

ODD = [
    *(regular(bad, b"key", b"x") for bad in BAD_UTF8),
    *(regular(b"channel", bad, b"x", 2**31 - 1) for bad in BAD_UTF8),
    control(b"what is this"),
    control(names(b"a", b"b"), key=b"k"),
    b"\x02\xff",
]
"""Whole frames that no encoder makes."""
HOSTILE = [
    b"\x05",
    b"TLVR",
    b"\x04\0\0",
    b"\x02",
    b"\x00\0\0",
    regular(b"a", b"b", b"c")[:-1],
    regular(b"a", b"b", b"c")[:16],
    struct.pack(">BIIII", 3, 2**32 - 1, 2**32 - 1, 2**31 - 1, 1),
    struct.pack(">BIIII", 3, 0, 0, 2**31, 1) + b"x" * 40,
    request(names(b"\xff", b"")),
    request(names(b"a" * 200, b"b"))[:-1],
    request(count=2**32 - 1),
    request(count=0, peer=UUID(int=0)),
    struct.pack(">BQ16sBI", 1, 1, UUID(int=1).bytes, 9, 0),
]
"""Ends of a stream, one way or the other."""


@st.composite
def streams(draw: st.DrawFn, revision: Revision) -> bytes:
    pieces = draw(st.lists(frames(revision).map(lambda frame: encode(frame, revision)) | st.sampled_from(ODD)))
    return b"".join(pieces) + draw(st.sampled_from([b"", *HOSTILE]) | st.binary(max_size=30))


@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
@given(data=st.data())
def test_columns_are_the_machine_s_frames(data: st.DataObject, revision: Revision) -> None:
    same(data.draw(streams(revision)), revision)


@pytest.mark.parametrize("ending", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
def test_every_ending_is_told_as_the_machine_tells_it(ending: bytes, revision: Revision) -> None:
    before = encode(Message("a", "b", b"c", 1), revision) + b"".join(ODD) + encode(Ack(7), revision)
    for start in (b"", before):
        same(start + ending, revision)
        assert find_frames(start + ending, revision).error is not None


@given(st.lists(st.integers(0, 50), max_size=40), st.lists(st.booleans(), max_size=40))
def test_any_rows_of_any_column(sizes: Sequence[int], wanted: Sequence[bool]) -> None:
    expected = [Message("c" * (size % 7), "é" * (size % 3), bytes(size), size) for size in sizes]
    data = b"".join(encode(Ack(1)) + encode(message) for message in expected)
    columns = Columns(data, find_frames(data).messages)
    rows = np.flatnonzero(np.array([*wanted, *[True] * 40][: len(expected)], np.bool_))
    assert columns.part("body", rows).to_pylist() == [expected[row].body for row in rows]
    assert as_text(columns.part("key", rows)).to_pylist() == [expected[row].key for row in rows]
    assert columns.message_ids(rows).to_pylist() == [expected[row].message_id for row in rows]


def test_a_long_handshake_is_read_in_linear_time() -> None:
    """Were it begun anew with every entry, this would take minutes."""
    hello = HandshakeRequest(1, UUID(int=1), tuple(Subscription(f"channel {number}", "") for number in range(50_000)))
    data = encode(Ack(1)) + encode(hello)
    assert find_frames(data).handshakes == [(5, hello)]
    assert find_frames(data[:-1]).error is not None


def test_more_than_arrow_can_count_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_columns, "MAX_BYTES", 100)
    assert len(find_frames(encode(Message("", "", bytes(83), 1))).messages) == 1
    with pytest.raises(OwnLimitExceeded, match="101 bytes"):
        find_frames(encode(Message("", "", bytes(84), 1)))


def test_a_body_above_a_layout_s_own_bound_is_told_as_the_machine_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAYOUTS, Revision.DRAFT_2, replace(LAYOUTS[Revision.DRAFT_2], max_body=3))
    good, bad = (Message("a", "b", bytes(size), 1) for size in (3, 4))
    data = encode(good, Revision.DRAFT_2) + encode(bad, Revision.DRAFT_1)
    same(data, Revision.DRAFT_2)
    assert len(find_frames(data).messages) == 1


@pytest.mark.parametrize("revision", [Revision.GO_2026, Revision.RUST_2026], ids=lambda one: one.name)
@settings(max_examples=25)
@given(data=st.data())
def test_the_same_of_layouts_with_lengths_between_their_parts(data: st.DataObject, revision: Revision) -> None:
    written = b"".join(encode(frame, revision) for frame in data.draw(st.lists(frames(revision))))
    same(written + data.draw(st.binary(max_size=30)), revision)


def test_an_id_or_a_length_out_of_bounds_is_told_as_the_machine_tells_it() -> None:
    whole = encode(Message("a", "b", b"c", 1), Revision.GO_2026)
    for bad in (
        b"\x03" + b"\xff" * 8 + whole[9:],  # an id that no row has
        whole[:9] + b"\xff" * 8 + whole[17:],  # a channel of 2^64-1 bytes
        whole[:-9] + b"\xff" * 8 + whole[-1:],  # a body of as many
        whole[:-1],
        whole[:12],
    ):
        same(whole + bad, Revision.GO_2026)
        assert find_frames(whole + bad, Revision.GO_2026).error is not None
    same(encode(Ack(1), Revision.GO_2026) + encode(Refusal(2), Revision.GO_2026), Revision.GO_2026)
