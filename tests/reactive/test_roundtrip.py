"""Round trips of frames, cut anywhere; numbers are protobuf's."""

from __future__ import annotations

import pytest
from google.protobuf.wrappers_pb2 import Int64Value, UInt64Value
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import MalformedFrame
from tolliver_proto.reactive import Decoder, Frame, Request, decode, encode
from tolliver_proto.reactive import _varint as varint

from .strategies import SIZES, cut, frame, frames, long, number, sizes

TAG = b"\x08"  # field 1, a varint


@settings(max_examples=200, deadline=None)
@given(frame)
def test_round_trip(one: Frame) -> None:
    assert decode(encode(one, SIZES), dict(SIZES)) == [one]


@settings(deadline=None)
@given(frames, sizes)
def test_any_cut(several: list[Frame], pieces: list[int]) -> None:
    decoder, found = Decoder(dict(SIZES)), []
    for piece in cut(b"".join(encode(one, SIZES) for one in several), pieces):
        decoder.feed(piece)
        while (one := decoder.next_frame()) is not None:
            found.append(one)
    decoder.finish()
    assert found == several
    assert decoder.buffered == 0


@given(number)
def test_numbers_are_those_of_protobuf(value: int) -> None:
    written = varint.write(value)
    assert TAG + written == (UInt64Value(value=value).SerializeToString() or TAG + b"\0")
    assert varint.read(b"..." + written + b"...", 3) == (value, 3 + len(written))


@given(long)
def test_longs_are_those_of_protobuf(value: int) -> None:
    written = encode(Request(0, value))[2:]
    assert TAG + written == (Int64Value(value=value).SerializeToString() or TAG + b"\0")


@given(st.binary(min_size=1, max_size=12))
def test_any_bytes_are_a_number_here_as_for_protobuf(data: bytes) -> None:
    """But for bits above the 64th, which protobuf throws away and R-02 refuses."""
    first = next((at for at, byte in enumerate(data) if byte < 0x80), None)
    if first is None or first > 9 or (first == 9 and data[9] > 1):
        with pytest.raises((varint.Short, varint.TooLong)):
            varint.read(data, 0)
    else:
        end = first + 1
        assert varint.read(data, 0) == (UInt64Value.FromString(TAG + data[:end]).value, end)


def test_long_forms_are_read_and_never_written() -> None:
    assert decode(bytes.fromhex("0481 00 8580 8080 8080 8080 8000")) == [Request(1, 5)]
    assert encode(Request(1, 5)).hex() == "040105"


@pytest.mark.parametrize("tail", ["ff" * 10, "ff" * 9 + "02", "80" * 10 + "00"])
def test_more_than_64_bits(tail: str) -> None:
    with pytest.raises(MalformedFrame, match="64 bits"):
        decode(bytes.fromhex("05" + tail))
