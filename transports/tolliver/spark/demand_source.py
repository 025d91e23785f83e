"""Data source "tolliver-rs": Reactive Streams as tables, for spark.read and spark.readStream.

This module is a door and nothing behind it, as `source`. Spark takes one source from a module that it discovers by
itself, and that is "tolliver": so this one is there after `register(spark)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from .demand._options import COLUMNS, demand_options
from .read._schema import ddl

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from .demand._reader import DemandReader
    from .demand._stream import DemandStreamReader


class DemandSource(DataSource):
    """Publishers to read from, as much as is asked for."""

    @classmethod
    def name(cls) -> str:
        return "tolliver-rs"

    def schema(self) -> str:
        return ddl(COLUMNS)

    def reader(self, schema: StructType) -> DemandReader:
        """Raises ValueError for an option that makes no sense, and for columns that there are not."""
        from .demand._reader import DemandReader

        return DemandReader(demand_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DemandStreamReader:
        """As `reader`."""
        from .demand._stream import DemandStreamReader, demand_stream

        return DemandStreamReader(demand_stream(self.options), schema)
