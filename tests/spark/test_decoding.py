"""Bodies as typed columns: `decoder`, beside Spark's own `from_json`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tolliver-proto[spark]'")

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.timestamp_pb2 import Timestamp
from pyspark.sql import functions
from pyspark.sql import types as sql
from tolliver._messages.recorder import Recorder
from tolliver.codecs import Headed, Headers, Json, Msgspec, Protobuf, ProtobufTypes
from tolliver.spark import decoder

from tests.codecs.kinds import HOSTILE
from tolliver_proto import Message, Revision, encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOP = ProtobufTypes.of_files([Path(__file__).with_name("orders.proto")])
ORDER = SHOP.codec("shop.Order")
LINES = sql.StructType().add("name", "string").add("price", "double").add("count", "integer")


def decoded(function: Any, *bodies: bytes | None, batch: int = 1000) -> list[dict[str, Any]]:
    """Results of the function for these bodies, called as a worker of Spark calls it."""
    parts = (pa.array(bodies[at : at + batch], pa.binary()) for at in range(0, len(bodies), batch))
    return [row for part in function.func(parts) for row in part.to_pylist(maps_as_pydicts="strict")]


def good(value: object) -> dict[str, object]:
    return {"value": value, "error": None}


def a_full_order() -> Any:
    order = ORDER.kind(name="pens", price=1.5, number=-5, most=2**64 - 1, side=1, maybe=0, raw=b"\xff", code=0)
    order.items.add(sku="a", count=2**32 - 1).inner.sku = "b"
    order.tags["x"] = -1
    order.parts[3].sku = "c"
    order.at.FromDatetime(datetime(2026, 11, 29, 12, 0, 0, 5, UTC))
    order.took.FromTimedelta(timedelta(seconds=-1, microseconds=1))
    order.sides.extend([0, 1, 7])
    order.nothing.SetInParent()
    order.small = 0.5
    order.sure = True
    return order


FULL = {
    "name": "pens",
    "price": 1.5,
    "number": -5,
    "most": Decimal(2**64 - 1),
    "side": "BUY",
    "items": [{"sku": "a", "count": 2**32 - 1, "inner": b"\n\x01b"}],  # a type that contains itself
    "tags": {"x": -1},
    "at": datetime(2026, 11, 29, 12, 0, 0, 5, UTC),
    "text": None,
    "code": 0,
    "maybe": 0,
    "raw": b"\xff",
    "sides": ["UNKNOWN", "BUY", "7"],
    "parts": {3: {"sku": "c", "count": 0, "inner": None}},
    "took": timedelta(seconds=-1, microseconds=1),
    "nothing": b"",
    "small": 0.5,
    "sure": True,
}
EMPTY = dict.fromkeys(("at", "text", "code", "maybe", "took", "nothing")) | {
    "name": "",
    "price": 0.0,
    "number": 0,
    "most": Decimal(0),
    "side": "UNKNOWN",
    "items": [],
    "tags": {},
    "raw": b"",
    "sides": [],
    "parts": {},
    "small": 0.0,
    "sure": False,
}


def test_every_kind_of_protobuf_field() -> None:
    assert decoded(decoder(ORDER), ORDER.encode(a_full_order()), b"", None) == [good(FULL), good(EMPTY), good(None)]


LATE = ORDER.kind()
LATE.at.seconds = 2**50
LONG = ORDER.kind()
LONG.took.seconds = 2**62
NO_MESSAGES = {
    "no protobuf": (b"\xff", "DecodeError: "),
    "cut off": (ORDER.encode(a_full_order())[:-1], "DecodeError: "),
    "another wire type": (b"\x08\x01\x0b", "DecodeError: "),
    "no UTF-8": (b"\x0a\x01\xff", "bad UTF-8"),
    "a time that no calendar has": (ORDER.encode(LATE), "at: ValueError: Timestamp is not valid"),
    "a duration that is too long": (ORDER.encode(LONG), "took: OverflowError: "),
}


@pytest.mark.parametrize(("body", "said"), NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_a_body_that_is_no_such_message_is_an_error_among_values(body: bytes, said: str) -> None:
    order = ORDER.encode(ORDER.kind(name="pens"))
    first, error, last = decoded(decoder(ORDER), order, body, order)
    assert first == last == good(EMPTY | {"name": "pens"})
    assert error["value"] is None
    assert said in error["error"]


def test_unknown_fields_are_left_out_and_missing_ones_that_are_required_are_told() -> None:
    required = FieldDescriptorProto.LABEL_REQUIRED
    kind = described([FieldDescriptorProto(name="a", number=1, type=9, label=required)], syntax="proto2")
    bodies = b"\x0a\x01x\x10\x05", b"\x10\x05", b"\x0a\x01\xff"
    rows = decoded(decoder(kind), *bodies)
    generated: Any = kind.kind
    assert decoded(decoder(generated), *bodies) == rows
    assert rows[0] == good({"a": "x"})
    assert [row["error"] for row in rows[1:]] == [
        "ValueError: required fields are missing: a",
        "a: TypeError: bytes is not string",  # proto2 does not check
    ]


def described(fields: list[FieldDescriptorProto], syntax: str = "proto3") -> Protobuf[Any]:
    file = FileDescriptorProto(name="made.proto", package="made", syntax=syntax)
    file.message_type.add(name="Made").field.extend(fields)
    return ProtobufTypes(FileDescriptorSet(file=[file]).SerializeToString()).codec("made.Made")


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


PROTOBUF: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptorProto.TYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptorProto.TYPE_FLOAT: st.floats(allow_nan=False, width=32),
    FieldDescriptorProto.TYPE_INT64: integers(64),
    FieldDescriptorProto.TYPE_UINT64: integers(64, signed=False),
    FieldDescriptorProto.TYPE_FIXED64: integers(64, signed=False),
    FieldDescriptorProto.TYPE_SFIXED64: integers(64),
    FieldDescriptorProto.TYPE_SINT64: integers(64),
    FieldDescriptorProto.TYPE_INT32: integers(32),
    FieldDescriptorProto.TYPE_UINT32: integers(32, signed=False),
    FieldDescriptorProto.TYPE_FIXED32: integers(32, signed=False),
    FieldDescriptorProto.TYPE_SFIXED32: integers(32),
    FieldDescriptorProto.TYPE_SINT32: integers(32),
    FieldDescriptorProto.TYPE_BOOL: st.booleans(),
    FieldDescriptorProto.TYPE_STRING: st.text(max_size=5),
    FieldDescriptorProto.TYPE_BYTES: st.binary(max_size=5),
}


@st.composite
def messages(draw: st.DrawFn) -> tuple[Protobuf[Any], list[dict[str, Any]]]:
    """A protobuf type with fields of any kinds, and some of its values."""
    kinds = draw(st.lists(st.tuples(st.sampled_from([*PROTOBUF]), st.booleans()), min_size=1, max_size=6))
    fields, values = [], {}
    for number, (kind, repeated) in enumerate(kinds, 1):
        label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        fields.append(FieldDescriptorProto(name=f"f{number}", number=number, type=kind, label=label))
        values[f"f{number}"] = st.lists(PROTOBUF[kind], max_size=3) if repeated else PROTOBUF[kind]
    return described(fields), draw(st.lists(st.fixed_dictionaries(values), max_size=4))


@given(messages(), st.integers(1, 5))
def test_any_protobuf_message_comes_back(made: tuple[Protobuf[Any], list[dict[str, Any]]], batch: int) -> None:
    codec, values = made
    bodies = [codec.encode(codec.kind(**value)) for value in values]
    assert decoded(decoder(codec), *bodies, batch=batch) == [*map(good, values)]


JSON: list[tuple[sql.DataType, st.SearchStrategy[Any]]] = [
    (sql.StringType(), st.text(max_size=5)),
    (sql.BooleanType(), st.booleans()),
    (sql.ByteType(), integers(8)),
    (sql.ShortType(), integers(16)),
    (sql.IntegerType(), integers(32)),
    (sql.LongType(), integers(64)),
    (sql.FloatType(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    (sql.DoubleType(), st.floats(allow_nan=False, allow_infinity=False)),
    (sql.DecimalType(38, 0), st.integers(-(10**38) + 1, 10**38 - 1)),
]
Typed = tuple[sql.DataType, st.SearchStrategy[Any]]


def larger(kinds: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    lists = kinds.map(lambda one: (sql.ArrayType(one[0]), st.lists(st.none() | one[1], max_size=3)))
    text = st.text(max_size=3)
    maps = kinds.map(
        lambda one: (sql.MapType(sql.StringType(), one[0]), st.dictionaries(text, st.none() | one[1], max_size=3))
    )
    return lists | maps | structs(kinds)


def structs(kinds: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.dictionaries(st.sampled_from("abcd"), kinds, min_size=1, max_size=4).map(
        lambda fields: (
            sql.StructType([sql.StructField(name, kind) for name, (kind, _) in fields.items()]),
            st.fixed_dictionaries({name: st.none() | values for name, (_, values) in fields.items()}),
        )
    )


@given(structs(st.recursive(st.sampled_from(JSON), larger, max_leaves=5)), st.data())
def test_any_json_of_a_schema_comes_back(shape: Typed, data: st.DataObject) -> None:
    schema, strategy = shape
    assert isinstance(schema, sql.StructType)
    values = data.draw(st.lists(strategy, max_size=4))
    assert decoded(decoder(Json(), schema), *map(Json().encode, values)) == [*map(good, values)]


NESTED = sql.StructType().add("at", sql.ArrayType(sql.StructType().add("x", "float"))).add("tags", "string")
NESTED.add("of", sql.MapType(sql.StringType(), sql.ByteType())).add("sure", "boolean")
MISFITS = {
    b'{"name": 5}': "name: TypeError: int is not string",
    b'{"name": ["x"]}': "name: TypeError: list is not string",
    b'{"price": "1.5"}': "price: TypeError: str is not double",
    b'{"price": true}': "price: TypeError: bool is not double",
    b'{"price": 9007199254740993}': "price: ArrowInvalid: Integer value 9007199254740993 is outside of the range",
    b'{"count": 1.5}': "count: TypeError: float is not int32",
    b'{"count": true}': "count: TypeError: bool is not int32",
    b'{"count": 2147483648}': "count: ArrowInvalid: Value 2147483648 too large",
    b'{"count": 1%s}' % bytes(30).replace(b"\0", b"0"): "count: OverflowError: Python int too large",
    b"5": "name: AttributeError: 'int' object has no attribute 'name'",
    b"[]": "name: AttributeError: 'list' object has no attribute 'name'",
}
NESTED_MISFITS = {
    b'{"at": {"x": 1}}': "at: TypeError: dict is not array",
    b'{"at": "abc"}': "at: TypeError: str is not array",
    b'{"at": [{"x": 1}, {"x": "1"}]}': "at.x: TypeError: str is not float",
    b'{"at": [{"x": 1e300}]}': "at.x: OverflowError: float too large",
    b'{"at": [5]}': "at.x: AttributeError: 'int' object",
    b'{"of": [["a", 1]]}': "of: TypeError: list is not map",
    b'{"of": {"a": 128}}': "of: ArrowInvalid: Value 128 too large",
    b'{"sure": 1}': "sure: TypeError: int is not bool",
}


@pytest.mark.parametrize(
    ("schema", "body", "said"),
    [
        *((LINES, body, said) for body, said in MISFITS.items()),
        *((NESTED, body, said) for body, said in NESTED_MISFITS.items()),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_that_names_the_column(
    schema: sql.StructType, body: bytes, said: str
) -> None:
    first, error, last = decoded(decoder(Json(), schema), b"{}", body, b'{"extra": 1}')
    assert first == last == good(dict.fromkeys(schema.fieldNames()))
    assert error["value"] is None
    assert error["error"].startswith(said)


@pytest.mark.parametrize("codec", [Json(dict), Msgspec(dict, "msgpack"), ORDER], ids=str)
def test_what_anybody_may_send_is_an_error_at_worst(codec: Any) -> None:
    rows = decoded(decoder(codec, None if codec is ORDER else LINES), *HOSTILE.values())
    assert all(row["value"] is None or row["error"] is None for row in rows)
    assert sum(row["error"] is not None for row in rows) > len(rows) / 2
    assert all(row["error"].isprintable() for row in rows if row["error"])
    assert max(len(row["error"] or "") for row in rows) < 300


@dataclass
class Line:
    name: str
    price: float | None = None
    count: int = 1


class Comma:
    """A codec of one's own."""

    def encode(self, value: Any) -> bytes:
        raise AssertionError("a reader encodes nothing")

    def decode(self, body: bytes) -> Any:
        name, price, count = body.decode().split(",")
        return SimpleNamespace(name=name, price=float(price), count=int(count))


def test_the_values_of_a_codec_may_be_objects() -> None:
    rows = decoded(decoder(Json(Line), LINES), b'{"name": "a"}', b'{"price": 1}', b'{"name": "a", "price": "1"}')
    assert rows[0] == good({"name": "a", "price": None, "count": 1})
    assert rows[1]["error"] == "ValidationError: Object missing required field `name`"
    assert rows[2]["error"] == "ValidationError: Expected `float | null`, got `str` - at `$.price`"
    required = sql.StructType().add("name", "string", nullable=False)
    assert decoded(decoder(Json(), required), b"{}") == [good({"name": None})]
    headed = sql.StructType().add("value", required).add("headers", sql.MapType(sql.StringType(), sql.StringType()))
    codec = Headers(Json(Line))
    body = codec.encode(Headed(Line("a"), {"b": "c"}))
    assert decoded(decoder(codec, headed), body) == [good({"value": {"name": "a"}, "headers": {"b": "c"}})]
    value, error = decoded(decoder(Comma(), LINES), b"a,1.5,2", b"a")
    assert value == good({"name": "a", "price": 1.5, "count": 2})
    assert error == {"value": None, "error": "ValueError: not enough values to unpack (expected 3, got 1)"}


def test_large_bodies_are_decoded_a_few_at_a_time() -> None:
    large = [Json().encode({"name": "x" * size}) for size in (9 * 2**20, 5, 5 * 2**20, 5 * 2**20, 0)]
    strict: Any = decoder(Json(), LINES)
    parts = [*strict.func(iter([pa.array([large[0], None, *large[1:], b"5"], pa.binary())]))]
    assert [len(part) for part in parts] == [1, 3, 3]
    lengths = [row["value"] and len(row["value"]["name"]) for part in parts for row in part.to_pylist()]
    assert lengths == [9 * 2**20, None, 5, 5 * 2**20, 5 * 2**20, 0, None]


def test_text_is_decoded_as_its_utf_8_and_numbers_are_no_bodies() -> None:
    strict: Any = decoder(Json(), LINES)
    assert [
        row["value"]["name"] for part in strict.func(iter([pa.array(['{"name": "é"}'])])) for row in part.to_pylist()
    ] == ["é"]
    with pytest.raises(pa.ArrowNotImplementedError):
        next(strict.func(iter([pa.array([5])])))


def test_times_decimals_and_bytes_of_a_codec() -> None:
    kinds: dict[str, tuple[sql.DataType, object]] = {
        "at": (sql.TimestampType(), datetime(2026, 11, 29, 12, tzinfo=UTC)),
        "day": (sql.DateType(), date(2026, 11, 29)),
        "took": (sql.DayTimeIntervalType(), timedelta(milliseconds=5)),
        "price": (sql.DecimalType(10, 2), Decimal("1.25")),
        "raw": (sql.BinaryType(), b"\0"),
    }
    schema = sql.StructType([sql.StructField(name, kind) for name, (kind, _) in kinds.items()])
    value = {name: one for name, (_, one) in kinds.items()}
    shape = NamedTuple("shape", [(name, type(one)) for name, one in value.items()])  # type: ignore[misc]
    codec = Msgspec(shape, "msgpack")
    assert decoded(decoder(codec, schema), codec.encode(shape(**value))) == [good(value)]


WRONG: dict[str, tuple[tuple[Any, ...], type[Exception], str]] = {
    "none": ((None,), TypeError, "codec is None"),
    "no codec": ((len, LINES), TypeError, "give an object with encode"),
    "a class": ((Line, LINES), TypeError, "is no protobuf message class"),
    "no schema": ((Json(),), ValueError, "schema: Json() needs one: 'name STRING, price DOUBLE'"),
    "a needless schema": ((ORDER, LINES), ValueError, "schema: Protobuf(shop.Order) has its columns itself"),
    "no columns": ((Json(), sql.StructType()), ValueError, "schema: a struct has no columns"),
    "no fields": ((SHOP.codec("shop.Nothing"),), ValueError, "schema: a struct has no columns"),
    "a variant": ((Json(), sql.StructType().add("a", sql.VariantType())), ValueError, "schema: there is no variant: "),
}


@pytest.mark.parametrize(("arguments", "kind", "said"), WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_said_at_once(arguments: tuple[Any, ...], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as caught:
        decoder(*arguments)
    assert said in str(caught.value)


CODECS: list[tuple[Any, bytes]] = [
    (ORDER, ORDER.encode(a_full_order())),
    (Protobuf(Timestamp), b"\x08\x01"),
    (Json(), b'{"a":1}'),
    (Json(Line), b'{"name":"a","price":1.5,"count":2}'),
    (Msgspec(Line, "msgpack"), Msgspec(Line, "msgpack").encode(Line("a"))),
    (Headers(Json(Line)), Headers(Json(Line)).encode(Headed(Line("a"), {"b": "c"}))),
]


@pytest.mark.parametrize(("codec", "body"), CODECS, ids=[repr(codec) for codec, _ in CODECS])
def test_codecs_can_be_pickled(codec: Any, body: bytes) -> None:
    again = pickle.loads(pickle.dumps(codec))
    assert repr(again) == repr(codec)
    assert again.encode(again.decode(body)) == body


# In Spark.


def recorded(directory: Path, *bodies: bytes) -> str:
    """A directory with a recording of these bodies, keys numbered."""
    recorder = Recorder(directory, UUID(int=1), Revision.DRAFT_2, print)
    for number, body in enumerate(bodies, 1):
        recorder.received(1, encode(Message("orders", str(number), body, number)))
    recorder.close()
    return str(directory)


BODIES = [ORDER.encode(a_full_order()), b"\xff", b"", b"\x0a\x01\xff"]
TOLD = {"1": "pens", "2": "DecodeError", "3": "", "4": "DecodeError"}


def told_of(rows: DataFrame) -> dict[str, str]:
    """By key, the name of each order, or the first word of its error."""
    return {row.key: row.error.split(":")[0] if row.error else row.name for row in rows.collect()}


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_rows_of_a_recording_and_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    directory = recorded(tmp_path / "recordings", *BODIES)
    order = decoder(ORDER)

    def typed(messages: DataFrame) -> DataFrame:
        return messages.select("key", "body", order("body").alias("order")).select(
            "key", "body", "order.value.*", "order.error"
        )

    rows = typed(spark.read.format("tolliver").load(directory))
    assert told_of(rows) == TOLD
    first = rows.where("error IS NULL AND name = 'pens'").drop("key", "error").collect()[0].asDict(recursive=True)
    naive = datetime.fromtimestamp(FULL["at"].timestamp())  # type: ignore[attr-defined]  # as Spark collects them
    assert first == FULL | {"at": naive, "body": BODIES[0]}

    seen: list[dict[str, str]] = []

    def write(batch: DataFrame, number: int) -> None:
        seen.append(told_of(batch))

    stream = typed(spark.readStream.format("tolliver").option("mode", "files").load(directory))
    writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert seen == [TOLD]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_in_sql_beside_another_and_beside_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    texts = [b'{"name": "a", "price": 1}', b'{"name": 5}', b'{"price": "x"}', b"\xff", b""]
    directory = recorded(tmp_path / "recordings", *texts)
    ddl = "name STRING, price DOUBLE"
    spark.udf.register("strictly", decoder(Json(dict), ddl))
    spark.udf.register("by_name", decoder(Comma(), ddl))
    spark.read.format("tolliver").load(directory).createOrReplaceTempView("decoding_messages")
    own = f"from_json(CAST(body AS STRING), '{ddl}, _corrupt_record STRING') AS own"
    other = "by_name('x,1.5,2').value.price AS other"
    found = spark.sql(f"SELECT strictly(body) AS strict, {own}, {other} FROM decoding_messages ORDER BY key").collect()
    assert [(row.strict.value and tuple(row.strict.value)) for row in found] == [("a", 1.0), None, None, None, None]
    assert [(row.strict.error or "").split(" ")[0] for row in found] == [
        "",
        "name:",
        "price:",
        "UnicodeDecodeError:",
        "JSONDecodeError:",
    ]
    assert [row.own and tuple(row.own) for row in found] == [
        ("a", 1.0, None),
        ("5", None, None),  # from_json makes text of the number
        (None, None, '{"price": "x"}'),
        (None, None, "\ufffd"),
        None,
    ]
    assert {row.other for row in found} == {1.5}
    spark.catalog.dropTempView("decoding_messages")


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_a_filter_of_errors_does_not_decode_once_more(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    bodies = spark.range(3).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS body")
    typed = bodies.select(decoder(Json(), "a INT")("body").alias("it"))
    typed.where("it.error IS NULL").select("it.value.a").explain()
    assert capsys.readouterr().out.count("ArrowEvalPython [") == 1


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_parts_of_a_batch_stay_with_their_rows(spark: SparkSession) -> None:
    text = """concat('{"name": "', repeat('x', 3 * 1024 * 1024 + CAST(id AS INT)), '"}')"""
    bodies = spark.range(0, 4, 1, 1).selectExpr("id", f"CAST({text} AS BINARY) AS body")  # 8 MiB are a part
    rows = bodies.select("id", functions.length(decoder(Json(), "name STRING")("body")["value"]["name"]).alias("size"))
    assert [(row["id"], row["size"] - 3 * 2**20) for row in rows.collect()] == [(0, 0), (1, 1), (2, 2), (3, 3)]
