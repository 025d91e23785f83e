"""Options of tables in Spark's catalog.

They are given in `CREATE TABLE messages USING tolliver OPTIONS (path '...')`. Spark 4.3 asks a source for the columns
of such a table with all properties of the table, and later for a reader without any of them. It keeps only the columns,
so these carry the options, as metadata of the first column.

Metadata may also come with foreign data: a Parquet file has that of its columns. So a writer ignores it (Spark gives it
the columns of the data, not the table's), and so does a call that names its own path. And only a few options are kept:
the place of recordings, and filters of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .read._options import OPTIONS
from .read._schema import message_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEPT = (
    "path", "recursiveFileLookup", "pathGlobFilter", "channels", "channelPattern", "keys", "peers", "timeFrom",
    "timeTo", "direction", "includeMetadata",
)  # fmt: skip
"""The options that a table keeps."""

_IN_CATALOG = "provider"  # a property of every table; readers and writers never get it
_OPTION = "option."
_CARRIED = "tolliver"
_DDL = {"bigint": "long"}
_PLACES = {"path", "paths", "listen", "connect", "stagingdir"}
_KEPT = {name.lower() for name in KEPT}
_OF_A_QUERY = "a table keeps no such option: give it with each query, SELECT ... FROM name WITH ({} = '...')"
_OF_STREAMS = 'a table keeps no such option: give it to spark.readStream.format("tolliver")'
_OF_A_SINK = (
    "Spark gives no writer the options of a table, so none can be a sink: CREATE TEMPORARY VIEW name (channel STRING, "
    "key STRING, body BINARY) USING tolliver OPTIONS (connect '...')"
)


def of_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """Options given at the creation of a table; None if `options` are not a table's properties.

    Raises ValueError, which names the option, for one that a table does not keep or that is invalid.
    """
    lower = {name.lower(): text for name, text in options.items()}
    if _IN_CATALOG not in lower:
        return None
    given = {name[len(_OPTION) :]: text for name, text in lower.items() if name.startswith(_OPTION)}
    where = lower.get("path", lower.get("location"))
    if where is not None and "is_managed_location" not in lower:
        given["path"] = where
    refused = _refused()
    for name in [name for name in refused if name in given]:
        raise ValueError(f"the option {name}: {refused[name]}")
    for name in sorted((refused.keys() | _KEPT - {"path"}) & lower.keys() - given.keys()):
        raise ValueError(
            f"{name} is among the table's properties, where nothing reads it: write OPTIONS ({name} '...')"
        )
    return given


def _refused() -> dict[str, str]:
    """Options that a table does not keep, and what to write instead."""
    from .stream._options import FILES_OPTIONS, LIVE_OPTIONS
    from .write._options import OPTIONS as OF_A_SINK

    refused = dict.fromkeys(OF_A_SINK, _OF_A_SINK) | dict.fromkeys([*LIVE_OPTIONS, *FILES_OPTIONS], _OF_STREAMS)
    refused |= {name: _OF_A_QUERY.format(name) for name in OPTIONS} | {"connect": _OF_A_SINK}
    return {name.lower(): remedy for name, remedy in refused.items() if name not in KEPT}


def carrying(columns: Mapping[str, str], options: Mapping[str, str]) -> StructType:
    """A schema with these columns, and the options in its metadata."""
    from pyspark.sql.types import StructType

    made = StructType()
    for name, kind in columns.items():
        made.add(name, _DDL.get(kind, kind), True, None if made.fields else {_CARRIED: dict(options)})
    return made


def for_reader(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Options of a reader's own call, completed by its table's if the call has no path.

    Raises ValueError if the schema carries options that no table keeps, or does not have all columns, as every table
    with options does. Spark also creates tables from the columns of data (LIKE, saveAsTable).
    """
    own = {name.lower(): text for name, text in options.items()}
    if own.keys() & _PLACES:
        return own
    kept: dict[str, Any] = {}
    for field in schema.fields:
        carried = (field.metadata or {}).get(_CARRIED, {})
        kept |= carried if isinstance(carried, dict) else {_CARRIED: carried}
    strange = [name for name, text in kept.items() if name not in _KEPT or not isinstance(text, str)]
    if strange:
        raise ValueError(
            f"the columns of this schema carry {', '.join(strange)!r:.200}, which no table keeps: if it is that of a "
            "table, DROP it and CREATE it again; else say where to read, load('recordings')"
        )
    if kept and schema.fieldNames() not in ([*message_columns()], [*message_columns(include_metadata=True)]):
        raise ValueError(
            f"the columns {', '.join(schema.fieldNames())!r:.200} carry options, and are not those of a table that has "
            "options: data brought them. Say where to read, load('recordings') or WITH (path = '...'); for a table, "
            "CREATE TABLE name USING tolliver OPTIONS (path '...')"
        )
    return kept | own
