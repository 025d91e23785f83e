"""Typed bodies: values go in, values come out, and what does not decode has failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tolliver_transports.codecs import Json, TypedDelivery

from .facade import Items, until
from .nodes import Nodes, subscribed


@dataclass
class Reading:
    percent: int


READINGS = Json(Reading)
POISON = b'{"percent": "much"}'


def taken(items: Items, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        item = next(items)
        found.append(item.value)
        item.ack()
    return found


def test_values_reach_handlers_and_iterators(nodes: Nodes) -> None:
    handled: list[Reading] = []

    def handle(delivery: TypedDelivery[Reading]) -> None:
        handled.append(delivery.value)

    with nodes.pair(channels=()) as (left, right, _):
        items = right.messages("readings", "cpu0", codec=READINGS, subscribe=False)
        right.subscribe("readings", handler=handle, codec=READINGS)
        subscribed(left)
        left.wait_acked(left.send("readings", "cpu1", Reading(4), codec=READINGS))
        first = left.send("readings", "cpu0", Reading(17), codec=READINGS)
        assert taken(items, 1) == [Reading(17)]
        left.wait_acked(first)
        many = left.send_many([("readings", "cpu0", Reading(percent)) for percent in (18, 19)], codec=READINGS)
        assert taken(items, 2) == [Reading(18), Reading(19)]
        left.wait_acked(many)
        assert left.unreliable_send("readings", "cpu0", Reading(20), codec=READINGS) == 1
        assert taken(items, 1) == [Reading(20)]
        until(lambda: handled == [Reading(percent) for percent in (4, 17, 18, 19, 20)])
        items.close()
