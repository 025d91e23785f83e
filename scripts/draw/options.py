"""Reference of keys, policy and limits, from what their classes declare."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tolliver._cli.config import KEYS
from tolliver._options.reading import show_default

from tolliver_proto import Limits, Policy

TEXT = """\
# Options

Each option that an operator may set is a key of a file of [`tolliver run`](../run.md) and a flag of the command line:
`tls.cert` is `--tls.cert`. `tolliver config example` prints the same as a file.

## Keys

{keys}

## Policy

Decisions of an instance, `Policy(...)`. A field without a sentence is for programs that embed the machine: it is no
flag and no key.

{policy}

## Limits

Bounds, `Limits(...)`; sizes in bytes, times in seconds.

{limits}
"""


def _table(first: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield f"| {first} | takes | default | | for those who say |"
    yield "|---|---|---|---|---|"
    for one in rows:
        kind = one["takes"].replace("|", "\\|") or "true, false"
        whole = "a table, " if "=" in kind or "HABIT" in kind else "a list, " if one.get("repeatable") else ""
        default = f"`{one['default']}`" if one["default"] else ""
        yield f"| `{one['key']}` | {whole}{kind} | {default} | {one['help']} | {one['sentence']} |"


def _fields(kind: type[Policy | Limits]) -> Iterator[Mapping[str, Any]]:
    """Fields of a class."""
    for one in dataclasses.fields(kind):
        shown = "" if one.default is dataclasses.MISSING else _shown(one.default, one.metadata["takes"])
        yield one.metadata | {"key": one.name, "default": shown}


def _shown(value: Any, takes: str) -> str:
    sizes = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10} if takes == "BYTES" else {}
    return next((f"{value // size} {unit}" for unit, size in sizes.items() if value % size == 0), str(value))


def page() -> str:
    """The page of the reference."""
    keys = (
        {"key": key, "takes": one.takes, "default": show_default(one), "help": one.help, "sentence": one.sentence}
        | {"repeatable": one.many}
        for key, one in KEYS.items()
    )
    tables = {
        "keys": _table("key", keys),
        "policy": _table("field", _fields(Policy)),
        "limits": _table("field", _fields(Limits)),
    }
    return TEXT.format(**{name: "\n".join(rows) for name, rows in tables.items()})
