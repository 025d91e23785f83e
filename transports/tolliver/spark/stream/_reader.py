"""Spark's streaming reader: plans on the driver, reads on workers.

A stream is a log that only grows, and a query has a place in it. The reader works for any kind of log; it has the
limits, the frozen end of Trigger.AvailableNow, and the plan of tasks. Spark creates it in several processes, one of
which lives as long as the query. So the log is opened when a place in it is first asked for. It is never closed,
because Spark does not report the end: the process just ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ..read._ranges import Range, Span, opened, plan_spans
from ..read._schema import check_schema, message_columns
from ._log import Bounds, Log, log
from ._offsets import Offset
from ._options import INLINE_BYTES, Staging, StreamOptions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ..read._batches import Piece, Policy

_INLINE_TASK = 4 * 2**20  # most bytes of a stage sent along with one task


class Inline(NamedTuple):
    """Blocks of a file from byte `start` on, which are sent along with a task instead of being read there."""

    file: str
    start: int
    data: bytes


Part = TypeVar("Part", Span, Range)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log in micro-batches, as record batches."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        """Opens nothing. Raises ValueError if the schema has unknown columns."""
        check_schema(schema, message_columns(options.read.include_metadata))
        self._options = options
        self._schema = schema
        self._opened: Log | None = None
        self._end: Offset | None = None
        self._since: float | None = None  # when it began to wait for minRowsPerTrigger

    @property
    def _log(self) -> Log:
        if self._opened is None:
            self._opened = _open(self._options)
        return self._opened

    # Called in the process that lives as long as the query.

    def prepareForTriggerAvailableNow(self) -> None:
        """Freeze the end: the query reads what exists now, and no more."""
        self._end = self._log.head()

    def initialOffset(self) -> Offset:
        """Place at which a query without a checkpoint begins: see startingOffsets."""
        return self._log.begin()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit given by the options. If they give two, `latestOffset` applies the other one."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        if self._options.min_rows is not None:
            return ReadMinRows(self._options.min_rows)
        return ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Any], limit: ReadLimit) -> Offset:
        """End of the next batch. By asking from `start`, Spark confirms that it has processed everything before."""
        self._log.consumed(start)
        end = self._log.head() if self._end is None else self._end
        if self._end is None and not isinstance(limit, ReadAllAvailable) and self._too_few(start, end):
            return dict(start)
        return self._log.advance(start, end, self._bounds(limit))

    def _too_few(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> bool:
        """True while fewer than minRowsPerTrigger messages wait, at most for maxTriggerDelay after the first was
        seen."""
        options, count = self._options, self._log.waiting(start, end)
        now = time.monotonic()
        if options.min_rows is None or count is None or not 0 < count < options.min_rows:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= options.max_delay:
            self._since = None
        return self._since is not None

    def reportLatestOffset(self) -> Offset:
        """End of the log, for `lag`."""
        return self._log.head()

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> Sequence[InputPartition]:
        """Tasks of about 32 MiB each, or less for minPartitions."""
        spans = [*self._there(self._log.spans(start, end))]
        least = self._options.read.min_partitions
        if not self._inline:
            return [InputPartition(ranges) for ranges in plan_spans(spans, least)]
        tasks = plan_spans(spans, least, _INLINE_TASK)
        return [InputPartition([_carried(part.file, part.start, part.end) for part in task]) for task in tasks]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Note that Spark has processed everything before `end`."""
        self._log.consumed(end)

    @property
    def _inline(self) -> bool:
        live = self._options.live
        return live is not None and live.staging is Staging.INLINE

    def _there(self, parts: Iterable[Part]) -> Iterator[Part]:
        """All parts; with failOnDataLoss=false only those whose file was not deleted meanwhile, as retention waits for
        no reader. A file is looked for just before it is opened; an open one may be deleted.
        """
        for part in parts:
            if self._options.fail_on_data_loss or os.path.exists(part.file):
                yield part
            else:
                told = "%s was deleted before it was read. failOnDataLoss=false: the query goes on with what is there"
                log.warning(told, part.file)

    def _bounds(self, limit: ReadLimit) -> Bounds:
        options = self._options
        if isinstance(limit, ReadAllAvailable):  # overrides the options, except what a driver's memory allows
            return Bounds(None, (options.max_bytes or INLINE_BYTES) if self._inline else None)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else options.max_rows
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.max_bytes
        return Bounds(rows, size)

    # Called on workers.

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Messages of a partition: always the same, in the same order."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from ..read._batches import BatchMaker, Policy, Wanted, batches_of, read_ranges

        options, wanted = self._options.read, Wanted.of(self._options.read)
        schema = to_arrow_schema(self._schema, timezone="UTC")
        if not self._inline:
            return read_ranges(self._there(partition.value), schema, options, wanted)
        policy = Policy(options)
        pieces = (piece for part in partition.value for piece in _pieces(part, policy))
        wanted_ones = (piece for piece in pieces if wanted.takes_block(piece.header))
        return batches_of(wanted_ones, BatchMaker(schema, wanted, options.rows_per_batch), policy)


def _open(options: StreamOptions) -> Log:
    if options.live is None:
        from ._files import Recordings

        return Recordings(options)
    from ._live import open_stage

    return open_stage(options)


def _carried(file: str, start: int, end: int) -> Inline:
    with opened(file) as recording:
        recording.seek(start)
        return Inline(file, start, recording.read(end - start))


def _pieces(part: Inline, policy: Policy) -> Iterator[Piece]:
    from tolliver_proto.recording import read_blocks

    from ..read._batches import good_blocks, piece_of

    for block in good_blocks(part.file, read_blocks([part.data], part.start), policy):
        yield piece_of(part.file, block)
