"""Reader of recordings: it plans on the driver, reads on workers.

A reader holds options and a schema, which travel to the workers; everything else is made where it is used. Filters are
options. Spark's own push-down is off by default, and then refuses a reader that could do it; so that is a second class,
for those who asked for it and switched it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ._options import ReadOptions
from ._ranges import files_of, plan
from ._schema import check_schema, message_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ._batches import Wanted


class RecordingReader(DataSourceReader):
    """Reads the messages of recordings as record batches."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Raises ValueError for a schema with other columns than recordings have."""
        check_schema(schema, message_columns(options.include_metadata))
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Ranges of files, of some 32 MiB each, or smaller ones where minPartitions asks for it."""
        files = files_of(self._options.paths)
        return [InputPartition(ranges) for ranges in plan(files, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The messages of a partition: the same ones in the same order whenever it is asked."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from ._batches import read_ranges

        return read_ranges(
            partition.value, to_arrow_schema(self._schema, timezone="UTC"), self._options, self._wanted()
        )

    def _wanted(self) -> Wanted:
        from ._batches import Wanted

        return Wanted.of(self._options)


class PushdownReader(RecordingReader):
    """Takes from Spark what it filters channels, keys, senders and times by, and leaves it the rest."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._pushed: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keeps what it can evaluate exactly; gives back what Spark must evaluate."""
        from ._pushdown import narrowed

        rest = []
        wanted = super()._wanted()
        for one in filters:
            if narrowed(wanted, one) is None:
                rest.append(one)
            else:
                self._pushed.append(one)
        return rest

    def _wanted(self) -> Wanted:
        from ._pushdown import narrowed

        wanted = super()._wanted()
        for one in self._pushed:
            wanted = narrowed(wanted, one) or wanted
        return wanted
