"""Sink whose tasks fail after sending, as dying executors do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from tolliver.spark.source import TolliverSource
from tolliver.spark.write._sink import BatchWriter, StreamWriter


class FailingSource(TolliverSource):
    """As the real one, but a first try sends half of its rows and fails; in a stream, while `failWhile` exists,
    every try sends all of them and fails."""

    @classmethod
    def name(cls) -> str:
        return "failing"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return FailsOnce(schema, super().writer(schema, overwrite).options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        marker = Path(self.options.pop("failWhile"))
        made = FailsAfterwards(schema, super().streamWriter(schema, overwrite).options)
        made.marker = marker
        return made


class FailsOnce(BatchWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber():
            return super().write(iterator)
        super().write(batch.slice(0, batch.num_rows // 2) for batch in iterator)
        raise RuntimeError("the executor died")


class FailsAfterwards(StreamWriter):
    marker: Path

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        done = super().write(iterator)
        if self.marker.exists():
            raise RuntimeError("the epoch fails")
        return done
