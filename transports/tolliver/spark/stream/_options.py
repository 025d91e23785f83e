"""Options of `spark.readStream.format("tolliver")`: live streams and streams of recordings.

Both accept the options of reading recordings that apply to them; one without effect is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tolliver_proto import Revision

from ..._options.instance import TLS, Remote, split_address
from ..._options.kinds import LAYOUTS
from ..._private import plain_name
from .._options import MOST, SECURITY, Option, count, flag, one_of, parse, seconds, size, text, whole
from .._peer import addresses, folder, secured
from ..read._options import ELSEWHERE, OPTIONS, READER, Mode, ReadOptions, parse_options, time
from ._offsets import Offset, StreamLost, read_files, read_place

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_MIB = 2**20
INLINE_BYTES = 16 * _MIB
INLINE_MOST = 128 * _MIB  # Spark's own limit for a message to a task
_FILES = "files"
_PEERS = f"a live stream of {READER}"
_RECORDINGS = f"a stream of recordings of {READER}"


class Begin(StrEnum):
    """Ends of a log, at which a query may begin."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Staging(StrEnum):
    """Place of the stage, and the process that fills it."""

    SHARED = "shared"
    EXTERNAL = "external"
    INLINE = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """Options of a live stream's stage. None leaves a value to the stage. Sizes are in bytes, times in seconds."""

    directory: Path
    staging: Staging = Staging.SHARED
    listen: tuple[str, int] | None = None
    remotes: tuple[Remote, ...] = ()
    tls: TLS | None = None
    plaintext: bool = False
    revision: Revision | None = None
    unreliable: str | None = None
    max_staged_bytes: int | None = None
    sync_bytes: int | None = None
    sync_interval: float | None = None
    dedupe: int | None = None
    delete_consumed: bool = True
    consumer: str | None = None
    record: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """Options of a stream; docs/spark-streams.md explains each. `live` is None for recordings."""

    read: ReadOptions
    live: LiveOptions | None
    start: Begin | int | Offset = Begin.EARLIEST  # a time is in nanoseconds since 1970
    min_rows: int | None = None
    max_delay: float = 900.0
    max_rows: int | None = None
    max_bytes: int | None = None
    fail_on_data_loss: bool = True


def _milliseconds(given: str) -> float:
    return count(given) / 1000


def _start(of_offset: Callable[[Offset], object], of_time: Callable[[str], int] | None) -> Callable[[str], Any]:
    """Parser of startingOffsets: an end of the log, an offset that `of_offset` accepts, or a time."""
    forms = "earliest, latest, " + ("" if of_time is None else "a time such as 2026-11-21T15:04:05Z, ")

    def read(given: str) -> Any:
        word = given.strip().lower()
        try:
            if word in [*Begin]:
                return Begin(word)
            if of_time is not None and not word.startswith("{"):
                return of_time(given)
            found = json.loads(given)
            of_offset(found)
        except (ValueError, RecursionError, StreamLost):
            raise ValueError(f"give {forms}or an offset of such a stream, as JSON, from its lastProgress") from None
        return found

    return read


_AT_REST = {
    "truncatedTail": "a stream waits for the rest of a block, leave it out",
    "logPlan": "the log has the plan of what is read at rest, leave it out",
    "filterPushdown": "Spark pushes no filters into streams; give channels, keys, peers",
} | ELSEWHERE
_AT_REST |= dict.fromkeys(
    ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"),
    "a stream has no end; Trigger.AvailableNow ends with what is there, and timeTo leaves out what is later",
)

_OF_FILES = ("path", "recursiveFileLookup", "pathGlobFilter", "direction")
_BOTH = {name: option for name, option in OPTIONS.items() if name not in {*_AT_REST, *_OF_FILES, "paths"}}
_BOTH |= {
    "maxRowsPerTrigger": Option("max_rows", count),
    "maxBytesPerTrigger": Option("max_bytes", size),
    "failOnDataLoss": Option("fail_on_data_loss", flag),
}

FILES_OPTIONS: dict[str, Option] = {name: OPTIONS[name] for name in _OF_FILES} | _BOTH
FILES_OPTIONS["startingOffsets"] = Option("start", _start(read_files, None))
FILES_OPTIONS["mode"] = Option("mode", one_of({_FILES: Mode.FAILFAST} | {mode.value: mode for mode in Mode}))

_OF_THE_STAGER = {
    "listen": Option("listen", lambda given: split_address(text(given).strip())),
    "connect": Option("remotes", addresses),
    **SECURITY,
    "revision": Option("revision", one_of(LAYOUTS)),
    "unreliable": Option("unreliable", one_of({"keep": "keep", "drop": "drop"})),
    "maxStagedBytes": Option("max_staged_bytes", whole(2, of=" of bytes")),  # two segments at least
    "syncBytes": Option("sync_bytes", size),
    "syncInterval": Option("sync_interval", _milliseconds),
    "dedupe": Option("dedupe", whole(0)),
    "record": Option("record", folder),
}

LIVE_OPTIONS: dict[str, Option] = {
    "stagingDir": Option("directory", folder),
    "staging": Option("staging", one_of({staging.value: staging for staging in Staging})),
    "deleteConsumed": Option("delete_consumed", flag),
    "consumer": Option("consumer", plain_name),
    **_OF_THE_STAGER,
    "startingOffsets": Option("start", _start(read_place, time)),
    "minRowsPerTrigger": Option("min_rows", count),
    "maxTriggerDelay": Option("max_delay", seconds),
    **_BOTH,
}

_OF_STREAMS_ALONE = {name.lower() for name in {*LIVE_OPTIONS, *FILES_OPTIONS} - {*OPTIONS}}


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Options that batches and streams have in common, from those of either."""
    given = {name.lower(): text for name, text in options.items()}
    if given.keys() & _OF_STREAMS_ALONE or given.get("mode", "").strip().lower() == _FILES:
        return stream_options(options).read
    return parse_options(options)


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """Options from Spark's text. Raises ValueError with advice."""
    given = {name.lower(): text for name, text in options.items()}
    live = [name for name in LIVE_OPTIONS if name not in FILES_OPTIONS and name.lower() in given]
    files = given.get("mode", "").strip().lower() == _FILES
    if not files and "path" not in given:
        return _live(options, [name for name in _OF_THE_STAGER if name.lower() in given])
    if live:
        what = "mode=files" if files else "a path"
        raise ValueError(
            f"{what} reads recordings, and {live[0]} receives from peers or reads a stage: leave one of them out"
        )
    values = parse(options, FILES_OPTIONS, _RECORDINGS, _AT_REST)
    if not values.get("paths"):
        raise ValueError("mode=files has nothing to read: call load() with a directory of recordings, or a glob")
    return _made(values, None)


def _live(options: Mapping[str, str], of_the_stager: Sequence[str]) -> StreamOptions:
    values = parse(options, LIVE_OPTIONS, _PEERS, _AT_REST)
    if "directory" not in values:
        raise ValueError(
            "there is nothing to read: give listen or connect, and stagingDir for what has arrived; or call load() "
            "with a directory of recordings"
        )
    if values.get("staging") is Staging.EXTERNAL:
        if of_the_stager:
            raise ValueError(
                f"the option {of_the_stager[0]} is for whoever receives, and with staging=external that is `tolliver "
                "stage`: give it there, or leave staging out"
            )
        return staged(values)
    listen, remotes = values.get("listen"), values.get("remotes", ())
    if listen is None and not remotes:
        raise ValueError(
            "nobody would send anything: give listen or connect; or staging=external, where `tolliver stage` receives"
        )
    security = secured(values, _PEERS, listen, remotes)
    return staged(values | {"tls": security.tls, "plaintext": security.plaintext})


def staged(values: dict[str, Any]) -> StreamOptions:
    """Options for the stage in `directory`. Values that are not for its reader are left out. Raises ValueError."""
    if values.get("staging") is Staging.INLINE:
        values = {"max_bytes": INLINE_BYTES} | values
        if values["max_bytes"] > INLINE_MOST:
            raise ValueError(
                f"the option maxBytesPerTrigger is {values['max_bytes']}, and staging=inline sends that through the "
                f"driver: {INLINE_MOST} is the most; for more use staging=shared"
            )
    if "max_delay" in values and "min_rows" not in values:
        raise ValueError("the option maxTriggerDelay is how long minRowsPerTrigger may wait: give that too")
    if values.get("min_rows", 0) > values.get("max_rows", MOST):
        raise ValueError(
            f"the option minRowsPerTrigger is {values['min_rows']}, and maxRowsPerTrigger takes no more than "
            f"{values['max_rows']}: give less"
        )
    live = LiveOptions(**_own(LiveOptions, values))
    return _made(values | {"paths": (str(live.directory),)}, live)


def _made(values: dict[str, Any], live: LiveOptions | None) -> StreamOptions:
    return StreamOptions(read=ReadOptions(**_own(ReadOptions, values)), live=live, **_own(StreamOptions, values))


def _own(kind: type[DataclassInstance], values: dict[str, Any]) -> dict[str, Any]:
    """The values among these that are for fields of the class `kind`."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}
