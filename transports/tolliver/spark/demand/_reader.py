"""Batch reader of "tolliver-rs": each task is the subscriber of one publisher.

A task's rows are bounded before the first one is asked for. `Demand` counts what was granted and what was taken; it
fills its window up at half, as every subscription of this package does, but never grants beyond the planned count.
Nothing is taken up again (R-31), so a task that is tried again asks anew, and gets what the publisher then has.
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
"""Seconds for a publisher to be there."""

_BATCH_BYTES = 8 * 2**20  # that gather for one batch, and one run more
_ELEMENTS_AT_ONCE = 4096  # elements that are taken at once


class Demand:
    """The demand of one stream.

    Always: granted <= planned, granted - taken <= window; and while fewer than planned are taken, some are granted.
    """

    def __init__(self, window: int, planned: int | None) -> None:
        self._window = window
        self._planned = math.inf if planned is None else planned
        self._taken = 0
        self.granted = int(min(window, self._planned))
        """In all; at first with the subscription."""

    @property
    def done(self) -> bool:
        return self._taken >= self._planned

    def take(self, count: int) -> int:
        """So many came. Returns how many to grant now, which may be none."""
        self._taken += count
        outstanding = self.granted - self._taken
        if outstanding > self._window // 2:
            return 0
        more = int(min(self._window - outstanding, self._planned - self.granted))
        self.granted += more
        return more


def elements_of(name: str, options: DemandOptions) -> Generator[list[bytes]]:
    """Runs of a publisher's elements, to the planned count, the deadline or its end, whichever comes first.

    Raises StreamError with the publisher's text, ConnectionLost, and what else `connect` and iterating raise.
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
    """Record batches of about so many rows, with some of `COLUMNS`."""
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
    """One partition for each publisher. It holds options and a schema; connections are made by the tasks."""

    def __init__(self, options: DemandOptions, schema: StructType) -> None:
        """Raises ValueError for a schema with other columns."""
        check_schema(schema, COLUMNS)
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(name) for name in self._options.publishers]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The elements that the publisher has for this try: not the same as for another one."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        with closing(elements_of(partition.value, self._options)) as runs:
            yield from batches_of(partition.value, runs, schema, self._options.rows_per_batch)
