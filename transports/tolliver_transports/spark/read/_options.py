"""What can be asked of `spark.read.format("tolliver")`, and how each option is written.

The idea: an option is an entry of `OPTIONS`: its name, how its text is read, what holds without it. Spark hands over
texts and lower-case names; here they become values once, on the driver, so that what is wrong is said before a task
runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from tolliver_proto.recording import Direction

_OF_DEMAND = 'streams with demand are format("tolliver-rs"), after tolliver_transports.spark.register(spark)'
_DIGITS = 10  # of a count
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Mode(StrEnum):
    """What to do where a recording is damaged or a peer's frame is malformed."""

    FAILFAST = "failfast"
    DROPMALFORMED = "dropmalformed"


class TruncatedTail(StrEnum):
    """What to do where a file ends inside a block."""

    ERROR = "error"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is to be read, and how; docs/spark.md explains each. Times are in nanoseconds since 1970."""

    paths: tuple[str, ...]
    channels: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    peers: tuple[UUID, ...] = ()
    time_from: int | None = None
    time_to: int | None = None
    direction: Direction | None = Direction.IN
    mode: Mode = Mode.FAILFAST
    truncated_tail: TruncatedTail = TruncatedTail.IGNORE
    include_metadata: bool = False
    filter_pushdown: bool = False
    min_partitions: int = 1
    rows_per_batch: int = 10_000


def name_list(text: str) -> tuple[str, ...]:
    """Names with commas between them, or a JSON list of any names."""
    if text.lstrip().startswith("["):
        return _json_list(text)
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _json_list(text: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError('write names with commas between them, or a JSON list such as ["a", "b,c"]')
    return tuple(names)


def _peers(text: str) -> tuple[UUID, ...]:
    try:
        return tuple(UUID(name) for name in name_list(text))
    except ValueError:
        raise ValueError("write the UUIDs of instances, with commas between them") from None


def nanoseconds(when: datetime) -> int:
    """Since 1970; a time without a zone is UTC here, as the machines of a cluster need not share a zone."""
    aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def _time(text: str) -> int:
    try:
        return nanoseconds(datetime.fromisoformat(text.strip()))
    except ValueError:
        raise ValueError(
            "write a time as 2026-11-21T15:04:05 (UTC), or with a zone: 2026-11-21T15:04:05+02:00"
        ) from None


def flag(text: str) -> bool:
    values = {"true": True, "false": False}
    if text.strip().lower() not in values:
        raise ValueError("write true or false")
    return values[text.strip().lower()]


def count(text: str) -> int:
    digits = text.strip()
    number = int(digits) if digits.isdecimal() and len(digits) < _DIGITS else 0
    if number < 1:
        raise ValueError("write a whole number from 1 on")
    return number


def one_of(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        if text.strip().lower() not in values:
            raise ValueError(f"write {' or '.join(values)}")
        return values[text.strip().lower()]

    return read


class Option(NamedTuple):
    """How an option's text becomes the value of a field, here of `ReadOptions`."""

    field: str
    read: Callable[[str], Any]


OPTIONS: dict[str, Option] = {
    "path": Option("paths", lambda text: (text,)),
    "paths": Option("paths", _json_list),
    "channels": Option("channels", name_list),
    "keys": Option("keys", name_list),
    "peers": Option("peers", _peers),
    "timeFrom": Option("time_from", _time),
    "timeTo": Option("time_to", _time),
    "direction": Option("direction", one_of({"in": Direction.IN, "out": Direction.OUT, "both": None})),
    "mode": Option("mode", one_of({mode.value: mode for mode in Mode})),
    "truncatedTail": Option("truncated_tail", one_of({tail.value: tail for tail in TruncatedTail})),
    "includeMetadata": Option("include_metadata", flag),
    "filterPushdown": Option("filter_pushdown", flag),
    "minPartitions": Option("min_partitions", count),
    "rowsPerBatch": Option("rows_per_batch", count),
}
"""By the name that users write, in any case."""


def parse_values(options: Mapping[str, str], known: Mapping[str, Option]) -> dict[str, Any]:
    """The values of these options, by the names of their fields; options may be written in any case.

    Raises ValueError for an option that is not known, and for a text that makes no sense.
    """
    by_lower_name = {name.lower(): name for name in known}
    values: dict[str, Any] = {}
    for given, text in options.items():
        name = by_lower_name.get(given.lower())
        if name is None:
            hint = f"; {_OF_DEMAND}" if given.lower() == "publishers" else ""
            raise ValueError(f"option {given!r} is not known: there are {', '.join(known)}{hint}")
        try:
            values[known[name].field] = known[name].read(text)
        except ValueError as error:
            raise ValueError(f"option {name} is {text!r:.100}: {error}") from None
    return values


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """What Spark hands over, in any case, as values.

    Raises ValueError for an option that is not known, for a value that makes no sense, and where there is no path.
    """
    values = parse_values(options, OPTIONS)
    if not values.get("paths"):
        raise ValueError("there is nothing to read: call load() with a recording, a directory of them, or a glob")
    return ReadOptions(**values)
