"""Spark looks into every module called `pyspark_*` for a data source: this is how `format("tolliver")` is found."""

try:
    from tolliver_transports.spark.source import TolliverSource as DefaultSource
except ImportError:  # Spark would find no source of anybody's if this failed
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
