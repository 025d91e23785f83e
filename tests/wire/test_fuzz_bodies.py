"""Fuzz targets' bodies, with hypothesis's cases (V3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import bodies

BODIES = [bodies.decoder, bodies.connection]
each = pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
quick = settings(suppress_health_check=[HealthCheck.too_slow])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good case with a few bytes changed, inserted or gone."""
    case = bytearray(draw(st.sampled_from(bodies.decoder_seeds())))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(case)))
        case[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(case)


@st.composite
def programs(draw: st.DrawFn) -> bytes:
    """Settings and steps, mostly such that get past the handshake."""
    steps = st.tuples(st.integers(0, 255), st.integers(0, 255))
    helpful = st.sampled_from([(1, number) for number in range(len(bodies.FRAMES))] + [(2, 0), (2, 0), (2, 0)])
    drawn = draw(st.lists(helpful | helpful | steps, max_size=40))
    return draw(st.binary(min_size=2, max_size=2)) + b"".join(bytes(step) for step in drawn)


@each
def test_any_bytes(body: Callable[..., None]) -> None:
    @quick
    @given(st.binary(max_size=300))
    def check(data: bytes) -> None:
        body(data)

    check()


@each
def test_damaged_frames_and_helpful_programs(body: Callable[..., None]) -> None:
    @quick
    @given(damaged() if body is bodies.decoder else programs())
    def check(data: bytes) -> None:
        body(data)

    check()


@each
def test_seeds_in_bounded_memory(body: Callable[..., None]) -> None:
    for seed in bodies.decoder_seeds() if body is bodies.decoder else bodies.connection_seeds():
        body(seed, watch_memory=True)


@each
def test_hostile_heads_in_bounded_memory(body: Callable[..., None]) -> None:
    """Lengths and counts of all ones, after every known first byte, under every setting."""
    for number, other in product(range(len(bodies.REVISIONS)), (0, 1)):  # tolerant or not; server or client
        for limits in range(3):
            for code in range(5):
                head = bytes([code]) + b"\xff" * 40
                prefix = bytes([number >> 1 << 2 | other << 1 | number & 1, limits, 0])
                if body is bodies.connection:
                    first = number >> 1 << 5 | (number & 1) << 1 | other
                    prefix = bytes([first, limits, 1, 1, 2, 0, 0, 41])
                body(prefix + head, watch_memory=True)


def test_the_seeds_reach_live_connections() -> None:
    """A fuzzer that never gets past the handshake would prove little."""
    events: Counter[str] = Counter()
    for program in bodies.connection_seeds():
        reader = bodies.Reader(program)
        make = bodies._settings(reader)
        steps = [bodies._step(reader) for _ in range(len(program) // 2)]
        trace = bodies._run(make, steps, None)
        events.update({event.split("(")[0] for event in trace.events})
    assert min(events[kind] for kind in ("Established", "Message", "Ack", "Subscribe", "Unsubscribe", "Closed")) >= 4
