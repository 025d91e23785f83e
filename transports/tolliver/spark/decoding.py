"""Bodies as typed columns, by a codec.

Theory: Spark decodes by functions of a column (`from_json`, `from_protobuf`), so this is one, too. It serves batches,
streams, SQL and Connect, and bodies from anywhere: no source has an option for it. A body becomes either a value or an
error, and nothing between: in a partial row nobody could tell what did not fit from what was sent as null.

A builder makes an Arrow array of a list of values, and an empty array is its type. So a batch is built column by
column. If a value does not fit, each row is built alone, and only those that do not fit are refused. Arrow itself is
lenient (it makes 1.5 an integer, and True a number), so the types of the values are checked before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import accumulate, chain
from operator import attrgetter
from struct import pack
from typing import Any

from .._extras import needed

needed("spark", "pyspark", "pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types as sql
from pyspark.sql import functions
from pyspark.sql.pandas.types import from_arrow_type

from .._driver.ends import told
from ..codecs import AnyCodec, Protobuf
from ..codecs._codec import coding_of

_Build = Callable[[Sequence[Any]], Any]
_PART_BYTES = 8 * 2**20  # most bytes of bodies decoded at once, except a larger single one


def decoder(codec: AnyCodec[Any], schema: sql.StructType | str | None = None) -> Callable[..., Any]:
    """A function of a column of bodies, which gives a struct: `value`, and `error` (string), which says why there is no
    value. Both are null where the body is null, or decoded is None, as JSON's `null`.

    It is a user-defined function like any: `messages.select("*", order("body").alias("order"))`, or in SQL after
    `spark.udf.register("order", order)`. `codec` is one of `tolliver.codecs`, a protobuf message class, or any object
    with `encode` and `decode` that can be pickled.

    `value` has the columns of the protobuf type. Any other codec needs a `schema`: a StructType or, in a session, DDL
    such as `"name STRING, price DOUBLE"`. Its values are dicts, where what is missing is null, or objects with the
    columns as attributes (dataclasses, attrs, msgspec). The codec says what is required: NOT NULL does nothing.

    Raises TypeError if `codec` is none, and ValueError for a schema that is missing, needless, or has other types.
    """
    shape: Any = sql.StructType.fromDDL(schema) if isinstance(schema, str) else schema
    value = from_arrow_type(_parts(codec, shape)[1]([]).type)

    def decoded(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        decode, build = _parts(codec, shape)
        return (_decoded(bodies, decode, build) for batch in batches for bodies in _split(batch.cast(pa.binary())))

    made = functions.arrow_udf(decoded, sql.StructType().add("value", value).add("error", "string"))  # type: ignore[attr-defined]
    once: Callable[..., Any] = made.asNondeterministic()  # or a filter of errors would decode everything once more
    return once


def _parts(codec: Any, shape: sql.StructType | None) -> tuple[Callable[[bytes], Any], _Build]:
    if isinstance(codec, type):
        codec = Protobuf(codec)
    decode = coding_of(codec).decode
    if decode is None:
        raise TypeError("codec is None: give one of tolliver.codecs, or a protobuf message class")
    if isinstance(codec, Protobuf) is not (shape is None):
        said = "has its columns itself: leave it out" if shape is not None else "needs one: 'name STRING, price DOUBLE'"
        raise ValueError(f"schema: {codec!r:.100} {said}")
    return decode, _of_message(codec.kind.DESCRIPTOR) if shape is None else _of_spark(shape)


def _split(bodies: Any) -> Iterator[Any]:
    """The bodies in parts, as decoded they may take many times their bytes."""
    start = size = 0
    for at, more in enumerate(pc.binary_length(bodies).to_pylist() if bodies.nbytes > _PART_BYTES else ()):
        if at > start and size + (more or 0) > _PART_BYTES:
            yield bodies.slice(start, at - start)
            start, size = at, 0
        size += more or 0
    yield bodies.slice(start)


def _decoded(bodies: Any, decode: Callable[[bytes], Any], build: _Build) -> Any:
    values: list[Any] = bodies.to_pylist()
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


class _Misfit(Exception):
    """A value does not fit its column: the column's path, and the reason."""


def _check(values: Sequence[Any], takes: Any, wanted: object) -> None:
    for found in {*map(type, values)} - {type(None)}:
        if found is not takes and (not issubclass(found, takes) or found in (bool, datetime, str, bytes)):
            raise TypeError(f"{found.__name__} is not {wanted}")


def _nulls(values: Sequence[Any]) -> Any:
    return pa.array([value is None for value in values], pa.bool_())


def _offsets(values: Sequence[Any]) -> Any:
    return pa.array([0, *accumulate(len(value or ()) for value in values)], pa.int32())


def _leaf(arrow: Any, takes: Any, convert: Callable[[Any], Any] | None = None) -> _Build:
    def build(values: Sequence[Any]) -> Any:
        if convert is not None:
            values = [None if value is None else convert(value) for value in values]
        _check(values, takes, arrow)
        return pa.array(values, arrow)

    return build


def _items(item: _Build) -> _Build:
    def build(values: Sequence[Any]) -> Any:
        _check(values, Sequence, "array")
        items = item([*chain.from_iterable(filter(None, values))])
        return pa.ListArray.from_arrays(_offsets(values), items, mask=_nulls(values))

    return build


def _pairs(key: _Build, item: _Build) -> _Build:
    def build(values: Sequence[Any]) -> Any:
        _check(values, Mapping, "map")
        keys = key([*chain.from_iterable(filter(None, values))])
        items = item([one for value in values if value for one in value.values()])
        return pa.MapArray.from_arrays(_offsets(values), keys, items, mask=_nulls(values))

    return build


def _struct(fields: Mapping[str, tuple[Callable[[Any], Any], _Build]]) -> _Build:
    """By name how to get a column's values from the struct's, and their builder."""
    if not fields:
        raise ValueError("schema: a struct has no columns")

    def build(values: Sequence[Any]) -> Any:
        columns = []
        for name, (part, column) in fields.items():
            try:
                columns.append(column([None if value is None else part(value) for value in values]))
            except Exception as error:  # a value's own, Arrow's, or an overflow of Python's
                said = str(error) if isinstance(error, _Misfit) else f": {told(error)}"
                raise _Misfit(f".{name}{said}") from error
        return pa.StructArray.from_arrays(columns, [*fields], mask=_nulls(values))

    return build


_LEAVES: dict[str, tuple[Any, Any]] = {
    "string": (pa.string(), str),
    "binary": (pa.binary(), bytes),
    "boolean": (pa.bool_(), bool),
    "tinyint": (pa.int8(), int),
    "smallint": (pa.int16(), int),
    "int": (pa.int32(), int),
    "bigint": (pa.int64(), int),
    "float": (pa.float32(), (int, float)),
    "double": (pa.float64(), (int, float)),
    "date": (pa.date32(), date),
    "timestamp": (pa.timestamp("us", "UTC"), datetime),
    "interval day to second": (pa.duration("us"), timedelta),
}


def _of_spark(kind: Any) -> _Build:
    name = kind.simpleString()
    if isinstance(kind, sql.StructType):
        return _struct({field.name: (_part(field.name), _of_spark(field.dataType)) for field in kind.fields})
    if isinstance(kind, sql.ArrayType):
        return _items(_of_spark(kind.elementType))
    if isinstance(kind, sql.MapType):
        return _pairs(_of_spark(kind.keyType), _of_spark(kind.valueType))
    if isinstance(kind, sql.DecimalType):
        return _leaf(pa.decimal128(kind.precision, kind.scale), (int, Decimal))
    if name not in _LEAVES:
        raise ValueError(f"schema: there is no {name}: give {', '.join(_LEAVES)}, decimal, array, map or struct")
    return _leaf(*_LEAVES[name], _single if name == "float" else None)


def _part(name: str) -> Callable[[Any], Any]:
    return lambda value: value.get(name) if isinstance(value, dict) else getattr(value, name)


def _single(value: Any) -> Any:
    """The value; of one that is too large, Arrow would make an infinity. Raises OverflowError."""
    return pack("<f", value) and value if isinstance(value, float) else value


_SCALARS = {1: "int", 2: "bigint", 3: "bigint", 5: "double", 6: "float", 7: "boolean"}  # by cpp_type
_TIMES = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "interval day to second"}


def _of_message(descriptor: Any, outer: tuple[Any, ...] = ()) -> _Build:
    inner = (*outer, descriptor)
    return _struct({field.name: (_present(field), _of_field(field, inner)) for field in descriptor.fields})


def _present(field: Any) -> Callable[[Any], Any]:
    name, get = field.name, attrgetter(field.name)
    return (lambda message: get(message) if message.HasField(name) else None) if field.has_presence else get


def _of_field(field: Any, outer: tuple[Any, ...]) -> _Build:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _pairs(*(_of_value(part, outer) for part in field.message_type.fields))
    value = _of_value(field, outer)
    return _items(value) if field.default_value == [] else value  # which only repeated fields have


def _of_value(field: Any, outer: tuple[Any, ...]) -> _Build:
    message = field.message_type
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return _leaf(pa.string(), str, lambda number: names.get(number, str(number)))
    if field.cpp_type == field.CPPTYPE_UINT64:
        return _leaf(pa.decimal128(20, 0), int)
    if message is None:
        return _leaf(*_LEAVES[_SCALARS.get(field.cpp_type, "binary" if field.type == field.TYPE_BYTES else "string")])
    if message.full_name in _TIMES:
        return _leaf(_LEAVES[_TIMES[message.full_name]][0], int, lambda value: value.ToMicroseconds())
    if message in outer or not message.fields:
        return _leaf(pa.binary(), bytes, lambda value: value.SerializeToString())
    return _of_message(message, outer)
