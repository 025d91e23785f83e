"""Delivery audit: the fate of every message, told from recordings.

Two instances that recorded the same connection are two witnesses. Spark reads what both wrote, frame by frame, and
joins it, so the answer needs neither the instances nor their databases, and no faith in either.

    from tolliver_transports.spark.audit import audit

    found = audit(spark, ["recordings/alice", "recordings/bob"])
    found.deliveries.show()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..._private import write_private
from . import _tables
from ._charts import Curves
from ._files import Recording, items_of, names_of, ranges_of, recordings_in

__all__ = ["TABLES", "Audit", "Curves", "audit"]

TABLES = (
    "deliveries", "messages", "connections", "handshakes", "subscriptions", "traffic", "latency", "gaps",
    "recordings", "facts",
)  # fmt: skip
"""The tables of an `Audit`, by name."""

_WORTH_A_TASK = 2**23  # bytes: reading less takes no longer than another process takes to start
_TASKS = 64  # at least so many ranges of files, where they are large enough to be split
_FILES = pa.schema(
    [
        ("file", pa.int32()),
        ("path", pa.string()),
        ("local", pa.string()),
        ("name", pa.string()),
        ("size", pa.int64()),
        ("ended", pa.bool_()),
    ]
)
_STEPS = 120  # of time in `traffic` and `latency`, at most about so many
_ROUND = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)  # seconds


def audit(spark: SparkSession, directories: Iterable[str | os.PathLike[str]]) -> Audit:
    """The audit of the recordings in these directories (and below them, or in these files).

    Every worker must see the files under the same paths. Nothing is read before a table is asked for; the facts and the
    messages are then kept by Spark until `close`. Raises ValueError where a directory has no recordings, OSError where
    one cannot be read.
    """
    return Audit(spark, recordings_in(directories))


class Audit:
    """The tables (docs/audit.md has their columns), each a DataFrame that is made when it is asked for."""

    def __init__(self, spark: SparkSession, recordings: list[Recording]) -> None:
        self._spark = spark
        self._recordings = recordings
        self._recorded = sorted({one.local for one in recordings if one.local is not None})
        self._kept: list[DataFrame] = []

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Names of instances, by UUID: that of the directory that holds one's recordings and no other's."""
        return names_of(self._recordings)

    @cached_property
    def facts(self) -> DataFrame:
        """One row for each frame, and for each place that could not be read."""
        from ._facts import DDL

        # From Arrow, as rows of Python would need processes of Python to become rows of Spark.
        given = self._spark.createDataFrame(ranges_of(self._recordings, _TASKS))
        given = given.coalesce(1 + sum(one.size for one in self._recordings) // _WORTH_A_TASK)
        return self._keep(given.mapInArrow(_read, DDL))

    @cached_property
    def recordings(self) -> DataFrame:
        """One row for each file."""
        return self._keep(_tables.recordings(self.facts, self._files))

    @cached_property
    def connections(self) -> DataFrame:
        """One row for each connection of each instance."""
        ended = self._files.select("file", "ended_in_order")
        return self._keep(_tables.with_wholeness(_tables.connections(self._placed, ended), self.recordings))

    @cached_property
    def handshakes(self) -> DataFrame:
        """One row for each handshake, as either end recorded it."""
        return _tables.handshakes(self.connections)

    @cached_property
    def subscriptions(self) -> DataFrame:
        """One row for each subscription in a handshake, and for each change."""
        return _tables.subscriptions(self._placed, self.connections, self._recorded)

    @cached_property
    def messages(self) -> DataFrame:
        """One row for each reliable message and receiver, and its fate."""
        passed = self._keep(_tables.passed(self._events))
        return self._keep(_tables.fates(passed, self.connections, self._recorded))

    @cached_property
    def deliveries(self) -> DataFrame:
        """One row for each sender, receiver and channel."""
        return self._keep(_tables.deliveries(self.messages, self._events, self._recorded))

    @cached_property
    def traffic(self) -> DataFrame:
        """Messages over time."""
        return _tables.traffic(self.messages, self.step)

    @cached_property
    def latency(self) -> DataFrame:
        """Sent-to-acked percentiles over time."""
        return _tables.latency(self.messages, self.step)

    @cached_property
    def gaps(self) -> DataFrame:
        """One row for each run of ids that no recording has."""
        return _tables.gaps(self._events, _tables.openings(self._placed))

    @cached_property
    def step(self) -> float:
        """The width of a step of time in `traffic` and `latency`, in seconds: a round number."""
        row = self.recordings.agg(F.unix_micros(F.min("began")), F.unix_micros(F.max("ended"))).first()
        span = (row[1] - row[0]) / 1e6 if row is not None and row[0] is not None else 0.0
        return float(next((width for width in _ROUND if width * _STEPS >= span), span / _STEPS))

    @property
    def lost(self) -> int:
        """The number of messages that are proven to be lost."""
        row = self.deliveries.agg(F.sum("lost")).first()
        return int(row[0] or 0) if row is not None else 0

    def by_receiver(self) -> dict[str, dict[str, int | None]]:
        """The counts of `deliveries` added up for each receiver, by its name or UUID. None: nobody recorded that."""
        counts = ("sent", "delivered", "duplicates", "resent", "unrecorded", "unproven", "pending", "lost")
        sums = self.deliveries.groupBy("receiver").agg(*(F.sum(name).alias(name) for name in counts))
        rows = {self.names.get(row.receiver, row.receiver): row for row in sums.collect()}
        return {name: {count: row[count] for count in counts} for name, row in sorted(rows.items())}

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Each table as a directory of Parquet below `path`. Raises ValueError where there is one already."""
        taken = [name for name in TABLES if (Path(path) / name).exists()]
        if taken:
            raise ValueError(f"{path} has {', '.join(taken)} already: give a directory that is new, or empty that one")
        for name in TABLES:
            getattr(self, name).write.parquet(os.fspath(Path(path) / name))

    def write_html(
        self,
        path: str | os.PathLike[str],
        curves: Iterable[Curves] = (),
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        """The report: one file, of mode 0600, which needs nothing else. Raises OSError where it cannot be written.

        `curves` are charts of your own beside it, on the same axis of time. `progress(done, total)` is called after
        each step, of which the first ones take longest.
        """
        from ._collect import collect
        from ._report import render

        write_private(path, render(collect(self, progress), curves).encode())

    def close(self) -> None:
        """Let Spark forget what it has kept. The tables can still be asked for, and are then made anew."""
        for table in self._kept:
            table.unpersist()
        self._kept.clear()

    def __enter__(self) -> Audit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _files(self) -> DataFrame:
        rows = [one._asdict() | {"name": self.names.get(one.local or "")} for one in self._recordings]
        made = self._spark.createDataFrame(pa.Table.from_pylist(rows, _FILES))
        return made.withColumnsRenamed({"size": "bytes", "ended": "ended_in_order"})

    @cached_property
    def _placed(self) -> DataFrame:
        return _tables.placed(self.facts)

    @cached_property
    def _events(self) -> DataFrame:
        return _tables.events(self._placed)

    def _keep(self, table: DataFrame) -> DataFrame:
        self._kept.append(table)
        return table.persist()


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: the facts of these pieces."""
    from ._facts import facts_of

    for batch in batches:
        for row in batch.to_pylist():
            yield from facts_of(items_of(row), row["number"])
