"""Monitor of the wire: every rule that it knows, broken once.

A monitor that never raises proves nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Goodbye,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Role,
    ServerHello,
    Subscribe,
    Subscribed,
    encode,
)
from tolliver_proto.reactive.testing import ConnectionPair, RuleBroken, WireMonitor

C, S = Role.CLIENT, Role.SERVER
Move = tuple[Role, Any]
HELLOS: list[Move] = [(C, ClientHello()), (S, ServerHello())]
ASKED: list[Move] = [*HELLOS, (C, Subscribe("p", 1, 2))]
ANSWERED: list[Move] = [*ASKED, (S, Subscribed(1))]
FIXED: list[Move] = [*ASKED, (S, Subscribed(1, 1))]


def play(moves: list[Move], monitor: WireMonitor | None = None) -> WireMonitor:
    """Each frame is emitted and then at once processed by the other side."""
    monitor = monitor or WireMonitor()
    sizes: dict[Role, dict[int, int]] = {C: {}, S: {}}
    emitted = {C: 0, S: 0}
    for role, frame in moves:
        data = frame if isinstance(frame, bytes) else encode(frame, sizes[role])
        if isinstance(frame, Subscribed):
            sizes[role][frame.subscriber_id] = frame.element_size
        monitor.emitted(role, data)
        emitted[role] += len(data)
        monitor.processed(S if role is C else C, emitted[role])
    return monitor


BROKEN: list[tuple[str, list[Move]]] = [
    ("R-25", [(C, Subscribe("p", 1, 0))]),
    ("R-25", [(C, ServerHello())]),
    ("R-25", [*HELLOS, (C, ClientHello())]),
    ("R-25", [(S, ServerHello()), (S, Subscribe("p", 1, 0))]),
    ("R-28", [*HELLOS, (C, Goodbye()), (C, Goodbye())]),
    ("R-29", [*HELLOS, (C, Goodbye()), (S, Subscribe("p", 1, 0))]),
    ("R-02", [*HELLOS, (C, b"\0")]),
    ("R-40", [(C, ClientHello(0, (1,))), (S, ServerHello()), (C, b"\x40\x01")]),
    ("R-40", [(C, ClientHello()), (S, ServerHello(0, (1,))), (S, b"\x41\x01")]),
    ("1.10", [*ASKED, (C, Subscribe("q", 1, 0))]),
    ("3.6", [*HELLOS, (C, Request(1, 1))]),
    ("3.6", [*ANSWERED, (S, OnComplete(1)), (C, Request(1, 1))]),
    ("3.6", [*ANSWERED, (C, Cancel(1)), (C, Request(1, 1))]),
    ("3.7", [*ANSWERED, (C, Cancel(1)), (C, Cancel(1))]),
    ("3.9", [*ANSWERED, (C, Request(1, 0))]),
    ("1.9", [*ASKED, (S, OnNext(1, b""))]),
    ("1.9", [*ASKED, (S, OnComplete(1))]),
    ("1.9", [*ANSWERED, (S, Subscribed(1))]),
    ("1.9", [*ASKED, (C, Cancel(1)), (S, OnComplete(1))]),
    ("1.7", [*HELLOS, (S, Subscribed(1))]),
    ("1.7", [*ANSWERED, (C, Cancel(1)), (S, OnNext(1, b""))]),
    ("1.7", [*ANSWERED, (S, OnComplete(1)), (S, OnNext(1, b""))]),
    ("1.7", [*ANSWERED, (S, OnError(1, "")), (S, OnError(1, ""))]),
    ("1.1", [*ANSWERED, *[(S, OnNext(1, b""))] * 3]),
    ("1.1", [*FIXED, (S, OnNextPacked(1, (b"a", b"b", b"c")))]),
    ("R-22", [*FIXED, (S, b"\x0a\1\0")]),
    ("R-02", [*ANSWERED, (S, b"\x0a\1\0")]),
]


@pytest.mark.parametrize(("rule", "moves"), BROKEN, ids=str)
def test_a_broken_rule(rule: str, moves: list[Move]) -> None:
    play(moves[:-1] if rule != "1.1" else moves[:4])
    with pytest.raises(RuleBroken) as caught:
        play(moves)
    assert caught.value.rule == rule
    assert moves[-1][0].value in str(caught.value)
    play(moves, WireMonitor(checked=()))


KEPT: list[list[Move]] = [
    [*ANSWERED, (S, OnNext(1, b"")), (C, Request(1, 5)), *[(S, OnNext(1, b""))] * 6, (S, OnError(1, ""))],
    [*FIXED, (C, Request(1, UNBOUNDED)), (S, OnNextPacked(1, (b"a",) * 100)), (C, Request(1, 1)), (C, Goodbye())],
    [*ASKED, (C, Cancel(1)), (C, Subscribe("q", 1, 1)), (S, Subscribed(1)), (S, Subscribed(1)), (S, OnNext(1, b""))],
    [*ANSWERED, (S, OnComplete(1)), (C, Subscribe("q", 1, 1)), (S, Subscribed(1)), (S, OnComplete(1))],
    [(S, ServerHello()), (C, ClientHello()), (S, Subscribe("p", 1, 0)), (C, Subscribed(1)), (S, Cancel(1))],
    [(C, ClientHello()), (C, Goodbye()), (S, ServerHello()), (S, Goodbye())],
]


@pytest.mark.parametrize("moves", KEPT, ids=str)
def test_rules_that_are_kept(moves: list[Move]) -> None:
    assert play(moves).frames == len(moves)


def test_a_late_end_is_that_of_the_old_subscription() -> None:
    """It crosses the cancel, and does not free the id that is in use again."""
    monitor = play(ANSWERED)
    done = len(encode(ClientHello())) + len(encode(Subscribe("p", 1, 2)))
    monitor.emitted(S, encode(OnComplete(1)))
    monitor.emitted(C, encode(Cancel(1)) + encode(Subscribe("q", 1, 0)))
    monitor.processed(C, 100)
    with pytest.raises(RuleBroken, match="active"):
        monitor.emitted(C, encode(Subscribe("r", 1, 0)))
    monitor.processed(S, done + 2)
    monitor.processed(S, 100)
    monitor.emitted(S, encode(Subscribed(1)))


@pytest.mark.parametrize("answered", [True, False])
def test_a_request_that_must_fail(answered: bool) -> None:
    """3.9, of a subscriber that is not judged: an error and nothing else."""
    moves = [*(ANSWERED if answered else ASKED), (C, Request(1, 0)), (C, Cancel(1)), (C, Request(1, 1))]
    owed: list[Move] = [(S, OnError(1, "3.9"))] if answered else [(S, Subscribed(1)), (S, OnError(1, "3.9"))]
    play([*moves, *owed], WireMonitor(checked=[S]))
    with pytest.raises(RuleBroken):
        play([*moves, (S, OnComplete(1))], WireMonitor(checked=[S]))
    first: list[Move] = [*HELLOS, (C, Subscribe("p", 1, -1)), (S, Subscribed(1)), (S, OnError(1, ""))]
    play(first, WireMonitor(checked=[S]))


def test_a_pair_that_never_rests() -> None:
    def react(side: Any, event: Any) -> None:
        if isinstance(event, Cancel | ClientHello):
            side.connection.cancel(side.connection.subscribe("again"))

    pair = ConnectionPair(react=react)
    with pytest.raises(RuntimeError, match="still move"):
        pair.run(max_rounds=20)
    assert not pair.client.closed
    assert pair.client.error is None
