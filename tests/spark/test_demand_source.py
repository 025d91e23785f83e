"""`format("tolliver-rs")` in a session: what only Spark can say about it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.certificates import Certificates
from tests.spark.publishers import asking, few, numbers, publishing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

STARTING = 180.0  # seconds: a first batch starts several Pythons, on a machine that may be busy


def test_a_batch_of_two_publishers_and_the_text_of_one_that_fails(spark: SparkSession, certs: Certificates) -> None:
    from tolliver.spark import register

    def broken(_name: str) -> Iterator[bytes]:
        yield b"1"
        raise LookupError("the sensor is gone")

    register(spark)
    with publishing(certs, few=few(3000), numbers=numbers, broken=broken) as publisher:
        asked = asking(certs, publisher, "few,numbers", maxElements=5000)
        found = spark.read.format("tolliver-rs").options(**asked).load()
        assert found.schema.simpleString() == "struct<publisher:string,element:binary>"
        assert found.rdd.getNumPartitions() == 2
        rows = found.selectExpr("publisher", "cast(element AS STRING) AS number").collect()
        for name, count in {"few": 3000, "numbers": 5000}.items():
            assert [int(row.number) for row in rows if row.publisher == name] == list(range(count))
        assert max(ledger.granted for ledger in publisher.ledgers) == 5000
        sizes = spark.read.format("tolliver-rs").schema("element BINARY").options(**asked).load()
        assert sizes.limit(10).count() == 10
        failing = asking(certs, publisher, "broken", deadline=30)
        with pytest.raises(Exception, match="'broken' ended with an error: LookupError: the sensor is gone"):
            spark.read.format("tolliver-rs").options(**failing).load().count()


def test_a_stream_and_its_next_run(spark: SparkSession, certs: Certificates, tmp_path: Path) -> None:
    from tolliver.spark import lag, register

    register(spark)
    given = iter(few(100_000))
    with publishing(certs, shared=lambda _name: given) as publisher:
        asked = asking(certs, publisher, "shared", stagingDir=tmp_path / "stage", window=100)
        found = spark.readStream.format("tolliver-rs").options(**asked).load()
        table = tmp_path / "table"
        writing = found.writeStream.format("parquet").option("path", str(table))
        writing = writing.option("checkpointLocation", str(tmp_path / "checkpoint"))

        def elements() -> list[int]:
            rows = spark.read.parquet(str(table)).selectExpr("cast(cast(element AS STRING) AS INT) AS number")
            return sorted(row.number for row in rows.collect())

        query = writing.start()
        try:
            end = time.monotonic() + STARTING
            while sum(progress.numInputRows for progress in query.recentProgress) <= 200:
                assert not query.awaitTermination(1), query.exception()
                assert time.monotonic() < end, "nothing comes"
            (behind,) = lag(query.lastProgress)
            assert behind >= 0
        finally:
            query.stop()
        before = elements()
        query = writing.trigger(availableNow=True).start()
        assert query.awaitTermination(int(STARTING))
        after = elements()
        assert len(set(after)) == len(after) >= len(before)
        assert before == list(range(len(before)))
