"""The model: TLC visits its states, and refuses a mistake.

In full: `python -m model.check`, `python -m model.plant`.
"""

from __future__ import annotations

import shutil

import pytest

from model.checking import check, model
from model.plant import mistaken
from model.plants import PLANTS

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="TLC runs on Java, and none is installed")


@pytest.mark.thorough
@needs_java
def test_each_promise_holds_in_a_history_without_troubles() -> None:
    outcome = check(model(), 0)
    assert (outcome.violated, outcome.is_whole) == (None, True), outcome.said
    assert outcome.distinct > 1000


@pytest.mark.thorough
@needs_java
def test_a_mistake_is_refused() -> None:
    first = PLANTS[0]
    assert check(mistaken(first), 0).violated == first.invariant == "SentIsOnDisk"


def test_every_mistake_changes_one_place() -> None:
    assert [plant.name for plant in PLANTS if mistaken(plant) == model()] == []
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 25
