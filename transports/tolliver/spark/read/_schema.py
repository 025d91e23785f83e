"""Columns of messages in Spark, and the check of a user's schema.

A user's schema may leave out columns and reorder them, which is how columns are pruned (Spark does not prune those of a
Python source by itself). It must not have any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OF_FRAMES = {
    "channel": "string",
    "key": "string",
    "body": "binary",
    "message_id": "bigint",
    "reliable": "boolean",
}
"""The columns that a frame has by itself; `message_id` is null where it is unreliable (T-42)."""

OF_MESSAGES = OF_FRAMES | {"sender": "string"}
"""Columns of a frame, and its sender: an instance's UUID, null if the recording does not have it."""

METADATA = {
    "received_at": "timestamp",
    "file": "string",
    "frame_offset": "bigint",
    "direction": "string",
    "place": "bigint",
}
"""The columns of a message's place, with includeMetadata=true."""

_NULLABLE = frozenset(("message_id", "sender", "file"))


def ddl(columns: dict[str, str]) -> str:
    """The columns in Spark's DDL."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def message_columns(include_metadata: bool = False) -> dict[str, str]:
    """Names and types of a recording's columns, with `include_metadata` also of those about the file."""
    return OF_MESSAGES | METADATA if include_metadata else OF_MESSAGES


def check_names(names: Sequence[str]) -> None:
    """Raises ValueError for a column that is named twice."""
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ValueError(f"the column {name} is there twice: name each column once")


def check_schema(schema: StructType, columns: dict[str, str]) -> None:
    """Raises ValueError unless the schema has some of these columns, with these types, each once."""
    if not schema.fields:
        raise ValueError(f"the schema has no columns: choose among {ddl(columns)}")
    check_names(schema.fieldNames())
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if columns.get(field.name) != kind:
            hint = (
                " (the metadata needs includeMetadata=true)"
                if field.name in METADATA and field.name not in columns
                else ""
            )
            raise ValueError(f"there is no column {field.name} {kind}{hint}: choose among {ddl(columns)}")
        if not field.nullable and field.name in _NULLABLE:
            raise ValueError(f"the column {field.name} may be null: leave NOT NULL out")
