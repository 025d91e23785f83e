"""Delivery audit in Spark.

For recordings that one machine cannot read, or tables that a job processes further.
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

_WORTH_A_TASK = 2**23  # bytes: reading less takes no longer than starting a process
_TASKS = 64  # least number of ranges, if files are large enough to be split


def audit(spark: SparkSession, directories: Iterable[str | os.PathLike[str]]) -> Audit:
    """Audit of the recordings in these directories and their subdirectories, or in these files.

    Every worker must see the files under the same paths. Nothing is read before a table is asked for; Spark then keeps
    the facts and messages until `close`. Raises ValueError if a directory has no recordings, OSError if one cannot be
    read.
    """
    return Audit(_Spark(spark), recordings_in(directories))


class Audit(Tables[DataFrame]):
    """Tables of an audit (docs/audit.md has their columns), each a DataFrame created when it is first asked for."""

    def close(self) -> None:
        """Release the data that Spark keeps. Tables can still be asked for, and are then created again."""
        super().close()

    def __enter__(self) -> Audit:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Spark:
    """Each table is a temporary view with its name. Dropping a view makes Spark forget its cached rows."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._prefix = f"tolliver_audit_{uuid4().hex}_"
        self._tables: dict[str, DataFrame] = {}

    def facts(self, recordings: Sequence[Recording]) -> None:
        from ._facts import DDL, read_ranges

        # From Arrow: from Python rows, Spark would start Python workers.
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
