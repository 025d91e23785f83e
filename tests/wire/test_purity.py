"""Purity of the core, read from the source of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tolliver_proto

ALLOWED = {
    "__future__",
    "abc",
    "array",
    "bisect",
    "collections",
    "dataclasses",
    "enum",
    "functools",
    "heapq",
    "itertools",
    "math",
    "operator",
    "struct",
    "types",
    "typing",
    "uuid",
    "weakref",
    "zlib",
}
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "compile", "breakpoint", "__import__"}
IMPURE_UUIDS = {"uuid1", "uuid3", "uuid4", "uuid5", "uuid6", "uuid7", "uuid8", "getnode"}
ROOT = Path(tolliver_proto.__file__).parent
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))


def tree(module: Path) -> ast.Module:
    return ast.parse((ROOT / module).read_text("utf-8"), str(module))


def imports(parsed: ast.Module) -> Iterator[str]:
    """The top-level name of everything imported, wherever the statement stands; "" for this package itself."""
    for node in ast.walk(parsed):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "" if node.level else (node.module or "").split(".")[0]


def names(parsed: ast.Module) -> Iterator[str]:
    for node in ast.walk(parsed):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name


def test_there_is_something_to_read() -> None:
    assert len(MODULES) > 8
    assert Path("_wire/connection.py") in MODULES


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_imports(module: Path) -> None:
    allowed = ALLOWED | {"", "tolliver_proto"}
    if module.name == "testing.py":
        allowed |= {"random"}
    if module == Path("_common/lazy_names.py"):
        allowed |= {"importlib"}  # for modules of the package itself, as tests/test_doors.py sees
    if module == Path("_common/compiling.py"):
        allowed |= {"mypy_extensions"}  # for mypy and mypyc alone: never at run time
    if module == Path("_common/builds.py"):
        allowed |= {"importlib", "os", "sys"}  # the two variables that choose a build, and the finder of sources
    assert set(imports(tree(module))) <= allowed


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_no_door_to_the_outside(module: Path) -> None:
    """No I/O through builtins, and no randomness or clock through uuid."""
    parsed = tree(module)
    calls = {
        node.func.id for node in ast.walk(parsed) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls.isdisjoint(IMPURE_CALLS)
    assert IMPURE_UUIDS.isdisjoint(names(parsed))
