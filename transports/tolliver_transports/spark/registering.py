"""Making `format("tolliver")` known to a session.

Spark finds an installed tolliver by itself; it does not look into what `--py-files` or `addPyFile` brought.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .source import TolliverSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make the format "tolliver" known to this session, local or through Spark Connect. May be called again."""
    spark.dataSource.register(TolliverSource)
