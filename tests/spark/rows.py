"""Rows for the sink's tests: record batches as Spark would give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

Row = tuple[str, str, bytes]


def batch(rows: Sequence[Row], ids: Sequence[int | None] | None = None, **types: Any) -> Any:
    """A record batch with the columns channel, key and body, and number where ids are given."""
    kinds = {"channel": pa.string(), "key": pa.string(), "body": pa.binary(), **types}
    columns = {name: pa.array([row[at] for row in rows], kinds[name]) for at, name in enumerate(kinds)}
    if ids is not None:
        columns["number"] = pa.array(ids, pa.int64())
    return pa.record_batch(columns)


def batches(rows: Sequence[Row], size: int) -> Iterator[Any]:
    """In batches of so many rows, and an empty one at the end, as a filter may leave it."""
    for start in range(0, len(rows), size):
        yield batch(rows[start : start + size])
    yield batch([])


def numbered(count: int, channel: str = "rows") -> list[Row]:
    return [(channel, f"k{number % 7}", b"%d" % number) for number in range(1, count + 1)]
