"""The drawn page is the table's, and the check can tell."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import pytest

from scripts import draw_states
from scripts.pages import bracketed
from tolliver_proto._wire.state import TRANSITIONS, Effect, Signal, Transition
from tolliver_proto.layouts import State
from tolliver_proto.reactive import _state as reactive
from tolliver_proto.reactive._state import SUBSCRIBING, Id, Step


def test_the_page_is_up_to_date() -> None:
    assert draw_states.main(["--check"]) == 0


def test_the_check_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = str(tmp_path / "page.md")
    assert draw_states.main(["--check", "--page", page]) == 1
    assert "run python scripts/draw_states.py" in capsys.readouterr().err
    assert draw_states.main(["--page", page]) == 0
    assert draw_states.main(["--check", "--page", page]) == 0
    monkeypatch.setitem(TRANSITIONS[State.ESTABLISHED], Signal.EOF, Transition(State.CLOSING, Effect.NONE))
    assert draw_states.main(["--check", "--page", page]) == 1


@pytest.mark.parametrize(
    ("table", "signals"),
    [(draw_states.CONNECTION, Signal), (draw_states.STREAMS, reactive.Signal), (draw_states.IDS, Step)],
    ids=["connection", "streams", "ids"],
)
def test_every_state_and_every_signal_is_on_the_page(table: draw_states.Table, signals: type[Enum]) -> None:
    drawn = draw_states.page()
    for state, steps in table.steps.items():
        assert bracketed(f"**{state.name}**: {table.meanings[state]}") in drawn
        assert set(steps) <= set(table.words)
    for words in table.words.values():
        assert words in drawn
    assert set(table.words) == set(signals)


def test_the_check_covers_the_other_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    before = draw_states.page()
    monkeypatch.delitem(SUBSCRIBING[Id.OVER], Step.ELEMENT)
    assert draw_states.page() != before
    assert draw_states.main(["--check"]) == 1
