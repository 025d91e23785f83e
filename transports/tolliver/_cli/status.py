"""`tolliver status`: the status of running instances, once."""

from __future__ import annotations

import json
from collections.abc import Sequence

import typer
from rich.text import Text

from . import words
from .endpoints import Endpoint, Look, look_at_all
from .tables import print_table
from .trail import Row, Trail
from .views import CHANNELS, INSTANCES, NOTICES, PEERS, QUEUES, REMOTES, View, cell, of_all

_ROWS = 200  # most rows of a table
_NOTICES = 10


def status_and_print(endpoints: Sequence[Endpoint], seconds: float, as_json: bool) -> int:
    """Print the status of each endpoint, with `as_json` as JSON lines, read within `seconds`; returns the exit status:
    0 if all are ready, 1 if one is not, 2 if one does not respond.
    """
    looks = look_at_all(endpoints, seconds)
    if as_json:
        for one in looks:
            typer.echo(json.dumps(facts(one)))
    else:
        _print(looks)
    for one in looks:
        if one.status is None:
            words.say(f"{one.endpoint}: {one.error}", words.Level.ERROR)
    return max(2 if one.status is None else 0 if one.status.flag("ready") else 1 for one in looks)


def facts(look: Look) -> dict[str, object]:
    """The status as received, with its endpoint; or the error."""
    head: dict[str, object] = {"endpoint": str(look.endpoint), "error": look.error or None}
    return head if look.status is None else look.status.data | head


def _print(looks: Sequence[Look]) -> None:
    trails = [Trail(one.endpoint) for one in looks]
    for trail, one in zip(trails, looks, strict=True):
        trail.add(one)
    _print_view(INSTANCES, [trail.row for trail in trails], False)
    for trail in trails:
        for reason in trail.status.texts("not_ready") if trail.status is not None else ():
            typer.echo(f"{trail.name} is not ready: {reason}")
        for warning in trail.status.texts("warnings") if trail.status is not None else ():
            typer.echo(f"{trail.name} is to be looked at: {warning}")
    several = len(trails) > 1
    for view in (PEERS, REMOTES, CHANNELS, QUEUES):
        rows = of_all(view, trails)
        if view is PEERS:
            rows.sort(key=lambda row: (_oldest(row), row.part.number("pending") or 0), reverse=True)
        _print_section(view, rows, several, _ROWS)
    notices = sorted(of_all(NOTICES, trails), key=lambda row: row.part.number("time") or 0, reverse=True)
    _print_section(NOTICES, notices, several, _NOTICES)


def _oldest(row: Row) -> float:
    return row.part.number("oldest_unacknowledged") or 0


def _print_section(view: View, rows: Sequence[Row], several: bool, most: int) -> None:
    if rows:
        more = f", the first {most} of {len(rows):,}" if len(rows) > most else ""
        typer.echo(f"\n{view.title}{more}")
        _print_view(view, rows[:most], several)


def _print_view(view: View, rows: Sequence[Row], several: bool) -> None:
    columns = [column for column in view.columns if not column.live]
    heads = [*(["instance"] if several else []), *(column.label for column in columns)]
    print_table(
        heads,
        [[*([row.trail.name] if several else []), *(Text(*cell(column, row)) for column in columns)] for row in rows],
    )
