"""Pairs of adapters: every kind with every other, in both roles."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.certificates import Certificates
from tolliver_proto import Limits

from .facade import World, until
from .kinds import PAIRS
from .nodes import Inbox, Nodes, address, connected, subscribed

BODY = random.Random(2).randbytes(2**20)


@pytest.mark.parametrize(("dialling", "listening"), PAIRS)
def test_two_kinds_live_together(
    tmp_path: Path, certs: Certificates, worlds: Callable[[str], World], dialling: str, listening: str
) -> None:
    lefts, rights = (Nodes(tmp_path, certs, worlds(kind)) for kind in (dialling, listening))
    at_left, at_right, later = Inbox(), Inbox(), Inbox()
    with lefts.open("left", limits=Limits(redial_first=0.005, redial_max=0.05)) as left:
        with rights.open("right") as right:
            left.subscribe("to left", handler=at_left)
            assert left.new_connection(address(right)) == certs.uuid("right")
            right.subscribe("to right", "k", handler=at_right)
            subscribed(left)
            subscribed(right)
            there = left.send_many([("to right", "k", b"1"), ("to right", "k", BODY)])
            back = right.send("to left", "", b"2")
            assert (list(there.counts), back.recipients) == ([1, 1], 1)
            assert left.send("to right", "other", b"no").recipients == 0
            left.wait_acked(there)
            right.wait_acked(back)
            assert left.unreliable_send("to right", "k", b"3") == 1
            at_right.holds(3)
            assert (at_left.bodies, at_right.bodies) == ([b"2"], [b"1", BODY, b"3"])
            where = address(right)
        until(lambda: not connected(left))
        left.remove_connection(where)  # until the handler is there
        backlog = left.send_many([("to right", "k", b"%d" % number) for number in range(100)])
        with rights.open("right", listen=where) as right:
            right.register_callback("to right", "", later)
            left.new_connection(where)
            left.wait_acked(backlog)
            assert later.bodies == [b"%d" % number for number in range(100)]
            left.close()
            until(lambda: not connected(right))
            assert right.notices() == []  # the end was an orderly one
