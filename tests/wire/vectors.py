"""Golden vectors of the messaging protocol, as data, by revision."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tolliver_proto import (
    Ack,
    Frame,
    HandshakeFinal,
    HandshakeRequest,
    HandshakeResponse,
    HandshakeStatus,
    Message,
    Revision,
    Subscribe,
    Subscription,
    Unsubscribe,
)

ONE = UUID("01890000-0000-7000-8000-000000000001")
TWO = UUID("01890000-0000-7000-8000-000000000002")
D1, D2 = Revision.DRAFT_1, Revision.DRAFT_2
BOTH = (D1, D2)


class Vector(NamedTuple):
    name: str
    revision: Revision
    frame: Frame
    data: bytes


_TABLE: list[tuple[str, tuple[Revision, ...], Frame, str]] = [
    ("request", BOTH, HandshakeRequest(1, ONE), "0000000000000000010189000000007000800000000000000100000000"),
    (
        "request with a subscription",
        BOTH,
        HandshakeRequest(1, ONE, (Subscription("test", "key"),)),
        "00000000000000000101890000000070008000000000000001000000010000000400000003746573746b6579",
    ),
    (
        "response",
        BOTH,
        HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION),
        "010000000000000001018900000000700080000000000000020000000000",
    ),
    ("final compatible", (D2,), HandshakeFinal(True), "0201"),
    ("final failure", (D2,), HandshakeFinal(False), "0202"),
    ("final compatible", (D1,), HandshakeFinal(True), "0200"),
    ("final failure", (D1,), HandshakeFinal(False), "0201"),
    ("message", BOTH, Message("test", "key", b"hi", 1), "0300000004000000030000000200000001746573746b65796869"),
    (
        "subscribe",
        (D2,),
        Subscribe("test", "key", 2),
        "0300000008000000000000001000000002746f6c6c69766572000000000400000003746573746b6579",
    ),
    (
        "unsubscribe",
        (D2,),
        Unsubscribe("test", "key", 3),
        "0300000008000000000000001000000003746f6c6c69766572010000000400000003746573746b6579",
    ),
    (
        "subscribe",
        (D1,),
        Subscribe("test", "key", 2),
        "0300000008000000000000000f00000002746f6c6c697665720000000400000003746573746b6579",
    ),
    ("ack", BOTH, Ack(1), "0400000001"),
]

VECTORS = [
    Vector(f"{name}, draft {int(revision)}", revision, frame, bytes.fromhex(text))
    for name, revisions, frame, text in _TABLE
    for revision in revisions
]
