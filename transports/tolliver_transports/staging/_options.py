"""What a stage is made of, checked before anything is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from attrs import define, field

_MIB = 2**20


def _whole(least: int) -> Any:
    def validate(instance: Any, attribute: Any, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{_named(instance, attribute)} is {value!r}: give a whole number, {least} or more")

    return validate


def _seconds(instance: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(f"{_named(instance, attribute)} is {value!r}: give seconds, 0 or more")


def _named(instance: Any, attribute: Any) -> str:
    return f"{type(instance).__name__}.{attribute.name}"


def _directory(value: str | os.PathLike[str]) -> Path:
    if not os.fspath(value):
        raise ValueError("the stage's directory is empty: give its path")
    return Path(os.path.abspath(value))


@define(frozen=True, kw_only=True)
class FolderOptions:
    """A stage on disk, and how much may stand in it.

    - `directory`: the stage's; made where it is missing.
    - `sync_bytes`, `sync_interval` (seconds): what gathers for one sync, if so much comes without a pause.
    - `max_staged_bytes`: from there on nothing more is taken until readers have deleted segments.
    - `segment_bytes`: a segment ends there, so that it can be deleted: at most half of `max_staged_bytes`; by default a
      quarter of that, but no more than 64 MiB. A single message may be larger.
    - `full_timeout`: seconds for which the disk may refuse to take anything.
    - `dedupe`: how many messages, at least, are remembered, so that copies of them are known (T-48).
    - `lock_timeout`: seconds to wait for an earlier receiver that is about to end.

    Raises TypeError or ValueError.
    """

    directory: Path = field(converter=_directory)
    sync_bytes: int = field(default=_MIB, validator=_whole(1))
    sync_interval: float = field(default=0.01, validator=_seconds)
    max_staged_bytes: int = field(default=4096 * _MIB, validator=_whole(2))
    segment_bytes: int = field(validator=_whole(1))
    full_timeout: float = field(default=60.0, validator=_seconds)
    dedupe: int = field(default=1_000_000, validator=_whole(0))
    lock_timeout: float = field(default=5.0, validator=_seconds)

    @segment_bytes.default
    def _segment_bytes(self) -> int:
        return min(64 * _MIB, max(1, self.max_staged_bytes // 4)) if isinstance(self.max_staged_bytes, int) else 1

    def __attrs_post_init__(self) -> None:
        if self.segment_bytes > self.max_staged_bytes // 2:
            raise ValueError(
                f"{type(self).__name__}.segment_bytes is {self.segment_bytes} and max_staged_bytes "
                f"{self.max_staged_bytes}: only whole segments are deleted, so give at most half of it"
            )
