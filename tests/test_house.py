"""Shape of the classes, and of the node's kernel: the limits of `scripts/rooms.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import pytest

from scripts import compiled
from scripts.rooms import ANCESTORS, KERNEL, KERNEL_FILES, KERNEL_FLOORS, PARTS, Arrow, arrows, heights, packages

MODULES = packages()
KERNEL_MODULES = {module: path for module, path in MODULES.items() if f"{module}.".startswith(f"{KERNEL}.")}
PATTERNS = {module: path for module, path in MODULES.items() if module.startswith("tolliver_proto._patterns.")}

TOO_DEEP = {
    "tolliver_proto._testing.deployments.Deployments": 7,
    "tolliver_proto._testing.handlers.Handlers": 5,
    "tolliver_proto._testing.programs.Programs": 4,
    "tolliver_proto._testing.simnet.Simulation": 6,
    "tolliver_proto._testing.world.World": 4,
    "tolliver_proto.reactive.testing.StreamNet": 4,
    "tolliver_proto.testing.ProgramNet": 5,
    "tolliver_proto.testing.SimNet": 8,
    "tolliver.anyio.core.InstanceCore": 5,
    "tolliver.anyio.streams_core.StreamsCore": 5,
    "tolliver.blocking.work.Work": 5,
    "tolliver.twisted.core.InstanceCore": 5,
    "tolliver.twisted.streams_core.StreamsCore": 5,
}
"""Classes with more ancestors than `ANCESTORS` allows, from before the limit was set."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


# Ancestors.

Class = tuple[str, str]
"""Module and name of a class."""


def classes(modules: Mapping[str, Path]) -> dict[Class, ast.ClassDef]:
    return {
        (module, node.name): node
        for module, path in modules.items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef)
    }


def imported(modules: Mapping[str, Path]) -> dict[Class, Class]:
    """The home of each name that a module imports, as the import says."""
    found: dict[Class, Class] = {}
    for module, path in modules.items():
        parts = module.split(".")
        package = parts if path.name == "__init__.py" else parts[:-1]
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                home = package[: len(package) - node.level + 1] if node.level else []
                source = ".".join([*home, *([node.module] if node.module else [])])
                found |= {(module, alias.asname or alias.name): (source, alias.name) for alias in node.names}
    return found


def ancestors(modules: Mapping[str, Path]) -> dict[str, set[Class]]:
    """The classes of ours that each class descends from, but for errors."""
    known, names = classes(modules), imported(modules)

    def base(module: str, node: ast.expr) -> Class | None:
        if isinstance(node, ast.Subscript):  # of a generic class
            return base(module, node.value)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            source = names.get((module, node.value.id))
            return None if source is None else home((".".join(source), node.attr))
        return home((module, node.id)) if isinstance(node, ast.Name) else None

    def home(name: Class) -> Class | None:
        while name not in known and name in names:
            name = names[name]
        return name if name in known else None

    @cache
    def above(name: Class) -> frozenset[Class]:
        bases = {one for node in known[name].bases if (one := base(name[0], node)) is not None}
        return frozenset(bases).union(*(above(one) for one in bases))

    found = {".".join(name): set(above(name)) for name in known}
    return {name: those for name, those in found.items() if not any(one[1] == "TolliverError" for one in those)}


def too_deep(modules: Mapping[str, Path]) -> dict[str, int]:
    return {
        name: len(those)
        for name, those in ancestors(modules).items()
        if len(those) > ANCESTORS.get(name.partition(".")[0], max(ANCESTORS.values()))
    }


def test_no_class_has_many_ancestors() -> None:
    assert too_deep(MODULES) == TOO_DEEP, "compose, do not inherit; a class that became flatter leaves TOO_DEEP"


def test_ancestors_are_found_through_imports_and_generics(tmp_path: Path) -> None:
    texts = {
        "tolliver_proto/_wire/low.py": "class A: ...\nclass B(A): ...\nclass C(B, Generic[T]): ...",
        "tolliver_proto/_node/mid.py": "from .._wire import low\nfrom .._wire.low import C as X\nclass D(X[int]): ...",
        "tolliver_proto/_node/high.py": "from . import mid\nclass E(mid.D): ...",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert too_deep(packages(tmp_path)) == {"tolliver_proto._node.high.E": 4}


# The kernel.


@cache
def kernel_arrows() -> list[Arrow]:
    return arrows(KERNEL_MODULES, MODULES)


def inside(module: str) -> str:
    """The name of a module within the kernel."""
    return module.removeprefix(f"{KERNEL}.")


def part_of(module: str) -> str | None:
    first = inside(module).partition(".")[0]
    return first if first in PARTS else None


def test_the_kernel_grows_no_larger() -> None:
    within = [arrow for arrow in kernel_arrows() if arrow.target in KERNEL_MODULES]
    assert len(KERNEL_MODULES) <= KERNEL_FILES, "a feature that adds a file to the kernel takes one out"
    assert max(heights(within).values()) <= KERNEL_FLOORS


def test_a_part_imports_from_lower_parts_only() -> None:
    parts = [(arrow, part_of(arrow.source), part_of(arrow.target)) for arrow in kernel_arrows()]
    assert {source for _, source, _ in parts} > {*PARTS}
    upward = {
        (inside(arrow.source), inside(arrow.target))
        for arrow, source, target in parts
        if source is not None and target is not None and PARTS.index(target) > PARTS.index(source)
    }
    assert upward == set()


def test_the_kernel_knows_no_pattern() -> None:
    assert [str(arrow) for arrow in kernel_arrows() if arrow.target in PATTERNS] == []
    names = {
        node.name
        for path in PATTERNS.values()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    assert {"Requests", "Queues", "QueueWork", "LastValues"} <= names
    assert {name: places for name, places in said(KERNEL_MODULES).items() if name in names} == {}


def said(modules: Mapping[str, Path]) -> dict[str, list[str]]:
    """All names that stand in these modules, and where."""
    found: dict[str, list[str]] = {}
    for path in modules.values():
        for node in ast.walk(tree(path)):
            for field in ("id", "attr", "name", "arg", "asname"):
                name = getattr(node, field, None)
                if isinstance(name, str):
                    found.setdefault(name, []).append(f"{path.name}:{getattr(node, 'lineno', 0)}")
    return found


def assigned(module: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes that are assigned, added to or deleted."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node


def reaches(module: ast.AST, parts: Set[str]) -> set[str]:
    """Assignments to attributes of an object that self holds, or of a part that a variable names."""
    return {
        ast.unparse(node)
        for node in assigned(module)
        if isinstance(node.value, ast.Attribute | ast.Name)
        and (
            ast.unparse(node.value).startswith("self.")
            if isinstance(node.value, ast.Attribute)
            else node.value.id in parts
        )
    }


def parts_of_a_node() -> dict[str, str]:
    """Modules of the parts' classes, by the names under which `Parts` has them."""
    composed = KERNEL_MODULES[f"{KERNEL}.parts"]
    homes = {name: source[0] for (module, name), source in imported({f"{KERNEL}.parts": composed}).items()}
    return {
        target.attr: homes[node.value.func.id]
        for node in ast.walk(tree(composed))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }


def test_a_part_assigns_its_own_attributes_alone() -> None:
    parts = parts_of_a_node()
    assert {"commits", "ledger", "peer_lists", "delivering", "links"} <= parts.keys()
    found = {
        inside(module): those
        for module, path in KERNEL_MODULES.items()
        if (those := reaches(tree(path), {name for name, home in parts.items() if home != module}))
    }
    assert found == {}, "call a method of the part instead"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("self._commits.batch = 1", {"self._commits.batch"}),
        ("self._commits.batch.lists |= new", {"self._commits.batch.lists"}),
        ("a, (self._room.full, b) = two", {"self._room.full"}),
        ("del self._ledger.last", {"self._ledger.last"}),
        ("for self._ledger.last in found: ...", {"self._ledger.last"}),
        ("commits = self._commits\ncommits.apart = True", {"commits.apart"}),
        ("self.batch = self._commits.batch\npeer.held = {}\nself._known[peer].seen = 1", set()),
    ],
)
def test_an_assignment_to_another_part_is_seen(text: str, found: set[str]) -> None:
    assert reaches(ast.parse(text), {"commits"}) == found


# Compiled modules.


def steps_in_slices(text: str) -> list[str]:
    """The slices whose bounds call a method."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
        for bound in (node.slice.lower, node.slice.upper)
        if bound and any(isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) for one in ast.walk(bound))
    ]


def test_no_slice_of_a_compiled_module_does_something() -> None:
    """mypyc 2.4 takes the bounds of a slice twice: `rest[sock.send(rest) :]` sent everything twice."""
    found = {name: steps_in_slices(Path(name).read_text("utf-8")) for name in compiled.modules()}
    assert {name: slices for name, slices in found.items() if slices} == {}


def test_a_slice_that_does_something_is_seen() -> None:
    assert steps_in_slices("a[b.c():]; a[: len(b) + b.c()]; a[len(b) : b.c]; a[b.c()]") == [
        "a[b.c():]",
        "a[:len(b) + b.c()]",
    ]
