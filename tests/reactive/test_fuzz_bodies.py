"""Reactive Streams fuzz targets, with hypothesis's cases (V3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import hub_bodies
from fuzz import reactive_bodies as bodies
from fuzz.by_hypothesis import search
from tolliver_proto import ConnectionClosing, LocalProtocolError
from tolliver_proto.reactive import Closed

KINDS = {Closed, *map(type, bodies.FRAMES)}

SEEDS: dict[Callable[..., object], list[bytes]] = {
    bodies.decoder: bodies.decoder_seeds(),
    bodies.connection: bodies.connection_seeds(),
    hub_bodies.operations: hub_bodies.operations_seeds(),
}
each = pytest.mark.parametrize("body", SEEDS, ids=lambda body: body.__name__)
quick = settings(suppress_health_check=[HealthCheck.too_slow])


@each
def test_any_bytes_and_damaged_seeds(body: Callable[..., object]) -> None:
    search(body, SEEDS[body], 200)


def test_programs() -> None:
    """A hello, and then whatever may follow one."""
    frames = st.tuples(st.just(1), st.integers(0, len(bodies.FRAMES) - 1))
    calls = st.tuples(st.integers(0, 11).map(lambda call: 4 * call + 3), st.integers(0, 255))

    @quick
    @given(st.sampled_from([0, 1, 2, 3]), st.integers(0, 1), st.lists(frames | calls, max_size=60))
    def check(role: int, limits: int, steps: list[tuple[int, int]]) -> None:
        bodies.connection(bytes([role, limits, 2, 3]) + b"".join(bytes(step) for step in steps))

    check()


@each
def test_seeds_in_bounded_memory(body: Callable[..., object]) -> None:
    for seed in SEEDS[body][::3]:
        body(seed, watch_memory=True)


def test_hostile_heads_in_bounded_memory() -> None:
    """Lengths and counts of many ones, after every known type, under every setting."""
    for limits in range(3):
        for code in range(12):
            for ones in (3, 8, 40):
                head = bytes([code, 1]) + b"\xff" * ones + b"\x01"
                bodies.decoder(bytes([limits, 0]) + head, watch_memory=True)
                bodies.connection(bytes([1, limits, 2, 3, 0, len(head)]) + head, watch_memory=True)


def test_programs_of_a_hub() -> None:
    """Connected, and then whatever may follow."""
    steps = st.lists(st.tuples(st.integers(0, 37), st.integers(0, 255)), max_size=80)

    @quick
    @given(st.sampled_from(SEEDS[hub_bodies.operations]), steps)
    def check(seed: bytes, steps: list[tuple[int, int]]) -> None:
        hub_bodies.operations(seed + b"".join(bytes(step) for step in steps))

    check()


def test_the_seeds_of_a_hub_reach_live_streams() -> None:
    told: Counter[str] = Counter()
    for seed in SEEDS[hub_bodies.operations]:
        told.update(hub_bodies.operations(seed).told)
    streams = ("Subscribe", "Request", "Cancel", "Subscribed", "Elements", "OnComplete", "OnError")
    links = ("PeerUp", "PeerDown", "Drained", "PauseReading", "ResumeReading", "ShutdownWrite", "Abort")
    assert {name for name in (*streams, *links) if told[name] < 4} == set()


def test_the_seeds_reach_live_streams() -> None:
    """A fuzzer that never gets past the hello would prove little."""
    events: Counter[str] = Counter()
    for program in bodies.connection_seeds():
        run = bodies.Run(bodies.ROLES[program[0] % 2], bodies.LIMITS[1], False, None)
        for step in bodies._steps(program[2:]):
            with suppress(LocalProtocolError, ConnectionClosing):
                step(run)
            run.take()
        events.update(event.split("(")[0] for event in run.events)
    assert {kind.__name__: events[kind.__name__] for kind in KINDS if events[kind.__name__] < 4} == {}
