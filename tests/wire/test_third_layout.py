"""Third wire layout: a table entry and nothing else.

Everything that a layout can say is said differently here: codes of frames, statuses and finals, order and width of
every field, order of the parts, prefixes of control bodies, the id that means unreliable, the largest body.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

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
    LocalProtocolError,
    MalformedFrame,
    Message,
    OwnLimitExceeded,
    Revision,
    Role,
    Subscribe,
    Subscription,
    Unsubscribe,
    decode,
    encode,
)
from tolliver_proto._wire.layouts import LAYOUTS, Fields, Layout, Shape
from tolliver_proto.layouts import IgnoreReason, State
from tolliver_proto.recording import Whole, whole_frames

from .drive import LISTED, ME, NEWER, OLDER, OURS, PLACES, VERSIONS, connection, feed, reach, sent, talk
from .strategies import cut, sizes
from .vectors import ONE, TWO

THIRD = cast(Revision, 203)
UNRELIABLE = 2**64 - 1

_THIRD = Layout(
    codes={HandshakeRequest: 0xF0, HandshakeResponse: 0x07, HandshakeFinal: 3, Message: 0, Ack: 0x80},
    request=Fields("B code, H count, 16s instance_id, I version"),
    response=Fields("B code, B status, I version, 16s instance_id, H count"),
    final=Fields("B code, H final"),
    message=Shape("B code, Q message_id, H body, B key, H channel, *body, *key, *channel"),
    ack=Fields("B code, Q message_id"),
    entry=Shape("B key, H channel, *key, *channel"),
    statuses={
        HandshakeStatus.SAME_VERSION: 200,
        HandshakeStatus.NEWER_COMPATIBLE: 100,
        HandshakeStatus.NEWER_INCOMPATIBLE: 7,
        HandshakeStatus.OLDER: 1,
    },
    finals={True: 0x0A0A, False: 0},
    controls={Unsubscribe: b"-", Subscribe: b"++"},
    unreliable_id=UNRELIABLE,
    max_body=1000,
)

VECTORS: list[tuple[Frame, str]] = [
    (HandshakeRequest(1, ONE), "f0 0000 01890000000070008000000000000001 00000001"),
    (
        HandshakeRequest(1, ONE, (Subscription("test", "key"),)),
        "f0 0001 01890000000070008000000000000001 00000001 03 0004 6b6579 74657374",
    ),
    (
        HandshakeResponse(258, TWO, HandshakeStatus.OLDER),
        "07 01 00000102 01890000000070008000000000000002 0000",
    ),
    (HandshakeFinal(True), "03 0a0a"),
    (HandshakeFinal(False), "03 0000"),
    (Message("test", "key", b"hi", 2**32), "00 0000000100000000 0002 03 0004 6869 6b6579 74657374"),
    (Message("", "", b"", None), "00 ffffffffffffffff 0000 00 0000"),
    (Ack(2**31 - 1), "80 000000007fffffff"),
    (
        Subscribe("test", "key", 2),
        "00 0000000000000002 000c 00 0008 2b2b 03 0004 6b6579 74657374 746f6c6c69766572",
    ),
    (Unsubscribe("", "", 3), "00 0000000000000003 0004 00 0008 2d 00 0000 746f6c6c69766572"),
]


@pytest.fixture(autouse=True, scope="module")
def third() -> Iterator[None]:
    LAYOUTS[THIRD] = _THIRD
    yield
    del LAYOUTS[THIRD]


@pytest.mark.parametrize(("frame", "text"), VECTORS, ids=str)
def test_vectors(frame: Frame, text: str) -> None:
    data = bytes.fromhex(text)
    assert encode(frame, THIRD) == data
    assert whole_frames(data * 2, THIRD) == Whole(2, 2 * len(data), 1)
    for place in range(1, len(data)):
        assert whole_frames(data[:place], THIRD)[:2] == (0, 0)
        decoder = Decoder(THIRD)
        decoder.feed(data[:place])
        assert decoder.next_frame() is None
        decoder.feed(data[place:])
        assert decoder.next_frame() == frame
        decoder.finish()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([frame for frame, _ in VECTORS]), max_size=10), sizes)
def test_any_order_and_any_cut(written: list[Frame], pieces: list[int]) -> None:
    decoder = Decoder(THIRD)
    read = []
    for piece in cut(b"".join(encode(frame, THIRD) for frame in written), pieces):
        decoder.feed(piece)
        read += list(iter(decoder.next_frame, None))
    assert read == written


@pytest.mark.parametrize("server", VERSIONS)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_whole_conversation(server: int, size: int) -> None:
    """Handshake by every status that agrees, traffic both ways, a repeated handshake, an orderly end."""
    one = connection(Role.CLIENT, THIRD, subscriptions=LISTED)
    two = connection(Role.SERVER, THIRD, version=server, instance_id=TWO)

    def pieces(unit: bytes) -> list[bytes]:
        return cut(unit, [size])

    client, host = talk(one, two, pieces)
    lower = min(server, OURS)
    assert client.events[-1] == Established(lower, TWO, (), client.events[0].status)  # type: ignore[union-attr]  # a response
    assert isinstance(host.events[-1], Established)
    assert host.events[-1].subscriptions == LISTED

    traffic: list[Message | Ack | Subscribe | Unsubscribe] = [
        Message("a", "é", b"body", 2**63),
        Subscribe("x", "", 1),
        Unsubscribe("x", "", 2),
        Ack(2**64 - 2),
    ]
    for frame in traffic:
        one.send(frame)
        two.send(frame)
    one.send_acks([2**64 - 2, 0])
    client, host = talk(one, two, pieces)
    assert client.events == traffic
    assert host.events == [*traffic, Ack(2**64 - 2), Ack(0)]

    again = HandshakeRequest(OURS, ME, ())
    assert feed(two, again) == [again]
    two.accept()
    client, host = talk(one, two, pieces)
    assert (client.events, one.unexpected_frames) == ([], 1)
    one.close()
    client, host = talk(one, two, pieces)
    assert client.events == host.events == [Closed()]


def test_every_state_is_reached_over_it() -> None:
    for state, role, version in PLACES:
        assert reach(state, role, version, THIRD).state is state


def test_refusals_over_it() -> None:
    client = connection(Role.CLIENT, THIRD, version=OLDER)
    server = connection(Role.SERVER, THIRD, speaks=lambda _version: False)
    one, two = talk(client, server)
    assert isinstance(one.closed.error, HandshakeRejected)
    assert isinstance(two.closed.error, HandshakeRejected)
    assert two.units[0][1] == 7

    client = connection(Role.CLIENT, THIRD, version=NEWER, speaks=lambda _version: False)
    one, two = talk(client, connection(Role.SERVER, THIRD))
    assert one.units[1] == b"\x03\x00\x00"
    assert isinstance(two.closed.error, HandshakeRejected)


def test_its_own_errors() -> None:
    for code in {*range(256)} - {0xF0, 0x07, 3, 0, 0x80}:
        with pytest.raises(MalformedFrame):
            decode(bytes([code]) + bytes(40), THIRD)
    with pytest.raises(MalformedFrame, match="status 0"):
        decode(bytes.fromhex("07 00 00000102 01890000000070008000000000000002 0000"), THIRD)
    assert decode(b"\x03\x0a\x0b", THIRD) == [HandshakeFinal(False)]
    bad = bytes.fromhex("00 0000000000000002 0001 00 0008 2b 746f6c6c69766572")
    assert decode(bad, THIRD) == [Ignored(2, IgnoreReason.BAD_CONTROL)]
    with pytest.raises(LimitExceeded):
        decode(bytes.fromhex("00 0000000000000002 03e9 00 0000"), THIRD)


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (Message("a", "k" * 256, b"", 1), OwnLimitExceeded),
        (Message("c" * 65536, "", b"", 1), OwnLimitExceeded),
        (Message("a", "b", bytes(1001), 1), OwnLimitExceeded),
        (Subscribe("a", "k" * 256, 1), OwnLimitExceeded),
        (Subscribe("a" * 1000, "k", 1), OwnLimitExceeded),  # the names fit, the body does not
        (HandshakeRequest(1, ONE, (Subscription("c" * 65536, ""),)), OwnLimitExceeded),
        (HandshakeRequest(2**32, ONE), LocalProtocolError),
        (HandshakeRequest(1, ONE, (Subscription("", ""),) * 65536), LocalProtocolError),
        (Message("a", "b", b"", UNRELIABLE), LocalProtocolError),
        (Ack(2**64), LocalProtocolError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_its_fields_cannot_hold(frame: Frame, error: type[LocalProtocolError]) -> None:
    with pytest.raises(error):
        encode(frame, THIRD)


def test_what_its_fields_just_hold() -> None:
    frames: list[Frame] = [
        Message("c" * 65535, "k" * 255, bytes(1000), UNRELIABLE - 1),
        HandshakeRequest(2**32 - 1, ONE, (Subscription("c" * 65535, "k" * 255),)),
        Ack(2**64 - 1),
    ]
    for frame in frames:
        assert decode(encode(frame, THIRD), THIRD) == [frame]


def test_the_body_of_draft_1_has_its_own_widths_there_too() -> None:
    """T-22 reads draft 1's body, not the layout's."""
    body = bytes.fromhex("00000004 00000003 74657374 6b6579")
    head = bytes.fromhex("00 0000000000000002 000f 00 0008")
    decoder = Decoder(THIRD, accept_either=True)
    decoder.feed(head + body + b"tolliver")
    assert decoder.next_frame() == Subscribe("test", "key", 2)


def test_sending_is_the_layouts_too() -> None:
    conn = reach(State.ESTABLISHED, Role.CLIENT, OURS, THIRD)
    assert conn.can_send(Unsubscribe)
    conn.send_acks([5, 6])
    assert sent(conn) == bytes.fromhex("80 0000000000000005 80 0000000000000006")
