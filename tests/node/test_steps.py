"""Steps of simulated nodes: they are plain values, and who writes them changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tolliver_proto import Limits
from tolliver_proto.testing import SimNet, Weather

Step = dict[str, Any]
_KINDS = {"rows", "give", "take", "drop", "park", "unpark", "list", "hear", "own", "forget", "letter", "note", "ids"}


_FEW: dict[str, Any] = {"limits": Limits(max_attempts=2)}  # dead letters
_USUAL: dict[str, Any] = {"seconds": 10.0, "operations": 30, "weather": None}


def steps_of(seed: int, terms: dict[str, Any]) -> list[Step]:
    weather, steps = Weather(handler_fails=0.6), list[Step]()
    scenario: dict[str, Any] = {"nodes": 2, "seconds": 12.0, "operations": 40, "weather": weather, **terms}
    report = SimNet(seed, steps=steps.append, **scenario).run()
    assert report == SimNet(seed, **scenario).run()
    return steps


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    seeds = ((6, {}), (13, {}), (17, {}), (57, _FEW), (81, _FEW), (25, {}), *((seed, _USUAL) for seed in (14, 17, 36)))
    return [step for seed, terms in seeds for step in steps_of(seed, terms)]


def test_a_trace_is_lines_of_json(steps: list[Step]) -> None:
    assert all(json.loads(json.dumps(step)) == step for step in steps)


def test_every_change_of_a_store_is_in_them(steps: list[Step]) -> None:
    assert {change[0] for step in steps for change in step.get("changes", ())} >= _KINDS


def test_what_goes_out_comes_in(steps: list[Step]) -> None:
    for out, came in (("Transmit", "Receive"), ("Settle", "GetAck")):
        sent, received = ([step["id"] for step in steps if step["do"] == do] for do in (out, came))
        assert len(sent) >= len(received) > 50
        assert set(received) <= set(sent)
