"""Linear time and little memory of reading, counted instead of timed (V12).

Two counts stand for time: the bytes that the buffer copies, and the calls that the interpreter makes.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest

from tolliver_proto import Ack, Decoder, Frame, HandshakeRequest, Message, Subscription, encode
from tolliver_proto._common import buffer
from tolliver_proto.recording import whole_frames

from .drive import peak
from .vectors import ONE


class Cost(NamedTuple):
    copied: int
    calls: int


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Feeds pieces to a decoder, taking frames after each or (`late`) after the last, and tells what it cost."""

    def measure(pieces: list[bytes], frames: int, late: bool = False) -> Cost:
        copied = calls = 0

        def join(parts: Iterable[bytes]) -> bytes:
            nonlocal copied
            whole = b"".join(parts)
            copied += len(whole)
            return whole

        def count(_frame: object, event: str, _arg: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        monkeypatch.setattr(buffer, "_join", join)
        decoder = Decoder()
        found = 0
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            for piece in pieces:
                decoder.feed(piece)
                while not late and decoder.next_frame() is not None:
                    found += 1
            while decoder.next_frame() is not None:
                found += 1
        finally:
            sys.setprofile(before)
        assert found == frames
        return Cost(copied, calls)

    return measure


def pieces_of(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def message(size: int) -> Frame:
    return Message("channel", "key", bytes(size), 1)


def list_of(count: int) -> Frame:
    return HandshakeRequest(1, ONE, tuple(Subscription(f"channel {number:06}", "k") for number in range(count)))


@pytest.mark.parametrize(
    ("small", "large", "piece"),
    [
        (message(2**14), message(2**15), 1),
        (message(2**14), message(2**15), 3),
        (message(2**23), message(2**24), 1024),
        (message(2**23), message(2**24), 65536),
        (list_of(1000), list_of(2000), 1),
        (list_of(4000), list_of(8000), 100),
    ],
    ids=["single bytes", "threes", "16 MiB in KiB", "16 MiB in 64 KiB", "list in single bytes", "list in hundreds"],
)
def test_twice_the_frame_costs_twice(cost: Any, small: Frame, large: Frame, piece: int) -> None:
    one = cost(pieces_of(encode(small), piece), 1)
    two = cost(pieces_of(encode(large), piece), 1)
    assert two.copied <= 2.3 * one.copied
    assert two.calls <= 2.3 * one.calls
    assert two.copied <= 4 * len(encode(large))


def test_twice_as_many_frames_cost_twice(cost: Any) -> None:
    """Cut at each place relative to the frames, and in one piece: the rest of a chunk is never copied per frame."""
    frame = encode(message(100))
    for piece in (len(frame) - 1, len(frame) + 1, 4096, 2**30):
        one = cost(pieces_of(frame * 1000, piece), 1000)
        two = cost(pieces_of(frame * 2000, piece), 2000)
        assert two.copied <= 2.3 * one.copied
        assert two.calls <= 2.3 * one.calls
        assert two.copied <= 3 * len(frame) * 2000


def test_input_that_waits_is_copied_once(cost: Any) -> None:
    """A caller who decides late may find many pieces: they are joined in one go."""
    frame = encode(message(100))
    waiting = pieces_of(frame * 1000, 50)
    assert cost(waiting, 1000, late=True).copied <= 2.1 * len(frame) * 1000  # runs of pieces, then the runs


def test_single_bytes_cost_little_more_than_themselves() -> None:
    """Not an object of 30 bytes for each byte that waits."""
    size = 2**16
    data = encode(message(size))[:-1]
    tracemalloc.start()
    try:
        decoder = Decoder()
        for at in range(len(data)):
            decoder.feed(data[at : at + 1])
            assert decoder.next_frame() is None
        assert decoder.buffered == len(data)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * size + 2**17  # the joining of a run takes 80 KiB
    finally:
        tracemalloc.stop()


def test_the_end_of_a_frame_is_found_without_a_look_at_all_that_follows() -> None:
    large = encode(message(2**18))
    data = large + encode(Ack(1)) + large
    whole_frames(large)  # so that the compiled layout is not counted
    with peak() as used:
        assert whole_frames(data) == (3, len(data), 1)
        assert used() < 2**12
