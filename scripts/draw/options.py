"""Drawing of the tables of options, from what their classes declare."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.pages import CITED, ROOT, bracketed, with_parts
from tolliver_proto import Limits, Policy

RUN = ROOT / "docs" / "run.md"
NODE = ROOT / "docs" / "node.md"
_RULINGS = re.compile(rf" \({CITED.pattern}(?:, {CITED.pattern})*\)")


def _table(first: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f"| {first} | takes | default | | for those who say |"
    yield "|---|---|---|---|---|"
    for one in rows:
        kind = one["takes"].replace("|", "\\|") or "true, false"
        whole = "a table, " if "=" in kind or "HABIT" in kind else "a list, " if one.get("repeatable") else ""
        default = f"`{one['default']}`" if one["default"] else ""
        yield f"| `{one['key']}` | {whole}{kind} | {default} | {bracketed(one['help'])} | {one['sentence']} |"


def _fields(kind: type[Policy | Limits]) -> Iterator[Mapping[str, Any]]:
    """Fields of a class. Their rulings stand in the code alone: the page cites none."""
    for one in dataclasses.fields(kind):
        shown = "" if one.default is dataclasses.MISSING else _shown(one.default, one.metadata["takes"])
        yield one.metadata | {"key": one.name, "default": shown, "help": _RULINGS.sub("", one.metadata["help"])}


def _shown(value: Any, takes: str) -> str:
    sizes = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10} if takes == "BYTES" else {}
    return next((f"{value // size} {unit}" for unit, size in sizes.items() if value % size == 0), str(value))


def files() -> Iterator[tuple[Path, str]]:
    command = [sys.executable, "-m", "tolliver.cli", "config", "keys", "--json"]
    keys = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    yield RUN, with_parts(RUN, {"keys": _table("key", map(json.loads, keys.splitlines()))})
    yield NODE, with_parts(NODE, {kind.__name__.lower(): _table("field", _fields(kind)) for kind in (Policy, Limits)})
