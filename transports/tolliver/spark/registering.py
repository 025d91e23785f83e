"""Registration of the data sources "tolliver" and "tolliver-rs" with a session.

Spark discovers an installed "tolliver" by itself, but only one source for each package, and none in what `--py-files`
or `addPyFile` brought.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .._extras import needed

needed("spark", "pyspark")

from .demand_source import DemandSource
from .source import TolliverSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PACKAGE = Path(__file__).parents[2]  # a file where Spark brought a zip


def register(spark: SparkSession) -> None:
    """Register both data sources with this session, local or Spark Connect. May be called again."""
    if _PACKAGE.is_file():
        _show_to_planners(spark)
    spark.dataSource.register(TolliverSource)
    spark.dataSource.register(DemandSource)


def _show_to_planners(spark: SparkSession) -> None:
    """Put the zip on the path of the driver's Python processes. Spark does so for those that plan a batch, but not for
    the one that plans a stream.
    """
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    if context is not None:
        given = [str(_PACKAGE), *context.environment.get("PYTHONPATH", "").split(os.pathsep)]
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys(given)))
