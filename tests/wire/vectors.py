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
from tolliver_proto.layouts import Refusal, SubscribeMany, UnsubscribeMany

ONE = UUID("01890000-0000-7000-8000-000000000001")
TWO = UUID("01890000-0000-7000-8000-000000000002")
D1, D2 = Revision.DRAFT_1, Revision.DRAFT_2
BOTH = (D1, D2)
SEED, STEP_1, STEP_2 = Revision.GO_SEED, Revision.GO_D05F89B, Revision.GO_499B76D
GO, RUST = Revision.GO_2026, Revision.RUST_2026
_NAME = Subscription("test", "key")


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
    # Go's earlier ones: draft 2 but for the unreliable id and, in the last one, statuses and finals.
    ("unreliable", (SEED, STEP_2), Message("t", "", b"hi"), "03 00000001 00000000 00000002 ffffffff 74 6869"),
    ("unreliable", (STEP_1,), Message("t", "", b"hi"), "03 00000001 00000000 00000002 00000000 74 6869"),
    ("final compatible", (SEED, STEP_1), HandshakeFinal(True), "02 01"),
    (
        "response, older",
        (STEP_2,),
        HandshakeResponse(1, TWO, HandshakeStatus.OLDER),
        "01 0000000000000001 01890000000070008000000000000002 04 00000000",
    ),
    ("final compatible", (STEP_2,), HandshakeFinal(True), "02 02"),
    ("final failure", (STEP_2,), HandshakeFinal(False), "02 03"),
    # Go's of 2026.
    (
        "request",
        (GO,),
        HandshakeRequest(1, ONE),
        "00 0000000000000001 01890000000070008000000000000001 0000000000000000",
    ),
    (
        "request with a subscription",
        (GO,),
        HandshakeRequest(1, ONE, (_NAME,)),
        "00 0000000000000001 01890000000070008000000000000001 0000000000000001"
        "0000000000000004 74657374 0000000000000003 6b6579",
    ),
    (
        "response, newer and incompatible",
        (GO,),
        HandshakeResponse(2, TWO, HandshakeStatus.NEWER_INCOMPATIBLE, (_NAME,)),
        "01 0000000000000002 01890000000070008000000000000002 03 0000000000000001"
        "0000000000000004 74657374 0000000000000003 6b6579",
    ),
    (
        "response, failed",
        (GO,),
        HandshakeResponse(1, TWO, HandshakeStatus.FAILED),
        "01 0000000000000001 01890000000070008000000000000002 01 0000000000000000",
    ),
    ("final compatible", (GO, RUST), HandshakeFinal(True), "02 00"),
    ("final failure", (GO, RUST), HandshakeFinal(False), "02 02"),
    (
        "message",
        (GO,),
        Message("test", "key", b"hi", 2**32),
        "03 0000000100000000 0000000000000004 74657374 0000000000000003 6b6579 0000000000000002 6869",
    ),
    (
        "unreliable",
        (GO,),
        Message("t", "", b"hi"),
        "03 0000000000000000 0000000000000001 74 0000000000000000 0000000000000002 6869",
    ),
    (
        "subscribe",
        (GO,),
        Subscribe("test", "key", 2),
        "03 0000000000000002 0000000000000008 746f6c6c69766572 0000000000000000 0000000000000020"
        "00 0000000000000001 0000000000000004 74657374 0000000000000003 6b6579",
    ),
    (
        "subscribe to two",
        (GO,),
        SubscribeMany((Subscription("a", ""), Subscription("", "b")), 3),
        "03 0000000000000003 0000000000000008 746f6c6c69766572 0000000000000000 000000000000002b"
        "00 0000000000000002 0000000000000001 61 0000000000000000 0000000000000000 0000000000000001 62",
    ),
    (
        "unsubscribe from nothing",
        (GO,),
        UnsubscribeMany((), 4),
        "03 0000000000000004 0000000000000008 746f6c6c69766572 0000000000000000 0000000000000009 01 0000000000000000",
    ),
    ("ack", (GO,), Ack(1), "04 00 0000000000000001"),
    ("refusal", (GO,), Refusal(1), "04 01 0000000000000001"),
    # Rust's of 2026.
    ("request", (RUST,), HandshakeRequest(1, ONE), "00 0000000000000001 01890000000070008000000000000001"),
    (
        "response",
        (RUST,),
        HandshakeResponse(1, TWO, HandshakeStatus.SAME_VERSION),
        "01 0000000000000001 01890000000070008000000000000002 00",
    ),
    ("unreliable", (RUST,), Message("test", "key", b"hi"), "03 00000000 0004 74657374 0003 6b6579 0002 6869"),
]

VECTORS = [
    Vector(f"{name}, {revision.name}", revision, frame, bytes.fromhex(text))
    for name, revisions, frame, text in _TABLE
    for revision in revisions
]
