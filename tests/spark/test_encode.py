"""Columns to frames: the codec's own bytes, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tolliver.spark import encode_batches
from tolliver.spark.write import _encode
from tolliver.spark.write._encode import (
    LAST_ID,
    Rows,
    cut,
    encode_rows,
    ids_from,
    ids_of,
    take_rows,
    wire_bytes,
)

from tests.spark.rows import batch, numbered
from tolliver_proto import Message, Revision, encode
from tolliver_proto.layouts import LAYOUTS, Shape

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ROWS = st.lists(st.tuples(TEXT.filter(lambda name: not name.startswith("tolliver")), TEXT, st.binary(max_size=40)))
KINDS = st.sampled_from([{}, {"channel": pa.large_string(), "key": pa.large_string(), "body": pa.large_binary()}])


@given(ROWS, st.sampled_from(Revision), st.integers(1, LAST_ID - 100) | st.none(), KINDS, st.data())
def test_the_frames_are_the_codecs(
    rows: list[tuple[str, str, bytes]],
    revision: Revision,
    first: int | None,
    kinds: dict[str, Any],
    data: st.DataObject,
) -> None:
    if not LAYOUTS[revision].has_acks:
        first = None
    frames = [encode(Message(*row, None if first is None else first + at), revision) for at, row in enumerate(rows)]
    parts = [batch(rows, **kinds)]
    split = data.draw(st.integers(0, len(rows)))
    assert b"".join(encode_batches(parts, revision=revision, first_id=first)) == b"".join(frames)
    parts = [parts[0].slice(0, split), parts[0].slice(split)]  # Arrow slices share their buffers
    assert b"".join(encode_batches(parts, revision=revision, first_id=first)) == b"".join(frames)


def test_what_a_layout_cannot_carry_is_refused() -> None:
    rust = Revision.RUST_2026
    with pytest.raises(ValueError, match="first_id=None"):
        list(encode_batches([batch([("a", "b", b"")])], revision=rust))
    with pytest.raises(ValueError, match="65535"):
        list(encode_batches([batch([("a", "b", bytes(65536))])], revision=rust, first_id=None))
    [whole] = encode_batches([batch([("a", "b", bytes(65535))])], revision=rust, first_id=None)
    assert whole == encode(Message("a", "b", bytes(65535)), rust)


@given(ROWS, st.data())
def test_any_of_the_frames_can_be_sent_again(rows: list[tuple[str, str, bytes]], data: st.DataObject) -> None:
    flags = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    made = take_rows(batch(rows), ids_from(1, len(rows)))
    wanted = np.array(flags, np.bool_)
    frames = [encode(Message(*row, at)) for at, row in enumerate(rows, 1)]
    chosen = b"".join(frame for frame, flag in zip(frames, flags, strict=True) if flag)
    assert wire_bytes(encode_rows(made, Revision.DRAFT_2).filter(pa.array(wanted))) == chosen
    assert wire_bytes(encode_rows(made.only(wanted), Revision.DRAFT_2)) == chosen
    at = data.draw(st.integers(0, len(rows)))
    assert wire_bytes(encode_rows(made, Revision.DRAFT_2).slice(at)) == b"".join(frames[at:])


def test_a_body_may_be_a_string() -> None:
    text = pa.record_batch({"channel": ["c"], "key": ["k"], "body": ["Grüße"]})
    assert b"".join(encode_batches([text])) == encode(Message("c", "k", "Grüße".encode(), 1))


def test_runs_are_cut_by_rows_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_encode, "CHUNK_BYTES", 100)
    sizes = [10, 90, 1, 500, 20, 20, 20, 20]
    rows = take_rows(batch([("", "", bytes(size)) for size in sizes]), ids_from(1, len(sizes)))

    def runs(most: int) -> list[list[int]]:
        parts: list[Rows] = list(cut(rows, most))
        assert [number for part in parts if part.ids is not None for number in part.ids] == list(range(1, 9))
        return [[len(body.as_py()) for body in part.body] for part in parts]

    assert runs(8) == [[10, 90], [1], [500], [20, 20, 20, 20]]
    assert runs(3) == [[10, 90], [1], [500], [20, 20, 20], [20]]
    assert runs(1) == [[size] for size in sizes]


def test_what_cannot_be_sent_is_refused_with_its_row() -> None:
    good = numbered(2)
    broken = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"b", b"\xff"]).buffers())
    names = pa.array(["a"] * 3)
    for rows, text in (
        (batch([*good, (None, "k", b"x")]), "channel is null"),  # type: ignore[list-item]  # as Spark may have it
        (batch([*good, ("c", None, b"x")]), "key is null"),  # type: ignore[list-item]
        (batch([*good, ("c", "k", None)]), "body is null"),  # type: ignore[list-item]
        (batch([*good, ("c" * 4097, "k", b"x")]), "channel has more than 4096 bytes"),
        (batch([*good, ("c", "ü" * 2049, b"x")]), "key has more than 4096 bytes"),
        (batch([*good, ("c", "k", bytes(2**24 + 1))]), "body has more than 16777216 bytes"),
        (batch([*good, ("tolliver", "", b"x")]), "its channel is the protocol's own"),
        (batch([*good, ("tolliver.probe", "", b"x")]), "its channel is the protocol's own"),
        (pa.record_batch({"channel": broken, "key": names, "body": names}), "channel is not UTF-8"),
        (pa.record_batch({"channel": names, "key": broken, "body": names}), "key is not UTF-8"),
    ):
        with pytest.raises(ValueError, match=f"row 13 of this partition cannot be sent: {text}"):
            take_rows(rows, None, 10)
    assert len(take_rows(pa.record_batch({"channel": names, "key": names, "body": broken}), None)) == 3
    longest = batch([("c" * 4096, "k" * 4096, bytes(2**24))])
    assert len(take_rows(longest, None)) == 1


def test_ids_have_their_range() -> None:
    assert list(ids_from(LAST_ID - 1, 2)) == [LAST_ID - 1, LAST_ID]
    with pytest.raises(ValueError, match="more than 2147483646 rows"):
        ids_from(LAST_ID - 1, 3)
    assert list(ids_of(pa.array([LAST_ID, 1], pa.int64()))) == [LAST_ID, 1]
    assert list(ids_of(pa.array([127, 1], pa.int8()))) == [127, 1]
    for bad in (0, -1, LAST_ID + 1, 2**32 + 1):
        with pytest.raises(ValueError, match="row 12 of this partition cannot be sent: its id is not from 1 to"):
            ids_of(pa.array([1, bad], pa.int64()), 10)
    with pytest.raises(ValueError, match="row 2 of this partition cannot be sent: its id is null"):
        ids_of(pa.array([1, None], pa.int64()))


def test_a_made_up_layout_s_own_bounds_are_kept() -> None:
    """A number too large for its field would be cut in silence."""
    made_up = cast(Revision, 205)
    LAYOUTS[made_up] = replace(
        LAYOUTS[Revision.GO_2026],
        message=Shape("B code, B channel, *channel, Q message_id, B key, *key, H body, *body"),
    )
    try:
        rows = [("c" * 255, "k" * 255, bytes(65535))]
        [whole] = encode_batches([batch(rows)], revision=made_up)
        assert whole == encode(Message(*rows[0], 1), made_up)
        for row, most in (
            (("c" * 256, "", b""), 255),
            (("", "k" * 256, b""), 255),
            (("", "", bytes(65536)), 65535),
        ):
            with pytest.raises(ValueError, match=rf"row 1 of .* more than {most} bytes \(all that"):
                list(encode_batches([batch([row])], revision=made_up))
    finally:
        del LAYOUTS[made_up]
