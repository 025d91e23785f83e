"""docs/anyio.md names every notice and every counter that there is."""

from __future__ import annotations

import random
import re
from pathlib import Path
from uuid import UUID

import tolliver_proto
from tolliver_proto import Node, NoticeKind

PAGE = (Path(__file__).parents[2] / "docs" / "anyio.md").read_text("utf-8")
SOURCES = [path.read_text("utf-8") for path in Path(tolliver_proto.__file__).parent.glob("*.py")]


def in_tables(first_column: str) -> set[str]:
    """The names in the first column of the tables in which that column has this title."""
    tables = re.findall(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    cells = [line.split("|")[1] for table in tables for line in table.splitlines()]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def counters() -> set[str]:
    """What the node counts by name, and the sizes that `stats` adds."""
    counted = {name for source in SOURCES for name in re.findall(r'self\._counts\["(\w+)"', source)}
    chosen = {"withheld", "unwanted"}  # one line counts either
    return counted | chosen | set(Node(instance_id=UUID(int=1), rng=random.Random(1)).stats())


def test_every_notice_has_a_row() -> None:
    assert in_tables("kind") == set(NoticeKind)


def test_every_counter_has_a_row() -> None:
    assert in_tables("name") == counters() | {"ignored_", "notices_"}
