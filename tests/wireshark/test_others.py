"""Layouts of other programs, as bytes that are written here by hand."""

from __future__ import annotations

from pathlib import Path
from struct import pack

from tests.wire.vectors import ONE, TWO
from tests.wireshark.captures import OTHER, Said, capture, needs_tshark, read
from tests.wireshark.test_dissector import of_message
from tolliver_proto import HandshakeRequest, Message, encode

pytestmark = needs_tshark

REQUEST = b"\0" + pack(">Q", 1) + ONE.bytes
RESPONSE = b"\1" + pack(">Q", 1) + TWO.bytes


def wide(*parts: bytes) -> bytes:
    return b"".join(pack(">Q", len(part)) + part for part in parts)


def narrow(*parts: bytes) -> bytes:
    return b"".join(pack(">H", len(part)) + part for part in parts)


def words(said: list[Said]) -> list[dict[str, object]]:
    return [{**of_message(one), "layout": one.one("tolliver.layout")} for one in said]


HELLO: dict[str, object] = {"type": "request", "version": "1", "instance_id": str(ONE)}
ANSWER: dict[str, object] = {"type": "response", "version": "1", "instance_id": str(TWO), "meaning": "same_version"}


def test_other_programs_are_told_apart_by_their_first_request(tmp_path: Path) -> None:
    large = 2**63 + 5
    go = [
        (False, REQUEST + pack(">Q", 1) + wide(b"a", b"")),
        (True, RESPONSE + b"\0" + pack(">Q", 0)),
        (True, b"\3" + pack(">Q", 7) + wide(b"a", b"b", b"hi")),
        (True, b"\3" + pack(">Q", large) + wide(b"tolliver", b"", b"\0" + pack(">Q", 2) + wide(b"c", b"d", b"e", b""))),
        (False, b"\4\0" + pack(">Q", 7) + b"\4\1" + pack(">Q", large)),
    ]
    rust = [
        (False, REQUEST),
        (True, RESPONSE + b"\0"),
        (False, b"\2\0"),
        (False, b"\3" + pack(">I", 3) + narrow(b"a", b"b", b"hi")),
        (True, b"\4\0\0\0\3"),
    ]
    in_pieces = [(side, data[at : at + 1]) for side, data in go[1:] for at in range(len(data))]
    path = capture(tmp_path / "others.pcapng", [go, [go[0], *in_pieces], rust, [(False, REQUEST + bytes(8))]], OTHER)
    said: dict[int, list[Said]] = {}
    for one in read(path):
        said.setdefault(one.stream, []).append(one)

    expected: list[dict[str, object]] = [
        {**HELLO, "subscriptions": [("a", "")]},
        {**ANSWER, "subscriptions": []},
        {"type": "message", "message_id": "7", "channel": "a", "key": "b", "body": b"hi".hex()},
        {"type": "message", "message_id": str(large), "control": "subscribe", "subscriptions": [("c", "d"), ("e", "")]},
        {"type": "ack", "message_id": "7"},
        {"type": "ack", "message_id": str(large), "refused": True},
    ]
    for number in (0, 1):
        assert words(said[number]) == [{**one, "layout": "GO_2026"} for one in expected]
        assert [one.experts for one in said[number]] == [set()] * 5 + [{"not_delivered"}]
        assert said[number][4].one("tolliver.ack_of") == str(said[number][2].number)

    hello, answer, final, message, unread = said[2]
    assert words([hello, answer, final, message]) == [
        {**HELLO, "subscriptions": [], "layout": "RUST_2026"},
        {**ANSWER, "subscriptions": [], "layout": "RUST_2026"},
        {"type": "final", "meaning": "compatible", "layout": "RUST_2026"},
        {**expected[2], "message_id": "3", "layout": "RUST_2026"},
    ]
    assert [one.experts for one in (hello, answer, final, message, unread)] == [set()] * 4 + [{"unknown_type"}]
    assert words(said[3]) == [{**HELLO, "subscriptions": [], "layout": "GO_2026"}]


def test_a_layout_can_be_said_for_a_port_and_for_who_begins(tmp_path: Path) -> None:
    draft, own = encode(HandshakeRequest(1, ONE)), encode(HandshakeRequest(1, TWO))
    message = encode(Message("a", "b", b"hi", 2**32 - 1))
    talks = {7020: [(False, draft), (False, message)], 7021: [(False, own), (False, b"\2\0")], 7022: [(False, draft)]}
    path = capture(tmp_path / "said.pcapng", talks.values(), [*talks])
    said = read(path, "-o", f"tolliver.layouts:7020=GO_SEED, {TWO}=DRAFT_1, 7022=NONE")
    assert [(one.stream, one.one("tolliver.layout")) for one in said] == [
        (0, "GO_SEED"),
        (0, "GO_SEED"),
        (1, "DRAFT_1"),
        (1, "DRAFT_1"),
        (2, "DRAFT_2"),
    ]
    assert of_message(said[1])["message_id"] is None
    assert of_message(said[3])["meaning"] == "compatible"
