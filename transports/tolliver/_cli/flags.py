"""Flags of commands that have an instance.

They are made from the table of options.

Values are text here, and `Place` parses them when it creates the options, so that all errors are reported the same way.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from .._options.table import TABLE, flag_of
from .helping import INSTANCE


def flags(keys: Iterable[str]) -> Callable[..., dict[str, Any]]:
    """Makes a group of command-line options (see `groups`) for these keys; its value are the options that were given,
    as text by key."""

    def given(**values: Any) -> dict[str, Any]:
        return {name.replace("__", "."): one for name, one in values.items() if one not in (None, False, [], ())}

    given.__signature__ = inspect.Signature([_parameter(key) for key in keys])  # type: ignore[attr-defined]
    return given


def _parameter(key: str) -> inspect.Parameter:
    entry, flag, default = TABLE[key], flag_of(key), None if TABLE[key].takes else False
    kind = bool if default is False else list[str] | None if entry.many else str | None
    metavar = entry.takes or None
    complete = _completing(entry.choices) if entry.choices else None
    option = typer.Option(
        flag, metavar=metavar, help=f"{entry.help}.", rich_help_panel=INSTANCE, autocompletion=complete
    )
    return inspect.Parameter(
        key.replace(".", "__"), inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _completing(words: list[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete
