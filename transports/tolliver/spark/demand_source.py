"""Data source "tolliver-rs": Reactive Streams for spark.read and spark.readStream.

The implementation is in `demand`; see `source`. Spark discovers only one source, "tolliver", so this one has to be
registered with `register(spark)`.
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
    """The data source "tolliver-rs": elements of publishers, as many as are asked for."""

    @classmethod
    def name(cls) -> str:
        return "tolliver-rs"

    def schema(self) -> str:
        return ddl(COLUMNS)

    def reader(self, schema: StructType) -> DemandReader:
        """Reader of a batch. Raises ValueError for an invalid option or an unknown column."""
        from .demand._reader import DemandReader

        return DemandReader(demand_options(self.options), schema)

    def streamReader(self, schema: StructType) -> DemandStreamReader:
        """Reader of a stream. Raises ValueError for an invalid option or an unknown column."""
        from .demand._stream import DemandStreamReader, demand_stream

        return DemandStreamReader(demand_stream(self.options), schema)
