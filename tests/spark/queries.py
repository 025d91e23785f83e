"""A streaming query without a Spark: batch after batch, from a checkpoint."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from tolliver.spark.source import TolliverSource

EVERYTHING = ReadAllAvailable()


def reader_of(path: Path | str | None, columns: str = "body", metadata: Any = None, **options: Any) -> Any:
    """As Spark makes it. Without a path for a live stream. `metadata` is that of each column."""
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    given |= {} if path is None else {"path": str(path)}
    schema = StructType()
    for name in columns.split():
        schema.add(name, {"body": "binary", "message_id": "long"}.get(name, "string"), True, metadata)
    return TolliverSource(CaseInsensitiveDict(given)).streamReader(schema)


class Query:
    """Spark's use of a reader: batch after batch, each planned, written down, and run by workers."""

    def __init__(self, path: Path | str | None, **options: Any) -> None:
        self.path, self.options = path, options
        self.rows: list[Any] = []
        self.batches: list[int] = []
        self.checkpoint: str | None = None
        self.start()

    def start(self) -> None:
        """In a new process, from the checkpoint."""
        self.reader = reader_of(self.path, **self.options)
        self.worker = pickle.loads(pickle.dumps(self.reader))
        if self.checkpoint is None:
            self.checkpoint = json.dumps(self.reader.initialOffset())

    def step(self, limit: Any = None) -> bool:
        """A batch, if there is anything."""
        before = json.loads(self.checkpoint or "")
        after = json.dumps(self.reader.latestOffset(before, limit or self.reader.getDefaultReadLimit()))
        if after == self.checkpoint:
            return False
        count = len(self.rows)
        for partition in self.reader.partitions(before, json.loads(after)):
            for batch in self.worker.read(pickle.loads(pickle.dumps(partition))):
                self.rows += [tuple(row.values()) for row in batch.to_pylist()]
        self.batches.append(len(self.rows) - count)
        self.checkpoint = after
        return True

    def drain(self, limit: Any = None) -> list[Any]:
        for _ in range(1000):
            if not self.step(limit):
                return self.rows
        raise AssertionError("there is no end to it")

    @property
    def bodies(self) -> list[bytes]:
        return [row[0] for row in self.rows]
