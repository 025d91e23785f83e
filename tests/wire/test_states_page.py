"""The drawn page is the table's, and the check can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import draw_states
from tolliver_proto import State
from tolliver_proto._state import TRANSITIONS, Effect, Signal, Transition


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


def test_every_state_and_every_signal_is_on_the_page() -> None:
    drawn = draw_states.page()
    for state in State:
        assert f"**{state.name}**" in drawn
    for words in draw_states.WORDS.values():
        assert words in drawn
    assert set(draw_states.WORDS) == set(Signal)
