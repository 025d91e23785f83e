"""What `spark.read.format("tolliver")` and `df.write.format("tolliver")` lead to.

The idea: a door and nothing behind it. Spark imports this module on the driver and on every worker, so what a call
needs is imported by that call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from ._read_options import parse_options
from ._schema import ddl, message_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class TolliverSource(DataSource):
    """Recordings to read, and a peer to write to."""

    @classmethod
    def name(cls) -> str:
        return "tolliver"

    def schema(self) -> str:
        """All columns of the messages in recordings. Raises ValueError for an option that makes no sense."""
        return ddl(message_columns(parse_options(self.options).include_metadata))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises ValueError for an option that makes no sense, and for columns that recordings do not have."""
        from ._reader import PushdownReader, RecordingReader

        options = parse_options(self.options)
        return (PushdownReader if options.filter_pushdown else RecordingReader)(options, schema)
