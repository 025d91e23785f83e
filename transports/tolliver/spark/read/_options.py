"""Options of `spark.read.format("tolliver")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from tolliver_proto.recording import Direction

from .._options import Option, count, flag, json_names, one_of, parse, path, some_names, text, uuid

READER = 'format("tolliver")'
ELSEWHERE = {"publishers": 'streams with demand are format("tolliver-rs"), after tolliver.spark.register(spark)'}
_NO_OFFSETS = dict.fromkeys(
    ("startingOffsets", "endingOffsets"),
    "recordings have no offsets, give timeFrom and timeTo; a stage at rest is a directory of recordings, its segments",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Mode(StrEnum):
    """Treatment of damaged recordings and malformed frames."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"


class TruncatedTail(StrEnum):
    """Treatment of a file that ends inside a block."""

    ERROR = "error"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of reading; docs/spark.md explains each. Times are in nanoseconds since 1970."""

    paths: tuple[str, ...]
    channels: tuple[str, ...] = ()
    channel_pattern: str | None = None
    keys: tuple[str, ...] = ()
    peers: tuple[UUID, ...] = ()
    time_from: int | None = None
    time_to: int | None = None
    direction: Direction | None = Direction.IN
    mode: Mode = Mode.FAILFAST
    truncated_tail: TruncatedTail = TruncatedTail.IGNORE
    include_metadata: bool = False
    filter_pushdown: bool = False
    log_plan: bool = False
    recursive: bool = False
    names: str | None = None
    min_partitions: int = 1
    rows_per_batch: int = 10_000


def _peers(given: str) -> tuple[UUID, ...]:
    return tuple(map(uuid, some_names(given)))


def nanoseconds(when: datetime) -> int:
    """The time `when` in nanoseconds since 1970. A time without a zone is in UTC, as the machines of a cluster may be
    in different zones.
    """
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def time(given: str) -> int:
    try:
        return nanoseconds(datetime.fromisoformat(given.strip()))
    except ValueError:
        raise ValueError(
            "give a time as 2026-11-21T15:04:05 (UTC), or with a zone: 2026-11-21T15:04:05+02:00"
        ) from None


def _pattern(given: str) -> str:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), text(given))
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise ValueError(f"give a regular expression (RE2) of whole names, such as sensors[.].*; {error}") from None
    return given


def _names_of_files(given: str) -> str:
    if not given.strip() or "/" in given:
        raise ValueError("give a pattern for the names of files, without a directory, such as *.rec")
    return given


OPTIONS: dict[str, Option] = {
    "path": Option("paths", lambda given: (path(given),)),
    "paths": Option("paths", json_names),
    "recursiveFileLookup": Option("recursive", flag),
    "pathGlobFilter": Option("names", _names_of_files),
    "channels": Option("channels", some_names),
    "channelPattern": Option("channel_pattern", _pattern),
    "keys": Option("keys", some_names),
    "peers": Option("peers", _peers),
    "timeFrom": Option("time_from", time),
    "timeTo": Option("time_to", time),
    "direction": Option("direction", one_of({"in": Direction.IN, "out": Direction.OUT, "both": None})),
    "mode": Option("mode", one_of({mode.value: mode for mode in Mode})),
    "truncatedTail": Option("truncated_tail", one_of({tail.value: tail for tail in TruncatedTail})),
    "includeMetadata": Option("include_metadata", flag),
    "filterPushdown": Option("filter_pushdown", flag),
    "logPlan": Option("log_plan", flag),
    "minPartitions": Option("min_partitions", count),
    "rowsPerBatch": Option("rows_per_batch", count),
}


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Options from Spark's text. Raises ValueError, which names the option, also if there is no path."""
    values = parse(options, OPTIONS, READER, ELSEWHERE | _NO_OFFSETS)
    if not values.get("paths"):
        raise ValueError(
            "there is nothing to read: call load() with a recording, a directory of them, or a glob. A table of SQL "
            "has its options where it has no columns of its own: CREATE TABLE name USING tolliver OPTIONS (path '...')"
        )
    return ReadOptions(**values)
