"""Batch reader of "tolliver-rs": each task subscribes to one publisher.

The number of a task's rows is limited from the start. `Demand` counts the granted and received elements; it refills its
window at half, like every subscription of this package, but never grants more than planned. A stream cannot be resumed
(R-31), so a retried task subscribes again, and gets what the publisher then has.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ...blocking import create_streams
from ..read._schema import check_schema
from ._options import COLUMNS, DemandOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

CONNECT = 20.0
"""Seconds to wait for a publisher to connect."""

_BATCH_BYTES = 8 * 2**20  # bytes collected for one batch, before its last run
_ELEMENTS_AT_ONCE = 4096  # most elements taken at once


class Demand:
    """Number of elements that one stream has granted to its publisher and received.

    Invariants: granted <= planned; granted - taken <= window; while taken < planned, granted > taken.
    """

    def __init__(self, window: int, planned: int | None) -> None:
        self._window = window
        self._planned = math.inf if planned is None else planned
        self._taken = 0
        self.granted = int(min(window, self._planned))
        """Total granted. The first grant is made by the subscription."""

    @property
    def done(self) -> bool:
        return self._taken >= self._planned

    def take(self, count: int) -> int:
        """Count `count` received elements; returns the number to grant now, possibly 0."""
        self._taken += count
        outstanding = self.granted - self._taken
        if outstanding > self._window // 2:
            return 0
        more = int(min(self._window - outstanding, self._planned - self.granted))
        self.granted += more
        return more


def elements_of(name: str, options: DemandOptions) -> Generator[list[bytes]]:
    """Runs of elements of the publisher `name`, up to the planned count, the deadline or its end, whichever is first.

    Raises StreamError with the publisher's text, ConnectionLost, and other errors of `connect` and of iterating.
    """
    with create_streams(options.of_streams) as streams:
        peer = streams.connect(options.remote, timeout=CONNECT)
        end = math.inf if options.deadline is None else time.monotonic() + options.deadline
        demand = Demand(options.window, options.max_elements)
        with peer.subscribe(name, demand=demand.granted, prefetch=0) as subscription:
            while not demand.done and (left := end - time.monotonic()) > 0:
                try:
                    run = subscription.next_run(_ELEMENTS_AT_ONCE, None if left == math.inf else left)
                except (StopIteration, TimeoutError):
                    return
                if more := demand.take(len(run)):
                    subscription.request(more)
                yield run


def batches_of(name: str, runs: Iterable[list[bytes]], schema: Any, rows: int) -> Iterator[Any]:
    """Record batches of about `rows` rows, from runs of elements of the publisher `name`, with those of `COLUMNS` that
    the schema has.
    """
    gathered: list[bytes] = []
    size = 0
    for run in runs:
        gathered += run
        size += sum(map(len, run))
        if len(gathered) >= rows or size >= _BATCH_BYTES:
            yield from _cut(name, gathered, schema, rows)
            gathered, size = [], 0
    yield from _cut(name, gathered, schema, rows)


_ARRAYS: dict[str, Callable[[str, list[bytes]], Any]] = {
    "publisher": lambda name, elements: pa.repeat(name, len(elements)),
    "element": lambda _name, elements: pa.array(elements, pa.binary()),
}
"""Makers of the columns."""


def _cut(name: str, elements: list[bytes], schema: Any, rows: int) -> Iterator[Any]:
    for start in range(0, len(elements), rows):
        part = elements[start : start + rows]
        yield pa.RecordBatch.from_arrays([_ARRAYS[column](name, part) for column in schema.names], schema=schema)


class DemandReader(DataSourceReader):
    """One partition for each publisher. It has options and a schema; tasks make the connections."""

    def __init__(self, options: DemandOptions, schema: StructType) -> None:
        """Raises ValueError if the schema has unknown columns."""
        check_schema(schema, COLUMNS)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(name) for name in self._options.publishers]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Elements of the partition's publisher as record batches; they may differ in another try of the task."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        with closing(elements_of(partition.value, self._options)) as runs:
            yield from batches_of(partition.value, runs, schema, self._options.rows_per_batch)
