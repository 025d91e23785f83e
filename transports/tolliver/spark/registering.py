"""Registration of the data sources "tolliver" and "tolliver-rs" with a session.

Spark finds an installed "tolliver" by itself, one source for each module; it does not look for a second one there, nor
into what `--py-files` or `addPyFile` brought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._extras import needed

needed("spark", "pyspark")

from .demand_source import DemandSource
from .source import TolliverSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the formats known to this session, local or through Spark Connect. May be called again."""
    spark.dataSource.register(TolliverSource)
    spark.dataSource.register(DemandSource)
