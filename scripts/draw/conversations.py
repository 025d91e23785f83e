"""Whole connections in bytes, for the pages of both protocols.

Two machines speak to each other, and each write of one of them is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from scripts.pages import ROOT, with_parts
from tolliver_proto import (
    Ack,
    Connection,
    HandshakeRequest,
    HandshakeResponse,
    Message,
    Role,
    Subscribe,
    Subscription,
    Unsubscribe,
)
from tolliver_proto import reactive as streams

DOCS = ROOT / "docs"
FIRST = UUID("01890000-0000-7000-8000-000000000001")
SECOND = UUID("01890000-0000-7000-8000-000000000002")
ORDERS, ANSWERS, NEWS = Subscription("orders", ""), Subscription("answers", ""), Subscription("news", "")
Turn = tuple[int, Any, str]
"""The side that speaks (0 dials), what it is told to do, and what its write means; no words: nothing is written."""


def table(sides: tuple[Any, Any], turns: Iterable[Turn], answer: Callable[[Any, Any], object]) -> Iterator[str]:
    """Each write of the two sides in order. `answer` is called with a side and each event that it has."""
    yield "| | who | bytes | meaning |"
    yield "|---|---|---|---|"
    number = 0
    for side, does, means in turns:
        if does is not None:
            does(sides[side])
        for unit in sides[side].data_to_send():
            number += 1
            yield f"| {number} | {['A', 'B'][side]} | `{unit.hex()}` | {means} |"
            sides[1 - side].receive_data(unit)
        for event in sides[1 - side].events():
            assert not getattr(event, "error", None), event
            answer(sides[1 - side], event)


def says(frame: Any) -> Callable[[Any], None]:
    return lambda side: side.send(frame)


def _takes(side: Connection, event: Any) -> None:
    """A server answers a request, a client a response with the status older."""
    if isinstance(event, HandshakeRequest) or (isinstance(event, HandshakeResponse) and event.version < side.version):
        side.accept()


def messages() -> Iterator[str]:
    sides = (
        Connection(Role.CLIENT, instance_id=FIRST, subscriptions=[ANSWERS]),
        Connection(Role.SERVER, instance_id=SECOND, subscriptions=[ORDERS]),
    )
    order, answer = Message("orders", "42", b"one cup", 7), Message("answers", "42", b"done", 2147483646)
    turns: list[Turn] = [
        (0, None, "request: version 1, UUID of A, one subscription: `answers`, every key"),
        (1, None, "response: version 1, UUID of B, status 0, one subscription: `orders`. A record of its own"),
        (0, says(order), "message 7 on `orders`, key `42`. Before it was sent A had it on disk"),
        (1, says(Ack(7)), "B has handled it. Now A deletes it"),
        (1, says(answer), "message 2147483646, the last id that B gives; the next one is 1"),
        (1, says(Subscribe("news", "", 1)), "B subscribes to `news`: a message on `tolliver`, with the next id"),
        (0, says(Ack(2147483646)), "A has handled the answer"),
        (0, says(Ack(1)), "and has the subscription on disk"),
        (0, says(Message("news", "", b"hello", None)), "an unreliable message: nobody acknowledges it"),
        (1, says(Unsubscribe("news", "", 2)), "B unsubscribes"),
        (0, says(Ack(2)), "and that is on A's disk, too"),
    ]
    return table(sides, turns, _takes)


def versions() -> Iterator[str]:
    sides = (
        Connection(Role.CLIENT, instance_id=FIRST, version=2, speaks=lambda version: version == 1),
        Connection(Role.SERVER, instance_id=SECOND),
    )
    turns: list[Turn] = [
        (0, None, "request: version 2"),
        (1, None, "response: version 1, which is B's own, and status 3: older"),
        (0, None, "final: A speaks version 1. Both may send from here on; B sent nothing before"),
    ]
    return table(sides, turns, _takes)


def elements() -> Iterator[str]:
    sides = (streams.Connection(streams.Role.CLIENT), streams.Connection(streams.Role.SERVER))

    def publishes(side: Any, event: Any) -> None:
        if isinstance(event, streams.Subscribe) and side is sides[1]:
            side.subscribed(event.subscriber_id, element_size=2 if event.name == "temperatures" else 0)

    turns: list[Turn] = [
        (
            0,
            lambda side: side.subscribe("temperatures", initial_demand=3),
            "hello, and at once subscribe: id 1, 3 wanted",
        ),
        (1, None, "hello, and subscribed: id 1, elements of 2 bytes"),
        (
            1,
            lambda side: side.next_many(1, [b"21", b"22", b"23"]),
            "three elements in one frame: nothing is wanted now",
        ),
        (0, lambda side: side.request(1, 1), "one more is wanted"),
        (1, lambda side: side.next(1, b"24"), "one element alone, without a length: the stream has a size"),
        (1, lambda side: side.complete(1), "the stream has ended; id 1 is free"),
        (0, lambda side: side.subscribe("names", initial_demand=1), "the same id again, for another stream"),
        (1, None, "subscribed: elements of any length"),
        (1, lambda side: side.next(1, b"Anna"), "an element with its length"),
        (0, lambda side: side.cancel(1), "enough"),
        (0, lambda side: side.goodbye("all read"), "goodbye"),
        (1, None, "goodbye, the answer. Now each side ends its half"),
    ]
    return table(sides, turns, publishes)


def files() -> Iterator[tuple[Path, str]]:
    pages = {
        "protocol.md": {"messages": messages, "versions": versions},
        "reactive.md": {"elements": elements},
    }
    for page, parts in pages.items():
        yield DOCS / page, with_parts(DOCS / page, {name: drawn() for name, drawn in parts.items()})
