"""What `spark.read.format("tolliver")` and `df.write.format("tolliver")` lead to."""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class TolliverSource(DataSource):
    """Recordings to read, and a peer to write to."""

    @classmethod
    def name(cls) -> str:
        return "tolliver"
