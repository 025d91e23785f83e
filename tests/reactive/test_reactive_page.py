"""Page of the Reactive Streams protocol, against the code's tables.

Those of the states are drawn: `tests/wire/test_states_page.py`.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from tolliver_proto.reactive import DRAFT, Connection, Kind, Limits
from tolliver_proto.reactive._actions import Action

from .vectors import VECTORS

PAGE = (Path(__file__).parents[2] / "docs" / "reactive.md").read_text("utf-8")


def rows(pattern: str) -> list[tuple[str, ...]]:
    return [row if isinstance(row, tuple) else (row,) for row in re.findall(rf"^\| {pattern} \|$", PAGE, re.MULTILINE)]


def test_the_frames() -> None:
    on_page = {
        (name, int(code)): re.findall(r"`(\w+)` ([A-Z]+)", written)
        for name, code, written in rows(r"(\w+) \| (\d+) \| (`.+)")
    }
    assert on_page == {
        (form.frame.__name__, form.code): [(name, kind.name) for name, kind in form.fields.items()]
        for form in DRAFT.forms
    }


def test_the_kinds_of_fields() -> None:
    assert [kind for (kind,) in rows(r"([A-Z]+) \| [^|]+")] == [*Kind.__members__]


def test_the_vectors() -> None:
    kinds = {vector.data.hex(): type(vector.frame).__name__.lower() for vector in VECTORS}
    on_page = {data: name.split()[0].lower() for name, data in rows(r"([^|]+) \| `([0-9a-f]+)`")}
    assert {*on_page.values()} == {*kinds.values()}
    assert on_page.items() <= kinds.items()


def test_the_limits() -> None:
    on_page = {name: default for name, default, _ in rows(r"`(\w+)` \| ([\d.]+) \| (.+)")}
    assert on_page == {field.name: str(field.default) for field in fields(Limits)}


def test_the_calls_are_there() -> None:
    calls = re.search(r"^## Calls\n(.+?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    assert calls
    assert [name for name in re.findall(r"`(\w+)\(", calls[1]) if not callable(getattr(Connection, name, None))] == []


def test_the_actions_of_a_hub() -> None:
    table = re.search(r"^\| action of a hub .+?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert table
    first_cells = " ".join(re.findall(r"^\| (`.+?) \|", table[0], re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", first_cells)) == {action.__name__ for action in get_args(Action)}


def test_every_ruling_has_a_row() -> None:
    assert [ruling for ruling, _ in rows(r"<a id=\S+></a>(R-\d\d) \| (.+)")] == [
        f"R-{number:02}" for number in (*range(1, 36), 40)
    ]
