"""Simulator of streams itself: its faults happen, its complaints come."""

from __future__ import annotations

import pytest

from tolliver_proto.reactive import Hub, Limits, OnComplete, OnError
from tolliver_proto.reactive._testing.ledgers import InboundStream, Plan
from tolliver_proto.reactive._testing.world import TIGHT
from tolliver_proto.reactive.testing import Shrunk, SimFailure, StreamNet, Weather, shrink

LIVES = 6

HARD = Weather(
    delay=0.05,
    slow=0.05,
    dial_fails=0.3,
    tls_hangs=0.1,
    writer_slow=0.3,
    reader_slow=0.4,
    source_slow=0.5,
    half_open=0.5,
    late_drain=0.5,
)


@pytest.mark.parametrize("seed", [*range(LIVES), 17])  # there a stream is cancelled after its connection has ended
def test_a_hard_life(seed: int) -> None:
    limits = TIGHT if seed % 2 else Limits(max_streams=3, max_handshakes=1)
    report = StreamNet(seed, weather=None if seed % 3 else HARD, limits=limits, operations=250, seconds=60.0).run()
    assert report.counts["elements"]
    assert report.seed == seed


def test_a_life_that_fails_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shrink(1) is None
    monkeypatch.setattr(Hub, "took", lambda *_: None)  # nothing is ever taken
    found = next(filter(None, (shrink(seed, lives=5) for seed in range(5))))
    assert isinstance(found, Shrunk)
    assert found.lives == 5
    assert str(found.failure).startswith(f"seed {found.seed} at ")


def test_the_elements_of_a_plan() -> None:
    plan = Plan.of("7/complete/4/3")
    assert plan == Plan(7, "complete", 4, 3)
    assert plan.name == "7/complete/4/3"
    assert [plan.element(index) for index in range(3)] == [b".7:0", b".7:1", b".7:2"]
    assert plan.element(1000) == b"1000"
    assert [plan.left(index) for index in range(4)] == [3, 2, 1, 0]
    assert len({Plan(7, "complete", 0, 3).element(index) for index in range(5)}) == 5


def test_an_end_of_an_intake_is_held_against_its_plan() -> None:
    intake = InboundStream((1, 1), Plan(7, "complete", 0, 3), 1, 1)
    intake.on_subscribed(0)
    with pytest.raises(SimFailure, match="ends after 0 elements"):
        intake.on_end(OnComplete(1))
    with pytest.raises(SimFailure, match="ends twice"):
        intake.on_end(OnError(1, "whatever"))
