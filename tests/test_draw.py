"""All that is drawn from the code is up to date, and the check tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.draw.__main__ import DRAWN, main, stale


@pytest.mark.parametrize("name", DRAWN)
def test_all_that_is_drawn_is_up_to_date(name: str) -> None:
    assert [path.name for path in stale(name)] == [], f"run python -m scripts.draw {name}"


def test_what_was_changed_by_hand_is_found_and_drawn_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("changed")
    monkeypatch.setitem(DRAWN, "page", lambda: [(page, "drawn")])
    assert main(["--check", "page"]) == 1
    assert "page.md is out of date: run python -m scripts.draw page" in capsys.readouterr().err
    assert main(["page"]) == 0
    assert page.read_text() == "drawn"
    assert main(["--check", "page"]) == 0
