"""Values that are retained, the newest of each name (P-30), as rows.

They lie in the order of channel and key. Exact names and whole channels are looked up; a key in every channel is looked
for among all names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator
from contextlib import ExitStack, closing
from heapq import merge
from operator import itemgetter
from typing import Any

from tolliver_proto import Subscription

Name = tuple[str, str]
"""(channel, key)"""

Row = tuple[Any, ...]
"""channel, key, crc, stored_at, body"""

REMOVE = "DELETE FROM retained WHERE channel = ? AND key = ?"

_COLUMNS = "SELECT channel, key, crc, stored_at, body FROM retained"
_ONE = f"{_COLUMNS} WHERE channel = ? AND key = ?"
_OF_CHANNEL = f"{_COLUMNS} WHERE channel = ? AND key > ? ORDER BY key"
_WHOLE_CHANNEL = f"{_COLUMNS} WHERE channel = ? ORDER BY key"
_AFTER = "WHERE (channel, key) > (?, ?)"
_SIZE = "LENGTH(CAST(channel AS BLOB)) + LENGTH(CAST(key AS BLOB)) + LENGTH(body)"
_SIZE_OF = f"SELECT {_SIZE} FROM retained WHERE channel = ? AND key = ?"
_TOTALS = f"SELECT COUNT(*), IFNULL(SUM({_SIZE}), 0) FROM retained"


def total_of(connection: sqlite3.Connection) -> tuple[int, int]:
    """Number of values and their bytes."""
    [(number, size)] = connection.execute(_TOTALS).fetchall()
    return int(number), int(size)


def size_of(connection: sqlite3.Connection, name: Name) -> int | None:
    """Bytes of one value, None where there is none."""
    rows = connection.execute(_SIZE_OF, name).fetchall()
    return int(rows[0][0]) if rows else None


def matching(
    connection: sqlite3.Connection, wanted: Collection[Subscription], after: Name | None
) -> Generator[Row, None, None]:
    """Rows that match one of the subscriptions (T-24), each once, in order, those after that name."""
    if any(one == ("", "") for one in wanted):
        yield from _listed(connection, _COLUMNS, after)
        return
    with ExitStack() as stack:
        ways: tuple[Generator[Row, None, None], ...] = (
            _of_names(connection, sorted(one for one in wanted if all(one)), after),
            _of_channels(connection, sorted(one.channel for one in wanted if not one.key), after),
            _of_keys(connection, {one.key.encode() for one in wanted if not one.channel}, after),
        )
        last = None
        for row in merge(*(stack.enter_context(closing(way)) for way in ways), key=itemgetter(0, 1)):
            if row[:2] != last:
                last = row[:2]
                yield row


def _listed(connection: sqlite3.Connection, columns: str, after: Name | None) -> Generator[Row, None, None]:
    where = "" if after is None else _AFTER
    with closing(connection.execute(f"{columns} {where} ORDER BY channel, key", after or ())) as rows:
        yield from rows


def _of_names(
    connection: sqlite3.Connection, names: Collection[Name], after: Name | None
) -> Generator[Row, None, None]:
    for name in names:
        if after is None or name > after:
            yield from connection.execute(_ONE, name).fetchall()


def _of_channels(
    connection: sqlite3.Connection, channels: Collection[str], after: Name | None
) -> Generator[Row, None, None]:
    for channel in channels:
        if after is None or channel > after[0]:
            query = connection.execute(_WHOLE_CHANNEL, (channel,))
        elif channel == after[0]:
            query = connection.execute(_OF_CHANNEL, after)
        else:
            continue
        with closing(query) as rows:
            yield from rows


def _of_keys(connection: sqlite3.Connection, keys: Collection[bytes], after: Name | None) -> Generator[Row, None, None]:
    if keys:
        for channel, key in _listed(connection, "SELECT channel, key FROM retained", after):
            if key in keys:
                yield from connection.execute(_ONE, (channel.decode(), key.decode())).fetchall()
