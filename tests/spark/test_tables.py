"""Tables of SQL: options that Spark gives to nobody but who says the columns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from tolliver_transports.spark._tables import carried, carrying, of_table
from tolliver_transports.spark.source import TolliverSource

from tolliver_proto import Message

from .recordings import block, write

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
    assert of_table(given(location="file:/warehouse/t", is_managed_location="true", connect="h")) == {"connect": "h"}
    assert of_table({"path": "/r"}) is None


def test_columns_carry_them_and_those_of_a_query_go_before() -> None:
    columns = carrying(
        {"channel": "string", "message_id": "bigint", "received_at": "timestamp"}, {"path": "/r", "keys": "a"}
    )
    again = StructType.fromJson(columns.jsonValue())
    assert again.simpleString() == "struct<channel:string,message_id:bigint,received_at:timestamp>"
    assert carried(again, CaseInsensitiveDict({"KEYS": "b"})) == {"path": "/r", "keys": "b"}
    assert carried(StructType().add("key", "string"), {"path": "/r"}) == {"path": "/r"}


def columns_of(options: CaseInsensitiveDict) -> StructType:
    made = TolliverSource(options).schema()
    assert isinstance(made, StructType)
    return made


def test_a_table_of_recordings_and_one_that_is_a_sink(tmp_path: Path) -> None:
    path = write(tmp_path / "a.rec", [block([Message("a", "k", b"x", 1), Message("b", "", b"y", 2)])])
    columns = columns_of(given(path=f"file:{path}", channels="b", includemetadata="true"))
    assert "place" in columns.fieldNames()
    reader: Any = TolliverSource(CaseInsensitiveDict({})).reader(columns)
    [partition] = pickle.loads(pickle.dumps(reader)).partitions()
    assert [row["key"] for batch in reader.read(partition) for row in batch.to_pylist()] == [""]
    sink = columns_of(given(connect="127.0.0.1:1", plaintext="true"))
    assert sink.simpleString() == "struct<channel:string,key:string,body:binary>"
    assert TolliverSource(CaseInsensitiveDict({})).writer(sink, False) is not None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": "/r", "chanels": "a"}, "has no option 'chanels'"),
        ({"path": "/r", "mode": "lazy"}, "give failfast or dropmalformed"),
        ({"connect": "127.0.0.1", "plaintext": "true", "window": "0"}, "the option window is '0'"),
        ({}, "there is nothing to read"),
    ],
)
def test_wrong_options_are_told_when_the_table_is_made(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TolliverSource(given(**options)).schema()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_tables_in_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """The extra properties, a condition, options of one query, and columns without options."""
    (tmp_path / "r").mkdir()
    write((tmp_path / "r").joinpath("a.rec"), [block([Message("a", "k", b"x", 1), Message("b", "", b"y", 2)])])
    spark.sql(f"CREATE TABLE m USING tolliver OPTIONS (path '{tmp_path}/r') COMMENT 'x' TBLPROPERTIES ('k' = 'v')")
    try:
        assert [row.message_id for row in spark.sql("SELECT message_id FROM m WHERE key = 'k'").collect()] == [1]
        assert [row.message_id for row in spark.sql("SELECT message_id FROM m WITH (channels = 'b')").collect()] == [2]
    finally:
        spark.sql("DROP TABLE m")
    with pytest.raises(Exception, match="has no option 'chanels'"):
        spark.sql(f"CREATE TABLE n USING tolliver OPTIONS (path '{tmp_path}/r', chanels 'a')")
