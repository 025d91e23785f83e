"""Proofs by number over two hubs.

The application is the worst there is, and answers everything inside the handling of it: it requests one element for
each that comes, and gives one for each that is requested. Nothing of it may show on the stack or in memory.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

from tolliver_proto import PeerIdentity, Transmit
from tolliver_proto.reactive import Cancel, Elements, Happened, Hub, Request, Role, Subscribe, Subscribed

Handler = Callable[[Any], None]


class Joined:
    """Two hubs with one connection, and an application on each."""

    def __init__(self) -> None:
        self.taking, self.giving = Hub(), Hub()
        cid = self.giving.new_cid()
        assert cid is not None
        self.takes, self.gives = self.taking.connect("there"), cid
        self.taking.opened(self.takes, Role.CLIENT, PeerIdentity())
        self.giving.opened(self.gives, Role.SERVER, PeerIdentity())
        self.run(lambda _: None, lambda _: None)

    def run(self, taken: Handler, given: Handler) -> None:
        """Carry out all that both ask for, until there is nothing more."""
        sides = [(self.taking, self.giving, self.gives, taken), (self.giving, self.taking, self.takes, given)]
        moved = True
        while moved:
            moved = False
            for hub, other, cid, handle in sides:
                hub.handle_timeout()  # the next turn, after so many events
                while (action := hub.next_action()) is not None:
                    moved = True
                    if isinstance(action, Transmit):
                        hub.sent(action.cid)
                        other.receive_data(cid, b"".join(action.units))
                    elif isinstance(action, Happened):
                        handle(action.event)


def depth() -> int:
    """Depth of the stack."""
    frame, found = sys._getframe(), 0
    while frame.f_back:
        frame, found = frame.f_back, found + 1
    return found


def one_by_one(count: int) -> int:
    """So many elements, each asked for while the one before is handled; returns how deep the stack ever was (3.3)."""
    pair = Joined()
    taking, takes, giving, gives = pair.taking, pair.takes, pair.giving, pair.gives
    received = deepest = 0

    def taken(event: Any) -> None:
        nonlocal received, deepest
        if isinstance(event, Elements):
            received += len(event.elements)
            deepest = max(deepest, depth())
            taking.took(takes, 1, len(event.elements))
            if received < count:
                taking.request(takes, event.subscriber_id, 1)

    def given(event: Any) -> None:
        if isinstance(event, Subscribe):
            giving.subscribed(gives, event.subscriber_id)
        if isinstance(event, Subscribe | Request):
            giving.next_many(gives, event.subscriber_id, [b"x"] * giving.wanted(gives, event.subscriber_id))

    taking.subscribe(takes, "p", 1)
    pair.run(taken, given)
    assert received == count
    assert taking.stats()["unread_bytes"] == 0
    return deepest


def subscribe_and_cancel(cycles: int, samples: int = 4) -> list[int]:
    """So many streams that are cancelled when they have begun; returns the traced bytes at equal distances (3.13)."""
    pair = Joined()
    begun = ended = 0

    def taken(event: Any) -> None:
        nonlocal begun
        begun += isinstance(event, Subscribed)

    def given(event: Any) -> None:
        nonlocal ended
        if isinstance(event, Subscribe):
            pair.giving.subscribed(pair.gives, event.subscriber_id, 4)
        ended += isinstance(event, Cancel)

    def some(count: int) -> None:
        for _ in range(count):
            stream = pair.taking.subscribe(pair.takes, "p", 3)
            pair.run(taken, given)
            pair.taking.cancel(pair.takes, stream)
            pair.run(taken, given)

    some(300)  # ids and what is remembered of them reach their size
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(samples):
            some(cycles // samples)
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert begun == ended == 300 + cycles // samples * samples
    return sizes
