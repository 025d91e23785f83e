"""Sink in Spark: each row arrives once, whatever failed on the way."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.certificates import Certificates
from tests.spark.receivers import PATIENCE, Inbox, Receivers, wait_for
from tolliver_proto import NoticeKind, Policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 4000
SCHEMA = "channel string, key string, body binary"
EXPECTED = {(f"k{number % 7}", b"%d" % number) for number in range(ROWS)}


@pytest.fixture
def receivers(tmp_path: Path, certs: Certificates) -> Receivers:
    return Receivers(tmp_path, certs)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def table(spark: SparkSession, partitions: int = 4, stride: int = 1) -> DataFrame:
    """All rows, each a `stride` behind the one before it."""
    from pyspark.sql import functions

    number = functions.col("id") * stride % ROWS
    return spark.range(0, ROWS, 1, partitions).select(
        functions.lit("rows").alias("channel"),
        functions.concat(functions.lit("k"), (number % 7).cast("string")).alias("key"),
        functions.encode(number.cast("string"), "utf-8").alias("body"),
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


@pytest.mark.parametrize("made", ["as it is", "stable"])
def test_a_batch_that_comes_again_in_another_shape_loses_nothing(
    spark: SparkSession, receivers: Receivers, inbox: Inbox, made: str
) -> None:
    """The job dies with its last row, and is run again on a machine of fewer cores that lists the rows in another order
    (T-72a)."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions
    from tolliver.spark import stable

    last = functions.col("body") == functions.lit(b"%d" % (ROWS - 1))
    dying = functions.when(last, functions.raise_error(functions.lit("it dies"))).otherwise(functions.col("body"))

    def of(cores: int, stride: int) -> DataFrame:
        rows = table(spark, cores, stride)
        return stable(rows, "body", partitions=5) if made == "stable" else rows

    with receivers.open(inbox) as right:
        given = receivers.given(right.port, writeId="nightly")
        with pytest.raises(PySparkException, match="it dies"):
            of(8, 1).withColumn("body", dying).write.format("tolliver").options(**given).mode("append").save()
        assert 0 < len(inbox.bodies) < ROWS
        of(2, 7).write.format("tolliver").options(**given).mode("append").save()
        assert set(arrived(inbox)) == EXPECTED
        told = [notice.detail for notice in right.notices() if notice.kind is NoticeKind.ID_REUSED]
        if made == "stable":
            assert once(inbox)
            assert told == []
        else:
            assert "Rows of a batch came again in another shape" in told[0]


def test_a_stream_cannot_be_made_stable_and_its_two_ways_are_written_out(spark: SparkSession) -> None:
    from tolliver.spark import stable

    with pytest.raises(ValueError, match=r"df\.repartition\(3, key\) with .*idColumn.*foreachBatch\(write\).*writeId"):
        stable(spark.readStream.format("rate").load(), "value", partitions=3)


def test_a_task_that_failed_after_half_of_it_counts_once(
    spark: SparkSession, receivers: Receivers, inbox: Inbox
) -> None:
    from tests.spark.failing import FailingSource

    spark.dataSource.register(FailingSource)
    with receivers.open(inbox) as right:
        table(spark, 1).write.format("failing").options(**receivers.given(right.port)).mode("append").save()
        assert once(inbox)
        assert right.stats()["duplicates"] == ROWS // 2


def test_the_program_on_the_page(
    spark: SparkSession, certs: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in ("bob", "job"):
        certs.tls(name)
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "spark-sink.md").read_text()
    program = page.partition("```python\n")[2].partition("```")[0].replace("certs/", f"{certs.directory}/")
    exec(compile(program, "docs/spark-sink.md", "exec"), {"__name__": "__main__"})
    assert sorted(capsys.readouterr().out.splitlines()) == [f"cpu{number} b'{number}'" for number in range(5)]


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


def test_what_cannot_be_is_said_by_spark(spark: SparkSession, receivers: Receivers) -> None:
    from pyspark.errors import AnalysisException, PySparkException

    nowhere = receivers.given(1, ackTimeout=0.3)
    for rows, options, error, text in (
        (table(spark), {**nowhere, "windows": "1"}, AnalysisException, "the sink has no option 'windows'"),
        (table(spark).drop("key"), nowhere, AnalysisException, "the sink takes the columns channel, key, body"),
        (table(spark, 1), nowhere, PySparkException, r"127\.0\.0\.1:1 has acknowledged nothing for 0\.3 s"),
    ):
        with pytest.raises(error, match=text):
            rows.write.format("tolliver").options(**options).mode("append").save()


def run(spark: SparkSession, directory: Path, given: dict[str, str]) -> Any:
    """A stream over Parquet files, one a batch, until all is done; again, from where the checkpoint says."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory / "files"))
    sink = rows.writeStream.format("failing").options(**given).option("failWhile", str(directory / "marker"))
    query = sink.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination(120)
    return query


def test_a_stream_whose_epoch_fails_and_is_replayed_counts_once(
    spark: SparkSession, receivers: Receivers, inbox: Inbox, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    from tests.spark.failing import FailingSource

    spark.dataSource.register(FailingSource)
    table(spark, 2).write.parquet(str(tmp_path / "files"))
    marker = tmp_path / "marker"
    marker.touch()
    with receivers.open(inbox) as right:
        given = receivers.given(right.port)
        with pytest.raises(StreamingQueryException, match="the epoch fails"):
            run(spark, tmp_path, given)
        assert inbox.often == {1}, "as often as a task was tried"
        before = len(inbox.bodies)
        assert 0 < before <= ROWS // 2
        marker.unlink()
        assert run(spark, tmp_path, given).lastProgress["batchId"] == 1
        assert once(inbox)
        assert right.stats()["duplicates"] >= before
    assert len({delivery.peer_id for delivery in inbox.deliveries}) == 2, "two epochs of one partition"


def test_a_receiver_that_goes_away_and_comes_back_in_the_middle_of_a_write(
    spark: SparkSession, receivers: Receivers
) -> None:
    window, inbox = 40, Inbox(most=300)
    port: Future[int | None] = Future()
    done = threading.Event()

    def come_and_go() -> None:
        with receivers.open(inbox, policy=Policy(dedupe=100_000, dedupe_durable=True)) as right:
            port.set_result(right.port)
            wait_for(lambda: inbox.refused)  # so that the write is not over when it goes
        assert not done.is_set()
        inbox.most = None
        with receivers.open(
            inbox, policy=Policy(dedupe=100_000, dedupe_durable=True), listen=f"127.0.0.1:{port.result()}"
        ):
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
