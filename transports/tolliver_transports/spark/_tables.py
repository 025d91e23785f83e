"""Options of tables in a catalog.

They are in `CREATE TABLE messages USING tolliver OPTIONS (path '...')`. Spark asks a source for the columns of such a
table with all the table's properties, and later for a reader or a writer with none of them. The columns are what it
keeps: so they carry the options, as metadata of the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_IN_CATALOG = "provider"  # every table has this property, and no reader or writer is given one
_OPTION = "option."
_CARRIED = "tolliver"
_DDL = {"bigint": "long"}


def of_table(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options that a table was made with; None where this is no table's properties."""
    lower = {name.lower(): text for name, text in options.items()}
    if _IN_CATALOG not in lower:
        return None
    given = {name[len(_OPTION) :]: text for name, text in lower.items() if name.startswith(_OPTION)}
    where = lower.get("path", lower.get("location"))
    return given if where is None or "is_managed_location" in lower else given | {"path": where}


def carrying(columns: Mapping[str, str], options: Mapping[str, str]) -> StructType:
    """These columns, and in them the options."""
    from pyspark.sql.types import StructType

    made = StructType()
    for name, kind in columns.items():
        made.add(name, _DDL.get(kind, kind), True, None if made.fields else {_CARRIED: dict(options)})
    return made


def carried(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """The options of a reader or a writer, and those of its table."""
    kept = {name: text for field in schema.fields for name, text in (field.metadata or {}).get(_CARRIED, {}).items()}
    return kept | {name.lower(): text for name, text in options.items()}
