"""Scenario of slow, stuck and dead handlers: what others see of them, and what they cost (D-9, T-48).

A peer sends to a handler that does not end, to an iterator that nobody goes on reading, and to a quick one; another
peer sends more than a slow handler takes; a third comes back again and again with new messages for the stuck one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tests.raw import RawPeer
from tolliver_proto import Delivery, Message, NoticeKind
from tolliver_proto._testing.inspection import inside

from .facade import Facade, Gate, until
from .nodes import Inbox, Nodes, address, noticed, subscribed

KIB = 2**10
RATE = 5  # messages a second for each that does not end: what waits for its first resend is far less than a window
SLOW = 0.02  # seconds for each message of the slow handler
COMING_BACK = 5  # connections of who comes back
PAUSED = 1.0  # seconds in which nothing is taken of it
BULK = 64 * KIB  # of its messages
BURST = 400  # messages on each


@dataclass
class Misbehaviour:
    """Round trips of the good channel, in seconds, and what was held and lost."""

    before: list[float]
    beside_stuck: list[float]
    beside_slow: list[float]
    stuck_after: float
    """From the first message of the stuck one to the notice."""
    in_order: bool
    held: int
    """Most bytes of bodies that handlers had, of who came back."""
    memory: int
    """Bytes of the process beyond before, meanwhile."""
    unhandled: int
    """Messages that were sent to who was stuck and were not handled when it went on."""
    is_backoff_full: bool


def misbehaviour(nodes: Nodes, samples: int, memory: Callable[[], int], **options: Any) -> Misbehaviour:
    with nodes.open("right", **options) as right, nodes.open("left") as left, nodes.open("other") as other:
        quick, stuck, gate = Inbox(), Inbox(), nodes.gate()
        right.subscribe("news", handler=quick)
        right.subscribe("stuck", handler=_until(gate, stuck))
        right.subscribe("slow", handler=_slowly(nodes))
        right.subscribe("held")
        for one in (left, other):
            one.new_connection(address(right))
            subscribed(one, 4)
        before = _round_trips(left, samples)
        with right.messages("held", subscribe=False) as held:
            coming = held.start_next()
            began = time.monotonic()
            with _sending(left, ("stuck", "held")) as sent:
                coming.wait()
                until(lambda: len(noticed(right, NoticeKind.HANDLER_STUCK)) >= 2, "two notices")
                noticed_after = time.monotonic() - began
                beside_stuck = _round_trips(left, samples)
            at_rest, most = memory(), 0
            for number in range(COMING_BACK):
                most = max(most, _come_back(nodes, right, number))
            grown = memory() - at_rest
            with _sending(other, ("slow",), 2 / SLOW):
                beside_slow = _round_trips(left, samples)
            gate.open(True)
        until(lambda: set(stuck.bodies) >= set(sent["stuck"]), "what was let go")
        numbers = [int(body) for body in quick.bodies]
        return Misbehaviour(
            before,
            beside_stuck,
            beside_slow,
            noticed_after,
            numbers == sorted(numbers),
            most,
            grown,
            len(set(sent["stuck"]) - set(stuck.bodies)),
            bool(noticed(left, NoticeKind.BACKOFF_FULL)),
        )


def _until(gate: Gate, seen: Inbox) -> Callable[[Delivery], Any]:
    def handler(delivery: Delivery) -> Any:
        seen(delivery)
        return gate

    return handler


def _slowly(nodes: Nodes) -> Callable[[Delivery], Any]:
    def handler(_delivery: Delivery) -> Any:
        gate = nodes.gate()
        threading.Timer(SLOW, gate.open, (True,)).start()
        return gate

    return handler


@contextmanager
def _sending(left: Facade, channels: tuple[str, ...], rate: float = RATE) -> Iterator[dict[str, list[bytes]]]:
    """Messages for each of these, at this rate, on a thread."""
    sent: dict[str, list[bytes]] = {channel: [] for channel in channels}
    over = threading.Event()

    def send() -> None:
        number = 0
        while not over.wait(1 / rate):
            for channel in channels:
                body = b"%d" % number
                left.send(channel, "", body)
                sent[channel].append(body)
            number += 1

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def _round_trips(left: Facade, samples: int) -> list[float]:
    times = []
    for _ in range(samples):
        began = time.perf_counter()
        left.wait_acked(left.send("news", "", b"%d" % time.monotonic_ns()))
        times.append(time.perf_counter() - began)
    return times


def _come_back(nodes: Nodes, right: Facade, number: int) -> int:
    """Send more messages with new ids than the slow handler takes, and leave. Returns the bytes that it has of them."""
    uuid = nodes.certs.uuid("mallory")
    with RawPeer(right.port or 0, nodes.certs.tls("mallory"), uuid) as raw, suppress(OSError):
        raw.establish()
        raw._socket.settimeout(PAUSED)
        for one in range(BURST):
            raw.connection.send(Message("slow", "", bytes(BULK), 1 + number * BURST + one))
            raw.flush()
    return int(right._look(lambda instance: _held(instance.node, uuid)))


def _held(node: Any, uuid: UUID) -> int:
    return sum(len(one.body) for one in inside(node).context.peers[uuid].inbox.held.values())
