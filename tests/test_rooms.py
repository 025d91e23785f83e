"""Order of the rooms: every import, and the drawn page."""

from __future__ import annotations

import ast
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import cache
from itertools import combinations
from pathlib import Path
from uuid import UUID

import anyio
import pytest
import twisted
from tolliver.sqlite import SQLiteStore

from scripts import rooms
from scripts.draw import rooms as drawn_rooms
from scripts.rooms import INSIDERS, ROOT, Arrow, arrows, circle, outside, packages, private, room_of, upward

MODULES = packages()
IMPORT = re.compile(r"^ *(?:import (\w+)|from (\w+)[\w.]* import )", re.MULTILINE)
MAIN = re.compile(r"^if __name__ == .__main__.:", re.MULTILINE)
ADAPTERS = ("tolliver.anyio", "tolliver.blocking", "tolliver.twisted")


@cache
def inner() -> list[Arrow]:
    return arrows(MODULES, MODULES)


@cache
def foreign() -> list[Arrow]:
    return arrows(outside(), MODULES)


def between(one: str, other: str, drawn: Iterable[Arrow]) -> list[Arrow]:
    pair = {one, other}
    return [arrow for arrow in drawn if {room_of(arrow.source), room_of(arrow.target)} == pair]


def through_a_wall(drawn: Iterable[Arrow]) -> list[Arrow]:
    """Private imports that no insider's reason covers."""
    allowed = {(insider.file, module) for insider in INSIDERS for module in insider.modules}
    return [arrow for arrow in private(drawn) if (arrow.place.partition(":")[0], arrow.target) not in allowed]


def test_every_module_has_a_room() -> None:
    assert [module for module in MODULES if room_of(module) is None] == []
    assert {room_of(module) for module in MODULES} == {room.name for floor in rooms.FLOORS for room in floor}


def test_every_folder_says_what_it_is_for_and_private_ones_load_nothing() -> None:
    for floor in rooms.FLOORS:
        for room in floor:
            path = MODULES[room.name]
            tree = ast.parse(path.read_text("utf-8"))
            assert ast.get_docstring(tree), f"{path} has no docstring"
            if path.name == "__init__.py" and room.name.split(".")[-1].startswith("_"):
                assert len(tree.body) == 1, f"{path} has code: whoever imports from the room would pay for it"


def test_no_import_leads_upwards() -> None:
    assert [str(arrow) for arrow in upward(inner())] == []


def test_no_module_is_in_a_circle() -> None:
    assert circle(inner()) == []


@pytest.mark.parametrize(("one", "other"), [*combinations(ADAPTERS, 2)])
def test_adapters_do_not_know_each_other(one: str, other: str) -> None:
    assert [str(arrow) for arrow in between(one, other, inner())] == []


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_adapters_have_the_same_file_names(adapter: str) -> None:
    """A reader of one knows all; some have more."""
    common = (
        "core",
        "dialing",
        "endpoint",
        "instance",
        "opening",
        "streams",
        "streams_core",
        "streams_opening",
        "wire",
    )
    assert [name for name in common if f"{adapter}.{name}" not in MODULES] == []


def test_nobody_looks_into_a_package_from_outside() -> None:
    assert [str(arrow) for arrow in through_a_wall(inner() + foreign())] == []


def test_every_insider_is_one() -> None:
    looks = {(arrow.place.partition(":")[0], arrow.target) for arrow in private(inner() + foreign())}
    assert {(insider.file, module) for insider in INSIDERS for module in insider.modules} <= looks


# The checks see what they are there for.


def one_circle(drawn: Iterable[Arrow]) -> list[list[str]]:
    return [found] if (found := circle(drawn)) else []


ADAPTER = "transports/tolliver/{}/wire.py"
PLANTED: dict[str, tuple[Callable[[Iterable[Arrow]], Sequence[object]], dict[str, str], int]] = {
    "upwards": (upward, {"tolliver_proto/_wire/frames.py": "from .._node import node"}, 1),
    "upwards, within a function": (
        upward,
        {"tolliver_proto/_common/timers.py": "def f():\n    import tolliver_proto._wire.frames"},
        1,
    ),
    "upwards, for the type checker": (
        upward,
        {"tolliver_proto/_wire/frames.py": "if TYPE_CHECKING:\n    from .._node.node import Node"},
        1,
    ),
    "beside": (upward, {"tolliver_proto/reactive/_hub.py": "from .._node.node import Node"}, 1),
    "an adapter from another": (upward, {ADAPTER.format("twisted"): "from ..anyio.wire import Wire"}, 1),
    "a module without a room": (upward, {"tolliver_proto/new.py": "from ._node import node"}, 1),
    "downwards": (upward, {"tolliver_proto/_node/link.py": "from .._wire.frames import Decoder"}, 0),
    "a library of an adapter's name": (upward, {ADAPTER.format("anyio"): "import anyio\nfrom anyio import run"}, 0),
    "a circle": (
        one_circle,
        {
            "tolliver_proto/_node/base.py": "from . import link",
            "tolliver_proto/_node/link.py": "from .base import Base",
        },
        1,
    ),
    "a circle that a function hides": (
        one_circle,
        {
            "tolliver_proto/_node/base.py": "def f():\n    from . import link",
            "tolliver_proto/_node/link.py": "from .base import Base",
        },
        1,
    ),
    "a wall": (through_a_wall, {ADAPTER.format("anyio"): "from tolliver_proto._wire import frames"}, 1),
    "a wall, by a name of the package": (through_a_wall, {"fuzz/new.py": "from tolliver_proto import _wire"}, 1),
    "a door": (through_a_wall, {"fuzz/new.py": "from tolliver_proto import Node, layouts"}, 0),
}


@pytest.mark.parametrize(("check", "planted", "count"), PLANTED.values(), ids=PLANTED)
def test_the_checks_see(
    check: Callable[[Iterable[Arrow]], Sequence[object]], planted: dict[str, str], count: int, tmp_path: Path
) -> None:
    known = {str(path.relative_to(ROOT)): "" for path in MODULES.values()}
    for name, text in {**known, **planted}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    modules = packages(tmp_path)
    drawn = arrows(modules | outside(tmp_path), modules, tmp_path)
    assert len(check(drawn)) == count, drawn


# The page.


def test_the_files_that_contributing_names_are_there() -> None:
    """The table of places: a path from the root, or from one of the packages."""
    named = re.findall(r"`([\w/]+/\w+\.py)`", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    homes = (ROOT, ROOT / "tolliver_proto", ROOT / "transports", ROOT / "transports/tolliver")
    assert len(named) > 10
    assert [name for name in named if not any((home / name).is_file() for home in homes)] == []


def test_all_parts_are_drawn_once() -> None:
    assert re.findall(r"<!-- drawn: (\w+) -->", drawn_rooms.PAGE.read_text("utf-8")) == [*drawn_rooms.parts()]


def test_the_store_has_the_tables_of_the_page(tmp_path: Path) -> None:
    SQLiteStore(tmp_path / "node.db", instance_id=UUID(int=1)).close()
    with closing(sqlite3.connect(tmp_path / "node.db")) as database:
        made = {
            table: [column for _, column, *_ in database.execute(f"PRAGMA table_info({table})")]
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if not table.startswith("sqlite_")
        }
    section = drawn_rooms.PAGE.read_text("utf-8").partition("## The store")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    assert {table: re.findall(r"`(\w+)`", columns) for table, columns in rows} == made


# A folder that is named like a library must never be first on the path.


def libraries(paths: Iterable[Path]) -> set[str]:
    """The names of all that these files import and that is not ours."""
    names = {name for path in paths for found in IMPORT.findall(path.read_text("utf-8")) for name in found}
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()} | {"tolliver", ""}
    return names - ours


def test_a_program_beside_a_namesake_of_a_library_is_run_as_a_module() -> None:
    """As a file it would have its own folder first on the path; so it says how it is run instead."""
    modules = outside() | rooms.files(ROOT, ["tests"])
    known = libraries([*modules.values(), *MODULES.values()])
    assert known >= {"anyio", "twisted", "pyspark", "pytest"}
    programs = {name: path for name, path in modules.items() if MAIN.search(path.read_text("utf-8"))}
    assert len(programs) > 30
    beside = {name: {other.stem for other in path.parent.iterdir()} & known for name, path in programs.items()}
    shadowed = {name: names for name, names in beside.items() if names}
    assert {name for name in shadowed if f"python -m {name} " not in programs[name].read_text("utf-8")} == set()


def test_nothing_runs_a_file_of_the_adapters() -> None:
    pages = [
        ROOT / "Makefile",
        ROOT / ".ci" / "run",
        ROOT / "pyproject.toml",
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
    ]
    texts = [path.read_text("utf-8") for path in [*pages, *outside().values(), *rooms.files(ROOT, ["tests"]).values()]]
    assert [found for text in texts for found in re.findall(r"python3? \S*tolliver/\S+", text)] == []


def test_no_statement_numbers_its_placeholders() -> None:
    """Python 3.12.0 to 3.12.3 takes `?1` for a name, and warns each time that a sequence is bound to it."""
    paths = rooms.files(ROOT, ["transports"]).values()
    assert [path.name for path in paths if re.search(r"[ (]\?[1-9]", path.read_text("utf-8"))] == []


def test_the_libraries_are_not_ours() -> None:
    for library in (anyio, twisted):
        assert not Path(str(library.__file__)).is_relative_to(ROOT / "transports")
        assert not Path(str(library.__file__)).is_relative_to(ROOT / "tests")


def test_the_command_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "tolliver.cli", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
