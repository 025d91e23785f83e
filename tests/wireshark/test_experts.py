"""Expert infos: whatever a ruling forbids is told where it stands."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from tests.wire.vectors import D1, ONE, TWO
from tests.wireshark.captures import MESSAGES, ROOT, STREAMS, Said, capture, counted, needs_tshark, read, snapped
from tolliver_proto import (
    Ack,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Subscribe,
    Subscription,
    encode,
)
from tolliver_proto import reactive as rs

pytestmark = needs_tshark

OLDER = HandshakeStatus.OLDER
REQUEST, RESPONSE = encode(HandshakeRequest(1, ONE)), encode(HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION))
UP = [(False, REQUEST), (True, RESPONSE)]
LISTED = encode(HandshakeRequest(1, ONE, (Subscription("wx", "y"),)))
FAILURE = encode(HandshakeFinal(False))
REFUSED = encode(HandshakeResponse(1, TWO, HandshakeStatus.NEWER_INCOMPATIBLE))
AWAITED = [(False, encode(HandshakeRequest(2, ONE))), (True, encode(HandshakeResponse(1, TWO, OLDER)))]
RENEWED = [*AWAITED, (False, encode(HandshakeFinal(True))), *AWAITED]
AGAIN: list[set[str]] = [set(), set(), set(), {"again"}, set()]


def message(channel: bytes, key: bytes, body: bytes, number: int = 1) -> bytes:
    """Of which no name is checked."""
    sizes = b"".join(len(part).to_bytes(4) for part in (channel, key, body))
    return b"\3" + sizes + number.to_bytes(4) + channel + key + body


MESSAGING: list[tuple[list[tuple[bool, bytes]], list[set[str]]]] = [
    (UP, [set(), set()]),
    ([*UP, (True, b"\5")], [set(), set(), {"unknown_type"}]),
    ([*UP, (True, b"\5"), (True, encode(Ack(1)))], [set(), set(), {"unknown_type"}, {"behind"}]),
    ([(False, REQUEST), (True, RESPONSE[:25] + b"\4" + bytes(4))], [set(), {"unknown_status"}]),
    ([(False, REQUEST), (True, RESPONSE[:25] + b"\1" + bytes(4))], [set(), {"contradiction"}]),
    ([(False, REQUEST), (True, RESPONSE[:25] + b"\2" + bytes(4))], [set(), {"contradiction", "refused"}]),
    ([(False, encode(HandshakeRequest(1, UUID(int=0x18 << 120))))], [{"not_version_7"}]),
    ([*UP, (True, REQUEST[:9] + bytes(20))], [set(), set(), {"bad_uuid"}]),
    ([*UP, (False, LISTED.replace(b"wx", b"\xff\xff"))], [set(), set(), {"bad_text_in_list"}]),
    ([*UP, (True, message(b"a", b"", b"")[:9] + b"\1\0\0\1" + bytes(4))], [set(), set(), {"too_long"}]),
    ([*UP, (True, REQUEST[:25] + b"\0\0\x27\x11")], [set(), set(), {"too_many"}]),
    ([*UP, (True, message(b"\xc0\x80", b"", b""))], [set(), set(), {"bad_text"}]),
    ([*UP, (True, message(b"a", b"\xed\xa0\x80", b""))], [set(), set(), {"bad_text"}]),
    ([*UP, (True, message(b"tolliver", b"", b"\7"))], [set(), set(), {"bad_control"}]),
    ([*UP, (True, encode(Subscribe("a", "b", 1), D1))], [set(), set(), {"bad_control", "draft_1_control"}]),
    ([*UP, (True, message(b"tolliver", b"k", b"\7"))], [set(), set(), {"control_key"}]),
    ([*UP, (True, encode(Subscribe("a", "b", None)))], [set(), set(), {"control_without_id"}]),
    ([*UP, (True, encode(Subscribe("tolliver", "", 1)))], [set(), set(), {"reserved"}]),
    ([(False, REQUEST), (True, encode(Message("a", "", b"", 1)))], [set(), {"too_early"}]),
    ([(False, REQUEST), (False, encode(Ack(2**31 - 1)))], [set(), {"too_early", "unreliable_ack"}]),
    ([*UP, (True, RESPONSE), (False, encode(HandshakeFinal(True)))], [set(), set(), {"unexpected"}, {"unexpected"}]),
    ([*UP, (False, REQUEST), (True, RESPONSE)], [set(), set(), {"again"}, set()]),
    ([*UP, (False, REQUEST[:8] + b"\2" + REQUEST[9:])], [set(), set(), {"again", "changed"}]),
    (
        [(False, encode(HandshakeRequest(2, ONE))), (True, encode(HandshakeResponse(1, TWO, OLDER))), (False, b"\2\1")],
        [set(), set(), set()],
    ),
    (
        [(False, encode(HandshakeRequest(2, ONE))), (True, encode(HandshakeResponse(1, TWO, OLDER))), (False, b"\2\7")],
        [set(), set(), {"odd_final", "refused"}],
    ),
    # An ignored frame refuses nothing, and is no answer.
    ([*UP, (False, FAILURE), (True, FAILURE), (False, b"\2\7")], [set(), set(), *[{"unexpected"}] * 3]),
    ([(False, REQUEST), (False, FAILURE), (True, RESPONSE)], [set(), {"unexpected"}, set()]),
    ([*UP, (True, REFUSED)], [set(), set(), {"unexpected"}]),
    ([*AWAITED, (True, FAILURE), (False, b"\2\1")], [set(), set(), {"unexpected"}, set()]),
    # A repeated request that is answered so has a final, which closes if it says failure.
    ([*RENEWED, (False, b"\2\1"), (False, FAILURE)], [*AGAIN, set(), {"unexpected"}]),
    ([*RENEWED, (False, FAILURE)], [*AGAIN, {"refused"}]),
    (
        [(False, encode(HandshakeRequest(2, ONE))), (True, encode(HandshakeResponse(1, TWO, OLDER)) + encode(Ack(1)))],
        [set(), set(), {"too_early", "stray_ack"}],
    ),
]

HELLOS = [(False, rs.encode(rs.ClientHello())), (True, rs.encode(rs.ServerHello()))]
ASKED = [*HELLOS, (False, rs.encode(rs.Subscribe("p", 1, 2)))]
GIVEN = [*ASKED, (True, rs.encode(rs.Subscribed(1)))]
ELEMENT = rs.encode(rs.OnNext(1, b"hi"))
STREAMING: list[tuple[list[tuple[bool, bytes]], list[set[str]]]] = [
    ([*GIVEN, (True, ELEMENT * 2), (True, rs.encode(rs.OnComplete(1)))], [set()] * 7),
    ([*GIVEN, (True, ELEMENT * 3)], [set()] * 6 + [{"overflow"}]),
    ([*GIVEN, (False, rs.encode(rs.Request(1, 2**63 - 1))), (True, ELEMENT * 3)], [set()] * 8),
    ([*GIVEN, (False, rs.encode(rs.Request(1, -1)))], [set()] * 4 + [{"no_demand"}]),
    ([*HELLOS, (False, rs.encode(rs.Subscribe("p", 1, -1)))], [set()] * 2 + [{"no_demand"}]),
    ([*GIVEN, (True, b"\x63")], [set()] * 4 + [{"unknown_type"}]),
    ([*GIVEN, (True, b"\x63"), (True, ELEMENT)], [set()] * 4 + [{"unknown_type"}, {"behind"}]),
    ([*GIVEN, (True, b"\xff" * 10)], [set()] * 4 + [{"long_varint"}]),
    ([*GIVEN, (True, b"\x88\0\1")], [set()] * 4 + [{"padded"}]),
    ([*GIVEN, (True, b"\x09\1\1\xff")], [set()] * 4 + [{"bad_text"}]),
    ([*ASKED, (True, b"\6\1\xff\xff\xff\x7f")], [set()] * 3 + [{"too_long"}]),
    ([*HELLOS, (False, b"\1\0\xff\xff\xff\x7f")], [set()] * 2 + [{"too_many"}]),
    ([*GIVEN, (True, b"\x0a\1\1")], [set()] * 4 + [{"not_packable"}]),
    ([*ASKED, (True, rs.encode(rs.Subscribed(1, 4)) + b"\x0a\1\0")], [set()] * 4 + [{"empty"}]),
    ([(False, rs.encode(rs.ClientHello(1)))], [{"version"}]),
    ([*HELLOS, HELLOS[0]], [set()] * 2 + [{"unexpected"}]),
    ([HELLOS[0], (True, ELEMENT)], [set(), {"unexpected", "unknown_id"}]),
    ([*HELLOS, (True, ELEMENT)], [set()] * 2 + [{"unknown_id"}]),
    ([*ASKED, ASKED[-1]], [set()] * 3 + [{"duplicate_id"}]),
    ([*ASKED, (True, ELEMENT)], [set()] * 3 + [{"not_subscribed"}]),
    ([*GIVEN, GIVEN[-1]], [set()] * 4 + [{"not_subscribed"}]),
    ([*GIVEN, *[(False, rs.encode(rs.Cancel(1)))] * 2], [set()] * 5 + [{"over"}]),
    ([*HELLOS, (False, rs.encode(rs.Goodbye("x"))), ASKED[-1]], [set()] * 3 + [{"after_goodbye"}]),
]


def test_every_ruling_that_can_be_seen_is_told(tmp_path: Path) -> None:
    known = MESSAGING + STREAMING
    ports = [MESSAGES] * len(MESSAGING) + [STREAMS] * len(STREAMING)
    said: dict[int, list[Said]] = {number: [] for number in range(len(known))}
    for one in read(capture(tmp_path / "experts.pcapng", [pieces for pieces, _ in known], ports)):
        said[one.stream].append(one)
    found = [[one.experts for one in said[number]] for number in range(len(known))]
    different = [(*one, some) for one, some in zip(known, found, strict=True) if one[1] != some]
    assert different == []


def test_a_capture_without_all_of_its_packets(tmp_path: Path) -> None:
    """As tcpdump makes it with a small `-s`: a packet that is cut costs what is behind the cut, and no more."""
    large = encode(Message("weather", "berlin", bytes(100), 1))
    pieces = [*UP, (True, encode(Ack(9)) + large), (True, large[50:]), (True, encode(Ack(8))), (False, encode(Ack(1)))]
    path = snapped(capture(tmp_path / "snapped.pcapng", [pieces]), 100)
    said = read(path)
    assert [one.all("tolliver.type") for one in said] == [["request"], ["response"], ["ack"], [], [], ["ack"], ["ack"]]
    assert [one.experts for one in said[3:5]] == [{"cut"}, {"behind"}]


def test_every_filter_of_the_page_is_there_and_one_finds_all_complaints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "wireshark.md").read_text()
    filters = page.partition("## Filters")[2].partition("## Complaints")[0]
    named = [one for one in re.findall(r"`([^`]+)`", filters) if re.match(r"tolliver(_rs)?\.|_ws\.", one)]
    assert len(named) > 15
    pieces = [[*UP, (True, b"\5")], [*UP, (True, message(b"\xff", b"", b""))], [*GIVEN, (True, b"\x63")], UP]
    path = capture(tmp_path / "filters.pcapng", pieces, [MESSAGES, MESSAGES, STREAMS, MESSAGES])
    assert len(counted(path, [one.replace('"..."', '"x"') for one in named])) == len(named)
    found = {
        "tolliver.expert": 2,
        'tolliver.expert == "bad_text"': 1,
        "tolliver.expert.bad_text": 1,
        "tolliver_rs.expert": 1,
        'tolliver_rs.expert == "unknown_type"': 1,
    }
    assert counted(path, [*found]) == [*found.values()]
