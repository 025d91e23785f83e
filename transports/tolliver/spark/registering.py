"""Registration of the data sources "tolliver" and "tolliver-rs" with a session.

Spark discovers an installed "tolliver" by itself, but only one source for each package, and none in what `--py-files`
or `addPyFile` brought.
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
    """Register both data sources with this session, local or Spark Connect. May be called again."""
    spark.dataSource.register(TolliverSource)
    spark.dataSource.register(DemandSource)
