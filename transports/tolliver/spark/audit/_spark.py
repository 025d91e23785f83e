"""Delivery audit in Spark.

The recordings may be more than one machine can read, and the tables go on into a job.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ._audit import Tables
from ._files import Recording, ranges_of, recordings_in
from ._tables import Row

_WORTH_A_TASK = 2**23  # bytes: reading less takes no longer than another process takes to start
_TASKS = 64  # at least so many ranges of files, where they are large enough to be split


def audit(spark: SparkSession, directories: Iterable[str | os.PathLike[str]]) -> Audit:
    """The audit of the recordings in these directories (and below them, or in these files).

    Every worker must see the files under the same paths. Nothing is read before a table is asked for; the facts and the
    messages are then kept by Spark until `close`. Raises ValueError where a directory has no recordings, OSError where
    one cannot be read.
    """
    return Audit(_Spark(spark), recordings_in(directories))


class Audit(Tables[DataFrame]):
    """The tables (docs/audit.md has their columns), each a DataFrame that is made when it is asked for."""

    def close(self) -> None:
        """Let Spark forget what it has kept. The tables can still be asked for, and are then made anew."""
        super().close()

    def __enter__(self) -> Audit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Spark:
    """Each table is a temporary view of its own name. Spark forgets the rows that it keeps of one that is dropped."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._prefix = f"tolliver_audit_{uuid4().hex}_"
        self._tables: dict[str, DataFrame] = {}

    def facts(self, recordings: Sequence[Recording]) -> None:
        from ._facts import DDL, read_ranges

        # From Arrow, as rows of Python would need processes of Python to become rows of Spark.
        given = self._spark.createDataFrame(ranges_of(recordings, _TASKS))
        given = given.coalesce(1 + sum(one.size for one in recordings) // _WORTH_A_TASK)
        self._name("facts", given.mapInArrow(read_ranges, DDL).persist())

    def given(self, name: str, rows: pa.Table) -> None:
        self._name(name, self._spark.createDataFrame(rows))

    def made(self, name: str, text: str, *, kept: bool) -> None:
        made = self._spark.sql(text)
        self._name(name, made.persist() if kept else made)

    def named(self, name: str) -> str:
        return self._prefix + name

    def table(self, name: str) -> DataFrame:
        return self._tables[name]

    def rows(self, text: str) -> list[Row]:
        return [row.asDict(recursive=True) for row in self._spark.sql(text).collect()]

    def write_parquet(self, name: str, path: Path) -> None:
        self._tables[name].write.parquet(os.fspath(path))

    def close(self) -> None:
        for name in self._tables:
            self._spark.catalog.dropTempView(self.named(name))
        self._tables.clear()

    def _name(self, name: str, table: DataFrame) -> None:
        table.createOrReplaceTempView(self.named(name))
        self._tables[name] = table
