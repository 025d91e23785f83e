"""The copy of a module that mypyc compiles: its records and constants, in the same lines, in words that it knows."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from scripts.compiled import modules
from scripts.native import native
from scripts.release.__main__ import ROOT

MODULE = '''"""A module with records."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._common.records import record

MOST = 2 ** 4
MANY = [MOST]
MORE = 1
MORE += 1


@record
class Plain:
    """A record."""

    name: str
    size: int = MOST


@dataclass(slots=True, eq=False)
class Own:
    plain: Plain
    note: str = field(default="none", repr=False)


@record
class Checked:
    size: int

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"size must not be negative, not {self.size}")


@record
class Gathered:
    names: list[str] = field(default_factory=list)
'''


def made(text: str, name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that has this text."""
    module = ModuleType(f"tolliver_proto._wire.{name}")
    module.__package__ = "tolliver_proto._wire"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(text, name, "exec"), module.__dict__)
    return module


def test_records_are_what_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    pure, told = (made(text, name, monkeypatch) for text, name in ((MODULE, "pure"), (native(MODULE), "told")))
    for name, given in (("Plain", ("a",)), ("Plain", (1, None)), ("Checked", (1,)), ("Gathered", ())):
        kind, other = getattr(pure, name), getattr(told, name)
        one, another = kind(*given), other(*given)
        assert repr(another) == repr(one)
        assert another == other(*given)
        assert (another.__hash__ is None) == (one.__hash__ is None)
        assert other.__match_args__ == kind.__match_args__
        assert dataclasses.replace(another) == pickle.loads(pickle.dumps(another)) == another
    assert told.Own(told.Plain("a")) != told.Own(told.Plain("a"))
    assert repr(told.Own(told.Plain("a"))) == repr(pure.Own(pure.Plain("a")))
    with pytest.raises(ValueError, match="must not be negative"):
        told.Checked(-1)


def test_it_says_what_mypyc_knows() -> None:
    told = native(MODULE)
    assert "\nMOST: _Final = 2 ** 4\nMANY = [MOST]\nMORE = 1\nMORE += 1\n" in told  # the others are no constants
    assert told.count("@_dataclass(") == 1
    assert told.count("@dataclass(eq=False, init=False)") == 1
    assert told.count("@record") == 2  # those whose constructor does more than to set the fields


def test_the_lines_of_compiled_modules_keep_their_numbers() -> None:
    for name in modules():
        text = Path(ROOT / name).read_text("utf-8")
        before, after = text.split("\n"), native(text).split("\n")
        assert len(after) >= len(before) - 1, name
        where = [at for at, line in enumerate(before) if line.lstrip().startswith(("return ", "class "))]
        assert [before[at] for at in where] == [after[at] for at in where], name
