"""Golden vectors of the Reactive Streams protocol, read from `vectors/streams`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.cases import Case, cases, number
from tolliver_proto.reactive import (
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

_CLASSES: dict[str, Callable[..., Any]] = {
    "client_hello": ClientHello,
    "server_hello": ServerHello,
    "subscribe": Subscribe,
    "request": Request,
    "cancel": Cancel,
    "subscribed": Subscribed,
    "on_next": OnNext,
    "on_complete": OnComplete,
    "on_error": OnError,
    "on_next_packed": OnNextPacked,
    "goodbye": Goodbye,
}
_FIELDS: dict[str, Callable[[Any], Any]] = {
    "version": number,
    "extensions": lambda ids: tuple(map(number, ids)),
    "subscriber_id": number,
    "initial_demand": number,
    "count": number,
    "element": bytes.fromhex,
    "elements": lambda texts: tuple(map(bytes.fromhex, texts)),
}


def made(value: Case) -> Any:
    """The frame that an object of a case stands for."""
    frame, *names = value
    return _CLASSES[value[frame]](**{name: _FIELDS.get(name, lambda same: same)(value[name]) for name in names})


def sizes(case: Case) -> dict[int, int]:
    """Element sizes of streams, by their ids."""
    return {int(stream): size for stream, size in case.get("sizes", {}).items()}


class Vector(NamedTuple):
    """A frame and its bytes, in streams with these element sizes."""

    name: str
    frame: Frame
    data: bytes
    sizes: dict[int, int]


VECTORS = [
    Vector(case["id"], made(case["frame"]), bytes.fromhex(case["bytes"]), sizes(case))
    for case in cases("streams", "frame")
]
