"""The report's rows, fetched from Spark: bounded, however much was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from . import Audit

ROWS = 500
"""Of a table, at most."""

_POINTS = 20_000  # of a chart's data
Row = dict[str, Any]


class Table(NamedTuple):
    """The first rows, and whether there are more."""

    rows: list[Row]
    more: bool


class Findings(NamedTuple):
    """An audit's tables as plain values. `step` is in seconds; `names` are instances' by UUID."""

    names: dict[str, str]
    step: float
    deliveries: Table
    connections: Table
    handshakes: Table
    subscriptions: Table
    gaps: Table
    recordings: Table
    traffic: list[Row]
    latency: list[Row]


def collect(audit: Audit, progress: Callable[[int, int], object] | None = None) -> Findings:
    """All that the report shows."""
    told = progress or (lambda _done, _total: None)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("step", lambda: audit.step),
        ("connections", lambda: _first(audit.connections.orderBy("local", "first_place"))),
        ("deliveries", lambda: deliveries(audit)),
        ("handshakes", lambda: _first(audit.handshakes.orderBy("requested"))),
        ("subscriptions", lambda: _first(audit.subscriptions.orderBy("time"))),
        ("gaps", lambda: _first(audit.gaps.orderBy("sender", "after"))),
        ("recordings", lambda: _first(audit.recordings.orderBy("file"))),
        ("traffic", lambda: _first(audit.traffic.orderBy("begin"), _POINTS).rows),
        ("latency", lambda: _first(audit.latency.orderBy("begin"), _POINTS).rows),
    ]
    found = {}
    for done, (name, step) in enumerate(steps):
        told(done, len(steps))
        found[name] = step()
    told(len(steps), len(steps))
    return Findings(names=dict(audit.names), **found)


def deliveries(audit: Audit) -> Table:
    """The lost ones first, and then by name: the rows that are cut off are of least interest."""
    table = audit.deliveries
    return _first(table.orderBy(table["lost"].desc_nulls_last(), "sender", "receiver", "channel"))


def silent(rows: Iterable[Row]) -> set[str]:
    """Those of the ends of deliveries who recorded nothing."""
    found = set()
    for row in rows:
        found |= {row["sender"]} if row["sent"] is None else set()
        found |= {row["receiver"]} if row["delivered"] is None else set()
    return found


def _first(table: DataFrame, most: int = ROWS) -> Table:
    rows = [row.asDict(recursive=True) for row in table.limit(most + 1).collect()]
    return Table(rows[:most], len(rows) > most)
