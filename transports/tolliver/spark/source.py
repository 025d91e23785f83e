"""Data source "tolliver", for spark.read, spark.readStream, df.write and df.writeStream.

Spark imports this module on the driver and on every worker, so each method imports what it needs.
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
    """The data source "tolliver": recordings to read, messages of peers to read as a stream, and a peer to write to."""

    @classmethod
    def name(cls) -> str:
        return "tolliver"

    def schema(self) -> str | StructType:
        """All columns of messages. Raises ValueError for an invalid option."""
        table = of_table(self.options)
        if table is not None:
            return carrying(message_columns(parse_options(table).include_metadata), table)
        from .stream._options import read_options

        return ddl(message_columns(read_options(self.options).include_metadata))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader of recordings. Raises ValueError for an invalid option or an unknown column."""
        from .read._reader import PushdownReader, RecordingReader

        options = parse_options(for_reader(schema, self.options))
        return (PushdownReader if options.filter_pushdown else RecordingReader)(options, schema)

    def streamReader(self, schema: StructType) -> StreamReader:
        """Reader of a stream. Raises ValueError for an invalid option, a bad combination of options, or an unknown
        column."""
        from .stream._options import stream_options
        from .stream._reader import StreamReader

        return StreamReader(stream_options(for_reader(schema, self.options)), schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Writer of a batch. Raises ValueError for an invalid option, and for columns that messages do not have."""
        from .write._sink import batch_writer

        return batch_writer(schema, overwrite, self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Writer of a stream. Raises like `writer`. `overwrite` means output mode "complete": each batch sends the
        whole table."""
        from .write._sink import stream_writer

        return stream_writer(schema, self.options)
