"""Help of commands: plain text, with examples and exit statuses.

Wrapped to the width of a terminal; in a pipe each option and each paragraph is one line.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_name
from typer.models import CommandInfo, TyperInfo

from . import words

INSTANCE = "Instance"
"""Panel of the options that `tolliver options` lists."""
HEADINGS = {
    "Everyday": ("init", "listen", "send", "publish", "stream", "run", "options"),
    "Look": ("doctor", "status", "top", "peers", "check", "bench", "conform"),
    "Operate": ("outbox", "letters", "backup", "stage", "config", "bundle", "completion"),
    "Your own database": ("outbox-table", "inbox-table"),
    "Certificates": ("certs", "revoke", "pin"),
    "Recordings": ("decode", "replay", "recordings", "audit", "wireshark"),
}
"""Headings of `tolliver --help`, and the commands under them."""
_CONTEXT = {"help_option_names": ["--help", "-h"]}
_SEE = (
    "every other option of the instance, such as --dedupe N or --limits.max-body BYTES: `tolliver options` lists them"
)
_UNWRAPPED = 2**20  # width for a pipe
_MIDDLE = 26  # widest option in columns; after a wider one the help is on the next line
_STATUSES = {0: "done", 1: "it failed: one line on standard error says why", 2: "the command line cannot be meant"}


def _left(option: Any) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.metavar or (option.name or '').upper()}"


def _right(option: Any) -> str:
    default = option.default
    default = default.value if isinstance(default, Enum) else default
    telling = option.show_default and not callable(default) and default not in (None, False, (), [])
    known = f" (default: {'yes' if default is True else default})" if telling and "default:" not in option.help else ""
    said = (option.help or "").rstrip(".")
    return f"{said}{known}{' (required)' if option.required else ''}"


def _write_help(command: Any, ctx: Any, to: Any) -> None:
    command.format_usage(ctx, to)
    _write_text(to, command.help or "")
    shown = [one for one in command.get_params(ctx) if not getattr(one, "hidden", False)]
    arguments = [one for one in shown if one.param_type_name == "argument" and one.help]
    options = [one for one in shown if one.param_type_name == "option"]
    usual = [one for one in options if getattr(one, "rich_help_panel", None) != INSTANCE]
    _write_section(to, "Arguments", [(one.metavar or (one.name or "").upper(), _right(one)) for one in arguments])
    if isinstance(command, TyperGroup):
        for heading, names in (HEADINGS if ctx.parent is None else {"Commands": command.commands}).items():
            _write_section(to, heading, [(name, _first(command.commands[name].help or "")) for name in names])
    _write_section(to, "Options", [(_left(one), _right(one)) for one in usual])
    if len(usual) < len(options):
        with to.indentation():
            _write_text(to, _SEE)
    if command.epilog:
        to.write(f"\n{command.epilog}\n")


def _write_text(to: Any, text: str) -> None:
    to.write_paragraph()
    to.write_text(text)


def _write_section(to: Any, title: str, rows: Sequence[tuple[str, str]]) -> None:
    if rows:
        with to.section(title):
            to.write_dl(rows, col_max=_MIDDLE if to.width < _UNWRAPPED else _UNWRAPPED)


def _first(text: str) -> str:
    """Returns the first sentence of a help text."""
    return " ".join(text.split()).partition(". ")[0].rstrip(".")


class _Plain:
    """A command or a group with plain text help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.width = min(shutil.get_terminal_size().columns, 120) if sys.stdout.isatty() else _UNWRAPPED
        _write_help(self, ctx, formatter)


class Command(_Plain, TyperCommand):
    """A command with plain text help."""


class Group(_Plain, TyperGroup):
    """A group with plain text help."""


class Leading(Group):
    """A group whose first command is the default: it was formerly a command itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [next(iter(self.commands)), *args])


class App(typer.Typer):
    """Typer application whose commands have examples in their help, and exit statuses besides the usual ones."""

    def __init__(self, *, cls: type[TyperGroup] = Group, **more: Any) -> None:
        super().__init__(
            cls=cls,
            context_settings=_CONTEXT,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            **more,
        )

    def named(self, name: str) -> tuple[list[CommandInfo], list[TyperInfo]]:
        """The declared commands and groups of this name: one of either, or none."""
        return (
            [one for one in self.registered_commands if name == (one.name or get_command_name(one.callback.__name__))],  # type: ignore[union-attr]
            [one for one in self.registered_groups if name == one.name],
        )

    def command(  # type: ignore[override]  # the others of Typer's are not wanted here
        self,
        name: str | None = None,
        *,
        examples: Iterable[str] = (),
        statuses: dict[int, str] | None = None,
        fails: int | None = 1,
    ) -> Callable[[Any], Any]:
        """Declare a command. An error that a correct program may meet becomes a line, and the exit status `fails`; with
        None the entry point handles it."""
        declare = super().command(name, cls=Command, epilog=epilog(examples, statuses or {}))
        return declare if fails is None else lambda function: declare(words.clear_errors(fails)(function))


def epilog(examples: Iterable[str], statuses: dict[int, str]) -> str:
    """The end of a help text."""
    known = sorted((_STATUSES | statuses).items())
    lines = [f"  {number:<3}  {said}" for number, said in known]
    shown = [f"  tolliver {example}" for example in examples]
    return "\n".join([*(("Examples:", *shown, "") if shown else ()), "Exit status:", *lines])
