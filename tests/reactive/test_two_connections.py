"""Two connections at random over pipes, under the wire monitor.

All that was accepted by `next` arrives, whole, once and in order, until the subscriber cancels or a side says goodbye.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tolliver_proto import ConnectionClosing, LocalProtocolError
from tolliver_proto.reactive import (
    UNBOUNDED,
    Cancel,
    ClientHello,
    Closed,
    Connection,
    Goodbye,
    Limits,
    OnComplete,
    OnError,
    OnNext,
    OnNextPacked,
    Request,
    Role,
    ServerHello,
    State,
    Subscribe,
    Subscribed,
)
from tolliver_proto.reactive.testing import ConnectionPair, Side

BUSY, UNKNOWN = "busy", 10_000
FEW = Limits(max_streams=3, max_packed=6, max_element=40)
which = st.integers(0, 1)
sizes = st.sampled_from([0, 0, 1, 4])
counts = st.sampled_from([1, 2, 5, UNBOUNDED, UNBOUNDED + 1]) | st.sampled_from([0, -1])


class Application:
    """One side's beliefs: the streams that it takes, by id and turn, and those that it gives."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}  # taken: the name of the present subscription; each subscription has its own
        self.got: dict[str, list[bytes]] = {}
        self.ended: dict[str, OnComplete | OnError] = {}
        self.giving: dict[int, tuple[str, int | None]] = {}  # by the peer's id: name, element size
        self.gave: dict[str, list[bytes]] = {}
        self.finished: dict[str, bool] = {}
        self.cancelled: set[str] = set()


class TwoConnections(RuleBasedStateMachine):
    @initialize(
        eager=st.booleans(),
        limits=st.sampled_from([Limits(), Limits(), FEW]),
        seed=st.integers(0, 2**32),
        crowded=st.booleans(),
    )
    def connect(self, eager: bool, limits: Limits, seed: int, crowded: bool) -> None:
        """With `crowded` all ids of one byte but one are taken, so that cancelled ids are used again at once."""
        client = Connection(Role.CLIENT, limits=limits)
        server = Connection(Role.SERVER, limits=limits, eager=eager)
        self.pair = ConnectionPair(client, server, cut=Random(seed), react=self.hear)
        self.sides = (self.pair.client, self.pair.server)
        self.apps = {id(side): Application() for side in self.sides}
        self.count = 0
        if crowded and limits is not FEW:
            self.pair.run()
            for side in self.sides:
                for _ in range(126):
                    side.connection.subscribe(BUSY)
        if crowded:
            self.pair.run()

    def at(self, number: int) -> tuple[Side, Connection, Application]:
        side = self.sides[number]
        return side, side.connection, self.apps[id(side)]

    def hear(self, side: Side, event: object) -> None:
        app = self.apps[id(side)]
        if isinstance(event, Subscribe):
            if event.name == BUSY:
                return
            assert event.subscriber_id not in app.giving
            app.giving[event.subscriber_id] = (event.name, None)
            app.gave[event.name] = []
        elif isinstance(event, Cancel):
            app.giving.pop(event.subscriber_id, None)
        elif isinstance(event, Request):
            assert event.subscriber_id in app.giving
        elif isinstance(event, OnNext | OnNextPacked):
            elements = event.elements if isinstance(event, OnNextPacked) else (event.element,)
            app.got[app.names[event.subscriber_id]] += elements
        elif isinstance(event, OnComplete | OnError):
            name = app.names.pop(event.subscriber_id, BUSY)
            app.ended[name] = event
        else:
            assert isinstance(event, ClientHello | ServerHello | Subscribed | Goodbye | Closed)

    @rule()
    def settle(self) -> None:
        self.pair.run()

    @rule(number=which, size=st.integers(1, 60) | st.none())
    def deliver(self, number: int, size: int | None) -> None:
        self.pair.deliver(self.sides[number], size)

    @rule(number=which, demand=st.sampled_from([0, 1, 3, UNBOUNDED, -1]))
    def subscribe(self, number: int, demand: int) -> None:
        side, conn, app = self.at(number)
        name = f"{number}-{self.count}"
        try:
            stream = conn.subscribe(name, demand)
        except (LocalProtocolError, ConnectionClosing):
            late = conn.state in (State.LEAVING, State.CLOSED, State.AWAITING_CLIENT_HELLO)
            assert late or len(app.names) >= conn.limits.max_streams
            return
        self.count += 1
        assert stream not in app.names, "an id that is in use"
        app.names[stream] = name
        app.got[name] = []
        self.pair.take(side)

    @rule(number=which, count=counts, pick=st.integers(0, 5))
    def request(self, number: int, count: int, pick: int) -> None:
        side, conn, app = self.at(number)
        conn.request([*app.names, UNKNOWN][pick % (len(app.names) + 1)], count)
        self.pair.take(side)

    @rule(number=which, pick=st.integers(0, 5), again=st.booleans())
    def cancel(self, number: int, pick: int, again: bool) -> None:
        side, conn, app = self.at(number)
        if app.names:
            stream = [*app.names][pick % len(app.names)]
            app.cancelled.add(app.names.pop(stream))
            conn.cancel(stream)
            if again:
                conn.cancel(stream)
                conn.request(stream, 1)
            self.pair.take(side)

    @rule(number=which, pick=st.integers(0, 5), size=sizes)
    def answer(self, number: int, pick: int, size: int) -> None:
        side, conn, app = self.at(number)
        waiting = [stream for stream, (_, known) in app.giving.items() if known is None]
        if waiting:
            stream = waiting[pick % len(waiting)]
            assert conn.subscribed(stream, size)
            app.giving[stream] = (app.giving[stream][0], size)
            self.pair.take(side)

    @rule(number=which, pick=st.integers(0, 5), most=st.integers(1, 9), wrong=st.integers(0, 9))
    def publish(self, number: int, pick: int, most: int, wrong: int) -> None:
        side, conn, app = self.at(number)
        ready = [stream for stream, (_, known) in app.giving.items() if known is not None]
        if not ready:
            return
        stream = ready[pick % len(ready)]
        name, size = app.giving[stream]
        demand = conn.demand(stream)
        elements = [bytes([turn]) * (size or turn) for turn in range(most)]
        if most > demand:
            with pytest.raises(LocalProtocolError):
                conn.next_many(stream, elements)
            elements = elements[:demand]
        if size and wrong == 0 and elements:
            elements[-1] = b"wrong!"
        sent = conn.next_many(stream, elements)
        app.gave[name] += elements[:sent]
        if sent < len(elements):
            app.finished[name] = False
            del app.giving[stream]
        self.pair.take(side)

    @rule(number=which, pick=st.integers(0, 5), well=st.booleans())
    def finish(self, number: int, pick: int, well: bool) -> None:
        side, conn, app = self.at(number)
        if app.giving:
            stream = [*app.giving][pick % len(app.giving)]
            assert conn.complete(stream) if well else conn.error(stream, "failed")
            name, _ = app.giving.pop(stream)
            app.finished[name] = well
            self.pair.take(side)

    @rule(number=which, really=st.integers(0, 60))
    def leave(self, number: int, really: int) -> None:
        if really == 0:
            side, conn, _ = self.at(number)
            conn.goodbye("random")
            self.pair.take(side)

    def teardown(self) -> None:
        """Drain, then compare."""
        if not hasattr(self, "pair"):
            return
        self.pair.run()
        ended = any(side.closed for side in self.sides)
        for side, other in (self.sides, self.sides[::-1]):
            taker, giver = self.apps[id(side)], self.apps[id(other)]
            assert side.closed is ended
            assert side.error is None
            for name, elements in taker.got.items():
                gave = giver.gave.get(name, [])
                assert elements == gave[: len(elements)]
                if name not in taker.cancelled and not ended:
                    lost = name in taker.ended and "3.9" in getattr(taker.ended[name], "message", "")
                    assert lost or elements == gave
                    if name in giver.finished and not lost:
                        assert isinstance(taker.ended[name], OnComplete) is giver.finished[name]
            if ended:
                assert not taker.names
                assert not giver.giving
            assert side.connection.buffered_bytes == 0 or side.closed


def story(seed: int, steps: int) -> int:
    """A long random life, out of the same steps; how many elements went over the wire."""
    dice = Random(seed)
    machine = cast(Any, TwoConnections())  # to a type checker its steps are untyped
    machine.connect(dice.random() < 0.5, dice.choice([Limits(), FEW]), seed, dice.random() < 0.5)

    def number() -> int:
        return dice.randrange(2)

    def pick() -> int:
        return dice.randrange(6)

    moves: list[tuple[int, Callable[[], object]]] = [
        (3, machine.settle),
        (12, lambda: machine.deliver(number(), dice.choice([1, 3, 10, 60, None]))),
        (5, lambda: machine.subscribe(number(), dice.choice([0, 1, 3, UNBOUNDED]))),
        (8, lambda: machine.request(number(), dice.choice([1, 2, 5, 5, 5, UNBOUNDED]), pick())),
        (2, lambda: machine.request(number(), dice.choice([0, -1, UNBOUNDED + 1]), pick())),
        (3, lambda: machine.cancel(number(), pick(), dice.random() < 0.5)),
        (8, lambda: machine.answer(number(), pick(), dice.choice([0, 0, 1, 4]))),
        (14, lambda: machine.publish(number(), pick(), dice.randint(1, 9), dice.randint(0, 30))),
        (3, lambda: machine.finish(number(), pick(), dice.random() < 0.5)),
    ]
    for _ in range(steps):
        dice.choices([move for _, move in moves], [weight for weight, _ in moves])[0]()
    if dice.random() < 0.5:
        machine.leave(number(), 0)
    machine.teardown()
    return int(machine.pair.monitor.elements)


@pytest.mark.parametrize("seed", range(20))
def test_a_long_story(seed: int) -> None:
    assert story(seed, 1000) > 30


TestTwoConnections = TwoConnections.TestCase
TestTwoConnections.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
