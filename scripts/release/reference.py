"""Reference of the site: every public name, the command line, errors, notices and counters, out of the sources.

A module's first page has its functions and smaller classes, and rows for the names that other pages tell: large
classes have a page of their own, and what several modules offer is told at the first of them.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from scripts.draw import causes, metrics, states
from scripts.draw import options as keys
from scripts.prove.__main__ import load
from scripts.prove.page import details
from scripts.release.api import PACKAGES, SEARCH, loaded

ROOT = Path(__file__).resolve().parents[2]
MODULES = (
    *("tolliver", "tolliver.anyio", "tolliver.twisted", "tolliver.blocking", "tolliver.events", "tolliver.codecs"),
    *(
        "tolliver.certs",
        "tolliver.derived",
        "tolliver.django",
        "tolliver.local",
        "tolliver.inbox",
        "tolliver.outbox",
        "tolliver.reactive",
        "tolliver.sqlite",
        "tolliver.spark",
    ),
    *("tolliver.staging", "tolliver.status", "tolliver.prometheus", "tolliver.otel", "tolliver.testing"),
    *(
        "tolliver_proto",
        "tolliver_proto.errors",
        "tolliver_proto.node",
        "tolliver_proto.store",
        "tolliver_proto.testing",
        "tolliver_proto.recording",
        "tolliver_proto.layouts",
    ),
    *("tolliver_proto.reactive", "tolliver_proto.reactive.testing"),
)
"""Modules that the reference shows."""
LARGE, FULL = 24, 90
"""Public members of a class that has a page of its own, and of all classes of a page."""
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_TABLE = r"^\| {} \|.*\n\|[-| ]+\n(?:\|.*\n)+"


def references() -> Iterator[tuple[str, str]]:
    for module in MODULES:
        yield from of_module(module)
    yield "index.md", "\n".join(every_name())
    yield "errors.md", "\n".join(errors())
    yield "notices.md", "\n".join(notices())
    yield "command-line.md", "\n".join(command_line())
    yield "options.md", keys.page()
    yield "causes.md", causes.page()
    yield "metrics.md", metrics.page()
    yield "states.md", states.page()
    yield "proofs.md", details(load())


def summary(text: str) -> str:
    """The first paragraph of a docstring, for a cell of a table."""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


@cache
def interface() -> dict[str, Any]:
    """Each module of the reference, read from the sources: what an extra brings need not be installed."""
    packages: dict[str, Any] = {**loaded(ROOT, PACKAGES, SEARCH)}
    found = ((name, *name.split(".", 1)) for name in MODULES)
    return {name: packages[package][below[0]] if below else packages[package] for name, package, *below in found}


def documented(found: Any) -> str:
    """The docstring of an object out of the sources; empty where it has none."""
    return str(found.docstring.value) if found.docstring else ""


def exports(module: str) -> list[str]:
    return sorted(map(str, interface()[module].exports), key=str.lower)


def _target(module: str, public: str) -> Any:
    found = interface()[module][public]
    return found.final_target if found.is_alias else found


@cache
def _homes() -> dict[str, str]:
    """The first module that offers each object, by the path of its definition."""
    homes: dict[str, str] = {}
    for module in MODULES:
        for public in exports(module):
            homes.setdefault(_target(module, public).path, module)
    return homes


def _home(module: str, public: str) -> str:
    return _homes()[_target(module, public).path]


def _kind(found: Any) -> int:
    """Functions come first, so that a module begins with what opens it, and errors last."""
    if not found.is_class:
        return 0 if found.is_function else 3
    bases = {str(base) for one in (found, *found.mro()) for base in one.bases}
    if any(base.endswith(("Error", "Exception")) for base in bases):
        return 5
    if any(base.endswith("Enum") for base in bases):
        return 4
    return 2 if any(re.match(r"(dataclass|define|frozen)\b", str(one.value)) for one in found.decorators) else 1


def _weight(found: Any) -> int:
    """Public members: a page grows with their number."""
    return 3 + sum(not member.startswith("_") for member in found.all_members) if found.is_class else 3


class Part(NamedTuple):
    """A page of a module: its file below reference/, its title, and the names that it shows."""

    name: str
    title: str
    names: list[str]


@cache
def parts(module: str) -> list[Part]:
    """Pages of a module, each small enough for a telephone: large classes have one of their own."""
    own = [one for one in exports(module) if _home(module, one) == module]
    own.sort(key=lambda one: (not one.startswith("create_"), _kind(_target(module, one)), one.lower()))
    weights = {one: _weight(_target(module, one)) for one in own}
    large = [one for one in own if weights[one] > LARGE]
    pages: list[list[str]] = [[]]
    for one in own:
        if one in large:
            continue
        if sum(weights[name] for name in [*pages[-1], one]) > FULL:
            pages.append([])
        pages[-1].append(one)
    further = enumerate(pages[1:], 2)
    return [
        Part(module, module, pages[0]),
        *(Part(f"{module}.{one}", f"{module}.{one}", [one]) for one in large),
        *(Part(f"{module}-{number}", f"{module}, {names[0]} to {names[-1]}", names) for number, names in further),
    ]


def place(module: str, public: str) -> str:
    """The page of reference/ that tells the name of a module, and its anchor."""
    home = _home(module, public)
    named = next(one for one in exports(home) if _target(home, one).path == _target(module, public).path)
    part = next(one for one in parts(home) if named in one.names)
    return f"{part.name}.md#{home}.{named}"


def navigation() -> Iterator[tuple[str, str | dict[str, str]]]:
    """Title of each module, and its page or pages by their titles, for the site's navigation."""
    for module in MODULES:
        first, *more = parts(module)
        pages = {"Overview": f"reference/{first.name}.md", **{part.title: f"reference/{part.name}.md" for part in more}}
        yield module, pages if more else pages["Overview"]


def of_module(name: str) -> Iterator[tuple[str, str]]:
    first, *more = parts(name)
    opening = [f"# `{name}`\n", f"{documented(interface()[name])}\n"]
    yield f"{first.name}.md", "\n".join([*opening, *_shown(name, first), *_elsewhere(name, first)])
    for part in more:
        title = f"`{part.title}`" if len(part.names) == 1 else part.title
        yield f"{part.name}.md", "\n".join([f"# {title}\n", *_shown(name, part)])


def _shown(module: str, part: Part) -> Iterator[str]:
    for public in part.names:
        yield f"::: {module}.{public}\n"


def _elsewhere(module: str, part: Part) -> Iterator[str]:
    """Rows for the names that another page tells."""
    others = [public for public in exports(module) if public not in part.names]
    if others:
        yield "## Names that other pages tell\n\n| name | |\n|---|---|"
        for public in others:
            where = place(module, public)
            anchor = "" if where.endswith(f"#{module}.{public}") else f'<a id="{module}.{public}"></a>'
            yield f"| {anchor}[`{public}`]({where}) | {summary(documented(_target(module, public)))} |"
        yield ""


def every_name() -> Iterator[str]:
    yield "# Every public name\n"
    yield "Most programs begin with [`create_instance`](tolliver.anyio.md#tolliver.anyio.create_instance) of their "
    yield "adapter. Below is each name, where it is imported from, and its first sentence.\n"
    yield "| name | of | |\n|---|---|---|"
    found = {(public, name) for name in MODULES for public in exports(name)}
    for public, name in sorted(found, key=lambda pair: (pair[0].lower(), pair[1])):
        yield f"| [`{public}`]({place(name, public)}) | `{name}` | {summary(documented(_target(name, public)))} |"


def errors() -> Iterator[str]:
    proto: Any = import_module("tolliver_proto.errors")
    yield "# Classes of errors\n"
    yield "Each below its base. [Errors](../errors.md) says the cause of each, and what to do.\n"
    yield from _family(proto.TolliverError, {*proto.__all__}, 0)


def _family(kind: type, public: set[str], depth: int) -> Iterator[str]:
    name = kind.__name__
    shown = f"[`{name}`]({place('tolliver_proto.errors', name)})" if name in public else f"`{name}`"
    yield f"{'    ' * depth}- {shown}: {summary(inspect.getdoc(kind) or '')}"
    children: list[type] = sorted(kind.__subclasses__(), key=lambda one: one.__name__)
    for below in children:
        if below.__module__.split(".")[0].startswith("tolliver"):
            yield from _family(below, public, depth + 1)


def tables(name: str, first_column: str) -> Iterator[str]:
    """The tables of a page whose first column has this title; their links lead from the reference."""
    text = (ROOT / "docs" / name).read_text("utf-8")
    for table in re.findall(_TABLE.format(first_column), text, re.MULTILINE):
        yield _LINK.sub(lambda link: f"{link[1]}../{link[2]}{link[3] or ''})", table).replace("](#", f"](../{name}#")


def notices() -> Iterator[str]:
    yield "# Notices and counters\n"
    yield "`notices()` and `events()` tell [notices](../messaging.md#notices-and-counters).\n"
    yield "## Notices\n"
    yield from tables("messaging.md", "kind")
    yield "## Counters of streams\n"
    yield from tables("streams.md", "count")
    yield "## Causes of a failed dial\n"
    yield from tables("messaging.md", "cause")


def command_line() -> Iterator[str]:
    os.environ |= {"TYPER_USE_RICH": "0", "COLUMNS": "100", "NO_COLOR": "1"}
    import typer.main
    from tolliver._cli.commands import app

    yield "# Every command and option\n"
    yield "As the program itself says it; [the command line](../cli.md) has examples.\n"
    group: Any = typer.main.get_command(app)
    yield from _command(group, group, [], 1)
    yield "## Options of an instance\n"
    yield "`tolliver options` says, of every option of an instance, its flag, its key in a file and its default.\n"
    yield f"```text\n{_said(group, 'options')}\n```\n"


def _command(group: Any, command: Any, path: list[str], depth: int) -> Iterator[str]:
    if path:
        yield f"{'#' * min(depth, 4)} tolliver {' '.join(path)}\n"
        yield f"```text\n{_said(group, *path, '--help')}\n```\n"
    for name, below in getattr(command, "commands", {}).items():
        yield from _command(group, below, [*path, name], depth + 1)


def _said(group: Any, *typed: str) -> str:
    """The output. `CliRunner.invoke` would make all commands anew each time."""
    from typer.testing import CliRunner

    with CliRunner().isolation() as (output, _, _):
        with suppress(SystemExit):
            group.main([*typed], "tolliver")
        sys.stdout.flush()
        return output.getvalue().decode().strip()
