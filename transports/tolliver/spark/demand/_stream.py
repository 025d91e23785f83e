"""Spark streaming reader of "tolliver-rs": reads publishers' elements from a stage.

Staged elements are a log like any other, with the same offsets, limits and end. So this module only adds the stager and
the names of columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tolliver_proto.node import RESERVED_CHANNEL
from tolliver_proto.reactive import Limits

from ..._options.streams import StreamsOptions
from ...staging import FolderOptions
from .._options import Option, parse
from ..read._schema import check_schema
from ..stream._live import LOCK_TIMEOUT, Stage, open_stage
from ..stream._log import Log
from ..stream._options import LIVE_OPTIONS, Staging, StreamOptions, staged
from ..stream._reader import StreamReader
from ._options import COLUMNS, COMMON, ENDS, READER, dialled_publisher, publishers
from ._stager import DemandStageOptions, DemandStager

WINDOW = 4096
ELEMENT_BYTES = 2**20
_STREAM = f"a stream of {READER}"
_CLOSE = 1.0  # seconds
_STAGED = {"publisher": "channel", "element": "body"}
"""By column: its name in the stage."""

_OF_LIVE = (
    "stagingDir",
    "staging",
    "startingOffsets",
    "minRowsPerTrigger",
    "maxTriggerDelay",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "maxStagedBytes",
    "syncBytes",
    "syncInterval",
    "deleteConsumed",
    "consumer",
    "minPartitions",
)


def _staged_publishers(given: str) -> tuple[str, ...]:
    found = publishers(given)
    if RESERVED_CHANNEL in found:
        raise ValueError(f"{RESERVED_CHANNEL!r} cannot be staged, as the name is the protocol's own: publish another")
    return found


STREAM: dict[str, Option] = {
    **COMMON,
    **{name: LIVE_OPTIONS[name] for name in _OF_LIVE},
    "publishers": Option("publishers", _staged_publishers),
}

_OF_THE_STAGER = [*(name for name in COMMON if name != "rowsPerBatch"), "maxStagedBytes", "syncBytes", "syncInterval"]

_OF_BATCHES = dict.fromkeys(ENDS, "it ends a batch, and a stream does not end: leave it out")


@define(frozen=True, kw_only=True)
class DemandStream:
    """Options of a streaming query over publishers: those of the stager, unless that runs elsewhere, and of the reader.
    It is pickled to every task.
    """

    stage: DemandStageOptions | None
    stream: StreamOptions


def demand_stream(options: Mapping[str, str]) -> DemandStream:
    """Options from Spark's text. Raises ValueError with advice."""
    values = parse(options, STREAM, _STREAM, _OF_BATCHES)
    if values.get("staging") is Staging.EXTERNAL:
        return _tailing(values, {name.lower() for name in options})
    remote, tls = dialled_publisher(values)
    if "directory" not in values:
        raise ValueError(f"{_STREAM} needs the option stagingDir: a directory for what has arrived")
    stream = staged(values)
    folder = {name: values[name] for name in ("max_staged_bytes", "sync_bytes", "sync_interval") if name in values}
    limits = Limits(max_element=values.get("max_element_bytes", ELEMENT_BYTES), close_timeout=_CLOSE)
    stage = DemandStageOptions(
        remote=remote,
        streams=StreamsOptions(tls=tls, plaintext=tls is None, limits=limits),
        publishers=values["publishers"],
        window=values.get("window", WINDOW),
        folder=FolderOptions(directory=values["directory"], lock_timeout=LOCK_TIMEOUT, **folder),
    )
    stage.credit()
    return DemandStream(stage=stage, stream=stream)


def _tailing(values: dict[str, Any], given: set[str]) -> DemandStream:
    for name in _OF_THE_STAGER:
        if name.lower() in given:
            raise ValueError(
                f"the option {name} is for whoever subscribes, and with staging=external that is `tolliver stage "
                "--stream`: give it there, or leave staging out"
            )
    if "directory" not in values:
        raise ValueError(f"{_STREAM} needs the option stagingDir: the directory that `tolliver stage --stream` fills")
    return DemandStream(stage=None, stream=staged(values))


class DemandStreamReader(StreamReader):
    """Reads publishers' elements in micro-batches. The process that asks for offsets subscribes to them, or a service
    with staging=external."""

    def __init__(self, options: DemandStream, schema: StructType) -> None:
        """Opens nothing. Raises ValueError if the schema has unknown columns."""
        check_schema(schema, COLUMNS)
        staged = StructType()
        for field in schema.fields:
            staged.add(_STAGED[field.name], field.dataType, field.nullable)
        super().__init__(options.stream, staged)
        self._demanded = options.stage
        self._named = schema

    @property
    def _log(self) -> Log:
        if self._opened is None:
            demanded = self._demanded
            self._opened = open_stage(self._options) if demanded is None else _open(demanded, self._options)
        return self._opened

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Elements of a partition: always the same, in the same order."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._named, timezone="UTC")
        for batch in super().read(partition):
            yield batch.from_arrays(batch.columns, schema=schema)


def _open(demanded: DemandStageOptions, options: StreamOptions) -> Stage:
    assert options.live is not None
    stager = DemandStager(demanded)
    stager.start()
    return Stage(stager.folder, stager, options, options.live)
