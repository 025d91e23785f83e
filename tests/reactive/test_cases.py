"""Cases of `vectors/streams`: bytes to frames, frames that cannot be written, whole connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cases import Case, Pieces, cases, cut, named, number
from tolliver_proto import (
    ConnectionClosing,
    ConnectionLost,
    LimitExceeded,
    LocalProtocolError,
    MalformedFrame,
    RemoteProtocolError,
    TolliverError,
    UnexpectedEOF,
    UnexpectedFrame,
)
from tolliver_proto.reactive import (
    SIGN_OF_LIFE,
    Closed,
    Connection,
    ConnectionClosed,
    Decoder,
    HelloRefused,
    Limits,
    OnError,
    Role,
    VersionMismatch,
    encode,
)

from .vectors import made, sizes

ERRORS: dict[str, type[TolliverError]] = {
    "malformed": MalformedFrame,
    "unexpected": UnexpectedFrame,
    "limit": LimitExceeded,
    "eof": UnexpectedEOF,
    "version": VersionMismatch,
    "refused": HelloRefused,
    "closed": ConnectionClosed,
    "lost": ConnectionLost,
}


@cut
@pytest.mark.parametrize("case", cases("streams", "frames"), ids=named)
def test_frames(case: Case, pieces: Pieces) -> None:
    options = case.get("options", {})
    limits = Limits(**options["limits"]) if "limits" in options else Limits.format()
    decoder = Decoder(sizes(case), limits)
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


@pytest.mark.parametrize("case", cases("streams", "unwritable"), ids=named)
def test_unwritable(case: Case) -> None:
    with pytest.raises(LocalProtocolError) as raised:
        encode(made(case["frame"]), sizes(case))
    assert raised.value.code == case["code"]


# Connections.


def called(conn: Connection, call: Case) -> Any:
    stream = number(call.get("subscriber_id", 0)) or 0
    match call["call"]:
        case "subscribe":
            return conn.subscribe(call["name"], int(call["initial_demand"]))
        case "request":
            return conn.request(stream, int(call["count"]))
        case "cancel":
            return conn.cancel(stream)
        case "subscribed":
            return conn.subscribed(stream, call["element_size"])
        case "next":
            return conn.next_many(stream, [bytes.fromhex(one) for one in call["elements"]])
        case "complete":
            return conn.complete(stream)
        case "error":
            return conn.error(stream, call["text"])
        case name:
            assert name == "goodbye"
            return conn.goodbye(call["reason"])


def call_or_refusal(conn: Connection, call: Case) -> None:
    refused = call.get("refused")
    if refused is None:
        assert called(conn, call) == call.get("returns")
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
    if expected.get("event") == "closed":
        assert isinstance(event, Closed)
        assert type(event.error) is (ERRORS[expected["error"]] if expected["error"] else type(None))
        assert expected.get("code") == getattr(event.error, "code", None)
    elif "cause" in expected:
        assert isinstance(event, OnError)
        assert event.subscriber_id == expected["subscriber_id"]
        assert type(event.cause) is ERRORS[expected["cause"]]
    else:
        assert_frame(event, expected)


def assert_frame(frame: Any, expected: Case) -> None:
    """`contains` stands for words that each implementation may choose."""
    if "contains" not in expected:
        assert frame == made(expected)
        return
    text = "reason" if expected["frame"] == "goodbye" else "message"
    assert expected["contains"] in getattr(frame, text)
    fields = {name: value for name, value in expected.items() if name != "contains"}
    assert frame == made(fields | {text: getattr(frame, text)})


def assert_sent(data: bytes, expected: list[str | Case]) -> None:
    """Text is exact bytes, in one write or several; an object is one frame, whose words are free."""
    for one in expected:
        if isinstance(one, str):
            assert data.hex().startswith(one), data.hex()
            data = data[len(one) // 2 :]
        else:
            frame = next_frame(data)
            assert_frame(frame, one)
            data = data[len(encode(frame)) :]
    assert data == b""


def next_frame(data: bytes) -> Any:
    decoder = Decoder()
    decoder.feed(data)
    return decoder.next_frame()


@cut
@pytest.mark.parametrize("case", cases("streams", "connection"), ids=named)
def test_connection(case: Case, pieces: Pieces) -> None:
    options = case["options"]
    quiet = options.get("sign_of_life")
    conn = Connection(
        Role[case["role"].upper()],
        extensions=[] if quiet is None else [SIGN_OF_LIFE],
        limits=Limits(**options.get("limits", {}), sign_of_life=quiet),
        eager=options.get("eager", False),
        now=0.0,
    )
    closes = False
    for place, step in enumerate(case["steps"]):
        events = list(happened(conn, step, pieces))
        expected = step.get("events", [])
        assert len(events) == len(expected), (place, events)
        for event, one in zip(events, expected, strict=True):
            assert_same(event, one)
        assert_sent(b"".join(conn.data_to_send()), step.get("out", []))
        assert conn.wants_write_shutdown is (closes or step.get("closes", False)), place
        closes = conn.wants_write_shutdown
