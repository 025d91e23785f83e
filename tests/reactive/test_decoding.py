"""Decoding: frames taken, and frames refused before memory is taken."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import pytest

from tolliver_proto import LimitExceeded, LocalProtocolError, MalformedFrame, RemoteProtocolError
from tolliver_proto.reactive import (
    DRAFT,
    Cancel,
    ClientHello,
    Decoder,
    Form,
    Goodbye,
    Kind,
    Layout,
    Limits,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Subscribe,
    Subscribed,
    decode,
    encode,
)
from tolliver_proto.reactive import _varint as varint

TINY = Limits(max_element=8, max_packed=16, max_name=4, max_text=6, max_extensions=2)
HUGE = varint.write(2**63)


def head(code: int, *numbers: int) -> bytes:
    return b"".join(map(varint.write, (code, *numbers)))


FITS = {
    "extensions": (head(1, 0, 2), b"\1\2"),
    "name": (head(3, 4), b"name" + head(1, 0)),
    "element": (head(7, 1, 8), bytes(8)),
    "text": (head(9, 1, 6), b"reason"),
    "reason": (head(11, 6), b"reason"),
    "element size": (head(6, 5, 8), b""),
    "packed": (head(10, 2, 4), bytes(16)),
}
PASSES = {
    "extensions": head(1, 0, 3),
    "name": head(3, 5),
    "element": head(7, 1, 9),
    "text": head(9, 1, 7),
    "reason": head(11, 7),
    "element size": head(6, 1, 9),
    "packed": head(10, 2, 5),
}


@pytest.mark.parametrize("what", FITS)
def test_a_limit_is_exact(what: str) -> None:
    """Up to the limit a frame is waited for and read; above it, its head alone is refused."""
    start, rest = FITS[what]
    assert len(decode(start + rest, {2: 4}, TINY)) == 1
    decoder = Decoder({2: 4}, TINY)
    decoder.feed(PASSES[what])
    with pytest.raises(LimitExceeded) as caught:
        decoder.next_frame()
    assert caught.value.offset == 0
    with pytest.raises(LimitExceeded):
        decoder.next_frame()
    decoder.feed(b"more")
    assert decoder.buffered == len(PASSES[what]), "after an error nothing is taken any more"
    decoder.finish()


BOMBS = [
    b"\1\0" + HUGE,
    b"\2\0" + HUGE,
    b"\3" + HUGE,
    b"\6\1" + HUGE,
    b"\7\1" + HUGE,
    b"\x09\1" + HUGE,
    b"\x0a\2" + HUGE,
    b"\x0a\1" + HUGE,
    b"\x0b" + HUGE,
]


@pytest.mark.parametrize("bomb", BOMBS, ids=bytes.hex)
def test_a_bomb_costs_nothing(bomb: bytes) -> None:
    """V11: 2^63 of anything is refused at the number."""
    decoder = Decoder({2: 2**20}, Limits())
    tracemalloc.start()
    decoder.feed(bomb)
    with pytest.raises(RemoteProtocolError):
        decoder.next_frame()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024


def test_the_largest_element_byte_runs() -> None:
    """Memory is what has arrived, and a large element is joined once."""
    data = encode(OnNext(1, bytes(2**20)))
    decoder = Decoder({}, Limits())
    for at in range(0, len(data), 5000):
        assert decoder.next_frame() is None
        decoder.feed(data[at : at + 5000])
    assert decoder.next_frame() == OnNext(1, bytes(2**20))
    assert decoder.buffered == 0


@pytest.mark.parametrize("code", [0, 12, 0x16, 300])
def test_unknown_type(code: int) -> None:
    with pytest.raises(MalformedFrame, match=r"R-07") as caught:
        decode(bytes.fromhex("0501") + varint.write(code))
    assert (caught.value.offset, caught.value.frame) == (2, None)


def test_packed_without_an_element_size() -> None:
    with pytest.raises(MalformedFrame, match="R-21"):
        decode(b"\x0a\1\0")


CANNOT: list[tuple[Any, dict[int, int]]] = [
    (object(), {}),
    (Cancel(-1), {}),
    (Cancel(2**64), {}),
    (Cancel("1"), {}),  # type: ignore[arg-type]  # on purpose
    (Request(1, 2**63), {}),
    (Request(1, -(2**63) - 1), {}),
    (ClientHello(0, (2**64,)), {}),
    (Subscribe("\ud800", 1, 0), {}),
    (Subscribe(b"name", 1, 0), {}),  # type: ignore[arg-type]  # on purpose
    (OnError(1, "\ud800"), {}),
    (Goodbye("\ud800"), {}),
    (OnNext(1, "text"), {}),  # type: ignore[arg-type]  # on purpose
    (OnNext(1, b"abc"), {1: 4}),
    (OnNextPacked(1, (b"abcd",)), {}),
    (OnNextPacked(1, ()), {1: 4}),
    (OnNextPacked(1, (b"abcd", b"abc")), {1: 4}),
    (Subscribed(1, -1), {}),
]


@pytest.mark.parametrize(("frame", "sizes"), CANNOT, ids=map(str, range(len(CANNOT))))
def test_what_cannot_be_expressed(frame: Any, sizes: dict[int, int]) -> None:
    with pytest.raises(LocalProtocolError):
        encode(frame, sizes)


def test_a_replaced_table() -> None:
    """R-01: the numbers are data."""
    layout = Layout([Form(200, Cancel, {"subscriber_id": Kind.NUMBER})])
    data = encode(Cancel(1), layout=layout)
    assert data.hex() == "c80101"
    assert decode(data, layout=layout) == [Cancel(1)]
    with pytest.raises(MalformedFrame):
        decode(data)


@dataclass
class Blob:
    element: bytes


def test_an_element_outside_a_stream_has_a_length() -> None:
    """A frame of another table: the element size of the stream that was read last is not its own."""
    layout = DRAFT.extended([Form(64, Blob, {"element": Kind.ELEMENT})])
    frames = [OnNext(2, b"four"), Blob(b"any"), OnNext(2, b"five")]
    data = b"".join(encode(frame, {2: 4}, layout=layout) for frame in frames)
    assert decode(data, {2: 4}, layout=layout) == frames


@pytest.mark.parametrize(
    "forms",
    [
        [Form(1, Cancel, {}), Form(1, Request, {})],
        [Form(1, Cancel, {}), Form(2, Cancel, {})],
        [Form(-1, Cancel, {})],
        [Form(2**64, Cancel, {})],
    ],
    ids=["number", "class", "negative", "too large"],
)
def test_a_table_that_contradicts_itself(forms: list[Form]) -> None:
    with pytest.raises(LocalProtocolError):
        Layout(forms)


@pytest.mark.parametrize(
    "wrong",
    [{"max_element": 0}, {"close_timeout": -1.0}, {"high_water": 1, "low_water": 2}],
    ids=str,
)
def test_limits_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Limits\."):
        Limits(**wrong)
