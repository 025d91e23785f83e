"""Golden vectors of the messaging protocol, read from `vectors/messages`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from tests.cases import Case, cases, number
from tolliver_proto import (
    Ack,
    Established,
    Frame,
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
)
from tolliver_proto.layouts import Dialect, IgnoreReason, Refusal, SubscribeMany, UnsubscribeMany

ONE = UUID("01890000-0000-7000-8000-000000000001")
TWO = UUID("01890000-0000-7000-8000-000000000002")
D1, D2 = Revision.DRAFT_1, Revision.DRAFT_2
BOTH = (D1, D2)
SEED, STEP_1, STEP_2 = Revision.GO_SEED, Revision.GO_D05F89B, Revision.GO_499B76D
GO, RUST = Revision.GO_2026, Revision.RUST_2026

_CLASSES: dict[str, Callable[..., Any]] = {
    "handshake_request": HandshakeRequest,
    "handshake_response": HandshakeResponse,
    "handshake_final": HandshakeFinal,
    "message": Message,
    "ack": Ack,
    "refusal": Refusal,
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "subscribe_many": SubscribeMany,
    "unsubscribe_many": UnsubscribeMany,
    "ignored": Ignored,
    "established": Established,
}


def listed(pairs: list[list[str]]) -> tuple[Subscription, ...]:
    return tuple(Subscription(*pair) for pair in pairs)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "version": number,
    "instance_id": UUID,
    "peer_id": UUID,
    "subscriptions": listed,
    "status": lambda name: HandshakeStatus[name.upper()],
    "message_id": number,
    "body": bytes.fromhex,
    "reason": IgnoreReason,
}


def made(value: Case) -> Any:
    """The frame, or the event, that an object of a case stands for."""
    kind, *names = value
    return _CLASSES[value[kind]](**{name: _FIELDS.get(name, lambda same: same)(value[name]) for name in names})


def dialect(value: Case) -> Dialect:
    """The habits of a peer; `layout` is its revision."""
    habits = {name: habit for name, habit in value.items() if name != "layout"}
    return Dialect(**habits, revision=Revision[value["layout"]] if "layout" in value else None)


class Vector(NamedTuple):
    """A frame, and its bytes in one layout."""

    name: str
    revision: Revision
    frame: Frame
    data: bytes
    value: Case


def _vectors() -> Iterator[Vector]:
    for case in cases("messages", "frame"):
        value, data = case["frame"], bytes.fromhex(case["bytes"])
        for layout in case["layouts"]:
            yield Vector(f"{case['id']}, {layout}", Revision[layout], made(value), data, value)


VECTORS = [*_vectors()]
