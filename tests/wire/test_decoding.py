"""Decoding, beside the cases of `vectors/`: text, control messages, runs, buffers."""

from __future__ import annotations

import struct
import tracemalloc
from typing import NamedTuple
from uuid import UUID

import pytest

from tolliver_proto import (
    Ack,
    Decoder,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Ignored,
    LocalProtocolError,
    MalformedFrame,
    Message,
    OwnLimitExceeded,
    ReservedChannel,
    Revision,
    Subscribe,
    Subscription,
    UnexpectedEOF,
    Unsubscribe,
    decode,
    encode,
)
from tolliver_proto._wire.frames import encoder
from tolliver_proto.layouts import IgnoreReason

from .drive import REVISIONS
from .vectors import D1, D2, ONE

revisions = pytest.mark.parametrize("revision", REVISIONS, ids=["draft1", "draft2"])
UNRELIABLE = 2**31 - 1
BAD_UTF8 = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"caf\xe9", b"\xe2\x82"]
"""Stray byte, overlong NUL, surrogate, beyond U+10FFFF, Latin-1, cut short."""


def regular(channel: bytes, key: bytes, body: bytes, message_id: int = 7) -> bytes:
    return struct.pack(">BIIII", 3, len(channel), len(key), len(body), message_id) + channel + key + body


def control(body: bytes, message_id: int = 7, key: bytes = b"") -> bytes:
    return regular(b"tolliver", key, body, message_id)


def names(channel: bytes, key: bytes) -> bytes:
    return struct.pack(">II", len(channel), len(key)) + channel + key


def request(entry: bytes = b"", count: int = 1, peer: UUID = ONE) -> bytes:
    return struct.pack(">BQ16sI", 0, 1, peer.bytes, count) + entry


# T-05.


def test_every_unknown_type_is_fatal_at_its_first_byte() -> None:
    for first in range(5, 256):
        decoder = Decoder()
        decoder.feed(encode(Ack(1)) + bytes([first]))
        assert decoder.next_frame() == Ack(1)
        for _ in range(2):  # and it stays so
            with pytest.raises(MalformedFrame) as raised:
                decoder.next_frame()
            assert raised.value.code == "unknown_type"
            assert raised.value.offset == 5
            decoder.feed(encode(Ack(2)))
        decoder.finish()  # one error is enough


# T-10, T-11: text.


@pytest.mark.parametrize(
    "name", ["é", "e\u0301", "TOLLIVER", "Tolliver", "tolliver ", "a\0b", "\ufeff", "𝄞" * 64, "x" * 300]
)
@revisions
def test_names_are_compared_byte_for_byte(name: str, revision: Revision) -> None:
    """No normalisation, no folding of case, NUL is a character; often or seldom, short or long."""
    frames: list[Frame] = [Message(name, name, b"", number) for number in range(3)]
    assert decode(b"".join(encode(frame, revision) for frame in frames), revision) == frames


@pytest.mark.parametrize("bad", ["\ud800", "a\udfff", None, b"bytes", 7])
def test_text_that_utf8_cannot_carry_is_not_encoded(bad: str) -> None:
    for frame in (
        Message(bad, "", b"", 1),
        Message("", bad, b"", 1),
        Subscribe(bad, "", 1),
        Unsubscribe("", bad, 1),
        HandshakeRequest(1, ONE, (Subscription(bad, ""),)),
    ):
        with pytest.raises(LocalProtocolError) as raised:
            encode(frame)
        assert raised.value.code == "bad_text"


# T-12, T-20 to T-22, T-27, T-28: control messages.


def test_every_code_but_two_is_ignored() -> None:
    for code in range(256):
        [frame] = decode(control(bytes([code]) + names(b"test", b"key")))
        expected = {0: Subscribe("test", "key", 7), 1: Unsubscribe("test", "key", 7)}
        assert frame == expected.get(code, Ignored(7, IgnoreReason.BAD_CONTROL))


def test_a_tolerant_reader_takes_the_body_of_draft_1() -> None:
    """T-22: under exact lengths no body reads both ways."""
    bodies = {
        names(b"test", b"key"): Subscribe("test", "key", 7),
        names(b"", b""): Subscribe("", "", 7),
        b"\x00" + names(b"test", b"key"): Subscribe("test", "key", 7),
        b"\x01" + names(b"", b""): Unsubscribe("", "", 7),
        b"\x02" + names(b"a", b"b"): Ignored(7, IgnoreReason.BAD_CONTROL),
        names(b"\xff", b""): Ignored(7, IgnoreReason.BAD_CONTROL),
    }
    for body, expected in bodies.items():
        decoder = Decoder(D2, accept_either=True)
        decoder.feed(control(body))
        assert decoder.next_frame() == expected
    decoder = Decoder(D1, accept_either=True)
    decoder.feed(control(names(b"a", b"b")) + control(b"\x00" + names(b"a", b"b")))
    assert list(iter(decoder.next_frame, None)) == [Subscribe("a", "b", 7), Ignored(7, IgnoreReason.BAD_CONTROL)]


@revisions
def test_the_reserved_channel_is_exact_and_forbidden_to_messages(revision: Revision) -> None:
    for message in (Message("tolliver", "", b"", 1), Message("tolliver", "key", b"", None)):
        with pytest.raises(ReservedChannel):
            encode(message, revision)
    near: list[Frame] = [Message(name, "tolliver", b"x", 1) for name in ("Tolliver", "tolliver2", "tollive", "")]
    data = b"".join(encode(message, revision) for message in near)
    # A key of that name must not teach the reader that the channel is an ordinary one.
    subscribe, ignored = Subscribe("a", "b", 2), Ignored(7, IgnoreReason.CONTROL_KEY)
    control_frames = encode(subscribe, revision) + control(b"", key=b"tolliver")
    assert decode(data + control_frames + data, revision) == [*near, subscribe, ignored, *near]


def test_a_message_without_an_id_is_unreliable() -> None:
    assert [Message("a", "b", b"", message_id).reliable for message_id in (0, 1, None)] == [True, True, False]


# Values that cannot be encoded.


@pytest.mark.parametrize("number", [-1, 2**64, 1.5, None, "1"])
def test_numbers_that_do_not_fit_their_field(number: int) -> None:
    frames: list[Frame] = [
        HandshakeRequest(number, ONE),
        HandshakeResponse(number, ONE, HandshakeStatus.OLDER),
        Ack(number),
    ]
    if number is not None:
        frames.append(Message("a", "b", b"", number))
    for frame in frames:
        with pytest.raises(LocalProtocolError) as raised:
            encode(frame)
        assert raised.value.code == "bad_number"


def test_values_without_a_code() -> None:
    for frame in (
        HandshakeResponse(1, ONE, 4),  # type: ignore[arg-type]  # that is the test
        HandshakeFinal(2),  # type: ignore[arg-type]  # that is the test
    ):
        with pytest.raises(LocalProtocolError) as raised:
            encode(frame)
        assert raised.value.code == "no_code"
    with pytest.raises(LocalProtocolError) as raised:
        encode("hello")  # type: ignore[arg-type]  # that is the test
    assert raised.value.code == "not_a_frame"
    with pytest.raises(LocalProtocolError) as raised:
        encode(Message("a", "b", bytearray(), 1))  # type: ignore[arg-type]  # that is the test
    assert raised.value.code == "not_bytes"


@pytest.mark.parametrize("size", [1, 100])
def test_an_entry_with_another_code_is_refused_however_it_arrives(size: int) -> None:
    """Its code is there and wrong, and nothing else of the entry has come."""
    head = encode(HandshakeRequest(1, ONE, (Subscription("", ""),)), Revision.DRAFT_2_LETTER)[:-9]
    data = head + b"\xff"
    *pieces, last = [data[at : at + size] for at in range(0, len(data), size)]
    decoder = Decoder(Revision.DRAFT_2_LETTER)
    for piece in pieces:
        decoder.feed(piece)
        assert decoder.next_frame() is None
    decoder.feed(last)
    with pytest.raises(MalformedFrame) as raised:
        decoder.next_frame()
    assert raised.value.code == "bad_entry"


def test_a_body_above_the_formats_limit() -> None:
    zeros = bytes(2**31)  # nobody touches them, so they take no memory
    with pytest.raises(OwnLimitExceeded, match="T-06"):
        encode(Message("a", "b", zeros, 1))


# The decoder as a tool of its own.


@pytest.mark.parametrize("convert", [bytes, bytearray, memoryview])
def test_all_kinds_of_buffers_are_read_and_bodies_are_bytes(convert: type) -> None:
    data = encode(Message("a", "b", b"body", 1))
    decoder = Decoder()
    for piece in (data, data[:5], data[5:]):
        decoder.feed(convert(piece))
    for _ in range(2):
        message = decoder.next_frame()
        assert isinstance(message, Message)
        assert type(message.body) is bytes


def test_what_was_fed_may_change_afterwards() -> None:
    data = bytearray(encode(Message("a", "b", b"body", 1)))
    decoder = Decoder()
    decoder.feed(data)
    data[:] = bytes(len(data))
    assert decoder.next_frame() == Message("a", "b", b"body", 1)


def test_feeding_nothing_changes_nothing() -> None:
    decoder = Decoder()
    decoder.feed(b"")
    assert decoder.next_frame() is None
    decoder.finish()


def test_the_end_inside_a_frame_says_where_the_frame_began() -> None:
    data = encode(Ack(1)) + encode(Message("a", "b", b"body", 1))
    for size in range(6, len(data)):
        with pytest.raises(UnexpectedEOF) as raised:
            decode(data[:size])
        assert raised.value.offset == 5
    whole = request(names(b"a", b"b") * 2, count=2)
    for size in range(1, len(whole)):
        with pytest.raises(UnexpectedEOF) as raised:
            decode(encode(Ack(1)) + whole[:size])
        assert raised.value.offset == 5


def test_the_end_is_remembered_as_the_error() -> None:
    decoder = Decoder()
    decoder.feed(b"\x04")
    assert decoder.next_frame() is None
    with pytest.raises(UnexpectedEOF):
        decoder.finish()
    with pytest.raises(UnexpectedEOF):
        decoder.next_frame()


def test_more_names_than_are_remembered() -> None:
    """The memory for names is bounded, and forgetting costs no frame."""
    frames: list[Frame] = [Message(f"channel {number}", f"key {number % 7}", b"", number) for number in range(3000)]
    data = b"".join(map(encode, frames))
    decoder = Decoder()
    decoder.feed(data * 2)
    assert list(iter(decoder.next_frame, None)) == frames * 2
    assert len(decoder._names) <= 1024
    long: list[Frame] = [Message(f"{number:0500}", "", b"", number) for number in range(1000)]
    decoder.feed(b"".join(map(encode, long)))
    assert list(iter(decoder.next_frame, None)) == long
    assert sum(map(len, decoder._names)) <= 1024 * 256


@pytest.mark.parametrize("size", [1, 3, 1000, 2**20])
def test_many_frames_with_known_names_in_any_pieces(size: int) -> None:
    """The hot path takes them in runs; order and ids are those of the wire."""
    frames: list[Frame] = []
    for number in range(150):
        frames += [Message("a", "b", bytes(number), number), Ack(number)]
    frames += [Message("a", "b", bytes(3000), message_id) for message_id in (None, UNRELIABLE + 1, 2**32 - 1)]
    data = b"".join(map(encode, frames))
    decoder = Decoder()
    read = []
    for at in range(0, len(data), size):
        decoder.feed(data[at : at + size])
        read += list(iter(decoder.next_frame, None))
    assert read == frames


def test_acks_of_a_run_are_packed_as_they_are_one_by_one() -> None:
    for revision in REVISIONS:
        for count in (0, 1, 2, 255, 256, 257, 1000):
            ids = range(2**32 - 1, 2**32 - 1 - count, -1)
            assert encoder(revision).acks(ids) == b"".join(encode(Ack(number), revision) for number in ids)


class Row(NamedTuple):
    """A message of an outbox."""

    wire_id: int
    channel: str
    key: str
    body: bytes


@revisions
def test_messages_of_a_run_are_written_as_they_are_one_by_one(revision: Revision) -> None:
    names = [("a", "k"), ("a", "k"), ("a", ""), ("ü", "k"), ("ü", "k"), ("a", "k")]
    rows = [Row(number, *pair, bytes(number)) for number, pair in enumerate(names, 1)]
    whole = b"".join(encode(Message(row.channel, row.key, row.body, row.wire_id), revision) for row in rows)
    assert encoder(revision).messages(rows) == whole
    for wrong in (UNRELIABLE, 2**32):
        with pytest.raises(LocalProtocolError):
            encoder(revision).messages([rows[0], Row(wrong, *names[0], b"")])
    with pytest.raises(OwnLimitExceeded):
        encoder(Revision.RUST_2026).messages([rows[0], Row(2, *names[0], bytes(2**16))])


@revisions
def test_what_a_frame_costs_beside_its_contents(revision: Revision) -> None:
    """For those who must know a size before there is a frame (T-19, T-52)."""
    assert encoder(revision).overhead == len(encode(Message("", "", b"", 1), revision))
    one, two = (len(encode(HandshakeRequest(1, ONE, (Subscription("", ""),) * count), revision)) for count in (1, 2))
    assert encoder(revision).entry_overhead == two - one


def test_runs_of_acks_of_every_length_take_little_memory() -> None:
    """The struct that packs a run is kept, and has a word for each of its fields (V23)."""
    tracemalloc.start()
    try:
        for count in range(1, 600):
            encoder(Revision.DRAFT_2).acks(range(count))
        assert tracemalloc.get_traced_memory()[0] < 2**17
    finally:
        tracemalloc.stop()
