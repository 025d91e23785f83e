"""Drawn calls of Twisted and threads, which are those of asyncio."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from tolliver import anyio, blocking, twisted

from scripts import draw_facades

KINDS = ("Instance", "Channel", "Admin", "WorkQueue", "Streams", "StreamChannel", "Peer")


def parameters(kind: type) -> dict[str, list[str]]:
    """The names of each call's parameters, but for a time limit."""
    calls = {name: one for name, one in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
    return {
        name: [one for one in inspect.signature(call).parameters if one != "timeout"] for name, call in calls.items()
    }


def test_the_drawn_files_are_up_to_date() -> None:
    assert [str(path) for path, text in draw_facades.files() if path.read_text("utf-8") != text] == []


def test_a_file_that_was_changed_by_hand_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "instance.py"
    path.write_text("changed")
    monkeypatch.setattr(draw_facades, "ROOT", tmp_path)
    monkeypatch.setattr(draw_facades, "files", lambda: [(path, "drawn")])
    assert draw_facades.main(["--check"]) == 1
    assert draw_facades.main([]) == 0
    assert path.read_text() == "drawn"
    assert draw_facades.main(["--check"]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_each_adapter_has_the_same_calls(kind: str) -> None:
    own = parameters(getattr(anyio, kind))
    for other in (blocking, twisted):
        drawn = parameters(getattr(other, kind))
        assert {name: drawn[name] for name in own} == own
        assert drawn.keys() - own.keys() <= {"close"}
