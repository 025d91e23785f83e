"""`spark.readStream.format("tolliver-rs")`: the stream reader of "tolliver", over a stage that publishers fill.

The idea: once elements are staged they are a log like any other, with the same offsets, limits and end. So what is here
is who fills the stage, and what the columns are called.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import define
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from tolliver_proto import RESERVED_CHANNEL
from tolliver_proto.reactive import Limits

from ..._options.streams import StreamsOptions
from ...staging import FolderOptions
from ..read._schema import check_schema
from ..stream._live import LOCK_TIMEOUT, Stage
from ..stream._log import Log
from ..stream._options import LIVE_OPTIONS, StreamOptions, stream_options
from ..stream._reader import StreamReader
from ..write._options import OF_PEER, Parsers, parse
from ._options import BATCH, COLUMNS, OF_DEMAND, READER, publishers, where_published
from ._stage import DemandStageOptions, DemandStager

WINDOW = 4096
ELEMENT_BYTES = 2**20
_CLOSE = 1.0  # seconds: nothing here is in need of more
_STAGED = {"publisher": "channel", "element": "body"}
"""What the columns are called in the stage."""

_OF_LIVE = (
    "stagingDir",
    "staging",
    "startingOffsets",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "maxStagedBytes",
    "syncBytes",
    "syncInterval",
    "deleteConsumed",
    "minPartitions",
)


def _staged_publishers(text: str) -> tuple[str, ...]:
    names = publishers(text)
    if RESERVED_CHANNEL in names:
        raise ValueError(f"{RESERVED_CHANNEL!r} cannot be staged, as the name is the protocol's own: publish another")
    return names


def _here(text: str) -> object:
    staging = LIVE_OPTIONS["staging"].read(text)
    if staging == "external":
        raise ValueError("no other program stages elements: give shared or inline")
    return staging


STREAM: Parsers = {
    **OF_DEMAND,
    **{name: LIVE_OPTIONS[name] for name in _OF_LIVE},
    "publishers": ("publishers", _staged_publishers),
    "staging": ("staging", _here),
}


@define(frozen=True, kw_only=True)
class DemandStream:
    """What is asked for, and how what is staged is read. It is pickled to every task."""

    stage: DemandStageOptions
    stream: StreamOptions


def demand_stream(options: Mapping[str, str]) -> DemandStream:
    """From Spark's options. Raises ValueError, naming what is wrong and what to write instead."""
    for name in BATCH.keys() - STREAM.keys():
        if name.lower() in {given.lower() for given in options}:
            raise ValueError(f"the option {name} ends a batch, and a stream does not end: leave it out")
    given = parse(options, STREAM, READER)
    remote, tls = where_published(given)
    if "directory" not in given:
        raise ValueError(f"a stream of {READER} needs the option stagingDir: a directory for what has arrived")
    ours = {name.lower() for name in OF_DEMAND.keys() - OF_PEER.keys() | {"peer"}} - {"rowsperbatch"}
    stream = stream_options({name: text for name, text in options.items() if name.lower() not in ours})
    live = stream.live
    assert live is not None
    chosen: dict[str, Any] = {
        "max_staged_bytes": live.max_staged_bytes,
        "sync_bytes": live.sync_bytes,
        "sync_interval": live.sync_interval,
    }
    limits = Limits(max_element=given.get("max_element_bytes", ELEMENT_BYTES), close_timeout=_CLOSE)
    stage = DemandStageOptions(
        remote=remote,
        streams=StreamsOptions(tls=tls, plaintext=tls is None, limits=limits),
        publishers=given["publishers"],
        window=given.get("window", WINDOW),
        folder=FolderOptions(
            directory=live.directory,
            lock_timeout=LOCK_TIMEOUT,
            **{name: value for name, value in chosen.items() if value is not None},
        ),
    )
    stage.credit()
    return DemandStream(stage=stage, stream=stream)


class DemandStreamReader(StreamReader):
    """Reads what publishers give, in micro-batches. The process that asks where the stream is subscribes to them."""

    def __init__(self, options: DemandStream, schema: StructType) -> None:
        """Raises ValueError for a schema with other columns. Opens nothing."""
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
            self._opened = _open(self._demanded, self._options)
        return self._opened

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The elements of a partition: the same ones in the same order whenever it is asked."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._named, timezone="UTC")
        for batch in super().read(partition):
            yield batch.from_arrays(batch.columns, schema=schema)


def _open(demanded: DemandStageOptions, options: StreamOptions) -> Stage:
    assert options.live is not None
    stager = DemandStager(demanded)
    stager.start()
    return Stage(stager.folder, stager, options, options.live)
