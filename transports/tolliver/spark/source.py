"""Data source "tolliver", for spark.read, spark.readStream, df.write and df.writeStream.

This module is a door and nothing behind it. Spark imports this module on the driver and on every worker, so what a call
needs is imported by that call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader

from ._tables import carrying, for_reader, of_table
from .read._options import parse_options
from .read._schema import ddl, message_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .stream._reader import StreamReader
    from .write._sink import BatchWriter, StreamWriter


class TolliverSource(DataSource):
    """Recordings to read, peers whose messages to read as a stream, and a peer to write to."""

    @classmethod
    def name(cls) -> str:
        return "tolliver"

    def schema(self) -> str | StructType:
        """All columns of messages. Raises ValueError for an option that makes no sense."""
        table = of_table(self.options)
        if table is not None:
            return carrying(message_columns(parse_options(table).include_metadata), table)
        from .stream._options import read_options

        return ddl(message_columns(read_options(self.options).include_metadata))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises ValueError for an option that makes no sense, and for columns that recordings do not have."""
        from .read._reader import PushdownReader, RecordingReader

        options = parse_options(for_reader(schema, self.options))
        return (PushdownReader if options.filter_pushdown else RecordingReader)(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """As `reader`, and for options that make no sense together."""
        from .stream._options import stream_options
        from .stream._reader import StreamReader

        return StreamReader(stream_options(for_reader(schema, self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Raises ValueError for an option that makes no sense, and for columns that are not those of messages."""
        from .write._sink import batch_writer

        return batch_writer(schema, overwrite, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """As `writer`. `overwrite` is the output mode "complete": every batch sends the whole table."""
        from .write._sink import stream_writer

        return stream_writer(schema, self.options)
