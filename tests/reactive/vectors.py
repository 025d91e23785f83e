"""Golden vectors of the Reactive Streams protocol, with element sizes."""

from __future__ import annotations

from typing import NamedTuple

from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Frame,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    ServerHello,
    Subscribe,
    Subscribed,
)


class Vector(NamedTuple):
    name: str
    frame: Frame
    data: bytes
    sizes: dict[int, int]


FIXED = {1: 4}
_TABLE: list[tuple[str, Frame, str, dict[int, int]]] = [
    ("clientHello", ClientHello(0, ()), "010000", {}),
    ("serverHello", ServerHello(0, (300,)), "020001ac02", {}),
    ("subscribe", Subscribe("p", 1, 0), "0301700100", {}),
    ("request without bound", Request(1, UNBOUNDED), "0401ffffffffffffffff7f", {}),
    ("request of -1", Request(1, -1), "0401ffffffffffffffffff01", {}),
    ("cancel", Cancel(1), "0501", {}),
    ("subscribed", Subscribed(1, 4), "060104", {}),
    ("onNext", OnNext(1, b"hi"), "0701026869", {}),
    ("onNext of a fixed size", OnNext(1, b"\0\0\0\1"), "070100000001", FIXED),
    ("onNextPacked", OnNextPacked(1, (b"\0\0\0\1", b"\0\0\0\2")), "0a01020000000100000002", FIXED),
    ("onComplete", OnComplete(1), "0801", {}),
    ("onError", OnError(1, "x"), "09010178", {}),
    ("goodbye", Goodbye(""), "0b00", {}),
]
VECTORS = [Vector(name, frame, bytes.fromhex(text), sizes) for name, frame, text, sizes in _TABLE]
