"""What can be asked of `spark.readStream.format("tolliver")`.

The idea: there are two streams, one of what peers send and one of recordings as they grow. Each has its own table of
options beside those that both take from reading recordings at rest, so an option that would do nothing is an error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..._options.instance import TLS, EndpointOptions, Remote, split_address
from ..read._options import (
    OPTIONS,
    Mode,
    Option,
    ReadOptions,
    count,
    flag,
    one_of,
    parse_options,
    parse_values,
)
from ..read._ranges import local_path

_MIB = 2**20
INLINE_BYTES = 16 * _MIB
INLINE_MOST = 128 * _MIB  # Spark's own bound for what one message to a task may hold
_FILES = "files"
_DIGITS = 19


class Staging(StrEnum):
    """Where the stage is, and who fills it."""

    SHARED = "shared"
    EXTERNAL = "external"
    INLINE = "inline"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """The stage of a live stream. What is None is left to the stage itself. Sizes in bytes, times in seconds."""

    directory: Path
    staging: Staging = Staging.SHARED
    listen: tuple[str, int] | None = None
    remotes: tuple[Remote, ...] = ()
    tls: TLS | None = None
    plaintext: bool = False
    unreliable: str | None = None
    max_staged_bytes: int | None = None
    sync_bytes: int | None = None
    sync_interval: float | None = None
    dedupe: int | None = None
    delete_consumed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What is to be read as a stream, and how; docs/spark-streams.md explains each. `live` is None for recordings."""

    read: ReadOptions
    live: LiveOptions | None
    earliest: bool = True
    max_rows: int | None = None
    max_bytes: int | None = None
    fail_on_data_loss: bool = True


def _size(text: str) -> int:
    digits = text.strip()
    number = int(digits) if digits.isdecimal() and len(digits) < _DIGITS else 0
    if number < 1:
        raise ValueError("write a whole number of bytes, from 1 on")
    return number


def _milliseconds(text: str) -> float:
    return count(text) / 1000


def _remembered(text: str) -> int:
    return 0 if text.strip() == "0" else count(text)


def _remotes(text: str) -> tuple[Remote, ...]:
    return tuple(Remote.parse(address.strip()) for address in text.split(","))


def _file(text: str) -> str:
    if not text:
        raise ValueError("give the path of a file")
    return text


def _folder(text: str) -> Path:
    if not text.strip():
        raise ValueError("give a directory")
    return Path(os.path.abspath(local_path(text)))


_NOT_STREAMED = {
    "truncatedTail": "a stream waits for the rest of a block",
    "filterPushdown": "Spark pushes no filters into streams; give channels, keys, peers",
}

_BOTH = {name: option for name, option in OPTIONS.items() if name not in (*_NOT_STREAMED, "path", "paths", "direction")}
_BOTH |= {
    "startingOffsets": Option("earliest", one_of({"earliest": True, "latest": False})),
    "maxRowsPerTrigger": Option("max_rows", count),
    "maxBytesPerTrigger": Option("max_bytes", _size),
    "failOnDataLoss": Option("fail_on_data_loss", flag),
}

FILES_OPTIONS: dict[str, Option] = {name: OPTIONS[name] for name in ("path", "direction")} | _BOTH
FILES_OPTIONS["mode"] = Option("mode", one_of({_FILES: Mode.FAILFAST} | {mode.value: mode for mode in Mode}))

_OF_THE_STAGER = {
    "listen": Option("listen", split_address),
    "connect": Option("remotes", _remotes),
    "tls.cert": Option("cert", _file),
    "tls.key": Option("key", _file),
    "tls.ca": Option("ca", _file),
    "plaintext": Option("plaintext", flag),
    "unreliable": Option("unreliable", one_of({"keep": "keep", "drop": "drop"})),
    "maxStagedBytes": Option("max_staged_bytes", _size),
    "syncBytes": Option("sync_bytes", _size),
    "syncInterval": Option("sync_interval", _milliseconds),
    "dedupe": Option("dedupe", _remembered),
}

LIVE_OPTIONS: dict[str, Option] = (
    {
        "stagingDir": Option("directory", _folder),
        "staging": Option("staging", one_of({staging.value: staging for staging in Staging})),
        "deleteConsumed": Option("delete_consumed", flag),
    }
    | _OF_THE_STAGER
    | _BOTH
)

_OF_STREAMS_ALONE = {name.lower() for name in {*LIVE_OPTIONS, *FILES_OPTIONS} - {*OPTIONS}}


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """What both kinds of reading share, from options of which nobody has said yet which kind they are for."""
    given = {name.lower(): text for name, text in options.items()}
    if given.keys() & _OF_STREAMS_ALONE or given.get("mode", "").strip().lower() == _FILES:
        return stream_options(options).read
    return parse_options(options)


def stream_options(options: Mapping[str, str]) -> StreamOptions:
    """From Spark's options. Raises ValueError, naming what is wrong and what to write instead."""
    given = {name.lower(): text for name, text in options.items()}
    for name, reason in _NOT_STREAMED.items():
        if name.lower() in given:
            raise ValueError(f"option {name} is for reading at rest: {reason}")
    live = [name for name in LIVE_OPTIONS if name not in FILES_OPTIONS and name.lower() in given]
    files = given.get("mode", "").strip().lower() == _FILES
    if not live and (files or "path" in given):
        return _of_files(options)
    if files or "path" in given:
        what = "mode=files" if files else "a path"
        raise ValueError(
            f"{what} reads recordings, and {live[0]} receives from peers or reads a stage: leave one of them out"
        )
    return _live(options)


def _of_files(options: Mapping[str, str]) -> StreamOptions:
    values = parse_values(options, FILES_OPTIONS)
    if not values.get("paths"):
        raise ValueError("mode=files has nothing to read: call load() with a directory of recordings, or a glob")
    return _made(values, None)


def _live(options: Mapping[str, str]) -> StreamOptions:
    given = {name.lower() for name in options}
    values = parse_values(options, LIVE_OPTIONS)
    if "directory" not in values:
        raise ValueError(
            "there is nothing to read: give listen or connect, and stagingDir for what has arrived; or call load() "
            "with a directory of recordings"
        )
    staging = values.get("staging", Staging.SHARED)
    stagers = [name for name in _OF_THE_STAGER if name.lower() in given]
    if staging is Staging.EXTERNAL and stagers:
        raise ValueError(
            f"option {stagers[0]} is for whoever receives, and with staging=external that is `tolliver stage`: give it "
            "there, or leave staging out"
        )
    if staging is not Staging.EXTERNAL and not given & {"listen", "connect"}:
        raise ValueError(
            "nobody would send anything: give listen or connect; or staging=external, where `tolliver stage` receives"
        )
    if staging is Staging.INLINE:
        values.setdefault("max_bytes", INLINE_BYTES)
        if values["max_bytes"] > INLINE_MOST:
            raise ValueError(
                f"option maxBytesPerTrigger is {values['max_bytes']}, and staging=inline sends that through the "
                f"driver: {INLINE_MOST} is the most; for more use staging=shared"
            )
    values["tls"] = _security(values) if staging is not Staging.EXTERNAL else None
    own = {field.name for field in fields(LiveOptions)}
    live = LiveOptions(**{name: value for name, value in values.items() if name in own})
    return _made(values | {"paths": (str(live.directory),)}, live)


def _security(values: dict[str, Any]) -> TLS | None:
    """Takes the three files."""
    paths = [values[name] for name in ("cert", "key", "ca") if name in values]
    plaintext = values.get("plaintext", False)
    if len(paths) not in (0, 3):
        raise ValueError("of the options tls.cert, tls.key and tls.ca some are missing: give the paths of all three")
    if bool(paths) is plaintext:
        raise ValueError(
            f"there is {'both' if plaintext else 'neither'} of plaintext=true and a certificate: give tls.cert, "
            "tls.key and tls.ca, or plaintext=true for a trial on one machine (D-15)"
        )
    security = EndpointOptions(tls=TLS(*paths) if paths else None, plaintext=plaintext)
    security.check_security(values.get("listen"))
    for remote in values.get("remotes", ()):
        security.remote(remote)
    return security.tls


def _made(values: dict[str, Any], live: LiveOptions | None) -> StreamOptions:
    reading = {field.name for field in fields(ReadOptions)}
    streaming = {field.name for field in fields(StreamOptions)}
    return StreamOptions(
        read=ReadOptions(**{name: value for name, value in values.items() if name in reading}),
        live=live,
        **{name: value for name, value in values.items() if name in streaming},
    )
