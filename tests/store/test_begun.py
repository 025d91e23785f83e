"""Notes of what handlers have begun: what stands in them when the process dies, and what the next run makes of it."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest
from tolliver._store import begun
from tolliver._store.begun import NOTES, RUN, SUSPECTS, Begun

ME, OTHER = UUID(int=0x0189_0000_0000_7000_8000_0000_0000_000A), UUID(int=0x0189_0000_0000_7000_8000_0000_0000_000B)
LOW, HIGH = UUID(int=0x0189_0000_0000_7000_8000_0000_0000_0001), UUID(int=0x0189_0000_0000_7000_8000_0000_0000_00FF)


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "node.db.begun")


def died(path: str, me: UUID = ME) -> Begun:
    """The next run, after one that was not closed."""
    return Begun(path, me)


def test_what_is_noted_when_it_dies_is_suspect(path: str) -> None:
    notes = Begun(path, ME)
    assert notes.suspects == {}
    notes.note(LOW, [1, 2, 3])
    notes.end(notes.note(LOW, [4]))
    notes.note(HIGH, [2**31 - 2])
    after = died(path)
    assert after.suspects == {(LOW, 1): 0, (LOW, 2): 0, (LOW, 3): 0, (HIGH, 2**31 - 2): 0}
    assert died(path).suspects == after.suspects, "until it is known what becomes of them"


def test_a_message_that_is_alone_in_hand_is_guilty(path: str) -> None:
    for deaths in range(1, 4):
        notes = died(path)
        notes.end(notes.note(LOW, [6]))
        notes.note(LOW, [7])
        assert died(path).suspects == {(LOW, 7): deaths}


def test_two_handlers_of_one_message_are_no_company(path: str) -> None:
    notes = Begun(path, ME)
    notes.note(LOW, [7])
    notes.note(LOW, [7])
    assert died(path).suspects == {(LOW, 7): 1}


def test_what_was_settled_is_no_suspect_any_more(path: str) -> None:
    Begun(path, ME).note(LOW, [1, 2])
    notes = died(path)
    notes.forget(LOW, 1)
    notes.forget(LOW, 1)
    notes.forget(HIGH, 2)
    assert died(path).suspects == {(LOW, 2): 0}


def test_an_orderly_close_leaves_nothing(path: str) -> None:
    notes = Begun(path, ME)
    notes.note(LOW, [1])
    notes.close()
    assert Path(path).exists(), "nobody has said that it ends in order"
    notes.end_in_order()
    notes.close()
    notes.close()
    assert not Path(path).exists()


def test_an_end_in_order_keeps_the_deaths_of_a_suspect_that_has_not_come(path: str) -> None:
    """Messages in hand are let go then; a suspect that was settled is none any more."""
    Begun(path, ME).note(LOW, [1])
    Begun(path, ME).note(LOW, [2])
    notes = died(path)
    assert notes.suspects == {(LOW, 1): 1, (LOW, 2): 1}
    notes.note(LOW, [3])
    notes.forget(LOW, 2)
    notes.end_in_order()
    notes.close()
    again = died(path)
    assert again.suspects == {(LOW, 1): 1}
    again.forget(LOW, 1)
    again.end_in_order()
    again.close()
    assert not Path(path).exists()


def test_more_than_can_be_noted_condemn_nobody(path: str) -> None:
    notes = Begun(path, ME)
    places = [notes.note(LOW, [number]) for number in range(1, NOTES + 2)]
    for place in places[:-2]:
        notes.end(place)
    assert died(path).suspects == {(LOW, NOTES): 0}, "one was alone in the notes, but not in hand"


def test_where_all_are_noted_again_one_may_be_alone(path: str) -> None:
    notes = Begun(path, ME)
    places = [notes.note(LOW, [number]) for number in range(1, NOTES + 2)]
    for place in places[1:]:
        notes.end(place)
    assert died(path).suspects == {(LOW, 1): 1}


def test_the_newest_suspects_are_remembered(path: str) -> None:
    for run in range(SUSPECTS // RUN + 1):
        died(path).note(LOW, range(1 + run * RUN, 1 + (run + 1) * RUN))
    assert [number for _, number in died(path).suspects] == [*range(1 + RUN, 1 + RUN + SUSPECTS)]


def test_notes_of_another_boot_are_void_and_the_table_stays(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Begun(path, ME).note(LOW, [1])
    died(path).note(LOW, [2])
    monkeypatch.setattr(begun, "boot_id", lambda: bytes(range(16)))
    assert died(path).suspects == {(LOW, 1): 1}


@pytest.mark.parametrize("content", [b"", b"x", b"x" * 300_000, b"tollhand" + bytes(56)])
def test_what_is_no_such_file_is_made_anew(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    assert Begun(path, ME).suspects == {}
    assert Path(path).stat().st_size == begun._SIZE


def test_another_instance_begins_anew(path: str) -> None:
    Begun(path, ME).note(LOW, [1])
    assert died(path, OTHER).suspects == {}


def test_without_posix_fallocate(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    Begun(path, ME).note(LOW, [1])
    assert died(path).suspects == {(LOW, 1): 1}
