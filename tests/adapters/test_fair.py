"""Fairness between a peer that floods and one that says a single thing."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from tests.certificates import Certificates
from tests.raw import RawPeer
from tolliver_proto import Delivery, Limits, Message

from .facade import PATIENCE, Facade, until
from .kinds import ADAPTERS, EVERY_LOOP
from .nodes import Nodes, address, subscribed

MANY = 1000
TURN = 256
"""Deliveries that come together, at most."""


def _has_come(to: Facade, *senders: Facade) -> bool:
    """All that they have sent."""
    return to.stats()["received_bytes"] == sum(one.stats()["sent_bytes"] for one in senders)


@EVERY_LOOP
def test_a_handler_that_many_wait_for_is_called_for_each_of_them_in_turn(nodes: Nodes) -> None:
    """It is at the first message of a flood, and all the rest is there, when another peer sends its only one."""
    wide = {"limits": Limits(window_messages=MANY)}
    with nodes.pair(channels=(), left=wide) as (left, right, _), nodes.open("third") as third:
        gate, calls = nodes.gate(), list[bytes]()

        def handler(delivery: Delivery) -> Any:
            calls.append(delivery.body)
            return gate if len(calls) == 1 else None

        right.subscribe("news", handler=handler)
        third.new_connection(address(right))
        for sender in (left, third):
            subscribed(sender)
        bodies = [b"%0100d" % number for number in range(MANY)]
        flood = left.send_many([("news", "", body) for body in bodies])
        until(lambda: left.stats()["sent_bytes"] > MANY * len(bodies[0]), "the flood")
        has_come = partial(_has_come, right, left, third)
        until(has_come, "all of it")
        quiet = third.stats()["sent_bytes"]
        single = third.send("news", "", b"single")
        until(lambda: third.stats()["sent_bytes"] > quiet and has_come(), "the single message")
        gate.open()
        left.wait_acked(flood)
        third.wait_acked(single)
        assert calls.index(b"single") <= TURN
        assert [body for body in calls if body.isdigit()] == bodies


@pytest.mark.parametrize("kind", [kind for kind in ADAPTERS if kind.values != ("blocking",)])
def test_who_has_much_to_read_is_read_in_turn_with_who_has_little(nodes: Nodes, certs: Certificates) -> None:
    """The loop is held up until both have come. With threads each handler has its own: the order of those is the
    system's."""
    held, go_on, calls = threading.Event(), threading.Event(), list[str]()

    def loud(delivery: Delivery) -> None:
        calls.append("loud")
        if len(calls) == 1:
            held.set()
            assert go_on.wait(PATIENCE)

    plain = {"plaintext": True}
    with (
        nodes.open("right", **plain) as right,
        RawPeer(right.port or 0, None, certs.uuid("left")) as flooder,
        RawPeer(right.port or 0, None, certs.uuid("third")) as quiet,
    ):
        right.subscribe("loud", handler=loud)
        right.subscribe("quiet", handler=lambda _delivery: calls.append("quiet"))
        for raw in (flooder, quiet):
            raw.establish()
        flooder.connection.send(Message("loud", "", b"first"))
        flooder.flush()
        assert held.wait(PATIENCE)
        for _ in range(250):
            flooder.connection.send(Message("loud", "", bytes(1000)))
        flooder.flush()
        quiet.connection.send(Message("quiet", "", b"single"))
        quiet.flush()
        until(lambda: not quiet.unacknowledged(), "the single message at the other end")
        go_on.set()
        until(lambda: len(calls) == 252, "all of them")
        # A loop hands out what it has read in its next turn, and may read another piece there before.
        assert calls.index("quiet") <= 1 + 2 * 65536 // 1000
