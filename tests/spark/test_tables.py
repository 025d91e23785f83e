"""Tables of SQL: options that Spark gives to nobody but who says the columns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from tolliver.blocking import InstanceOptions, create_instance
from tolliver.spark._tables import KEPT, carrying, for_reader, of_table
from tolliver.spark.read._options import OPTIONS as READING
from tolliver.spark.read._schema import message_columns
from tolliver.spark.source import TolliverSource
from tolliver.spark.stream._options import FILES_OPTIONS, LIVE_OPTIONS
from tolliver.spark.write._options import OPTIONS as SINK
from tolliver.spark.write._options import write_options

from tests.certificates import Certificates
from tolliver_proto import Message

from .queries import Query
from .receivers import Inbox, Receivers
from .recordings import OTHER, block, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = {"provider": "tolliver", "owner": "alice", "comment": "readings", "k": "v", "serialization.format": "1"}


def given(**options: str) -> CaseInsensitiveDict:
    """As Spark 4.3 gives them where a table is made: some of them twice, among whatever else the table has."""
    places = ("path", "location", "is_managed_location")
    twice = {f"option.{name}": text for name, text in options.items() if name not in places}
    return CaseInsensitiveDict(CATALOG | options | twice)


def test_the_options_are_told_from_what_else_a_table_has() -> None:
    assert of_table(given(path="file:/r", channels="c")) == {"path": "file:/r", "channels": "c"}
    assert of_table(given(location="file:/r")) == {"path": "file:/r"}
    assert of_table(given(location="file:/warehouse/t", is_managed_location="true", keys="h")) == {"keys": "h"}
    assert of_table({"path": "/r"}) is None


def test_columns_carry_them_and_those_of_a_query_go_before() -> None:
    names = message_columns(include_metadata=True)
    again = StructType.fromJson(carrying(names, {"path": "/r", "keys": "a"}).jsonValue())
    assert {field.name: field.dataType.simpleString() for field in again.fields} == names
    assert for_reader(again, CaseInsensitiveDict({"KEYS": "b"})) == {"path": "/r", "keys": "b"}
    assert for_reader(StructType().add("key", "string"), {"path": "/r"}) == {"path": "/r"}


def test_a_table_of_recordings(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [block([Message("a", "k", b"x", 1), Message("b", "", b"y", 2)])])
    columns = TolliverSource(given(path=f"file:{path}", channels="b", includemetadata="true")).schema()
    assert isinstance(columns, StructType)
    assert "place" in columns.fieldNames()
    assert keys_of(TolliverSource(CaseInsensitiveDict({})).reader(columns)) == [""]


def keys_of(reader: Any) -> list[str]:
    """The keys of all rows, as workers read them."""
    parts = pickle.loads(pickle.dumps(reader)).partitions()
    return [row["key"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


IN_A_VIEW = "Spark gives no writer the options of a table, so none can be a sink: CREATE TEMPORARY VIEW"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": "/r", "chanels": "a"}, "has no option 'chanels'"),
        ({"path": "/r", "peers": "bob"}, "give the UUID of an instance"),
        ({}, "there is nothing to read"),
        (
            {"path": "/r", "mode": "dropmalformed"},
            r"the option mode: .* with each query, SELECT .* WITH \(mode = '...'",
        ),
        ({"path": "/r", "record": "/r"}, r"the option record: .* spark\.readStream"),
        ({"connect": "127.0.0.1:1", "plaintext": "true"}, IN_A_VIEW),
        ({"path": "/r", "writeid": "w"}, IN_A_VIEW),
    ],
)
def test_wrong_options_are_told_when_the_table_is_made(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TolliverSource(given(**options)).schema()


@pytest.mark.parametrize("name", ["channels", "record"])
def test_options_among_the_properties_are_told(name: str) -> None:
    """TBLPROPERTIES (channels = 'a'), which nothing would read."""
    with pytest.raises(ValueError, match=rf"{name} is among the table's properties.*write OPTIONS \({name} '...'\)"):
        TolliverSource(CaseInsensitiveDict(given(path="/r") | {name: "a"})).schema()


# Columns of data that carry options.

OF_DATA = r"the columns 'channel, key, body' carry options, .*: data brought them\. Say where to read"

SAMPLES = {
    "path": "/nowhere", "paths": '["/nowhere"]', "recursiveFileLookup": "true", "pathGlobFilter": "none*",
    "channels": "b", "channelPattern": "b", "minRowsPerTrigger": "9", "maxTriggerDelay": "9", "consumer": "b",
    "keys": "b", "peers": str(OTHER), "timeFrom": "2200-01-01", "timeTo": "2000-01-01",
    "direction": "out", "mode": "dropmalformed", "truncatedTail": "error", "includeMetadata": "true",
    "filterPushdown": "true", "logPlan": "true", "minPartitions": "7", "rowsPerBatch": "1",
    "startingOffsets": "latest", "maxRowsPerTrigger": "1", "maxBytesPerTrigger": "1", "failOnDataLoss": "false",
    "stagingDir": "/nowhere", "staging": "inline", "deleteConsumed": "false", "listen": "127.0.0.1:9",
    "connect": "127.0.0.1:9", "tls.cert": "/c", "tls.key": "/k", "tls.ca": "/a", "plaintext": "true", "revision": "1",
    "unreliable": "drop", "maxStagedBytes": "1", "syncBytes": "1", "syncInterval": "1", "dedupe": "0",
    "record": "/nowhere", "peer": str(OTHER), "reliable": "false", "idColumn": "key", "writeId": "theirs",
    "window": "9", "rowsPerSend": "9", "ackTimeout": "9", "unsubscribed": "drop",
}  # fmt: skip


def test_there_is_a_sample_of_every_option() -> None:
    assert SAMPLES.keys() == {*READING, *FILES_OPTIONS, *LIVE_OPTIONS, *SINK}


@pytest.mark.parametrize("option", SAMPLES)
def test_data_bring_no_option_to_a_call_that_has_its_own(option: str, tmp_path: Path) -> None:
    """In all four directions. A Parquet file of anybody brings the metadata of its columns."""
    path = write(tmp_path / "a.rec", [block([Message("a", "k", b"x", 1), Message("b", "", b"y", 2)])])
    metadata = {"tolliver": {option.lower(): SAMPLES[option]}}
    columns = StructType()
    for name, kind in (("channel", "string"), ("key", "string"), ("body", "binary")):
        columns.add(name, kind, True, metadata)
    reader = TolliverSource(CaseInsensitiveDict({"path": str(path)})).reader(columns)
    assert type(reader).__name__ == "RecordingReader"
    assert keys_of(reader) == ["k", ""]
    query = Query(tmp_path, mode="files", metadata=metadata)
    query.drain()
    assert (query.bodies, query.batches) == ([b"x", b"y"], [2])
    own = {"connect": "127.0.0.1:1", "plaintext": "true"}
    named = TolliverSource(CaseInsensitiveDict(own | {"writeId": "mine"})).writer(columns, False)
    assert named.options == write_options(own | {"writeId": "mine"}, streaming=False)
    streaming = TolliverSource(CaseInsensitiveDict(own)).streamWriter(columns, False)
    assert streaming.options == write_options(own, streaming=True)


@pytest.mark.parametrize("option", SAMPLES)
def test_data_bring_no_option_to_a_call_that_has_none(option: str) -> None:
    """Spark makes tables with the columns of data, too: LIKE, saveAsTable, createTable(schema=...)."""
    columns = StructType()
    for name, kind in (("channel", "string"), ("key", "string"), ("body", "binary")):
        columns.add(name, kind, True, {"tolliver": {option.lower(): SAMPLES[option]}})
    source = TolliverSource(CaseInsensitiveDict({}))
    for make in (source.writer, source.streamWriter):
        with pytest.raises(ValueError, match=r"needs the option connect.*INSERT INTO name WITH \(connect = '...'"):
            make(columns, False)
    says = f"carry '{option.lower()}', which no table keeps: .*CREATE it again"
    for read in (source.reader, source.streamReader):
        with pytest.raises(ValueError, match=OF_DATA if option in KEPT else says):
            read(columns)


def test_what_is_no_text_is_no_option() -> None:
    for carried in (5, ["path"], {"path": 5}):
        columns = StructType().add("body", "binary", True, {"tolliver": carried})
        with pytest.raises(ValueError, match="which no table keeps"):
            for_reader(columns, {})


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_tables_in_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """The extra properties, a condition, options of one query, another place, and columns without options."""
    for name, keys in (("r", "k"), ("other", "z")):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "a.rec", [block([Message("a", keys, b"x", 1), Message("b", "", b"y", 2)])])
    create = f"CREATE TABLE m USING tolliver OPTIONS (path '{tmp_path}/r', channels 'a')"
    spark.sql(f"{create} COMMENT 'x' TBLPROPERTIES ('k' = 'v')")
    try:
        assert [row.message_id for row in spark.sql("SELECT message_id FROM m WHERE key = 'k'").collect()] == [1]
        assert [row.message_id for row in spark.sql("SELECT message_id FROM m WITH (channels = 'b')").collect()] == [2]
        there = spark.read.format("tolliver").schema(spark.table("m").schema).load(str(tmp_path / "other"))
        assert [row.key for row in there.collect()] == ["z", ""], "all rows: the table's channels are not this call's"
        spark.sql(f"ALTER TABLE m SET LOCATION '{tmp_path}/other'")  # Spark tells nobody, as docs/spark.md says
        spark.sql("ALTER TABLE m SET TBLPROPERTIES ('channels' = 'b')")
        assert [row.key for row in spark.table("m").collect()] == ["k"]
        data = spark.table("m").select("channel", "key", "body")
        spark.catalog.createTable("brought", str(tmp_path / "other"), "tolliver", data.schema)
        with pytest.raises(Exception, match="data brought them"):
            spark.table("brought").collect()
    finally:
        for name in ("m", "brought"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(Exception, match="has no option 'chanels'"):
        spark.sql(f"CREATE TABLE n USING tolliver OPTIONS (path '{tmp_path}/r', chanels 'a')")


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_foreign_data_say_neither_to_whom_nor_how_their_rows_are_sent(
    spark: SparkSession, tmp_path: Path, certs: Certificates
) -> None:
    """A Parquet file whose columns carry options is written in every way that SQL and DataFrames have."""
    from pyspark.sql import functions

    receivers, inbox, theirs = Receivers(tmp_path, certs), Inbox(), Inbox()
    with (
        receivers.open(inbox) as right,
        create_instance(InstanceOptions(database=tmp_path / "t.db", listen="127.0.0.1:0", plaintext=True)) as thief,
    ):
        thief.register_callback("", "", theirs)
        thief.subscribe("")
        carried = {
            "connect": f"127.0.0.1:{thief.port}",
            "plaintext": "true",
            "reliable": "false",
            "unsubscribed": "drop",
        }
        carried |= {"record": str(tmp_path / "theirs")}
        made = [functions.lit("rows"), functions.lit("k"), functions.lit(b"x")]
        columns = [
            column.alias(name, metadata={"tolliver": carried})
            for name, column in zip(("channel", "key", "body"), made, strict=True)
        ]
        spark.range(1).select(*columns).write.parquet(str(tmp_path / "foreign"))
        foreign = spark.read.parquet(str(tmp_path / "foreign"))
        assert foreign.schema["body"].metadata == {"tolliver": carried}
        foreign.createOrReplaceTempView("foreign")
        own = receivers.given(right.port)
        options = ", ".join(f"{name} = '{text}'" for name, text in own.items())
        three = "(channel STRING, key STRING, body BINARY)"
        spark.sql(f"CREATE TEMPORARY VIEW receiver {three} USING tolliver OPTIONS ({options})")
        spark.sql(f"CREATE TABLE sink {three} USING tolliver")
        write(tmp_path / "a.rec", [block([Message("rows", "k", b"recorded", 1)])])
        spark.sql(f"CREATE TABLE recorded USING tolliver OPTIONS (path '{tmp_path}/a.rec', channels 'rows')")
        try:
            foreign.write.format("tolliver").options(**own).mode("append").save()
            spark.sql("INSERT INTO receiver SELECT * FROM foreign")
            spark.sql("INSERT INTO receiver SELECT channel, key, body FROM recorded")
            spark.sql(f"INSERT INTO sink WITH ({options}) SELECT * FROM foreign")
            for refused in ("INSERT INTO sink SELECT * FROM foreign", "INSERT INTO sink VALUES ('rows', 'k', X'00')"):
                with pytest.raises(Exception, match="needs the option connect"):
                    spark.sql(refused)
        finally:
            spark.sql("DROP TABLE sink")
            spark.sql("DROP TABLE recorded")
            spark.sql("DROP VIEW receiver")
        assert inbox.bodies == [b"x", b"x", b"recorded", b"x"]
        assert all(delivery.message.message_id for delivery in inbox.deliveries)
        assert not theirs.deliveries
    assert not (tmp_path / "theirs").exists()
