"""Tables and totals of a delivery audit, on either engine.

Each table is created when it is first asked for, from the tables that it needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from ..._private import write_private
from ._charts import Curves
from ._collect import collect
from ._files import Recording, names_of
from ._report import render
from ._tables import QUERIES, VALUES, Row, in_braces, texts

TABLES = (
    "deliveries", "messages", "connections", "handshakes", "subscriptions", "traffic", "latency", "gaps",
    "reused", "recordings", "facts",
)  # fmt: skip
"""The tables of an audit, by name."""

_FILES = pa.schema(
    [
        ("file", pa.int32()),
        ("path", pa.string()),
        ("local", pa.string()),
        ("name", pa.string()),
        ("bytes", pa.int64()),
        ("ended_in_order", pa.bool_()),
    ]
)
_COUNTS = ("sent", "delivered", "duplicates", "resent", "unrecorded", "unproven", "pending", "lost")
_MICROSECONDS = 1e6
_STEPS = 120  # about the most time steps in `traffic` and `latency`
_ROUND = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)  # seconds
T_co = TypeVar("T_co", covariant=True)


class Engine(Protocol[T_co]):
    """A database that creates the audit's tables by queries: DuckDB or Spark. `named` gives the name of a table in a
    query's text."""

    def facts(self, recordings: Sequence[Recording]) -> None:
        """Create the table `facts` from these recordings, and keep its rows."""

    def given(self, name: str, rows: pa.Table) -> None:
        """Create a small table called `name` of these rows."""

    def made(self, name: str, text: str, *, kept: bool) -> None:
        """Create the table `name` from the query `text`. `kept`: its rows are stored, not computed at each use."""

    def named(self, name: str) -> str: ...

    def table(self, name: str) -> T_co: ...

    def rows(self, text: str) -> list[Row]: ...

    def write_parquet(self, name: str, path: Path) -> None: ...

    def close(self) -> None:
        """Release all tables."""


class Tables(Generic[T_co]):
    """Tables of an audit (docs/audit.md has their columns), and totals."""

    def __init__(self, engine: Engine[T_co], recordings: Sequence[Recording]) -> None:
        self._engine = engine
        self._recordings = recordings
        self._recorded = sorted({one.local for one in recordings if one.local is not None})
        self._made: set[str] = set()

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Names of instances by UUID: the name of the directory that has this instance's recordings and no others."""
        return names_of(self._recordings)

    @property
    def facts(self) -> T_co:
        """Frames: one row for each recorded frame, and for each unreadable place of a recording."""
        return self._table("facts")

    @property
    def recordings(self) -> T_co:
        """Recordings: one row for each file read, with its instance, size, times of first and last frame, and
        damage."""
        return self._table("recordings")

    @property
    def connections(self) -> T_co:
        """Connections: one row for each connection as each of its two instances recorded it, with peer, times and
        counts."""
        return self._table("connections")

    @property
    def handshakes(self) -> T_co:
        """Handshakes: one row for each, as either side recorded it, with versions, outcome and duration."""
        return self._table("handshakes")

    @property
    def subscriptions(self) -> T_co:
        """Subscriptions over time: one row for each entry of a handshake's list, and for each later change."""
        return self._table("subscriptions")

    @property
    def messages(self) -> T_co:
        """Reliable messages: one row for each message and receiver, with its times, copies and fate."""
        return self._table("messages")

    @property
    def deliveries(self) -> T_co:
        """Totals: one row for each sender, receiver and channel, with messages sent, delivered, lost, and latencies."""
        return self._table("deliveries")

    @property
    def traffic(self) -> T_co:
        """Messages over time: one row for each sender, receiver, channel and step of `step` seconds."""
        return self._table("traffic")

    @property
    def latency(self) -> T_co:
        """Percentiles of the seconds from sending to ack: one row for each sender, receiver and step of `step`
        seconds."""
        return self._table("latency")

    @property
    def gaps(self) -> T_co:
        """Missing message ids: one row for each sender and range of ids that is in no recording."""
        return self._table("gaps")

    @property
    def reused(self) -> T_co:
        """Reused message ids: one row for each sender and receiver with ids that stand for more than one message."""
        return self._table("reused")

    @cached_property
    def step(self) -> float:
        """Width of a time step in `traffic` and `latency`, in seconds: a round number."""
        (row,) = self.rows("SELECT unix_micros(max(ended)) - unix_micros(min(began)) AS span FROM {recordings}")
        span = (row["span"] or 0) / _MICROSECONDS
        return float(next((width for width in _ROUND if width * _STEPS >= span), span / _STEPS))

    @property
    def lost(self) -> int:
        """Number of messages that are proved lost."""
        (row,) = self.rows("SELECT CAST(sum(lost) AS BIGINT) AS lost FROM {deliveries}")
        return row["lost"] or 0

    def by_receiver(self) -> dict[str, dict[str, int | None]]:
        """Sums of `deliveries` for each receiver, by its name or UUID. None: not recorded by either side."""
        sums = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in _COUNTS)
        rows = self.rows(f"SELECT receiver, {sums} FROM {{deliveries}} GROUP BY receiver")
        named = {self.names.get(row["receiver"], row["receiver"]): row for row in rows}
        return {name: {count: row[count] for count in _COUNTS} for name, row in sorted(named.items())}

    def rows(self, text: str) -> list[Row]:
        """All rows of a query, in whose text the names of tables are in braces."""
        return self._engine.rows(self._filled(text))

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write each table as a Parquet directory below `path`. Raises ValueError if one exists already."""
        taken = [name for name in TABLES if (Path(path) / name).exists()]
        if taken:
            raise ValueError(f"{path} has {', '.join(taken)} already: give a directory that is new, or empty that one")
        for name in TABLES:
            self._make(name)
            self._engine.write_parquet(name, Path(path) / name)

    def write_html(
        self,
        path: str | os.PathLike[str],
        curves: Iterable[Curves] = (),
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """Write the report: one self-contained file, mode 0600. Raises OSError if it cannot be written.

        `curves` are your own charts, on the same time axis. `progress(done, total)` is called after each step; the
        first steps take longest.
        """
        write_private(path, render(collect(self, progress), curves).encode())

    def close(self) -> None:
        """Release all tables."""
        self._engine.close()
        self._made.clear()

    def _table(self, name: str) -> T_co:
        self._make(name)
        return self._engine.table(name)

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        if name == "facts":
            self._engine.facts(self._recordings)
        elif name == "files":
            self._engine.given(name, self._files())
        else:
            query = QUERIES[name]
            self._engine.made(name, self._filled(query.text), kept=query.kept)
        self._made.add(name)

    def _filled(self, text: str) -> str:
        """A query's text with the values in braces filled in. The tables that it names are created first."""
        names = in_braces(text)
        own = {"recorded": lambda: texts(self._recorded), "step": lambda: str(round(self.step * _MICROSECONDS))}
        values = VALUES | {name: own[name]() for name in names & own.keys()}
        tables = sorted(names - values.keys())
        for name in tables:
            self._make(name)
        return text.format(**values, **{name: self._engine.named(name) for name in tables})

    def _files(self) -> pa.Table:
        rows = [
            (one.file, one.path, one.local, self.names.get(one.local or ""), one.size, one.ended)
            for one in self._recordings
        ]
        return pa.Table.from_pylist([dict(zip(_FILES.names, row, strict=True)) for row in rows], _FILES)
