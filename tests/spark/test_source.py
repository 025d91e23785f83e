"""`format("tolliver")` in a session: what only Spark can say about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tolliver_proto import Ack, Message, encode
from tolliver_proto.recording import encode_block

from .recordings import NOON, OTHER, block, header, large_blocks, rows_of, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
SECOND = 10**9


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one large and some small recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    write(folder / "1.rec", large_blocks())
    for number in range(2, 5):
        said = [Message(f"c{at % 2}", f"k{at}", b"x", None if at % 3 else 1000 * number + at) for at in range(10)]
        write(folder / f"{number}.rec", [block([Ack(1), *said], header(NOON + number * SECOND, OTHER))])
    return folder


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def test_all_columns_of_all_files(spark: SparkSession, recordings: Path) -> None:
    found = (
        spark.read.format("tolliver").option("includeMetadata", True).option("minPartitions", 4).load(str(recordings))
    )
    expected = [row for path in sorted(recordings.glob("*.rec")) for row in rows_of(path)]
    columns = ("channel", "key", "body", "message_id", "reliable", "sender", "file", "frame_offset", "direction")
    got = found.selectExpr(*columns, "unix_micros(received_at)", "spark_partition_id()").collect()
    assert {row[-1] for row in got} >= set(range(4))
    assert [tuple(row)[:-1] for row in got] == [
        tuple(getattr(row, column) for column in (*columns, "received_at")) for row in expected
    ]
    assert dict(found.dtypes)["received_at"] == "timestamp"


def test_some_columns_through_a_schema_and_filters_through_options(spark: SparkSession, recordings: Path) -> None:
    paths = [str(recordings / "2.rec"), str(recordings / "4.rec")]
    asked = {"CHANNELS": "c1", "keys": "k1, k5*", "peers": str(OTHER), "timeFrom": "2026-11-21T12:00:04Z"}
    found = spark.read.format("tolliver").schema("key STRING NOT NULL, message_id BIGINT").options(**asked).load(paths)
    assert [tuple(row) for row in found.collect()] == [("k1", None), ("k5", None)]
    assert found.schema.simpleString() == "struct<key:string,message_id:bigint>"


def test_null_is_what_sql_takes_it_for(spark: SparkSession, recordings: Path) -> None:
    found = spark.read.format("tolliver").load(f"{recordings}/[234].rec")
    assert found.where("message_id IS NULL").count() == found.where("NOT reliable").count() == 18
    assert found.where("message_id IS NOT NULL AND channel = 'c0'").count() == 6


@pytest.mark.parametrize("switch", ["true", "false"])
def test_filters_with_spark_s_own_switch_on_and_off(spark: SparkSession, recordings: Path, switch: str) -> None:
    with setting(spark, "spark.sql.python.filterPushdown.enabled", switch):
        found = spark.read.format("tolliver").option("includeMetadata", True).load(str(recordings))
        assert found.where("channel = 'c1' AND received_at >= '2026-11-21T12:00:03Z'").count() == 10


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_pushed_filters_give_the_same_rows(spark: SparkSession, recordings: Path) -> None:
    where = (
        "channel IN ('c1', 'c0') AND key LIKE 'k%' AND received_at > '2026-11-21T12:00:02Z' "
        f"AND received_at <= '2026-11-21T12:00:03Z' AND sender = '{OTHER}' AND message_id % 2 = 1"
    )
    reading = spark.read.format("tolliver").option("includeMetadata", True)
    plain = reading.load(str(recordings)).where(where).collect()
    with setting(spark, "spark.sql.python.filterPushdown.enabled", "true"):
        pushed = reading.option("filterPushdown", True).load(str(recordings)).where(where)
        assert pushed.collect() == plain
        plan = plan_of(pushed)
    assert len(plain) == 2
    assert "message_id" in plan[plan.index("Filter") : plan.index("BatchScan")]
    assert "received_at" not in plan[plan.index("Filter") : plan.index("BatchScan")].split("\n")[0]


def test_push_down_needs_spark_s_switch(spark: SparkSession, recordings: Path) -> None:
    found = spark.read.format("tolliver").option("filterPushdown", True).load(str(recordings))
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        found.count()


@pytest.mark.parametrize(
    ("options", "says"),
    [({"chanels": "a"}, "has no option 'chanels': it knows path, paths, "), ({"mode": "x"}, "failfast")],
)
def test_a_wrong_option_is_said_when_the_table_is_asked_for(
    spark: SparkSession, recordings: Path, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match=says):
        spark.read.format("tolliver").options(**options).load(str(recordings))


def test_a_column_that_is_not_there(spark: SparkSession, recordings: Path) -> None:
    with pytest.raises(Exception, match="there is no column topic string: choose among channel string"):
        spark.read.format("tolliver").schema("topic STRING").load(str(recordings)).count()


def test_damage_fails_the_query_or_costs_a_block(spark: SparkSession, tmp_path: Path) -> None:
    good = [block([Message("a", "", b"x", number)]) for number in range(3)]
    bad = encode_block(header(), encode(Message("a", "", b"", 7)) + b"\x09")
    path = write(tmp_path / "a.rec", [*good, bad, good[0], good[1][:-1]])
    with pytest.raises(Exception, match=rf"a\.rec: byte {3 * len(good[0]) + 90}: no frame begins with the byte 9"):
        spark.read.format("tolliver").load(str(path)).count()
    found = spark.read.format("tolliver").option("mode", "dropmalformed").load(str(path))
    assert [row.message_id for row in found.collect()] == [0, 1, 2, 7, 0]


def test_a_task_that_fails_is_tried_again_and_reads_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """`local[2,4]`: the first try of each task dies after it has handed on a part of its rows."""
    from pyspark import TaskContext

    path = write(tmp_path / "a.rec", large_blocks())
    found = spark.read.format("tolliver").option("minPartitions", 3).option("rowsPerBatch", 16).load(str(path))
    seen = tmp_path / "tries"
    seen.mkdir()

    def dies_once(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        (seen / f"{context.partitionId()}.{context.attemptNumber()}").touch()
        yield from batches
        if not context.attemptNumber():
            raise RuntimeError("as if the machine had gone away")

    ids = [row.message_id for row in found.select("message_id").mapInArrow(dies_once, "message_id bigint").collect()]
    assert ids == [row.message_id for row in rows_of(path)]
    tries = Counter(one.name.split(".")[0] for one in seen.iterdir())
    assert len(tries) >= 3
    assert set(tries.values()) == {2}


def test_a_limit_ends_the_reading(spark: SparkSession, recordings: Path) -> None:
    assert len(spark.read.format("tolliver").load(str(recordings)).limit(5).collect()) == 5


def test_whole_files_as_values_of_any_store(spark: SparkSession, recordings: Path) -> None:
    from tolliver.spark import partition_batches

    messages = partition_batches(channels="c1", includeMetadata=True)
    files = spark.read.format("binaryFile").load(f"{recordings}/*.rec")
    found = files.mapInArrow(messages, messages.schema)
    source = (
        spark.read.format("tolliver").option("includeMetadata", True).option("channels", "c1").load(str(recordings))
    )
    assert found.drop("file").exceptAll(source.drop("file")).count() == 0
    assert found.count() == source.count() == 15
    assert {row.file for row in found.select("file").distinct().collect()} == {
        f"file:{recordings}/{number}.rec" for number in (2, 3, 4)
    }


def test_events_of_a_partition(spark: SparkSession, recordings: Path) -> None:
    from tolliver.spark import partition_events

    files = spark.sparkContext.binaryFiles(str(recordings / "[23].rec")).values()
    found = files.mapPartitions(partition_events).collect()
    assert Counter(type(frame) for _, frame in found) == {Message: 20, Ack: 2}
    assert {header and header.peer for header, _ in found} == {OTHER}


def test_registering_again_changes_nothing(spark: SparkSession, recordings: Path) -> None:
    from tolliver.spark import register

    register(spark)
    register(spark)
    assert spark.read.format("tolliver").load(str(recordings / "2.rec")).count() == 10
