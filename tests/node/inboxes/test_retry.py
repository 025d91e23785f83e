"""Pauses between the tries of a handler, and the cause that a dead letter keeps (T-47, P-22)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolliver_proto import Limits, Message
from tolliver_proto.node import Retry

from ..play import Play, deliveries


def test_pauses_double_up_to_the_longest() -> None:
    retry = Retry(attempts=9, first=1, most=60, jitter=False)
    assert [retry.pause(attempt, 0.5) for attempt in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert retry.pause(9, 0.5) is retry.pause(10, 0.5) is None
    assert Retry(attempts=10_000, most=1e9).pause(9_000, 0.0) == 1e9


@given(st.integers(1, 4), st.floats(0, 1))
def test_jitter_shortens_a_pause_by_a_half_at_most(attempt: int, chance: float) -> None:
    whole, some = (Retry(jitter=jitter).pause(attempt, chance) for jitter in (False, True))
    assert whole is not None
    assert some is not None
    assert whole / 2 <= some <= whole


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"attempts": 0}, ValueError, "attempts"),
        ({"attempts": 1.5}, TypeError, "attempts"),
        ({"first": 0}, ValueError, "first"),
        ({"most": "1"}, TypeError, "most"),
        ({"jitter": 1}, TypeError, "jitter"),
        ({"first": 2, "most": 1}, ValueError, "is below first"),
    ],
)
def test_wrong_ones_are_refused(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Retry(**given)


@pytest.mark.parametrize(
    ("cause", "kept"), [("", "failed 1 times"), ("ValueError: no", "ValueError: no"), ("x" * 2000, "x" * 1000)]
)
def test_a_dead_letter_keeps_why_its_last_try_failed(cause: str, kept: str) -> None:
    play = Play(handlers=[("", "", "handler")], limits=Limits(max_attempts=1))
    play.call("subscribe", "", "")
    [delivery] = deliveries(play.peer().send(Message("c", "k", b"x", 7)))
    delivery.cause = cause
    play.call("fail", [delivery])
    [letter] = play.store.dead_letters(0, 10)
    assert letter.cause == kept
