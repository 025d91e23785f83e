"""Rows that the audit's report shows, limited in number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from ._tables import Row

ROWS = 500
"""Most rows of a table."""

_POINTS = 20_000  # most rows of a chart's data


class Audited(Protocol):
    """The part of an audit's tables that the report reads."""

    @property
    def names(self) -> Mapping[str, str]: ...

    @property
    def step(self) -> float: ...

    def rows(self, text: str) -> list[Row]: ...


class Table(NamedTuple):
    """The first rows of a table, and True if there are more."""

    rows: list[Row]
    more: bool


class Findings(NamedTuple):
    """Tables of an audit as plain values. `step` is in seconds; `names` are instances' names by UUID."""

    names: dict[str, str]
    step: float
    deliveries: Table
    connections: Table
    handshakes: Table
    subscriptions: Table
    gaps: Table
    reused: Table
    recordings: Table
    traffic: list[Row]
    latency: list[Row]


_ORDERS = {
    "connections": "local, first_place",
    "deliveries": "lost DESC NULLS LAST, sender, receiver, channel",
    "handshakes": "requested, local, cid",
    "subscriptions": "time, subscriber, publisher, channel, key",
    "gaps": "sender, after",
    "reused": "messages DESC, sender, receiver",
    "recordings": "file",
    "traffic": "begin, sender, receiver, channel",
    "latency": "begin, sender, receiver",
}
"""Of deliveries the lost ones come first, and then by name: the rows that are cut off are of least interest."""


def collect(audit: Audited, progress: Callable[[int, int], object] | None = None) -> Findings:
    """Everything that the report shows. `progress(done, total)` is called after each table."""
    told = progress or (lambda _done, _total: None)
    found = dict[str, Table]()
    for done, name in enumerate(_ORDERS):
        told(done, len(_ORDERS))
        found[name] = first_rows(audit, name, _POINTS if name in ("traffic", "latency") else ROWS)
    told(len(_ORDERS), len(_ORDERS))
    return Findings(
        names=dict(audit.names),
        step=audit.step,
        deliveries=found["deliveries"],
        connections=found["connections"],
        handshakes=found["handshakes"],
        subscriptions=found["subscriptions"],
        gaps=found["gaps"],
        reused=found["reused"],
        recordings=found["recordings"],
        traffic=found["traffic"].rows,
        latency=found["latency"].rows,
    )


def first_rows(audit: Audited, name: str, most: int = ROWS) -> Table:
    """The first rows of the table called `name`, at most `most`."""
    rows = audit.rows(f"SELECT * FROM {{{name}}} ORDER BY {_ORDERS[name]} LIMIT {most + 1}")
    return Table(rows[:most], len(rows) > most)


def silent(rows: Iterable[Row]) -> set[str]:
    """UUIDs in deliveries of instances that have made no recordings."""
    found = set()
    for row in rows:
        found |= {row["sender"]} if row["sent"] is None else set()
        found |= {row["receiver"]} if row["delivered"] is None else set()
    return found
