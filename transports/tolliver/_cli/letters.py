"""Dead letters of a database: shown, replayed, dropped.

Showing reads the file, even while an instance runs. Changes must not be written to a database that another process
uses. So a request for a change is a file next to the database: a `tolliver run` with this database executes it, at once
or when it starts. Dropping needs no handlers, so it is done at once if no process uses the database.
"""

from __future__ import annotations

import glob
import json
import secrets
import time
from binascii import b2a_base64
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.to_thread
import typer
from attrs import define

from tolliver_proto import StoreError, TolliverError

from .._private import give_to_owner_of, open_private, replacing
from .._store.lock import is_used
from .._store.scan import Letter, scan
from ..anyio import Instance
from . import words
from .outbox import ask_node
from .tables import print_rows

_LOOK = 0.5  # seconds between a service's checks for requests
_SOON = 0.05  # seconds between a command's checks of its request
_PAGE = 100  # most letters in memory
_LONGEST = 2**20  # most bytes of a request
_NAME = 24  # hexadecimal digits of its name: time of creation, and a unique number
_DONE = {"replay": "replayed", "drop": "dropped"}


@define(frozen=True)
class Which:
    """Selection of dead letters: by numbers (empty: all) and by the peer that sent them (None: any)."""

    numbers: Collection[int] = ()
    peer: UUID | None = None

    def of(self, database: Path, bodies: bool = False) -> Iterator[Letter]:
        """The selected letters; `bodies` also reads their bodies, which are None otherwise. Raises StoreError."""
        with scan(database) as inside:
            for one in inside.letters(bodies):
                if self.peer in (None, one.peer) and (not self.numbers or one.number in self.numbers):
                    yield one

    def found(self, database: Path) -> list[int]:
        """Numbers of the selected letters. Raises StoreError, also if a given number does not exist."""
        found = [one.number for one in self.of(database)]
        if missing := sorted({*self.numbers}.difference(found)):
            named = ", ".join(map(str, missing))
            of = "" if self.peer is None else f" of peer {self.peer}"
            raise StoreError(
                f"{database} has no dead letter{'' if len(missing) == 1 else 's'} {named}{of}, and nothing was done: "
                f"`tolliver letters show {database}` lists those that it has"
            )
        return found


def print_letters(database: Path, which: Which, bodies: bool, as_json: bool) -> None:
    """Print a row for each dead letter, with `as_json` as JSON lines: number, peer, channel, key, bytes, attempts,
    time, cause, and with `bodies` the body.
    """
    rows: list[dict[str, Any]] = [
        {
            "number": one.number,
            "peer": str(one.peer),
            "channel": one.channel if as_json else words.name(one.channel),
            "key": one.key if as_json else words.name(one.key),
            "bytes": one.bytes,
            "attempts": one.attempts,
            "failed": _time(one),
            "cause": one.cause if as_json else words.line(one.cause),
        }
        | ({"body": _body(one) if as_json else _shown(one)} if bodies else {})
        for one in which.of(database, bodies)
    ]
    print_rows(rows, as_json, "there are no dead letters")


def export_letters(database: Path, which: Which) -> None:
    """Print a line of JSON for each letter, beginning with the fields of `tolliver listen --json`."""
    for one in which.of(database, bodies=True):
        line = {
            "time": _time(one),
            "peer": str(one.peer),
            "channel": one.channel,
            "key": one.key,
            "message_id": one.message_id,
            "attempt": one.attempts,
            "body": _body(one),
            "number": one.number,
            "cause": one.cause,
        }
        typer.echo(json.dumps(line))


def _body(one: Letter) -> str | None:
    return None if one.body is None else b2a_base64(one.body, newline=False).decode()


def _shown(one: Letter) -> str:
    return "damaged: the body is lost" if one.body is None else words.body(one.body)


def _time(one: Letter) -> str:
    return datetime.fromtimestamp(one.failed_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# Requests to a service.


def replay_letters(database: Path, which: Which, timeout: float, as_json: bool) -> bool:
    """Have letters delivered again; returns True if all were handled, or will be delivered when the instance starts.
    `timeout` is in seconds. Raises StoreError, OSError."""
    numbers = which.found(database)
    if not _is_used(database):
        if numbers:
            _ask(database, "replay", numbers)
        said = f"{words.count(len(numbers), 'dead letter')} to be replayed when `tolliver run` starts on {database}"
        words.tell(as_json, said, letters=len(numbers), handled=0, waiting=len(numbers))
        return True
    left = _left(database, "replay", numbers, timeout)
    handled = len(numbers) - len(left)
    more = f"; the others are dead letters still: `tolliver letters show {database}`" if left else ""
    said = f"{handled} of {words.count(len(numbers), 'dead letter')} handled, and gone{more}"
    words.tell(as_json, said, letters=len(numbers), handled=handled, waiting=0)
    return not left


def drop_letters(database: Path, which: Which, timeout: float) -> int:
    """Delete the selected dead letters, in a running service within `timeout` seconds; returns their number. Raises
    StoreError, OSError.
    """
    numbers = which.found(database)
    if not _is_used(database):
        return ask_node(database, lambda node: node.drop_dead_letters(numbers))
    return len(numbers) - len(_left(database, "drop", numbers, timeout))


def _is_used(database: Path) -> bool:
    return is_used(str(database.resolve()))


def _ask(database: Path, what: str, numbers: Collection[int]) -> Path:
    """Write a request for a running service as a file with a unique name; `what` is "replay" or "drop"."""
    place = database.resolve()
    place = place.with_name(f"{place.name}.letters.{time.time_ns():016x}{secrets.token_hex(4)}")
    with replacing(place) as file:
        give_to_owner_of(database, file.fileno())
        file.write(json.dumps({what: sorted(numbers)}).encode())
    return place


def _left(database: Path, what: str, numbers: Collection[int], timeout: float) -> set[int]:
    """Request `what` ("replay" or "drop") of a running service; returns the numbers of letters that still exist when it
    has executed that, or after `timeout` seconds. Raises StoreError if it did not begin."""
    left = {*numbers}
    if not left:
        return left
    place, until = _ask(database, what, numbers), time.monotonic() + timeout
    while left and time.monotonic() < until:
        time.sleep(_SOON)
        if not place.exists():
            left &= {one.number for one in Which().of(database)}
    with suppress(FileNotFoundError):
        place.unlink()
        raise StoreError(
            f"the instance that has {database} has not looked for this within {timeout:g} s: it is no `tolliver run`, "
            "or too busy. Stop it first, or have the program do it (docs/operations.md#dead-letters)"
        )
    return left


def _read(place: Path) -> Mapping[str, Collection[int]]:
    """Read a request from the file at `place`: numbers of dead letters, by "replay" or "drop". Raises OSError, and
    ValueError if the file is no request.
    """
    with open(place, "rb", opener=open_private) as file:
        data = file.read(_LONGEST + 1)
    try:
        asked = json.loads(data) if len(data) <= _LONGEST else None
    except RecursionError:
        asked = None
    if not isinstance(asked, dict) or not all(
        what in _DONE and isinstance(numbers, list) and all(type(one) is int for one in numbers)
        for what, numbers in asked.items()
    ):
        raise ValueError("it is no request of `tolliver letters`")
    return asked


def _requests(database: Path) -> list[tuple[str, Collection[int]]]:
    """Take all requests, oldest first, each ("replay" or "drop", numbers). The files are removed, which shows the
    commands that wrote them that they are being executed."""
    found: list[tuple[str, Collection[int]]] = []
    place = database.resolve()
    for file in sorted(place.parent.glob(f"{glob.escape(place.name)}.letters.{_NAME * '[0-9a-f]'}")):
        if not file.is_file():
            continue
        try:
            asked = _read(file)
        except (OSError, ValueError) as error:
            words.say(words.line(f"{file} is no request that could be done: {error}"), words.Level.WARNING)
            asked = {}
        with suppress(OSError):  # its command has timed out and withdrawn it
            file.unlink()
            found += asked.items()
    return found


async def keep_requests(instance: Instance, database: Path) -> None:
    """Execute requests of `tolliver letters`, for ever."""
    while True:
        await anyio.sleep(_LOOK)
        for what, numbers in await anyio.to_thread.run_sync(_requests, database):
            try:
                count = await _do(instance, what, {*numbers})
            except TolliverError as error:
                words.say(words.line(f"`tolliver letters`: not {_DONE[what]}: {error}"), words.Level.WARNING)
                continue
            more = "" if count == len(numbers) else ": the others are gone, or no destination takes them"
            asked = words.count(len(numbers), "dead letter")
            words.say(f"`tolliver letters`: {count} of {asked} {_DONE[what]}{more}")


async def _do(instance: Instance, what: str, numbers: Collection[int]) -> int:
    if what == "drop":
        return await instance.admin.drop_dead_letters(numbers)
    count, after = 0, min(numbers, default=1) - 1
    while page := await instance.admin.dead_letters(after, _PAGE):
        count += instance.admin.replay([one for one in page if one.number in numbers])
        after = page[-1].number
    return count
