"""The sink in Spark: what Spark wrote is what arrived, once, whatever failed on the way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.certificates import Certificates
from tests.spark.receivers import PATIENCE, Inbox, Receivers, wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")  # which nobody uses here

ROWS = 4000
SCHEMA = "channel string, key string, body binary"
EXPECTED = {(f"k{number % 7}", b"%d" % number) for number in range(ROWS)}


@pytest.fixture
def receivers(tmp_path: Path, certs: Certificates) -> Receivers:
    return Receivers(tmp_path, certs)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def table(spark: SparkSession, partitions: int = 4) -> DataFrame:
    from pyspark.sql import functions

    number = functions.col("id").cast("string")
    return spark.range(0, ROWS, 1, partitions).select(
        functions.lit("rows").alias("channel"),
        functions.concat(functions.lit("k"), (functions.col("id") % 7).cast("string")).alias("key"),
        functions.encode(number, "utf-8").alias("body"),
    )


def arrived(inbox: Inbox) -> Counter[tuple[str, bytes]]:
    return Counter((delivery.message.key, delivery.message.body) for delivery in inbox.deliveries)


def once(inbox: Inbox) -> bool:
    return arrived(inbox) == dict.fromkeys(EXPECTED, 1)


def test_a_batch_arrives_and_its_name_makes_it_count_once(
    spark: SparkSession, receivers: Receivers, inbox: Inbox
) -> None:
    with receivers.open(inbox) as right:
        for _ in range(2):
            given = receivers.given(right.port, writeId="nightly")
            table(spark).write.format("tolliver").options(**given).mode("append").save()
            assert once(inbox)
        assert right.stats()["duplicates"] == ROWS
        assert len({delivery.peer_id for delivery in inbox.deliveries}) == 4
        by_id = {(delivery.peer_id, delivery.message.message_id) for delivery in inbox.deliveries}
        assert {message_id for _, message_id in by_id} == set(range(1, ROWS // 4 + 1))


def fails_once(marker: Path) -> Any:
    """Half of a partition, and then an error: the first time."""

    def half(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                marker.write_text("failed")
                raise RuntimeError("the executor died")
            yield batch.slice(batch.num_rows // 2)

    return half


def test_a_task_that_failed_after_half_of_it_counts_once(
    spark: SparkSession, receivers: Receivers, inbox: Inbox, tmp_path: Path
) -> None:
    rows = table(spark).mapInArrow(fails_once(tmp_path / "marker"), SCHEMA)
    with receivers.open(inbox) as right:
        given = receivers.given(right.port, rowsPerSend=100, window=200, ackTimeout=6)
        rows.write.format("tolliver").options(**given).mode("append").save()
        assert (tmp_path / "marker").exists()
        assert once(inbox)


def test_rows_that_are_shuffled_need_an_id(spark: SparkSession, receivers: Receivers, inbox: Inbox) -> None:
    """Each try of the partition has its rows in another order."""
    from pyspark.sql import functions

    number = functions.decode("body", "utf-8").cast("int") + 1
    rows = table(spark, 1).withColumn("number", number)
    with receivers.open(inbox) as right:
        given = receivers.given(right.port, writeId="shuffled", idColumn="number")
        for _ in range(2):
            rows.orderBy(functions.rand()).coalesce(1).write.format("tolliver").options(**given).mode("append").save()
            assert once(inbox)


def test_what_cannot_be_is_said_by_spark(spark: SparkSession, receivers: Receivers, inbox: Inbox) -> None:
    from pyspark.errors import AnalysisException, PySparkException

    with receivers.open(inbox) as right:
        given = receivers.given(right.port)
        for rows, options, error, text in (
            (table(spark), {**given, "windows": "1"}, AnalysisException, "the sink has no option 'windows'"),
            (table(spark).drop("key"), given, AnalysisException, "the sink takes the columns channel, key, body"),
            (
                table(spark, 1).replace("rows", "elsewhere"),
                given,
                PySparkException,
                "does not subscribe to channel 'elsewhere' and key 'k0'",
            ),
        ):
            with pytest.raises(error, match=text):
                rows.write.format("tolliver").options(**options).mode("append").save()
    impatient = table(spark, 1).write.format("tolliver").options(**receivers.given(right.port, ackTimeout=0.3))
    with pytest.raises(PySparkException, match=r"has acknowledged nothing for 0\.3 s"):
        impatient.mode("append").save()
    assert inbox.bodies == []


class Stream:
    """A stream of Parquet files, one a batch, into the sink; every `start` is a new run from the same checkpoint."""

    def __init__(self, spark: SparkSession, directory: Path, given: dict[str, str]) -> None:
        self.spark = spark
        self.directory = directory
        self.given = given
        self.files = directory / "files"

    def run(self, change: Any = None) -> Any:
        """One run over all that there is; `change` maps each partition's batches."""
        read = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(self.files))
        rows = read if change is None else read.mapInArrow(change, SCHEMA)
        query = (
            rows.writeStream.format("tolliver")
            .options(**self.given)
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return query


def dies(marker: Path) -> Any:
    """A partition that always fails after it was sent, until the marker is gone."""

    def die(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches
        if marker.exists():
            raise RuntimeError("the epoch fails")

    return die


def test_a_stream_whose_epoch_fails_and_is_replayed_counts_once(
    spark: SparkSession, receivers: Receivers, inbox: Inbox, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    table(spark, 4).write.parquet(str(tmp_path / "files"))
    marker = tmp_path / "marker"
    marker.touch()
    with receivers.open(inbox) as right:
        stream = Stream(spark, tmp_path, receivers.given(right.port, ackTimeout=6))
        with pytest.raises(StreamingQueryException, match="the epoch fails"):
            stream.run(dies(marker))
        marker.unlink()
        assert 0 < len(inbox.bodies) < ROWS, "of the first epoch, which failed"
        assert inbox.often == {1}, "four tries of each task"
        query = stream.run(dies(marker))
        assert query.lastProgress["batchId"] == 1
        assert once(inbox)
        assert right.stats()["duplicates"] > 0
    receivers_were = {delivery.peer_id for delivery in inbox.deliveries}
    assert len(receivers_were) == 4, "two epochs of two partitions"


def test_a_receiver_that_goes_away_and_comes_back_in_the_middle_of_a_write(
    spark: SparkSession, receivers: Receivers, inbox: Inbox
) -> None:
    window = 40
    port: Future[int | None] = Future()
    done = threading.Event()

    def come_and_go() -> None:
        with receivers.open(inbox, dedupe_durable=True) as right:
            port.set_result(right.port)
            wait_for(lambda: len(inbox.bodies) > 300)
        assert not done.is_set()
        with receivers.open(inbox, dedupe_durable=True, listen=f"127.0.0.1:{port.result()}"):
            assert done.wait(60)

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(come_and_go)
        given = receivers.given(port.result(PATIENCE), rowsPerSend=20, window=window)
        table(spark).write.format("tolliver").options(**given).mode("append").save()
        done.set()
        coming.result(PATIENCE)
    assert set(arrived(inbox)) == EXPECTED
    handled_unsaid = len(inbox.bodies) - ROWS  # handled, and it was closed before that was on disk
    assert handled_unsaid <= 4 * window
