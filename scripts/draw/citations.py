"""Places of the product that cite a ruling, in a comment, a docstring or a text: module and function.

A place has no line number, so what is drawn from places changes when a citation moves to another function, and not with
each line above.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from scripts.pages import CITED
from scripts.rooms import ROOT, packages

_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Place(NamedTuple):
    """A function, class or module (empty name) of the file, a path from the root."""

    file: str
    name: str

    @property
    def acts(self) -> bool:
        """True for a function, but for one that sets up an object."""
        last = self.name.rpartition(".")[2]
        return last != "__init__" and (last[:1].islower() or last.startswith("_"))

    def __str__(self) -> str:
        return f"`{self.file}`" + (f" `{self.name}`" if self.name else "")


class _Scope(NamedTuple):
    first: int
    last: int
    name: str


def scopes(tree: ast.AST, within: str = "") -> Iterator[_Scope]:
    """Functions and classes, each before those inside. One begins at its decorators."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _SCOPES):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            name = f"{within}.{node.name}" if within else node.name
            yield _Scope(first, node.end_lineno or first, name)
            yield from scopes(node, name)
        elif not isinstance(node, ast.expr):
            yield from scopes(node, within)


def place(file: str, inside: Sequence[_Scope], line: int, text: Sequence[str]) -> Place:
    """The innermost place of a line; a comment before a function or class belongs to that."""
    while line < len(text) and text[line - 1].lstrip().startswith("#"):
        line += 1
    names = [scope.name for scope in inside if scope.first <= line <= scope.last]
    return Place(file, names[-1] if names else "")


@cache
def citations() -> dict[str, list[Place]]:
    """Places by ruling, in the order of rooms and lines. A place that cites a ruling more often stands first."""
    found: dict[str, dict[Place, int]] = {}
    for path in packages().values():
        file, source = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        if not CITED.search(source):
            continue
        inside, lines = [*scopes(ast.parse(source))], source.splitlines()
        for number, line in enumerate(lines, 1):
            for ruling in CITED.findall(line):
                counts = found.setdefault(ruling, {})
                where = place(file, inside, number, lines)
                counts[where] = counts.get(where, 0) + 1
    return {ruling: [*counts] for ruling, counts in found.items()}
