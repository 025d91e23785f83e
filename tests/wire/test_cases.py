"""Cases of `vectors/messages`: bytes to frames, frames that cannot be written, whole connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from tests.cases import Case, Pieces, cases, cut, number
from tolliver_proto import (
    Closed,
    Connection,
    ConnectionClosing,
    ConnectionLost,
    Decoder,
    HandshakeRejected,
    LimitExceeded,
    Limits,
    LocalProtocolError,
    MalformedFrame,
    RemoteProtocolError,
    Revision,
    Role,
    TolliverError,
    UnexpectedEOF,
    UnexpectedFrame,
    encode,
)
from tolliver_proto.layouts import Dialect

from .vectors import dialect, listed, made

ERRORS: dict[str, type[TolliverError]] = {
    "malformed": MalformedFrame,
    "unexpected": UnexpectedFrame,
    "limit": LimitExceeded,
    "eof": UnexpectedEOF,
    "rejected": HandshakeRejected,
    "lost": ConnectionLost,
}


def in_layouts(kind: str) -> list[Any]:
    return [
        pytest.param(case, Revision[layout], id=f"{case['id']}, {layout}")
        for case in cases("messages", kind)
        for layout in case["layouts"]
    ]


@cut
@pytest.mark.parametrize(("case", "revision"), in_layouts("frames"))
def test_frames(case: Case, revision: Revision, pieces: Pieces) -> None:
    options = case.get("options", {})
    limits = Limits(**options["limits"]) if "limits" in options else Limits.format()
    decoder = Decoder(revision, limits, **options.get("dialect", {}))
    frames: list[Any] = []
    fault: RemoteProtocolError | None = None
    try:
        for piece in pieces(bytes.fromhex(case["bytes"])):
            decoder.feed(piece)
            frames += iter(decoder.next_frame, None)
        decoder.finish()
    except RemoteProtocolError as error:
        fault = error
    assert frames == [made(one) for one in case["frames"]]
    expected = case.get("error")
    if expected is None:
        assert fault is None
    else:
        assert type(fault) is ERRORS[expected["class"]]
        assert (fault.code, fault.offset) == (expected["code"], expected["at"])


@pytest.mark.parametrize(("case", "revision"), in_layouts("unwritable"))
def test_unwritable(case: Case, revision: Revision) -> None:
    with pytest.raises(LocalProtocolError) as raised:
        encode(made(case["frame"]), revision)
    assert raised.value.code == case["code"]


# Connections.


def opened(role: str, options: Case, revision: Revision) -> Connection:
    spoken = {number(version) for version in options.get("speaks", [])}
    peers = {UUID(peer): dialect(habits) for peer, habits in options.get("peers", {}).items()}
    return Connection(
        Role[role.upper()],
        instance_id=UUID(options["instance_id"]),
        version=int(options["version"]),
        subscriptions=listed(options["subscriptions"]),
        revision=revision,
        limits=Limits(**options.get("limits", {})),
        speaks=lambda version: version in spoken,
        dialect=dialect(options.get("dialect", {})),
        dialect_of=lambda peer: peers.get(peer, Dialect()),
        now=0.0,
    )


def called(conn: Connection, call: Case) -> None:
    match call["call"]:
        case "accept":
            conn.accept(listed(call["subscriptions"]) if "subscriptions" in call else None)
        case "send":
            conn.send(made(call["frame"]))
        case "ack":
            conn.send_acks([int(one) for one in call["message_ids"]])
        case name:
            getattr(conn, name)()


def call_or_refusal(conn: Connection, call: Case) -> None:
    refused = call.get("refused")
    if refused is None:
        called(conn, call)
        return
    with pytest.raises(ConnectionClosing if refused == "closing" else LocalProtocolError) as raised:
        called(conn, call)
    assert refused in ("closing", getattr(raised.value, "code", None))


def happened(conn: Connection, step: Case, pieces: Pieces) -> Iterator[Any]:
    """The events of a step."""
    if "in" in step:
        for piece in pieces(bytes.fromhex(step["in"])):
            conn.receive_data(piece)
            yield from conn.events()
    if "time" in step:
        conn.handle_timeout(step["time"])
    if "end" in step:
        conn.receive_eof()
    for call in step.get("calls", []):
        call_or_refusal(conn, call)
    yield from conn.events()


def assert_same(event: Any, expected: Case) -> None:
    if expected.get("event") != "closed":
        assert event == made(expected)
        return
    assert isinstance(event, Closed)
    assert type(event.error) is (ERRORS[expected["error"]] if expected["error"] else type(None))
    assert expected.get("code") == getattr(event.error, "code", None)


@cut
@pytest.mark.parametrize(("case", "revision"), in_layouts("connection"))
def test_connection(case: Case, revision: Revision, pieces: Pieces) -> None:
    conn = opened(case["role"], case["options"], revision)
    closes = False
    for place, step in enumerate(case["steps"]):
        events = list(happened(conn, step, pieces))
        expected = step.get("events", [])
        assert len(events) == len(expected), (place, events)
        for event, one in zip(events, expected, strict=True):
            assert_same(event, one)
        assert [unit.hex() for unit in conn.data_to_send()] == step.get("out", []), place
        assert conn.wants_write_shutdown is (closes or step.get("closes", False)), place
        closes = conn.wants_write_shutdown
