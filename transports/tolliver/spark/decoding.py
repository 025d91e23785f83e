"""Bodies as typed columns, by a codec.

Theory: Spark decodes by functions of a column (`from_json`, `from_protobuf`), so this is one, too. It serves batches,
streams, SQL and Connect, and bodies from anywhere: no source has an option for it. A body becomes either a value or an
error, and nothing between: in a partial row nobody could tell what did not fit from what was sent as null.

A batch is built column by column, and all values of a column go to Arrow in one call. If one of them does not fit, each
row is built alone, and only those that do not fit are refused. Arrow itself is lenient (it makes 1.5 an integer, and
True a number), so the types of the values are checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate, chain
from operator import attrgetter
from pkgutil import resolve_name
from struct import pack
from typing import Any, NamedTuple

from .._extras import needed

needed("spark", "pyspark", "pyarrow")

import pyarrow as pa
import pyspark.sql.types as sql
from pyspark.sql import functions

from .._driver.ends import told
from ..codecs import AnyCodec, Protobuf
from ..codecs._codec import coding_of


def decoder(codec: AnyCodec[Any] | str, schema: sql.StructType | str | None = None) -> Callable[..., Any]:
    """A function of a column of bodies, which gives a struct: `value`, and `error` (string), which says why there is
    no value. Both are null where the body is null.

    It is a user-defined function like any: `messages.select("*", order("body").alias("order"))`, or in SQL after
    `spark.udf.register("order", order)`. `codec` is one of `tolliver.codecs`, a protobuf message class, or any object
    with `encode` and `decode`; one that cannot be pickled is given as its import name, `"acme.codecs:ORDER"`.

    `value` has the columns of the protobuf type. Any other codec needs a `schema`: a StructType or, in a session, DDL
    such as `"name STRING, price DOUBLE"`. Its values are dicts, where what is missing is null, or objects with the
    columns as attributes (dataclasses, attrs, msgspec).

    Raises TypeError if `codec` is none; ValueError for a schema that is missing or needless, for NOT NULL and for types
    that it cannot have; ImportError or AttributeError for an import name that leads nowhere.
    """
    shape = sql.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    _, kind = _parts(codec, shape)

    def decoded(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        decode, columns = _parts(codec, shape)
        return (_batch(bodies, decode, columns.array) for bodies in batches)

    result = sql.StructType().add("value", kind.spark).add("error", "string")
    made = functions.arrow_udf(decoded, result)  # type: ignore[attr-defined]  # since Spark 4.1
    once: Callable[..., Any] = made.asNondeterministic()  # or a filter of errors would decode everything once more
    return once


class _Kind(NamedTuple):
    """A type of values in Spark, and how to make an Arrow array of them, which raises for values that do not fit."""

    spark: Any
    array: Callable[[Sequence[Any]], Any]


class _Misfit(Exception):
    """A value does not fit its column: the column's path, and the reason."""


def _parts(codec: Any, shape: Any) -> tuple[Callable[[bytes], Any], _Kind]:
    found = resolve_name(codec) if isinstance(codec, str) else codec
    decode = coding_of(found).decode
    if decode is None:
        raise TypeError("codec is None: give one of tolliver.codecs, or a protobuf message class")
    if isinstance(found, type):
        found = Protobuf(found)
    if isinstance(found, Protobuf) is not (shape is None):
        said = "has its columns itself: leave it out" if shape else "needs one: 'name STRING, price DOUBLE'"
        raise ValueError(f"schema: {found!r:.100} {said}")
    return decode, _of_message(found.kind.DESCRIPTOR) if shape is None else _of_spark(shape)


def _batch(bodies: Any, decode: Callable[[bytes], Any], build: Callable[[Sequence[Any]], Any]) -> Any:
    values: list[Any] = bodies.cast(pa.binary()).to_pylist()
    errors: list[str | None] = [None] * len(values)
    for at, body in enumerate(values):
        try:
            values[at] = None if body is None else decode(body)
        except Exception as error:  # a codec's own, for bytes that anybody may send
            values[at], errors[at] = None, told(error)
    try:
        column = build(values)
    except _Misfit:
        for at, value in enumerate(values):
            try:
                build([value])
            except _Misfit as misfit:
                values[at], errors[at] = None, str(misfit)[1:]
        column = build(values)
    return pa.StructArray.from_arrays([column, pa.array(errors, pa.string())], ["value", "error"])


def _check(values: Sequence[Any], takes: Any, kind: sql.DataType) -> None:
    for found in {*map(type, values)} - {type(None)}:
        if found is not takes and (not issubclass(found, takes) or found in (bool, datetime, str, bytes)):
            raise TypeError(f"{found.__name__} is not {kind.simpleString()}")


def _nulls(values: Sequence[Any]) -> Any:
    return pa.array([value is None for value in values], pa.bool_())


def _offsets(values: Sequence[Any]) -> Any:
    return pa.array([0, *accumulate(len(value or ()) for value in values)], pa.int32())


def _leaf(kind: sql.DataType, arrow: Any, takes: Any, convert: Callable[[Any], Any] | None = None) -> _Kind:
    def array(values: Sequence[Any]) -> Any:
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        _check(values, takes, kind)
        return pa.array(values, arrow)

    return _Kind(kind, array)


def _items(item: _Kind) -> _Kind:
    def array(values: Sequence[Any]) -> Any:
        _check(values, Sequence, kind)
        items = item.array([*chain.from_iterable(filter(None, values))])
        return pa.ListArray.from_arrays(_offsets(values), items, mask=_nulls(values))

    kind = sql.ArrayType(item.spark)
    return _Kind(kind, array)


def _pairs(key: _Kind, item: _Kind) -> _Kind:
    def array(values: Sequence[Any]) -> Any:
        _check(values, Mapping, kind)
        keys = key.array([*chain.from_iterable(filter(None, values))])
        items = item.array([one for value in values if value for one in value.values()])
        return pa.MapArray.from_arrays(_offsets(values), keys, items, mask=_nulls(values))

    kind = sql.MapType(key.spark, item.spark)
    return _Kind(kind, array)


def _struct(fields: Mapping[str, tuple[Callable[[Any], Any], _Kind]]) -> _Kind:
    def array(values: Sequence[Any]) -> Any:
        columns = []
        for name, (part, kind) in fields.items():
            try:
                columns.append(kind.array([None if value is None else part(value) for value in values]))
            except Exception as error:  # a value's own, Arrow's, or an overflow of Python's
                said = str(error) if isinstance(error, _Misfit) else f": {told(error)}"
                raise _Misfit(f".{name}{said}") from error
        return pa.StructArray.from_arrays(columns, [*fields], mask=_nulls(values))

    if not fields:
        raise ValueError("schema: a struct has no columns")
    return _Kind(sql.StructType([sql.StructField(name, kind.spark) for name, (_, kind) in fields.items()]), array)


_LEAVES: dict[str, tuple[sql.DataType, Any, Any]] = {
    "string": (sql.StringType(), pa.string(), str),
    "binary": (sql.BinaryType(), pa.binary(), bytes),
    "boolean": (sql.BooleanType(), pa.bool_(), bool),
    "tinyint": (sql.ByteType(), pa.int8(), int),
    "smallint": (sql.ShortType(), pa.int16(), int),
    "int": (sql.IntegerType(), pa.int32(), int),
    "bigint": (sql.LongType(), pa.int64(), int),
    "float": (sql.FloatType(), pa.float32(), (int, float)),
    "decimal(20,0)": (sql.DecimalType(20, 0), pa.decimal128(20, 0), (int, Decimal)),
    "double": (sql.DoubleType(), pa.float64(), (int, float)),
    "date": (sql.DateType(), pa.date32(), date),
    "timestamp": (sql.TimestampType(), pa.timestamp("us", "UTC"), datetime),
    "interval day to second": (sql.DayTimeIntervalType(), pa.duration("us"), timedelta),
}


def _of_spark(kind: Any) -> _Kind:
    if isinstance(kind, sql.ArrayType):
        return _items(_of_spark(kind.elementType))
    if isinstance(kind, sql.MapType):
        return _pairs(_of_spark(kind.keyType), _of_spark(kind.valueType))
    if isinstance(kind, sql.DecimalType):
        return _leaf(kind, pa.decimal128(kind.precision, kind.scale), (int, Decimal))
    name = kind.simpleString()
    if isinstance(kind, sql.StructType):
        if required := [field.name for field in kind.fields if not field.nullable]:
            raise ValueError(f"schema: NOT NULL of {', '.join(required)} is for the codec to check: leave it out")
        return _struct({field.name: (_part(field.name), _of_spark(field.dataType)) for field in kind.fields})
    if name not in _LEAVES:
        raise ValueError(f"schema: there is no {name}: give {', '.join(_LEAVES)}, decimal, array, map or struct")
    return _leaf(*_LEAVES[name], _single if name == "float" else None)


def _single(value: Any) -> Any:
    """The value; of one that is too large, Arrow would make an infinity. Raises OverflowError."""
    return pack("<f", value) and value if isinstance(value, float) else value


def _part(name: str) -> Callable[[Any], Any]:
    return lambda value: value.get(name) if isinstance(value, dict) else getattr(value, name)


_SCALARS = {
    1: "int",
    2: "bigint",
    3: "bigint",
    4: "decimal(20,0)",
    5: "double",
    6: "float",
    7: "boolean",
}  # by cpp_type
_TIMES = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "interval day to second"}


def _of_message(descriptor: Any, outer: tuple[Any, ...] = ()) -> _Kind:
    inner = (*outer, descriptor)
    return _struct({field.name: (_present(field), _of_field(field, inner)) for field in descriptor.fields})


def _present(field: Any) -> Callable[[Any], Any]:
    name, get = field.name, attrgetter(field.name)
    return (lambda message: get(message) if message.HasField(name) else None) if field.has_presence else get


def _of_field(field: Any, outer: tuple[Any, ...]) -> _Kind:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, item = field.message_type.fields
        return _pairs(_of_value(key, outer), _of_value(item, outer))
    value = _of_value(field, outer)
    return _items(value) if field.default_value == [] else value  # which only repeated fields have


def _of_value(field: Any, outer: tuple[Any, ...]) -> _Kind:
    message = field.message_type
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return _leaf(*_LEAVES["string"], lambda number: names.get(number, str(number)))
    if message is None:
        text = "binary" if field.type == field.TYPE_BYTES else "string"
        return _leaf(*_LEAVES[_SCALARS.get(field.cpp_type, text)])
    if message.full_name in _TIMES:
        kind, arrow, _ = _LEAVES[_TIMES[message.full_name]]
        return _leaf(kind, arrow, int, lambda value: value.ToMicroseconds())
    if message in outer or not message.fields:
        return _leaf(*_LEAVES["binary"], lambda value: value.SerializeToString())
    return _of_message(message, outer)
