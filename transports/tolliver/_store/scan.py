"""Read-only scan of a database, also while its instance runs.

A scan changes nothing and takes no lock.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from tolliver_proto import StoreError, Subscription
from tolliver_proto.store import LATER, is_keeper

from .checks import letter_check
from .layout import LAYOUT, refuse_unknown
from .owed import Deliveries

_LETTERS = """
    SELECT uuid, LENGTH(body), number, peer, wire_id, attempts, failed_at, cause, channel, key, dead_letter.crc, {}
    FROM dead_letter JOIN peer ON peer.id = dead_letter.peer ORDER BY number"""

Body = bytes


@dataclass(slots=True)
class Waiting:
    """Messages that wait for a peer, or are parked for it. Times are in seconds since 1970 by the wall clock as it is
    set now, None if damaged.
    """

    peer: UUID
    parked: bool
    messages: int = 0
    bytes: int = 0
    oldest: int | None = None
    newest: int | None = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A message that a peer has not acknowledged. `bytes` is its frame's size; `stored_at` is None if damaged."""

    peer: UUID
    message_id: int
    channel: str
    key: str
    bytes: int
    stored_at: int | None
    parked: bool


@dataclass(frozen=True, slots=True)
class Known:
    """A peer that the database of an instance knows, as `scan` finds it."""

    peer: UUID
    name: str
    pin: bytes | None
    subscriptions: tuple[Subscription, ...]
    waiting: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter. `body` is None if it was not asked for or is damaged. `failed_at` is in seconds since 1970."""

    number: int
    peer: UUID
    channel: str
    key: str
    bytes: int
    message_id: int
    attempts: int
    failed_at: int
    cause: str
    body: Body | None


class DatabaseScan:
    """Reader of a database's outbox, also while an instance has it open; created by `scan`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._deliveries = Deliveries(connection, lambda: 0)
        steps = connection.execute("SELECT correction FROM clock").fetchone()
        self._steps: int = (
            steps[0] if steps else 0
        )  # seconds that the wall clock was set ahead, which no row has (D-10)

    def peers(self) -> dict[int, UUID]:
        """Peers by number, without the owners of retained messages and others that wait for no peer."""
        return {number: uuid for number, uuid in self._owners().items() if not is_keeper(uuid)}

    def _owners(self) -> dict[int, UUID]:
        rows = self._connection.execute("SELECT id, uuid FROM peer")
        return {number: UUID(bytes=uuid) for number, uuid in rows}

    def known(self) -> list[Known]:
        """All peers, in the order in which they became known."""
        lists = defaultdict(list)
        for peer, channel, key in self._connection.execute(
            "SELECT peer, channel, key FROM peer_subscription ORDER BY peer, channel, key"
        ):
            lists[peer].append(Subscription(channel.decode(), key.decode()))
        pins = dict(self._connection.execute("SELECT id, spki_sha256 FROM peer"))
        names = dict(self._connection.execute("SELECT peer, name FROM peer_name"))
        return [
            Known(
                uuid,
                _shown(names.get(number, b"")),
                pins[number],
                tuple(lists[number]),
                sum(one.messages for one in self._waiting(number, uuid)),
            )
            for number, uuid in self.peers().items()
        ]

    def letters(self, bodies: bool = False) -> Iterator[Letter]:
        """All dead letters, oldest first; `bodies` also reads their bodies."""
        for uuid, size, *row in self._connection.execute(_LETTERS.format("body" if bodies else "NULL")):
            number, _, wire_id, attempts, failed_at, cause, channel, key, crc, body = row
            if body is not None and crc != letter_check(row[:5], cause, channel, key, body):
                body = None
            names, why = (_shown(channel), _shown(key)), _shown(cause)
            yield Letter(number, UUID(bytes=uuid), *names, size, wire_id, attempts, failed_at + self._steps, why, body)

    def waiting(self) -> list[Waiting]:
        """Waiting and parked messages of each peer that has any, and those that wait for their time."""
        owners = [(number, uuid) for number, uuid in self._owners().items() if not is_keeper(uuid) or uuid == LATER]
        return [one for number, uuid in owners for one in self._waiting(number, uuid)]

    def messages(self, peer: UUID | None = None) -> Iterator[Undelivered]:
        """Messages of each peer, or of one owner, oldest first. A damaged message has no names."""
        for number, uuid in (self.peers() if peer is None else self._owners()).items():
            if peer in (None, uuid):
                for _, _, wire_id, size, parked, stored_at, (channel, key) in self._deliveries.listed(number, 0, 0):
                    if uuid == LATER:
                        key = key.split(" ", 3)[-1]  # without its terms
                    at = stored_at + self._steps if stored_at else None
                    yield Undelivered(uuid, wire_id, channel, key, size, at, parked)

    def _waiting(self, number: int, uuid: UUID) -> list[Waiting]:
        both = [Waiting(uuid, False), Waiting(uuid, True)]
        for part in self._deliveries.parts(number):
            one = both[part.parked]
            one.messages += part.messages
            one.bytes += part.size
            one.newest = part.first_seq
            if one.oldest is None:
                one.oldest = part.first_seq
        for one in both:
            one.oldest, one.newest = (self._stored_at(first) for first in (one.oldest, one.newest))
        return [one for one in both if one.messages]

    def _stored_at(self, first_seq: int | None) -> int | None:
        directory = None if first_seq is None else self._deliveries.directory(first_seq)
        return None if directory is None else directory.stored_at + self._steps


def must_be_there(database: Path) -> None:
    """Raises StoreError if there is no file at the path."""
    if not database.is_file():
        raise StoreError(f"there is no database {database}: give the file that the instance uses")


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")


@contextmanager
def scan(database: Path) -> Iterator[DatabaseScan]:
    """Open a database for reading. Raises StoreError if it is missing or of another version."""
    must_be_there(database)
    file = database.resolve()
    in_use = file.with_name(f"{file.name}-wal").exists()  # else SQLite would create the file, and leave it
    options = "mode=ro" if in_use else "mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?{options}", uri=True)) as connection:
            connection.text_factory = bytes
            [(application,)] = connection.execute("PRAGMA application_id").fetchall()
            [(layout,)] = connection.execute("PRAGMA user_version").fetchall()
            refuse_unknown(database, application, layout)
            if layout != LAYOUT:
                raise StoreError(
                    f"{database} has layout {layout}, of an older version, and the next opening brings it to layout "
                    f"{LAYOUT}: start its instance first"
                )
            connection.execute("BEGIN")  # all reads see the state of one moment
            yield DatabaseScan(connection)
    except sqlite3.Error as error:
        raise StoreError(
            f"{database} cannot be read as an instance's database: {error}. Give the file that the instance uses"
        ) from error
