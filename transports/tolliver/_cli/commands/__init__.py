"""Commands and their options.

A command converts its arguments to values, calls one function and turns the result into an exit status. The function is
imported when the command runs, so that `tolliver --help` is quick.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import words
from ..helping import App
from . import databases, exchanging, preparing, recorded, running

_PARTS = [part.app for part in (preparing, exchanging, recorded, running, databases)]
app = App(name="tolliver", help="Brokerless messaging over mutual TLS: reliable messages between processes.")
for _part in _PARTS:
    app.add_typer(_part)


def narrow(words: Sequence[str]) -> None:
    """Leave the command that a command line begins with, if it does: to make all of them takes longer than to run
    one."""
    found = [part.named(words[0]) for part in _PARTS if words]
    if any(commands or groups for commands, groups in found):
        for part, (commands, groups) in zip(_PARTS, found, strict=True):
            part.registered_commands, part.registered_groups = commands, groups


def _version(wanted: bool) -> None:
    if wanted:
        from ..versions import lines

        for line in lines():
            typer.echo(line)
        raise typer.Exit


_SERVICES = ("run",)
"""Commands that handle SIGHUP, which is blocked until they do."""


@app.callback()
def main(
    ctx: typer.Context,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version and its layouts."),
    ] = False,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Standard error in JSON lines, one for each record of the log.")
    ] = False,
    log_level: Annotated[
        words.Level, typer.Option(metavar="debug|info|warning|error", help="The least that is logged there.")
    ] = words.Level.WARNING,
) -> None:
    """Brokerless messaging over mutual TLS: reliable messages between processes."""
    if ctx.invoked_subcommand not in _SERVICES and hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    words.write_stderr(log_json, log_level)
    # Names and bodies may have characters that the terminal's encoding lacks.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # TextIOWrappers, both
