"""Destinations of messages in a configuration file: files, commands, sockets, functions."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from inspect import isasyncgenfunction, isgeneratorfunction
from pathlib import Path
from typing import Any

from attrs import NOTHING, define, field

from tolliver_proto import StoreError

from .._options.table import PROGRAM
from .._private import NotAFile, must_be_file

KEY = "deliver"
_WAYS = ("file", "command", "socket", "python", "stage")


@define(frozen=True)
class Destination:
    """A destination of messages that match `channel` and `key` ("" matches any): exactly one of the other fields is
    set."""

    channel: str
    key: str
    concurrency: int
    timeout: float | None
    file: Path | None = None
    rotate_size: int | None = None
    rotate_age: float | None = None
    command: tuple[str, ...] | None = None
    socket: Path | tuple[str, int] | None = None
    python: str | None = None
    stage: Path | None = None
    max_staged: int = PROGRAM["deliver.max_staged"].default
    function: Callable[..., object] | None = field(default=None, eq=False, repr=False)

    def __str__(self) -> str:
        return f"to {self.named}{', which runs for each' if self.command is not None else ''}"

    @property
    def named(self) -> str:
        """Returns a text that names the destination."""
        if self.file is not None:
            return str(self.file)
        if self.stage is not None:
            return f"the stage {self.stage}"
        if self.command is not None:
            return self.command[0]
        if self.socket is not None:
            return f"unix:{self.socket}" if isinstance(self.socket, Path) else ":".join(map(str, self.socket))
        return f"{self.python}"

    def takes(self, channel: str, key: str) -> bool:
        """True if the destination takes all messages of a subscription to these names."""
        return self.channel in ("", channel) and self.key in ("", key)


def destinations(tables: Iterable[Mapping[str, Any]], base: Path) -> tuple[Destination, ...]:
    """Destinations from the tables of a file in the directory `base`, given as values by key. Raises ValueError.

    Imports the named modules, also from that directory.
    """
    found = tuple(_destination(table, base) for table in tables)
    stages = [os.path.realpath(one.stage) for one in dict.fromkeys(found) if one.stage is not None]
    if len({*stages}) < len(stages):
        raise ValueError("deliver.stage: two tables have one stage, and a stage has one receiver: give each its own")
    files = {(os.path.realpath(one.file), one.rotate_size, one.rotate_age) for one in found if one.file is not None}
    if len({file for file, _, _ in files}) < len(files):
        raise ValueError("deliver.rotate_size: two tables have one file: give both the same rotate_size and rotate_age")
    return found


def _destination(table: Mapping[str, Any], base: Path) -> Destination:
    known = {
        key: one.default for key, one in PROGRAM.items() if key.startswith(f"{KEY}.") and one.default is not NOTHING
    }
    values = {key.removeprefix(f"{KEY}."): value for key, value in {**known, **table}.items()}
    if values["concurrency"] < 1:
        raise ValueError("deliver.concurrency: give at least 1")
    ways = [way for way in _WAYS if way in values]
    if len(ways) != 1:
        given = f"it has {' and '.join(ways)}" if ways else "where do its messages go"
        raise ValueError(f"{given}: give one of {', '.join(f'{KEY}.{way}' for way in _WAYS)}")
    if values.keys() & {"rotate_size", "rotate_age"} and "file" not in values:
        raise ValueError("deliver.rotate_size and deliver.rotate_age are of a file: give deliver.file with them")
    if "file" in values:
        for name in ("rotate_size", "rotate_age"):
            if values.get(name, 1) <= 0:
                raise ValueError(f"deliver.{name}: give more than 0, or leave it out")
        try:
            must_be_file(values["file"])
        except NotAFile as error:
            raise ValueError(f"deliver.file: {error}, or use deliver.command or deliver.socket for a program") from None
    if "command" in values:
        values["command"] = _program(values["command"], base)
    if "python" in values:
        values["function"] = _function(values["python"], base)
    if "stage" in values:
        _check_stage(values["stage"], values["max_staged"])
    return Destination(**values)


def _check_stage(directory: Path, max_staged: int) -> None:
    from ..staging import FolderOptions  # needs POSIX
    from ..staging._folder import check_place

    try:
        FolderOptions(directory=directory, max_staged_bytes=max_staged)
        check_place(directory)
    except (OSError, ValueError, StoreError) as error:
        raise ValueError(f"deliver.stage: {error}") from None


def _program(words: tuple[str, ...], base: Path) -> tuple[str, ...]:
    """Command of a destination, with a program's path made relative to the directory `base` of the file. Raises
    ValueError.
    """
    program = words[0] if words else ""
    if "/" in program:
        program = str((base / program).absolute())
    if shutil.which(program) is None:
        raise ValueError(f"deliver.command: there is no program {program!r:.100}")
    return (program, *words[1:])


def _function(named: str, base: Path) -> Callable[..., object]:
    module, _, name = named.partition(":")
    here = str(base.absolute())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = reduce(getattr, name.split("."), importlib.import_module(module))
    except BaseException as error:  # the module's own code may raise anything (T-45)
        raise ValueError(f"deliver.python: {named} cannot be had: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise ValueError(f"deliver.python: {named} is no function")
    if isgeneratorfunction(found) or isasyncgenfunction(found):  # calling one runs none of its code
        raise ValueError(f"deliver.python: {named} is a generator, which would never run: take `yield` out of it")
    return found


def check_all_go_somewhere(subscriptions: Iterable[tuple[str, str]], chosen: Iterable[Destination]) -> None:
    """Raises ValueError for a subscription, (channel, key), that no destination matches."""
    for channel, key in subscriptions:
        if not any(one.takes(channel, key) for one in chosen):
            named = f"{channel!r:.100}{f' {key!r:.100}' if key else ''}"
            raise ValueError(
                f"where do messages of {named} go? Give a [[{KEY}]] that takes them, without channel and key for all"
            )


def subscribed(subscriptions: Iterable[tuple[str, str]], chosen: Iterable[Destination]) -> tuple[tuple[str, str], ...]:
    """Subscriptions, (channel, key), of a file: those that it lists, and those of destinations that these do not
    include.
    """
    named = tuple(subscriptions)
    wide = [(one.channel, one.key) for one in chosen if one.channel or one.key]
    more = [(c, k) for c, k in wide if not any(a in ("", c) and b in ("", k) for a, b in named)]
    return (*named, *dict.fromkeys(more))
