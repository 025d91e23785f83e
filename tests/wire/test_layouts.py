"""Layouts of other programs, and a made-up one that differs in all that a layout can say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolliver_proto import (
    Ack,
    Closed,
    Decoder,
    Established,
    Frame,
    HandshakeFinal,
    HandshakeRejected,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Ignored,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    MalformedFrame,
    Message,
    OwnLimitExceeded,
    Revision,
    Role,
    Subscribe,
    Subscription,
    UnexpectedEOF,
    Unsubscribe,
    decode,
    encode,
)
from tolliver_proto._wire.layouts import LAYOUTS, Fields, Layout, Shape
from tolliver_proto.layouts import Dialect, IgnoreReason, Refusal, State, SubscribeMany, UnsubscribeMany
from tolliver_proto.recording import Whole, claimed_opening, whole_frames

from .drive import LISTED, ME, NEWER, OLDER, OURS, PEER, connection, feed, reach, request, sent, talk, where
from .strategies import cut, frames, sizes
from .vectors import GO, ONE, RUST, STEP_2, TWO

MADE_UP = cast(Revision, 202)

_MADE_UP = Layout(
    codes={HandshakeRequest: 9, HandshakeResponse: 8, HandshakeFinal: 7, Message: 6, Ack: 5},
    request=Fields("B code, 16s instance_id, Q version, B count"),
    response=Fields("B code, Q version, B count, H status, 16s instance_id"),
    final=Fields("B code, I final"),
    message=Shape("B code, H key, *key, I message_id, H body, *body, B channel, *channel"),
    ack=Fields("B code, I message_id, H status"),
    acks={Ack: 77, Refusal: 78},
    entry=Shape("B key, *key, H channel, *channel"),
    statuses={
        HandshakeStatus.SAME_VERSION: 500,
        HandshakeStatus.NEWER_COMPATIBLE: 501,
        HandshakeStatus.OLDER: 502,
        HandshakeStatus.NEWER_INCOMPATIBLE: 503,
        HandshakeStatus.FAILED: 504,
    },
    finals={True: 2**32 - 1, False: 1},
    controls={Unsubscribe: b"--", Subscribe: b"+"},
    control_count=Fields("B count"),
    unreliable_id=5,
    final_always=True,
    max_body=3000,
    max_name=200,
    max_id=2**30,
)

VECTORS: list[tuple[Frame, str]] = [
    (HandshakeRequest(1, ONE), "09 01890000000070008000000000000001 0000000000000001 00"),
    (
        HandshakeResponse(2, TWO, HandshakeStatus.OLDER, (Subscription("test", "key"),)),
        "08 0000000000000002 01 01f6 01890000000070008000000000000002 03 6b6579 0004 74657374",
    ),
    (HandshakeFinal(True), "07 ffffffff"),
    (HandshakeFinal(False), "07 00000001"),
    (Message("test", "key", b"hi", 2**30), "06 0003 6b6579 40000000 0002 6869 04 74657374"),
    (Message("", "", b""), "06 0000 00000005 0000 00"),
    (Ack(2**32 - 1), "05 ffffffff 004d"),
    (Refusal(1), "05 00000001 004e"),
    (Subscribe("test", "key", 2), "06 0000 00000002 000c 2b 01 03 6b6579 0004 74657374 08 746f6c6c69766572"),
    (UnsubscribeMany((), 3), "06 0000 00000003 0003 2d2d 00 08 746f6c6c69766572"),
    (
        SubscribeMany((Subscription("a", ""), Subscription("", "b"))),
        "06 0000 00000005 000a 2b 02 00 0001 61 01 62 0000 08 746f6c6c69766572",
    ),
]


@pytest.fixture(autouse=True, scope="module")
def made_up() -> Iterator[None]:
    LAYOUTS[MADE_UP] = _MADE_UP
    yield
    del LAYOUTS[MADE_UP]


# Made up.


@pytest.mark.parametrize(("frame", "text"), VECTORS, ids=str)
def test_vectors_of_the_made_up_one(frame: Frame, text: str) -> None:
    data = bytes.fromhex(text)
    assert encode(frame, MADE_UP) == data
    assert whole_frames(data * 2, MADE_UP) == Whole(2, 2 * len(data), 1)
    for place in range(1, len(data)):
        found = whole_frames(data[:place], MADE_UP)
        assert found[:2] == (0, 0)
        assert place < (found.wanted or 0) <= len(data)
        decoder = Decoder(MADE_UP)
        decoder.feed(data[:place])
        assert decoder.next_frame() is None
        decoder.feed(data[place:])
        assert decoder.next_frame() == frame
        decoder.finish()


@pytest.mark.search
@pytest.mark.parametrize("revision", [GO, RUST, STEP_2, MADE_UP], ids=lambda one: getattr(one, "name", "made up"))
@settings(max_examples=30, deadline=None)
@given(data=st.data(), pieces=sizes)
def test_any_order_and_any_cut(data: st.DataObject, pieces: list[int], revision: Revision) -> None:
    written = data.draw(st.lists(frames(revision), max_size=8))
    stream = b"".join(encode(frame, revision) for frame in written)
    decoder, read = Decoder(revision), []
    for piece in cut(stream, pieces):
        decoder.feed(piece)
        read += list(iter(decoder.next_frame, None))
    assert read == written
    assert whole_frames(stream, revision) == (len(written), len(stream), 1)


@pytest.mark.parametrize("revision", [GO, RUST, STEP_2, MADE_UP], ids=lambda one: getattr(one, "name", "made up"))
@pytest.mark.parametrize("version", [OLDER, OURS, NEWER])
@pytest.mark.parametrize("size", [1, 1000])
def test_a_whole_conversation(revision: Revision, version: int, size: int) -> None:
    layout = LAYOUTS[revision]
    one = connection(Role.CLIENT, revision, subscriptions=LISTED)
    two = connection(Role.SERVER, revision, version=version, instance_id=TWO)
    client, host = talk(one, two, lambda unit: cut(unit, [size]))
    assert isinstance(client.events[-1], Established)
    assert isinstance(host.events[-1], Established)
    assert host.events[-1].subscriptions == (LISTED if layout.has_lists else ())
    assert any(isinstance(event, HandshakeFinal) for event in host.events) is (layout.final_always or version < OURS)
    traffic: list[Any] = [Message("a", "b", b"body")]
    if layout.has_acks:
        traffic += [Message("a", "b", b"body", 7), Ack(7), Subscribe("a", "b", 8), Unsubscribe("a", "b", 9)]
    if Refusal in one.encoder.carries:
        traffic += [Refusal(7), SubscribeMany((), 10), UnsubscribeMany(LISTED, 11)]
    for frame in traffic:
        assert one.can_send(type(frame))
        one.send(frame)
        two.send(frame)
    client, host = talk(one, two, lambda unit: cut(unit, [size]))
    assert client.events == host.events == traffic
    if layout.has_acks:
        one.send_acks(range(30, 0, -1))
        assert feed(two, sent(one)) == [Ack(number) for number in range(30, 0, -1)]
    again = HandshakeRequest(OURS, ME, ())
    assert feed(two, again) == [again]
    two.accept()
    client, host = talk(one, two)
    assert (client.events, one.unexpected_frames) == ([], 1)
    one.close()
    client, host = talk(one, two)
    assert client.events == host.events == [Closed()]


def test_what_the_made_up_one_cannot_hold() -> None:
    for frame in (
        Message("a" * 201, "", b"", 1),
        Message("a", "k" * 201, b"", 1),
        Message("a", "", bytes(3001), 1),
        HandshakeRequest(1, ONE, (Subscription("", "k" * 256),)),
    ):
        with pytest.raises(OwnLimitExceeded):
            encode(frame, MADE_UP)
    for other in (
        Message("a", "", b"", 2**30 + 1),
        Message("a", "", b"", 5),
        SubscribeMany((Subscription("", ""),) * 256, 1),
        HandshakeRequest(1, ONE, (Subscription("", ""),) * 256),
    ):
        with pytest.raises(LocalProtocolError):
            encode(other, MADE_UP)
    too_long = bytes.fromhex("06 00ff") + bytes(255 + 100)
    with pytest.raises(LimitExceeded):
        decode(too_long, MADE_UP)
    assert whole_frames(too_long, MADE_UP) == (0, 0, None)
    too_large = bytes.fromhex("06 0000 40000001 0000 00")
    with pytest.raises(MalformedFrame, match="1073741825"):
        decode(too_large, MADE_UP)
    assert decode(bytes.fromhex("05 00000009 1234"), MADE_UP) == [Refusal(9)]
    uncounted = bytes.fromhex("06 0000 00000002 0001 2b 08 746f6c6c69766572")
    assert decode(uncounted, MADE_UP) == [Ignored(2, IgnoreReason.BAD_CONTROL)]


def test_a_flat_head_with_a_lower_bound_of_ids() -> None:
    """The hot path leaves it to the slow one."""
    LAYOUTS[MADE_UP] = flat = Layout(
        **{
            name: getattr(LAYOUTS[Revision.DRAFT_2], name)
            for name in Layout.__slots__
            if name not in ("max_id", "max_name")
        },
        max_id=9,
        max_name=4,
    )
    try:
        good, bad = Message("a", "b", b"c", 9), Message("a", "b", b"c", 10)
        data = encode(good, MADE_UP)
        assert decode(data * 2, MADE_UP) == [good, good]
        with pytest.raises(LocalProtocolError):
            encode(bad, MADE_UP)
        with pytest.raises(MalformedFrame) as caught:
            decode(data + encode(bad), MADE_UP)
        assert caught.value.offset == len(data)
        long = encode(Message("abcde", "", b"", 1))
        assert whole_frames(data + long, MADE_UP) == (1, len(data), None)
        assert flat.greatest_id == 9
    finally:
        LAYOUTS[MADE_UP] = _MADE_UP


@pytest.mark.parametrize(
    "entry",
    [
        "I channel, I key, *key, *channel",
        "I key, I channel, *channel, *key",
        "B key, H channel, *key, *channel",
        "B key, *key, H channel, *channel",
    ],
)
def test_lengths_and_names_of_a_subscription_stand_in_any_order(entry: str) -> None:
    LAYOUTS[MADE_UP] = replace(LAYOUTS[Revision.DRAFT_2], entry=Shape(entry))
    try:
        for frame in (HandshakeRequest(1, ONE, LISTED), Subscribe("test", "a key", 2)):
            assert decode(encode(frame, MADE_UP), MADE_UP) == [frame]
    finally:
        LAYOUTS[MADE_UP] = _MADE_UP


# Numbers of 64 bits.


@pytest.mark.parametrize(
    "text",
    [
        "00 0000000000000001 01890000000070008000000000000001 ffffffffffffffff",
        "00 0000000000000001 01890000000070008000000000000001 0000000000000001 ffffffffffffffff",
        "00 0000000000000001 01890000000070008000000000000001 0000000000000001 0000000000000000 ffffffffffffffff",
        "03 0000000000000001 ffffffffffffffff",
        "03 0000000000000001 0000000000000000 ffffffffffffffff",
        "03 0000000000000001 0000000000000000 0000000000000000 ffffffffffffffff",
        "03 0000000000000001 0000000000000000 0000000000000000 0000000080000000",
    ],
)
def test_every_length_and_count_is_refused_as_soon_as_it_is_in_sight(text: str) -> None:
    data = bytes.fromhex(text)
    for limits in (Limits(), Limits.format()):
        with pytest.raises(LimitExceeded):
            decode(data, GO, limits)
        with pytest.raises(UnexpectedEOF):
            decode(data[:-1], GO, limits)
    assert whole_frames(data, GO) == (0, 0, None)
    assert (whole_frames(data[:-1], GO).wanted or 0) <= len(data)


def test_a_message_id_that_no_row_has() -> None:
    data = bytes.fromhex("03 8000000000000000") + bytes(24)
    with pytest.raises(MalformedFrame, match="9223372036854775808"):
        decode(data, GO)
    assert decode(bytes.fromhex("04 00 ffffffffffffffff"), GO) == [Ack(2**64 - 1)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"\x00" + bytes(7),
        b"\x02" + bytes(8),
        b"\x00" + bytes(8) + b"x",
        b"\x00" + b"\xff" * 8,
        b"\x00" + (1).to_bytes(8) + bytes(15),
        b"\x00" + (1).to_bytes(8) + bytes(7) + b"\x01" + b"\xff" + bytes(8),
        b"\x00" + (1).to_bytes(8) + b"\xff" * 16,
        b"\x00" + (3).to_bytes(8) + bytes(48),
    ],
    ids=len,
)
def test_a_control_body_that_is_not_its_entries(body: bytes) -> None:
    data = struct_message(b"tolliver", b"", body)
    assert decode(data, GO, Limits(max_subscriptions=2)) == [Ignored(7, IgnoreReason.BAD_CONTROL)]


def struct_message(*parts: bytes) -> bytes:
    return b"\x03" + (7).to_bytes(8) + b"".join(len(part).to_bytes(8) + part for part in parts)


def test_a_body_of_draft_1_is_read_there_too() -> None:
    """T-22 reads draft 1's body, not the layout's."""
    decoder = Decoder(GO, accept_either=True)
    decoder.feed(struct_message(b"tolliver", b"", bytes.fromhex("00000004 00000003 74657374 6b6579")))
    assert decoder.next_frame() == Subscribe("test", "key", 7)


# Parts that a layout lacks.


def test_what_cannot_be_said_is_refused_with_words_that_say_so() -> None:
    for frame in (
        Ack(1),
        Refusal(1),
        Subscribe("a", "b"),
        Unsubscribe("a", "b"),
        SubscribeMany(()),
        HandshakeRequest(1, ONE, LISTED),
        HandshakeResponse(1, ONE, HandshakeStatus.SAME_VERSION, LISTED),
    ):
        with pytest.raises(LocalProtocolError, match="revision") as caught:
            encode(frame, RUST)
        assert caught.value.code == "not_expressible"
    for lacking in (Refusal(1), SubscribeMany(()), UnsubscribeMany(LISTED)):
        with pytest.raises(LocalProtocolError) as caught:
            encode(lacking)
        assert caught.value.code == "not_expressible"
    with pytest.raises(OwnLimitExceeded, match="65535"):
        encode(Message("a", "b", bytes(65536)), RUST)
    conn = connection(Role.CLIENT, RUST)
    feed(conn, HandshakeResponse(OURS, PEER, HandshakeStatus.SAME_VERSION))
    with pytest.raises(LocalProtocolError):
        conn.send_acks([1])
    with pytest.raises(LocalProtocolError, match="message_id=None"):
        conn.send(Message("a", "b", b"", 1))
    assert conn.live
    assert not conn.can_send(Ack)
    with pytest.raises(MalformedFrame):
        decode(b"\x04\x00\x00\x00\x01", RUST)
    assert whole_frames(b"\x04\x00\x00\x00\x01", RUST) == (0, 0, None)


def test_names_of_several_entries_are_held_against_the_limits() -> None:
    conn = reach(State.ESTABLISHED, Role.CLIENT, OURS, GO)
    with pytest.raises(OwnLimitExceeded):
        conn.send(SubscribeMany((Subscription("a" * 5000, ""),)))


# Handshakes.


def test_a_client_says_its_final_before_anything_else() -> None:
    conn = connection(Role.CLIENT, RUST)
    assert sent(conn) == encode(HandshakeRequest(OURS, ME), RUST)
    events = feed(conn, HandshakeResponse(OURS, PEER, HandshakeStatus.SAME_VERSION))
    assert isinstance(events[-1], Established)
    conn.send(Message("a", "b", b""))
    assert conn.data_to_send() == [b"\x02\x00", encode(Message("a", "b", b""), RUST)]


@pytest.mark.parametrize("compatible", [True, False])
def test_a_server_waits_for_it(compatible: bool) -> None:
    conn = connection(Role.SERVER, RUST)
    feed(conn, HandshakeRequest(OURS, PEER))
    assert conn.awaits_final
    conn.accept()
    assert where(conn) is State.AWAITING_FINAL
    assert not conn.live
    events = feed(conn, HandshakeFinal(compatible))
    assert isinstance(events[-1], Established if compatible else Closed)


def test_a_refusing_server_waits_for_nothing() -> None:
    conn = connection(Role.SERVER, RUST, speaks=lambda _version: False)
    feed(conn, HandshakeRequest(OLDER, PEER))
    assert not conn.awaits_final
    conn.accept()
    assert isinstance(next(conn.events()), Closed)
    assert sent(conn)[-1] == 3


@pytest.mark.parametrize("revision", [GO, RUST])
def test_a_failure_there_is_told_as_one(revision: Revision) -> None:
    conn = connection(Role.CLIENT, revision)
    *_, last = feed(conn, HandshakeResponse(OURS, PEER, HandshakeStatus.FAILED))
    assert isinstance(last, Closed)
    assert isinstance(last.error, HandshakeRejected)
    assert last.error.is_failure
    assert "its log" in str(last.error)


# By UUID.


def by_uuid(revision: Revision) -> Any:
    return lambda peer: Dialect(revision=revision) if peer == PEER else Dialect()


@pytest.mark.parametrize("revision", Revision, ids=lambda one: one.name)
@pytest.mark.parametrize("size", [1, 24, 25, 26, 1000])
def test_who_it_is_chooses_the_layout(revision: Revision, size: int) -> None:
    conn = connection(Role.SERVER, dialect_of=by_uuid(revision))
    listed = LISTED if LAYOUTS[revision].has_lists else ()
    data = encode(HandshakeRequest(OURS, PEER, listed), revision)
    events = [event for piece in cut(data, [size]) for event in feed(conn, piece)]
    assert events == [HandshakeRequest(OURS, PEER, listed)]
    assert (conn.revision, conn.unreliable_id) == (revision, LAYOUTS[revision].unreliable_id)
    conn.accept(LISTED)
    [answer] = decode(sent(conn), revision)
    assert answer == HandshakeResponse(OURS, ME, HandshakeStatus.SAME_VERSION, listed)
    assert claimed_opening(data) == PEER
    assert claimed_opening(data[:24]) is None


def test_everybody_else_is_as_before() -> None:
    conn = connection(Role.SERVER, dialect_of=by_uuid(GO))
    other = HandshakeRequest(OURS, ONE, LISTED)
    assert feed(conn, other) == [other]
    assert conn.revision is Revision.DRAFT_2
    assert claimed_opening(b"\x01" + bytes(40)) is None


def test_what_begins_no_request_ends_it_at_its_first_byte() -> None:
    conn = connection(Role.SERVER, dialect_of=by_uuid(GO))
    [closed] = feed(conn, b"G")
    assert isinstance(closed, Closed)
    conn = connection(Role.SERVER, dialect_of=by_uuid(GO))
    ignored = HandshakeResponse(OURS, ONE, HandshakeStatus.SAME_VERSION)
    assert feed(conn, ignored, encode(HandshakeRequest(OURS, PEER), GO)) == [HandshakeRequest(OURS, PEER)]
    assert conn.unexpected_frames == 1


def test_a_remote_s_layout_has_its_own_unreliable_id() -> None:
    own = Dialect(unreliable_id=2**31, version=3)
    assert Dialect(revision=GO).over(own) == Dialect(revision=GO, version=3)
    assert Dialect(revision=GO, unreliable_id=2**32 - 1).over(own).unreliable_id == 2**32 - 1
    assert Dialect(version=2).over(own).unreliable_id == 2**31
    assert request(OURS) == HandshakeRequest(OURS, PEER, LISTED)
