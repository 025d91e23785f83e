"""Contents of the report, fetched from Spark: bounded, however much was recorded."""

from __future__ import annotations

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


def collect(audit: Audit) -> Findings:
    """All that the report shows."""
    return Findings(
        dict(audit.names),
        audit.step,
        deliveries(audit),
        _first(audit.connections.orderBy("local", "first_place")),
        _first(audit.handshakes.orderBy("requested")),
        _first(audit.subscriptions.orderBy("time")),
        _first(audit.gaps.orderBy("sender", "after")),
        _first(audit.recordings.orderBy("file")),
        _first(audit.traffic.orderBy("begin"), _POINTS).rows,
        _first(audit.latency.orderBy("begin"), _POINTS).rows,
    )


def deliveries(audit: Audit) -> Table:
    """Lost messages first, and then by name: the rows that are cut off are those of least interest."""
    table = audit.deliveries
    return _first(table.orderBy(table["lost"].desc_nulls_last(), "sender", "receiver", "channel"))


def _first(table: DataFrame, most: int = ROWS) -> Table:
    rows = [row.asDict(recursive=True) for row in table.limit(most + 1).collect()]
    return Table(rows[:most], len(rows) > most)
