"""Entry point of `format("tolliver")`, found by Spark under the name `pyspark_*`."""

try:
    from tolliver.spark.source import TolliverSource as DefaultSource
except ImportError:  # Spark would find no source of anybody's if this failed
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
