"""Dissector: tshark says of every golden vector what our decoders say, whole and cut anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tests.reactive import vectors as reactive
from tests.wire.vectors import ONE, TWO, VECTORS
from tests.wireshark.captures import (
    MESSAGES,
    OTHER,
    STREAMS,
    Said,
    capture,
    counted,
    cut,
    in_turn,
    needs_tshark,
    read,
)
from tolliver_proto import (
    Ack,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Ignored,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
    encode,
)
from tolliver_proto import reactive as rs

pytestmark = needs_tshark

REVISIONS = sorted({vector.revision for vector in VECTORS})
TYPES = {
    HandshakeRequest: "request",
    HandshakeResponse: "response",
    HandshakeFinal: "final",
    Message: "message",
    Subscribe: "message",
    Unsubscribe: "message",
    Ignored: "message",
    Ack: "ack",
}


def in_words(frame: Any) -> dict[str, Any]:
    """A frame of our decoder, as `said` has it. Those that the drafts lack are told by their names."""
    name = type(frame).__name__
    words: dict[str, Any] = {"type": TYPES.get(type(frame)) or ("ack" if name == "Refusal" else "message")}
    for field in ("version", "instance_id", "channel", "key", "message_id"):
        if hasattr(frame, field):
            value = getattr(frame, field)
            words[field] = None if value is None else str(value).partition("\0")[0]  # where a text of tshark ends
    if hasattr(frame, "subscriptions"):
        words["subscriptions"] = [tuple(one) for one in frame.subscriptions]
    if isinstance(frame, HandshakeResponse):
        words["meaning"] = frame.status.name.lower()
    if isinstance(frame, HandshakeFinal):
        words["meaning"] = "compatible" if frame.compatible else "failure"
    if isinstance(frame, Message):
        words["body"] = frame.body.hex()
    if isinstance(frame, Ignored):
        words["ignored"] = frame.reason.value
    if name.startswith(("Subscribe", "Unsubscribe")):
        words["control"] = name.removesuffix("Many").lower()
        words.setdefault("subscriptions", [(words.pop("channel", ""), words.pop("key", ""))])
    if name == "Refusal":
        words["refused"] = True
    return words


def of_message(said: Said) -> dict[str, Any]:
    """The same of tshark."""

    def maybe(name: str, field: str, change: Callable[[str], Any] = str) -> None:
        for value in said.all(f"tolliver.{field}"):
            words[name] = change(value)

    words: dict[str, Any] = {"type": said.one("tolliver.type")}
    maybe("version", "version")
    maybe("instance_id", "instance", lambda text: str(UUID(text)))
    channels, keys = said.all("tolliver.subscription.channel"), said.all("tolliver.subscription.key")
    kind = words["type"]
    if kind in ("request", "response") or said.all("tolliver.control"):
        words["subscriptions"] = [*zip(channels, keys, strict=True)]
    if kind in ("response", "final"):
        maybe("meaning", "meaning")
    maybe("control", "control")
    maybe("ignored", "ignored")
    if kind == "message":
        reliable, message_id = said.one("tolliver.reliable") in ("1", "True"), said.one("tolliver.id")
        unacked = said.one("tolliver.layout") == "RUST_2026" and message_id != "0"  # ids, and no acks
        assert not (reliable and unacked)
        words["message_id"] = message_id if reliable or unacked else None
        if "control" not in words and "ignored" not in words:
            maybe("channel", "channel")
            maybe("key", "key")
            maybe("body", "body", lambda text: text.replace(":", ""))
    if kind == "ack":
        maybe("message_id", "id")
        if said.all("tolliver.meaning") == ["refused"]:
            words["refused"] = True
    return words


def of_stream(said: Said) -> list[Any]:
    """Type and values, in the order of the wire."""
    names = ("version", "name", "id", "initial_demand", "count", "element_size", "text")
    values: list[Any] = [said.one("tolliver_rs.type")]
    for name in names:
        values += said.all(f"tolliver_rs.{name}")
    values += [text.replace(":", "") for text in said.all("tolliver_rs.element")]
    return values + said.all("tolliver_rs.extension")


def stream_in_words(frame: Any) -> list[Any]:
    kind = type(frame).__name__
    values: list[Any] = [kind[0].lower() + kind[1:]]
    for name in ("version", "name", "subscriber_id", "initial_demand", "count", "element_size", "message", "reason"):
        if hasattr(frame, name):
            values.append(str(getattr(frame, name)))
    values += [element.hex() for element in getattr(frame, "elements", ())]
    values += [frame.element.hex()] if hasattr(frame, "element") else []
    return values + [str(one) for one in getattr(frame, "extensions", ())]


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.name)
def test_every_golden_vector_whole_and_cut(revision: Revision, tmp_path: Path) -> None:
    random = Random(24)
    vectors = [vector for vector in VECTORS if vector.revision is revision]
    streams, expected = [], []
    for vector in vectors:
        for pieces in ([vector.data], [vector.data[at : at + 1] for at in range(len(vector.data))]):
            streams.append([(False, piece) for piece in pieces])
            expected.append([vector.frame])
        for _ in range(2):
            some = random.choices(vectors, k=4)
            streams.append([(True, piece) for piece in cut(b"".join(one.data for one in [vector, *some]), random)])
            expected.append([one.frame for one in [vector, *some]])
    path = capture(tmp_path / "vectors.pcapng", streams, OTHER)
    said = read(path, "-o", f"tolliver.layout:{revision.name}", "-d", f"tcp.port=={OTHER},tolliver")
    found = {stream: [of_message(one) for one in some] for (stream, _), some in in_turn(said).items()}
    assert found == {number: [in_words(frame) for frame in frames] for number, frames in enumerate(expected)}


def test_every_golden_vector_of_streams_whole_and_cut(tmp_path: Path) -> None:
    random = Random(24)
    streams, expected = [], []
    for vector in reactive.VECTORS:
        before = [(True, rs.encode(rs.Subscribed(stream, size))) for stream, size in vector.sizes.items()]
        data = rs.encode(rs.Subscribe("p", 1)), vector.data
        for pieces in ([data[1]], [data[1][at : at + 1] for at in range(len(data[1]))], cut(data[1] * 3, random)):
            streams.append([(False, data[0]), *before, *((True, piece) for piece in pieces)])
            count = len(b"".join(pieces)) // len(data[1])
            sizes = dict(vector.sizes)
            expected.append([*rs.decode(b"".join(one for _, one in before)), *rs.decode(b"".join(pieces), sizes)])
            assert count in (1, 3)
    path = capture(tmp_path / "streams.pcapng", streams, OTHER)
    said = in_turn(read(path, "-d", f"tcp.port=={OTHER},tolliver_rs"))
    for number, frames in enumerate(expected):
        assert [of_stream(one) for one in said[number, True]] == [stream_in_words(frame) for frame in frames]


def test_messages_and_streams_are_found_by_port_and_by_first_bytes(tmp_path: Path) -> None:
    opening = [(False, encode(HandshakeRequest(1, ONE))), (True, encode(HandshakeResponse(1, TWO, HandshakeStatus(0))))]
    asking = [
        (False, rs.encode(rs.ClientHello()) + rs.encode(rs.Subscribe("p", 1))),
        (True, rs.encode(rs.ServerHello())),
    ]
    later = [(True, encode(Ack(7)))], [(True, rs.encode(rs.OnNext(1, b"hi")))]  # they began before the capture did
    foreign = [(False, b"GET / HTTP/1.1\r\n\r\n")]
    places: list[tuple[int, Any, str]] = [
        (MESSAGES, opening, "tolliver"),
        (OTHER, opening, "tolliver"),
        (MESSAGES, later[0], "tolliver"),
        (OTHER, later[0], ""),
        (STREAMS, asking, "tolliver_rs"),
        (OTHER, asking, "tolliver_rs"),
        (STREAMS, later[1], "tolliver_rs"),
        (OTHER, later[1], ""),
        (MESSAGES, foreign, ""),
        (STREAMS, foreign, ""),
        (OTHER, foreign, ""),
    ]
    path = capture(tmp_path / "ports.pcapng", [one for _, one, _ in places], [port for port, _, _ in places])
    found = {one.stream: next(iter(one.fields)).partition(".")[0] for one in read(path)}
    assert [found.get(number, "") for number in range(len(places))] == [proto for *_, proto in places]


CONVERSATION = [
    (False, encode(HandshakeRequest(1, ONE, (Subscription("weather", ""),)))),
    (True, encode(HandshakeResponse(1, TWO, HandshakeStatus(0)))),
    (True, encode(Message("weather", "berlin", b"21 degrees", 5)) + encode(Message("weather", "oslo", b"9", None))),
    (True, encode(Message("weather", "berlin", b"21 degrees", 5))),
    (False, encode(Ack(5))),
    (False, encode(Ack(5)) + encode(Ack(6))),
]


def test_ids_are_linked_to_their_acks_and_filters_find_them(tmp_path: Path) -> None:
    path = capture(tmp_path / "linked.pcapng", [CONVERSATION])
    request, response, first, unreliable, copy, ack, second, stray = said = read(path)
    assert request.one("tolliver.response_in") == str(response.number)
    assert response.one("tolliver.request_in") == str(request.number)
    assert copy.one("tolliver.copy_of") == str(first.number)
    assert copy.one("tolliver.ack_in") == str(ack.number)
    assert ack.one("tolliver.ack_of") == str(copy.number)
    assert (copy.experts, second.experts, stray.experts) == ({"copy"}, {"second_ack"}, {"stray_ack"})
    assert not unreliable.all("tolliver.ack_in")
    assert (first.one("tolliver.sender"), first.one("tolliver.receiver")) == (str(TWO), str(ONE))
    wanted = {
        'tolliver.channel=="weather"': [first, copy],
        'tolliver.key=="oslo"': [unreliable],
        "tolliver.id==5": [first, copy, ack, second],
        f'tolliver.sender=="{ONE}"': [request, ack, second],
        f'tolliver.peer=="{ONE}"': [request, response, first, copy, ack, second],
        "tolliver.expert.stray_ack": [stray],
    }
    assert counted(path, [*wanted]) == [len({one.number for one in found}) for found in wanted.values()]

    # One pass says the same, but for what is still to come.
    later = {"tolliver.ack_in", "tolliver.ack_time", "tolliver.response_in", "tolliver.receiver", "tolliver.peer"}
    for once, twice in zip(read(path, two_passes=False), said, strict=True):
        assert [(name, values) for name, values in once.fields.items() if name not in later] == [
            (name, values) for name, values in twice.fields.items() if name not in later
        ]
