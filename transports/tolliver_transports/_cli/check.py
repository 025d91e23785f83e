"""Check of a database: what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from .._store.inspection import inspect
from . import words


def print_check(database: Path, as_json: bool) -> bool:
    """A line for each finding; whether there is none. Raises StoreError where it cannot be checked."""
    found = inspect(database)
    for finding in found.findings:
        typer.echo(json.dumps({"finding": finding}) if as_json else words.line(finding))
    if found.old:
        words.say(f"{database} has layout {found.layout}: the next opening brings it up, and was tried with a copy")
    if not found.findings and not as_json:
        typer.echo("nothing is wrong")
    return not found.findings
