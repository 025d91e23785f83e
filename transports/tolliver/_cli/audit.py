"""`tolliver audit`: the fate of every message, as text, page or Parquet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .._extras import needed
from .._private import make_directory, must_be_file
from . import words
from .tables import print_table

if TYPE_CHECKING:
    from ..spark.audit._audit import Tables

_COUNTS = ("sent", "acknowledged", "delivered", "duplicates", "resent", "unproven", "pending", "lost")
_TIMES = ("p50", "p95", "p99", "max")


def run_audit(directories: Sequence[Path], html: Path | None, parquet: Path | None, as_json: bool) -> int:
    """Print the deliveries, and write the report and the tables if their paths are given; returns the number of lost
    messages.

    `as_json` prints JSON lines. Raises ModuleNotFoundError if a library is missing, and errors of `local_audit` and of
    the writers.
    """
    needed("audit", "duckdb", "pyarrow", "numpy")
    if html is not None:
        must_be_file(html)
    if parquet is not None:
        make_directory(parquet, 0o777)
    from ..spark.audit._duckdb import local_audit

    with local_audit(directories) as found:
        print_deliveries(found, as_json)
        if html is not None:
            found.write_html(html)
            words.say(f"report: {html}")
        if parquet is not None:
            found.write_parquet(parquet)
            words.say(f"tables: {parquet}")
        return found.lost


def print_deliveries(found: Tables[str], as_json: bool = False) -> None:
    """Print the table of deliveries of an audit, with `as_json` as JSON lines: a line for each sender, receiver and
    channel; "-" (null in JSON) means not recorded.
    """
    from ..spark.audit._collect import first_rows, silent

    table = first_rows(found, "deliveries")
    columns = ["from", "to", "channel", *_COUNTS, *_TIMES]
    if as_json:
        for row in table.rows:
            ends = {"from": row["sender"], "to": row["receiver"], "channel": row["channel"]}
            typer.echo(json.dumps(ends | {name: row[name] for name in (*_COUNTS, *_TIMES)}))
    else:
        print_table(columns, [_line(found, row) for row in table.rows])
    unknown = sum(row["lost"] is None for row in table.rows)
    if unknown:
        who = ", ".join(sorted(words.line(found.names.get(one, one[-8:])) for one in silent(table.rows)))
        words.say(f"{words.count(unknown, 'line')} of {len(table.rows):,} unknown: {who} recorded nothing")
    reused = first_rows(found, "reused")
    if reused.rows:
        who = f"{words.count(len(reused.rows), 'sender')}{' or more' * reused.more}"
        words.say(f"{who} gave ids to more than one message, the report says whose they are")
    if table.more:
        words.say(f"these are the first {len(table.rows):,}; --parquet writes all")


def _line(found: Tables[str], row: dict[str, Any]) -> list[object]:
    ends = [words.line(found.names.get(row[end], row[end][-8:])) for end in ("sender", "receiver")]
    counts = ["-" if row[name] is None else f"{row[name]:,}" for name in _COUNTS]
    times = ["-" if row[name] is None else f"{row[name]:.3g} s" for name in _TIMES]
    return [*ends, words.name(row["channel"]), *counts, *times]
