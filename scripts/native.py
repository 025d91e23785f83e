"""The sources as mypyc compiles them: records as its own classes, constants as constants.

mypyc knows the standard `dataclass` and `Final` alone. A class with another decorator is a class of Python to it, whose
attributes are looked up by name and whose constructor is interpreted; a name of a module is looked up at each use. So
the copy that is compiled says what `@record` and a name in capital letters mean, in words that mypyc knows. All lines
keep their numbers. A field takes any value there, as Python's own does, so that a wrong one meets our error where it is
checked; only a field with a record of the way of a message has a type. The same holds for arguments of a door, by
which programs call the machine.
"""

from __future__ import annotations

import ast
import re

_PLAIN = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
_CONSTANT = re.compile("_?[A-Z][A-Z0-9_]+")
_FUTURE = "from __future__ import annotations"
_RECORDS = re.compile(r"(from \.[\w.]*records) import ")
_TYPED = ("Message",)
_PRIVATE = re.compile("_[a-z]")
_GENERIC = re.compile(r"\[[A-Z]\]")
_DOORS = ("Node", "Hub", "Connection", "encode")
_DECORATORS = {
    "record": "_dataclass(eq=False, repr=False, init=False)",
    "dataclass(slots=True)": "dataclass(init=False)",
    "dataclass(slots=True, eq=False)": "dataclass(eq=False, init=False)",
}


def native(text: str) -> str:
    """The text of a module, in words that mypyc knows."""
    body, lines = ast.parse(text).body, text.split("\n")
    for name, line in _constants(body).items():
        lines[line - 1] = lines[line - 1].replace(name, f"{name}: _Final", 1)
    for one in body:
        if isinstance(one, ast.ClassDef) and _is_plain(one):
            _write(one, lines)
        elif isinstance(one, ast.ClassDef | ast.FunctionDef) and one.name in _DOORS:
            _open(one, lines)
    return "\n".join(map(_with_imports, lines))


def _with_imports(line: str) -> str:
    if line == _FUTURE:
        return f"{line}; from typing import Any as _Any, Final as _Final"
    if found := _RECORDS.match(line):
        return f"{line}; {found[1]} import finished as _finished; from dataclasses import dataclass as _dataclass"
    return line


def _constants(body: list[ast.stmt]) -> dict[str, int]:
    """Names in capital letters of numbers and texts that get their value once, and the lines where they do."""
    lines: dict[str, list[int]] = {}
    for one in body:
        target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
        if isinstance(target, ast.Name) and _CONSTANT.fullmatch(target.id):
            is_plain = isinstance(one, ast.Assign) and all(isinstance(part, _PLAIN) for part in ast.walk(one.value))
            lines.setdefault(target.id, []).append(one.lineno if is_plain else 0)
    return {name: line for name, (line, *more) in lines.items() if line and not more}


def _is_plain(one: ast.ClassDef) -> bool:
    """True if it is a record without bases, whose constructor only sets fields: one that checks what a program gives
    stays Python's own, so that a wrong argument meets our error.
    """
    decorated = one.decorator_list != [] and ast.unparse(one.decorator_list[-1]) in _DECORATORS
    is_made = any(word in ast.unparse(one) for word in ("default_factory", "__post_init__"))
    return decorated and not one.bases and _fields(one) != [] and not is_made


def _fields(one: ast.ClassDef) -> list[ast.AnnAssign]:
    return [line for line in one.body if isinstance(line, ast.AnnAssign)]


def _default(value: ast.expr | None) -> str:
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        value = next((word.value for word in value.keywords if word.arg == "default"), None)
    return "" if value is None else f" = {ast.unparse(value)}"


def _write(one: ast.ClassDef, lines: list[str]) -> None:
    """Writes methods in the two empty lines behind the class, and what ends a record behind the module."""
    names, given = [], []
    for field in _fields(one):
        name, kind = ast.unparse(field.target), ast.unparse(field.annotation)
        if kind not in _TYPED:
            at = field.lineno - 1
            kind, lines[at] = "_Any", lines[at].replace(f"{name}: {kind}", f"{name}: _Any", 1)
        names.append(name)
        given.append(f"{name}: {kind}{_default(field.value)}")
    last = one.decorator_list[-1]
    decorator = ast.unparse(last)
    lines[last.lineno - 1] = f"@{_DECORATORS[decorator]}"
    end, values = one.end_lineno or 0, "".join(f"self.{name}, " for name in names)
    lines[end : end + 2] = [
        f"    def __init__(self, {', '.join(given)}) -> None: {'; '.join(f'self.{name} = {name}' for name in names)}",
        f"    def __reduce__(self) -> tuple[type[object], tuple[object, ...]]: return {one.name}, ({values})",
    ]
    if decorator == "record":
        lines.append(f"_finished({one.name})")


def _open(door: ast.ClassDef | ast.FunctionDef, lines: list[str]) -> None:
    """Takes the types of arguments, from the last of a line to the first, as each change moves what is behind it."""
    for call in door.body if isinstance(door, ast.ClassDef) else (door,):
        if isinstance(call, ast.FunctionDef) and not _PRIVATE.match(call.name):
            kinds = [one.annotation for one in ast.walk(call.args) if isinstance(one, ast.arg) and one.annotation]
            for kind in sorted(kinds, key=lambda kind: kind.col_offset, reverse=True):
                if not _GENERIC.search(ast.unparse(kind)):
                    line = lines[kind.lineno - 1]
                    lines[kind.lineno - 1] = f"{line[: kind.col_offset]}_Any{line[kind.end_col_offset :]}"
