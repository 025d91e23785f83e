"""Drawing of rooms, imports, the kernel's parts and the ways of a message for docs/architecture.md.

The pictures leave out an arrow where another way leads to the same room. The ways are proved by a message that is sent
(`scripts/ways.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from scripts import ways
from scripts.pages import ROOT, with_parts
from scripts.rooms import CORE, KERNEL, PARTS, TRANSPORTS, Room, When, arrows, packages

PAGE = ROOT / "docs" / "architecture.md"

Calls = Mapping[str, Collection[str]]


def short(name: str) -> str:
    """The name of a room beside its neighbours."""
    return name.removeprefix("tolliver_proto.").removeprefix("tolliver.")


def table(floors: Sequence[Sequence[Room]], first: int) -> Iterator[str]:
    yield "| floor | room | what it is for |"
    yield "|---|---|---|"
    for number, floor in reversed([*enumerate(floors, first)]):
        yield from (f"| {number} | `{short(room.name)}` | {room.purpose} |" for room in floor)


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


_BESIDE = ("node", "parts", "services", "pattern", "context", "link")
"""Modules of the kernel that a reader meets first; all others are the words that the parts share."""
_HOOK = re.compile(r"hooks\.(\w+)")


def kernel_table(modules: Mapping[str, Path]) -> Iterator[str]:
    """The parts of the kernel, highest first, as each says what it is for."""
    yield "| | what it is for | files | hooks of patterns that it calls |"
    yield "|---|---|---|---|"
    for part in (*_BESIDE[:2], *reversed(PARTS), *_BESIDE[2:]):
        name = f"{KERNEL}.{part}"
        within = {module.removeprefix(f"{name}."): path for module, path in modules.items() if _is_within(module, name)}
        document = ast.get_docstring(ast.parse(modules[name].read_text("utf-8"))) or ""
        purpose = document.partition("\n")[0].removeprefix(f"{part.capitalize()}: ").rstrip(".")
        purpose = purpose[0].upper() + purpose[1:]
        texts = (path.read_text("utf-8") for path in within.values())
        hooks = sorted({hook for text in texts for hook in _HOOK.findall(text)} - {"add"})
        files = ", ".join(f"`{module}`" for module in within if module != name)
        shown = f"`{part}/`" if files else f"`{part}.py`"
        yield f"| {shown} | {purpose} | {files} | {', '.join(f'`{hook}`' for hook in hooks)} |"


def kernel_picture(modules: Mapping[str, Path]) -> Iterator[str]:
    """Imports between the parts and of them. Those for the type checker alone are left out."""
    shown = {f"{KERNEL}.{part}": part for part in ("node", "parts", "services", *PARTS)}
    shown["tolliver_proto._patterns"] = "_patterns"
    called: dict[str, set[str]] = {name: set() for name in shown.values()}
    for arrow in arrows(modules, modules):
        ends = [next((shown[name] for name in shown if _is_within(end, name)), None) for end in arrow[:2]]
        if arrow.when is not When.CHECKING and None not in ends and ends[0] != ends[1]:
            called[str(ends[0])].add(str(ends[1]))
    return picture(called)


def _is_within(module: str, name: str) -> bool:
    return f"{module}.".startswith(f"{name}.")


def parts() -> dict[str, Iterable[str]]:
    """Drawn parts, by their names on the page."""
    modules = packages()
    return {
        "core_table": table(CORE, 1),
        "kernel_table": kernel_table(modules),
        "kernel_picture": kernel_picture(modules),
        "transports_table": table(TRANSPORTS, 1 + len(CORE)),
        **ways.drawn(),
    }


def files() -> Iterator[tuple[Path, str]]:
    yield PAGE, with_parts(PAGE, parts())
