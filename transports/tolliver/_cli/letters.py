"""Dead letters of a database: looked at, replayed, dropped.

Looking reads the file beside a running instance. Nobody writes to a database that another process has. So a request is
a file beside the database: a `tolliver run` that has it does what is asked, and one that is not running does so when it
starts. Dropping needs no handlers: where nobody has the database it is done at once.
"""

from __future__ import annotations

import json
import os
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

from .._private import give_to_owner_of, must_be_file, open_private
from .._store.lock import is_used
from .._store.scan import Letter, scan
from ..anyio import Instance
from . import words
from .outbox import ask_node
from .tables import print_rows

_LOOK = 0.5  # seconds between two looks of a service for a request
_SOON = 0.05  # the same of a command for what became of its own
_PAGE = 100  # letters in memory at once
_LONGEST = 2**20  # bytes of a request
_DONE = {"replay": "replayed", "drop": "dropped"}


@define(frozen=True)
class Which:
    """Letters of these numbers, or of any; of that peer, or of any."""

    numbers: Collection[int] = ()
    peer: UUID | None = None

    def of(self, database: Path, bodies: bool = False) -> Iterator[Letter]:
        """Raises StoreError."""
        with scan(database) as inside:
            for one in inside.letters(bodies):
                if self.peer in (None, one.peer) and (not self.numbers or one.number in self.numbers):
                    yield one

    def found(self, database: Path) -> list[int]:
        """Their numbers. Raises StoreError, also where one of those that were given is of no letter."""
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
    """One row for each: number, peer, channel, key, bytes, attempts, time, cause, and the body if that is asked for."""
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
    """A line of JSON for each, with the fields of `tolliver listen --json` first."""
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


# Requests.


def replay_letters(database: Path, which: Which, timeout: float, as_json: bool) -> bool:
    """True if all of them were handled, or will be tried when the instance starts. Raises StoreError, OSError."""
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
    """Gives them up; returns how many. Raises StoreError, OSError."""
    numbers = which.found(database)
    if not _is_used(database):
        return ask_node(database, lambda node: node.drop_dead_letters(numbers))
    return len(numbers) - len(_left(database, "drop", numbers, timeout))


def _is_used(database: Path) -> bool:
    return is_used(str(database.resolve()))


def _place(database: Path) -> Path:
    file = database.resolve()
    return file.with_name(f"{file.name}.letters")


def _ask(database: Path, what: str, numbers: Collection[int]) -> None:
    """Beside what was asked before and is not done: who finds a request in the way takes it, and asks for both."""
    place, asked, waits = _place(database), {what: {*numbers}}, True
    draft = _own_name(place)
    while waits:
        for earlier, more in _take(place).items():
            asked.setdefault(earlier, set()).update(more)
        with open(draft, "wb", opener=open_private) as file:
            give_to_owner_of(database, file.fileno())
            file.write(json.dumps({one: sorted(wanted) for one, wanted in asked.items()}).encode())
        try:
            with suppress(FileExistsError):
                os.link(draft, place)
                waits = False
        finally:
            os.unlink(draft)


def _left(database: Path, what: str, numbers: Collection[int], timeout: float) -> set[int]:
    """Numbers of those that are there still when the running service has done it, or time is over."""
    left = {*numbers}
    if not left:
        return left
    place, until = _place(database), time.monotonic() + timeout
    _ask(database, what, numbers)
    while left and time.monotonic() < until:
        time.sleep(_SOON)
        if not place.exists():
            left &= {one.number for one in Which().of(database)}
    with suppress(FileNotFoundError):
        place.unlink()
        raise StoreError(
            f"the instance that has {database} has not looked for this within {timeout:g} s: it is no `tolliver run`, "
            "or too busy. In a program, call instance.admin.replay() and drop_dead_letters(); or stop it first"
        )
    return left


def _read(place: Path) -> Mapping[str, Collection[int]]:
    """The request. Raises OSError, and ValueError where it cannot be understood."""
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


def _take(place: Path) -> Mapping[str, Collection[int]]:
    """The request, which nobody else has then."""
    must_be_file(place)
    taken = _own_name(place)
    try:
        os.rename(place, taken)
    except FileNotFoundError:  # as nearly always
        return {}
    try:
        return _read(taken)
    finally:
        os.unlink(taken)


def _own_name(place: Path) -> Path:
    return place.with_name(f"{place.name}.{secrets.token_hex(8)}")


async def keep_requests(instance: Instance, database: Path) -> None:
    """For ever: do what `tolliver letters` asks for."""
    place, told = _place(database), ""
    while True:
        await anyio.sleep(_LOOK)
        try:
            for what, numbers in (await anyio.to_thread.run_sync(_take, place)).items():
                count = await _do(instance, what, {*numbers})
                more = "" if count == len(numbers) else ": the others are gone, or no destination takes them"
                asked = words.count(len(numbers), "dead letter")
                words.say(f"`tolliver letters`: {count} of {asked} {_DONE[what]}{more}")
        except (OSError, ValueError, TolliverError) as error:
            said = words.line(f"{place} is no request that could be done: {error}")
            if said != told:
                words.say(said, words.Level.WARNING)
            told = said


async def _do(instance: Instance, what: str, numbers: Collection[int]) -> int:
    if what == "drop":
        return await instance.admin.drop_dead_letters(numbers)
    count, after = 0, min(numbers, default=1) - 1
    while page := await instance.admin.dead_letters(after, _PAGE):
        count += instance.admin.replay([one for one in page if one.number in numbers])
        after = page[-1].number
    return count
