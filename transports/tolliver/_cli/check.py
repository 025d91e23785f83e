"""Check of a database: what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from .._store.inspection import inspect
from . import words


def print_check(database: Path, as_json: bool) -> bool:
    """A line for each finding; whether there is none. Raises StoreError where it cannot be checked."""
    findings = inspect(database)
    for finding in findings:
        typer.echo(json.dumps({"finding": finding}) if as_json else words.line(finding))
    if not findings and not as_json:
        typer.echo("nothing is wrong")
    return not findings
