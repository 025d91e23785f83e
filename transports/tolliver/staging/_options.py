"""Options of a stage and its receiver, checked before anything is opened."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from attrs import Factory, define, field, validators

from tolliver_proto import Acl, Limits, Policy, Revision
from tolliver_proto.layouts import Dialect
from tolliver_proto.recording import MAX_LENGTH

from .._options.instance import TLS, InstanceOptions, Remote
from ._folder import DATABASE

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


def _quarter(folder: FolderOptions) -> int:
    most = folder.max_staged_bytes if folder.keep_bytes is None else folder.keep_bytes
    return min(64 * _MIB, max(1, most // 4)) if isinstance(most, int) else 1


@define(frozen=True, kw_only=True)
class FolderOptions:
    """A stage on disk, and its limits.

    - `directory`: the stage's directory, created if missing.
    - `sync_bytes`, `sync_interval` (seconds): most bytes and time of one batch, if messages arrive without a pause.
    - `max_staged_bytes`: above this no more messages are taken, until readers have deleted segments.
    - `keep_for` (seconds), `keep_bytes`: segments that are older, and the oldest above so many bytes, are deleted, read
      or not. None: readers alone delete.
    - `segment_bytes`: size of a segment, after which readers may delete it: at most half of `max_staged_bytes` or
      `keep_bytes`, by default a quarter of it, but no more than 64 MiB. A single message may be larger.
    - `full_timeout`: seconds for which the disk may accept no data before the stage fails.
    - `dedupe`: least number of messages that are remembered, to recognize copies (T-48).
    - `lock_timeout`: seconds to wait for an earlier receiver to end.

    Raises TypeError or ValueError.
    """

    directory: Path = field(converter=_directory)
    sync_bytes: int = field(default=_MIB, validator=_whole(1))
    sync_interval: float = field(default=0.01, validator=_seconds)
    max_staged_bytes: int = field(default=4096 * _MIB, validator=_whole(2))
    keep_for: float | None = field(default=None, validator=validators.optional(_seconds))
    keep_bytes: int | None = field(default=None, validator=validators.optional(_whole(2)))
    segment_bytes: int = field(default=Factory(_quarter, takes_self=True), validator=_whole(1))
    full_timeout: float = field(default=60.0, validator=_seconds)
    dedupe: int = field(default=1_000_000, validator=_whole(0))
    lock_timeout: float = field(default=5.0, validator=_seconds)

    def __attrs_post_init__(self) -> None:
        kind = type(self).__name__
        if self.keep_for == 0:
            raise ValueError(f"{kind}.keep_for is 0: give seconds, more than 0, or None to keep what is not read")
        if self.keep_bytes is not None and self.keep_bytes >= self.max_staged_bytes:
            raise ValueError(
                f"{kind}.keep_bytes is {self.keep_bytes}, and no more is taken at max_staged_bytes, "
                f"{self.max_staged_bytes}: give less, or raise that"
            )
        for name in ("max_staged_bytes", "keep_bytes"):
            most = getattr(self, name)
            if most is not None and self.segment_bytes > most // 2:
                raise ValueError(
                    f"{kind}.segment_bytes is {self.segment_bytes} and {name} {most}: only whole segments are deleted, "
                    "so give at most half of it"
                )


def _subscriptions(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = () if isinstance(value, str) else tuple(value)
    if not pairs or any(isinstance(pair, str) or [type(one) for one in pair] != [str, str] for pair in pairs):
        raise ValueError(
            f'subscriptions is {value!r:.100}: give (channel, key) pairs, such as [("readings", "")]; "" is any, and '
            '"cpu*" as a key is any that begins so'
        )
    return tuple((channel, key) for channel, key in pairs)


def _of_instance(stage: StageOptions) -> InstanceOptions:
    made = InstanceOptions(
        database=stage.directory / DATABASE,
        listen=stage.listen,
        remotes=stage.remotes,
        tls=stage.tls,
        plaintext=stage.plaintext,
        revision=stage.revision,
        limits=stage.limits,
        acl=stage.acl,
        dialect=stage.dialect,
        dialects=stage.dialects,
        record=stage.record,
        # Where the disk takes nothing, reading pauses and all is kept.
        policy=Policy(stuck_after=None, handling_timeout=None),
    )
    if made.listen is None and not made.remotes:
        raise ValueError('StageOptions: nobody could send anything: give listen="host:port", or remotes, or both')
    if made.limits.max_body + 2 * made.limits.max_name >= MAX_LENGTH:
        raise ValueError(f"Limits.max_body is {made.limits.max_body}: a stage takes less than {MAX_LENGTH} bytes")
    return made


@define(frozen=True, kw_only=True)
class StageOptions(FolderOptions):
    """A stage, and the instance that receives into it. Give `tls`, or `plaintext=True` for a trial on one machine.

    - `listen`, `remotes`, `tls`, `plaintext`, `revision`, `limits`, `acl`, `dialect`, `dialects`, `record`: as in
      InstanceOptions. The instance's database is in the stage; subscriptions of an earlier run that are not given now
      are removed.
    - `subscriptions`: (channel, key) pairs. "" is a wildcard. A key that ends with `*` means a prefix: the instance
      then subscribes to all keys of the channel, and acknowledges and drops those without the prefix.
    - `unreliable`: "keep" also stages unreliable messages (copies of them are not recognized), "drop" counts them.
    """

    listen: str | tuple[str, int] | None = None
    remotes: Iterable[str | Remote] = ()
    tls: TLS | None = None
    plaintext: bool = False
    revision: Revision = Revision.DRAFT_2
    limits: Limits = field(factory=Limits, validator=validators.instance_of(Limits))
    acl: Acl = field(factory=Acl)
    dialect: Dialect = field(factory=Dialect)
    dialects: Mapping[UUID, Dialect] = field(factory=dict, hash=False)
    record: Path | None = None
    subscriptions: tuple[tuple[str, str], ...] = field(default=(("", ""),), converter=_subscriptions)
    unreliable: str = field(default="keep")
    instance: InstanceOptions = field(default=Factory(_of_instance, takes_self=True), init=False)
    """Options of the receiving instance."""

    @unreliable.validator
    def _check_unreliable(self, _attribute: Any, value: Any) -> None:
        if value not in ("keep", "drop"):
            raise ValueError(f'StageOptions.unreliable is {value!r}: give "keep" or "drop"')
