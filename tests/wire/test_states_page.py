"""The drawn page of the reference is the table's."""

from __future__ import annotations

from enum import Enum

import pytest

from scripts.draw import states
from scripts.pages import without_rulings
from tolliver_proto._wire.state import TRANSITIONS, Effect, Signal, Transition
from tolliver_proto.layouts import State
from tolliver_proto.reactive import _state as reactive
from tolliver_proto.reactive._state import SUBSCRIBING, Id, Step


def test_the_page_is_that_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    before = states.page()
    monkeypatch.setitem(TRANSITIONS[State.ESTABLISHED], Signal.EOF, Transition(State.CLOSING, Effect.NONE))
    assert states.page() != before


@pytest.mark.parametrize(
    ("table", "signals"),
    [(states.CONNECTION, Signal), (states.STREAMS, reactive.Signal), (states.IDS, Step)],
    ids=["connection", "streams", "ids"],
)
def test_every_state_and_every_signal_is_on_the_page(table: states.Table, signals: type[Enum]) -> None:
    drawn = states.page()
    for state, steps in table.steps.items():
        assert without_rulings(f"**{state.name}**: {table.meanings[state]}") in drawn
        assert set(steps) <= set(table.words)
    for words in table.words.values():
        assert words in drawn
    assert set(table.words) == set(signals)


def test_the_check_covers_the_other_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    before = states.page()
    monkeypatch.delitem(SUBSCRIBING[Id.OVER], Step.ELEMENT)
    assert states.page() != before
