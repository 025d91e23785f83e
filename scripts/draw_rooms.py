"""Drawing of rooms and imports for docs/architecture.md.

    python scripts/draw_rooms.py            writes the drawn parts of the page
    python scripts/draw_rooms.py --check    fails if the page is out of date

The pictures leave out an arrow where another way leads to the same room; the tables have all of them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from scripts.pages import bracketed  # noqa: E402  # the line above comes first
from scripts.rooms import CORE, TRANSPORTS, Room, arrows, calls, packages  # noqa: E402  # the line above comes first

PAGE = ROOT / "docs" / "architecture.md"
MACHINE = "tolliver_proto"
_DRAWN = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Calls = Mapping[str, Collection[str]]


def short(name: str) -> str:
    """The name of a room beside its neighbours."""
    return name.removeprefix("tolliver_proto.").removeprefix("tolliver_transports.")


def table(floors: Sequence[Sequence[Room]], called: Calls, first: int) -> Iterator[str]:
    yield "| floor | room | what it is for | imports from |"
    yield "|---|---|---|---|"
    order = [room.name for floor in CORE + TRANSPORTS for room in floor]
    for number, floor in reversed([*enumerate(floors, first)]):
        for room in floor:
            names = sorted(called[room.name], key=order.index, reverse=True)
            goals = ", ".join(f"`{short(name)}`" for name in names) or "nothing"
            yield f"| {number} | `{short(room.name)}` | {room.purpose} | {goals} |"


def reduced(called: Calls) -> dict[str, list[str]]:
    """Without the arrows that say no more than others together."""

    def reached(name: str) -> set[str]:
        found, ahead = {name}, [name]
        while ahead:
            ahead = [goal for goal in called.get(ahead.pop(), ()) if goal not in found] + ahead
            found.update(ahead)
        return found

    return {
        name: sorted(goal for goal in goals if not any(goal in reached(other) for other in goals if other != goal))
        for name, goals in called.items()
    }


def picture(called: Calls) -> Iterator[str]:
    yield from ("```mermaid", "flowchart TD")
    for name, goals in reduced(called).items():
        yield from (f"    {short(name)} --> {short(goal)}" for goal in goals)
    yield "```"


def merged(called: Calls) -> dict[str, set[str]]:
    """The rooms of the transports; the pure package is one room to them."""
    core = {room.name for floor in CORE for room in floor}
    return {
        name: {MACHINE if goal in core else goal for goal in goals}
        for name, goals in called.items()
        if name not in core
    }


def parts() -> dict[str, str]:
    """Drawn parts, by their names on the page."""
    modules = packages()
    called = calls(arrows(modules, modules))
    core = {room.name: called[room.name] for floor in CORE for room in floor}
    drawn = {
        "core_table": table(CORE, called, 1),
        "core_picture": picture(core),
        "transports_table": table(TRANSPORTS, called, 1 + len(CORE)),
        "transports_picture": picture(merged(called)),
    }
    return {name: bracketed("\n".join(lines)) for name, lines in drawn.items()}


def page(text: str) -> str:
    """The page with its drawn parts as they are to be."""
    drawn = parts()
    return _DRAWN.sub(lambda found: f"{found[1]}\n{drawn[found[2]]}\n\n{found[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    before = options.page.read_text("utf-8")
    after = page(before)
    if not options.check:
        options.page.write_text(after, "utf-8")
        return 0
    if before == after:
        return 0
    print(f"{options.page.name} is out of date: run python scripts/draw_rooms.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
