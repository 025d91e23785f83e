"""Reader of recordings: plans on the driver, reads on workers.

A reader has only options and a schema, which are sent to the workers. Filters are options. Spark's own push-down is off
by default, and Spark then refuses a reader that implements it; so that is a second class, for users who enable it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ._options import Mode, ReadOptions
from ._paths import Choice, check_recording, files_of
from ._ranges import Range, plan
from ._schema import check_schema, message_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ._batches import Wanted

_TOLD = (
    "channels", "channel_pattern", "keys", "peers", "time_from", "time_to", "direction", "mode", "names", "recursive",
)  # fmt: skip
"""Options about rows, for the log."""

log = logging.getLogger("tolliver.spark")


class RecordingReader(DataSourceReader):
    """Reads the messages of recordings as record batches."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Raises ValueError if the schema has columns that recordings do not have."""
        check_schema(schema, message_columns(options.include_metadata))
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Ranges of files, of about 32 MiB each, or less for minPartitions.

        Ranges outside the time range are left out, if indexes show it; without any range there is one task. Raises
        ValueError if there is nothing to read, or a file that is no recording.
        """
        options = self._options
        files = files_of(options.paths, Choice(options.names, options.recursive))
        if options.mode is Mode.FAILFAST:
            for file in files:
                check_recording(file)
        tasks = plan(files, options.min_partitions, *self._times())
        log.log(logging.WARNING if options.log_plan else logging.INFO, "%s", self._told(files, tasks))
        return [InputPartition(ranges) for ranges in tasks or [[]]]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Messages of a partition: always the same, in the same order."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from ._batches import read_ranges

        return read_ranges(
            partition.value, to_arrow_schema(self._schema, timezone="UTC"), self._options, self._wanted()
        )

    def _told(self, files: Sequence[str], tasks: Sequence[Sequence[Range]]) -> str:
        """Log text with recordings, tasks, columns and options, as `explain()` shows nothing of a Python source."""
        size = sum(part.size for task in tasks for part in task)
        usual = ReadOptions(paths=())
        given = {name: getattr(self._options, name) for name in _TOLD}
        chosen = ", ".join(f"{name}={value}" for name, value in given.items() if value != getattr(usual, name))
        return (
            f"plan: {size} bytes of {len(files)} recordings, the first {files[0]}, in {len(tasks)} tasks; columns "
            f"{', '.join(self._schema.fieldNames())}; {chosen or 'no options about rows'}"
        )

    def _times(self) -> tuple[int, int]:
        """The time range of the options, from and before, in nanoseconds since 1970. Computed late, as numpy takes time
        to load.
        """
        since, until = self._options.time_from, self._options.time_to
        return 0 if since is None else since, 2**64 if until is None else until

    def _wanted(self) -> Wanted:
        from ._batches import Wanted

        return Wanted.of(self._options)


class PushdownReader(RecordingReader):
    """A reader that applies Spark's filters of channels, keys, senders and times, and leaves other filters to Spark."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._pushed: list[Filter] = []
        self._left: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Keep the filters that can be applied exactly; returns the others."""
        from ._pushdown import narrowed

        rest = []
        wanted = super()._wanted()
        for one in filters:
            if narrowed(wanted, one) is None:
                rest.append(one)
            else:
                self._pushed.append(one)
        self._left = rest
        return rest

    def _told(self, files: Sequence[str], tasks: Sequence[Sequence[Range]]) -> str:
        pushed, left = (", ".join(map(str, some)) or "nothing" for some in (self._pushed, self._left))
        return f"{super()._told(files, tasks)}; taken from Spark: {pushed}; left to Spark: {left}"

    def _times(self) -> tuple[int, int]:
        wanted = self._wanted()
        return wanted.since, wanted.until

    def _wanted(self) -> Wanted:
        from ._pushdown import narrowed

        wanted = super()._wanted()
        for one in self._pushed:
            wanted = narrowed(wanted, one) or wanted
        return wanted
