"""What `spark.read.format("tolliver")` and `df.write.format("tolliver")` lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from ._write import BatchWriter, StreamWriter


class TolliverSource(DataSource):
    """Recordings to read, and a peer to write to."""

    @classmethod
    def name(cls) -> str:
        return "tolliver"

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from ._write import batch_writer

        return batch_writer(schema, overwrite, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """`overwrite` is the output mode "complete": every batch sends the whole table."""
        from ._write import stream_writer

        return stream_writer(schema, self.options)
