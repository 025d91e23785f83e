"""Places of planted bugs, found in the syntax tree.

The idea: a function keeps its name when its file is moved, split or formatted anew. So a place is what parses to the
same tree, exactly once in the function; and the function is looked for in its file first, then in the whole package.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

from .bug import Bug

_MEND = "adapt scripts/planted"
_PACKAGES = ("tolliver_proto", "transports/tolliver")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NEAR = 0.6  # from here on a line is worth being told of

Statements = Sequence[ast.stmt]


class Place(NamedTuple):
    """Place of `good`: in `tree`, which is that of `path`, and `put` exchanges it."""

    path: Path
    tree: ast.Module
    put: Callable[[Statements], None]


def planted(bug: Bug, project: Path) -> tuple[Path, str]:
    """The file that has the bug's place, and its text with the bug.

    Raises SystemExit where its place is not there, or not only there, or where it would be no program.
    """
    good, bad = _parsed(bug, bug.good), _parsed(bug, bug.bad)
    own = project / bug.file
    places = list(_places(own, bug.function, good)) if own.is_file() else []
    if not places and not (bug.function and own.is_file() and _scopes(ast.parse(own.read_text("utf-8")), bug.function)):
        places = [place for path in _others(own, project) for place in _places(path, bug.function, good)]
    if len(places) != 1:
        where = f"in {bug.function or 'the module itself'} of {bug.file}"
        told = "".join(f"\n    {line}" for line in _candidates(bug, project, good)) if not places else ""
        raise SystemExit(f"{bug.name}: its place is {len(places)} times {where}; {_MEND}{told and f'; near it:{told}'}")
    path, tree, put = places[0]
    put(bad)
    text = ast.unparse(ast.fix_missing_locations(tree))
    compile(text, str(path), "exec")
    return path, text


def _parsed(bug: Bug, text: str) -> Statements:
    try:
        return ast.parse(dedent(text).strip()).body
    except SyntaxError as error:
        raise SystemExit(f"{bug.name}: {text!r} is neither statements nor an expression ({error}); {_MEND}") from None


def _others(own: Path, project: Path) -> list[Path]:
    """The other files of its package."""
    packages = [project / one for one in _PACKAGES if own.is_relative_to(project / one)]
    return sorted(path for package in packages for path in package.rglob("*.py") if path != own)


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    """All functions and classes below, each with its qualified name."""
    for child in ast.iter_child_nodes(node):
        name = prefix + child.name if isinstance(child, _SCOPES) else ""
        if name:
            yield name, child
        yield from _functions(child, f"{name}." if name else prefix)


def _scopes(tree: ast.Module, function: str) -> list[ast.AST]:
    """All that have this name, of whatever class: a property and its setter are two."""
    return [node for name, node in _functions(tree) if _is_called(name, function)] if function else [tree]


def _is_called(qualified: str, function: str) -> bool:
    return qualified == function or qualified.endswith(f".{function}")


def _places(path: Path, function: str, good: Statements) -> Iterator[Place]:
    tree = ast.parse(path.read_text("utf-8"))
    for scope in _scopes(tree, function):
        for put in _found(scope, good, whole=bool(function)):
            yield Place(path, tree, put)


def _found(scope: ast.AST, good: Statements, *, whole: bool) -> Iterator[Callable[[Statements], None]]:
    for node in _walk(scope, whole=whole):
        yield from _among_statements(node, good)
        yield from _among_expressions(node, good)


def _walk(node: ast.AST, *, whole: bool) -> Iterator[ast.AST]:
    """Itself and all below; unless `whole`, nothing of functions and classes."""
    yield node
    for child in ast.iter_child_nodes(node):
        if whole or not isinstance(child, _SCOPES):
            yield from _walk(child, whole=whole)


def _same(one: ast.AST, other: ast.AST) -> bool:
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def _among_statements(node: ast.AST, good: Statements) -> Iterator[Callable[[Statements], None]]:
    for _, body in ast.iter_fields(node):
        if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
            for start in range(len(body) - len(good) + 1):
                if all(map(_same, body[start : start + len(good)], good)):
                    yield partial(_put_statements, body, start, len(good))


def _put_statements(body: list[ast.stmt], start: int, count: int, bad: Statements) -> None:
    body[start : start + count] = bad
    body[:] = body or [ast.Pass()]


def _among_expressions(node: ast.AST, good: Statements) -> Iterator[Callable[[Statements], None]]:
    if len(good) == 1 and isinstance(good[0], ast.Expr) and not isinstance(node, ast.Expr):
        for field, value in ast.iter_fields(node):
            for index, one in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(one, ast.expr) and _same(one, good[0].value):
                    yield partial(_put_expression, node, field, index)


def _put_expression(node: ast.AST, field: str, index: int, bad: Statements) -> None:
    if len(bad) != 1 or not isinstance(bad[0], ast.Expr):
        raise SystemExit(f"{ast.unparse(ast.Module([*bad], []))!r} cannot stand where an expression stood; {_MEND}")
    value = getattr(node, field)
    if isinstance(value, list):
        value[index] = bad[0].value
    else:
        setattr(node, field, bad[0].value)


def _candidates(bug: Bug, project: Path, good: Statements) -> list[str]:
    """Its places under another name; else lines of its function that look like it; else functions of that name."""
    own = project / bug.file
    trees = {path: ast.parse(path.read_text("utf-8")) for path in (own, *_others(own, project)) if path.is_file()}
    functions = [(path, name, node) for path, tree in trees.items() for name, node in _functions(tree)]
    text = ast.unparse(good[0]).splitlines()[0]
    called = [(path, name, node) for path, name, node in functions if _is_called(name, bug.function)]
    lines = {line.strip() for _, _, node in called for line in ast.unparse(node).splitlines()}
    ratios = sorted(((SequenceMatcher(None, text, line).ratio(), line) for line in lines), reverse=True)
    standing = [(path, name) for path, name, node in functions if any(_found(node, good, whole=True))]
    return (
        [f"{path.relative_to(project)}: {name}" for path, name in standing]
        or [line for ratio, line in ratios[:3] if ratio >= _NEAR]
        or [f"{path.relative_to(project)}: {name}" for path, name, _ in called]
    )
