"""Migration of a database from an older layout.

All of it is one transaction: a kill at any point, or a disk that is full, leaves the file as it was. Layouts 1 and 2
had a row for each message and one for each delivery; they become batches. Damaged rows stay so. In layout 3
batches had no number of a commit, and the clock was not corrected over a restart; in layout 4 no message had an expiry
of its own, and nothing was retained; in layout 5 a dead letter had no cause.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import groupby
from struct import error as struct_error
from typing import Any

from tolliver_proto import StoredMessage

from .batches import PIECE
from .checks import check_of, content_check
from .layout import LAYOUT, TABLES
from .owed import Deliveries

_STAMP = 1000003  # in layout 2 the time of storing is a multiple of it
_MINUTE = 60  # seconds: messages of one batch expire together
_MOST = 4096  # messages of a batch

_INSTANCE = "id, uuid, NULL, row_check(uuid, NULL), 0"  # a seal is of the rows of its layout
_KEPT = {
    1: {
        "instance": _INSTANCE,
        "peer": "id, uuid, spki_sha256, row_check(id, uuid, spki_sha256)",
        "peer_subscription": f"peer, channel, key, {check_of('peer_subscription')}",
        "own_subscription": f"channel, key, {check_of('own_subscription')}",
        "handled": f"number, peer, wire_id, NULL, {check_of('handled', 'peer', 'wire_id', 'NULL')}",
        "dead_letter": """number, peer, wire_id, attempts, failed_at,
            letter_check(crc, number, peer, attempts, failed_at), channel, key, body, ''""",
    },
    2: {"instance": _INSTANCE, "handled": "number, peer, wire_id, NULL, crc"},
}
"""By the layout of the file and the new table: the rows that its old ones give. A table that is not named stays."""

_HANDED_OUT = 2**24  # ids before the place where they were to go on: more is not known of an older layout (T-40)
_LAST_ID = 2**31 - 2
_ID_SPANS = f"""
    INSERT INTO id_span SELECT 1, first, {_HANDED_OUT}, {check_of("id_span", "1", "first", str(_HANDED_OUT))}
    FROM (SELECT (next_id - 1 + {_LAST_ID - _HANDED_OUT}) % {_LAST_ID} + 1 AS first FROM instance)"""

_NEW = {4: ("clock", "held_subscription", "unsaid"), 5: ("expiry", "retained")}  # by the first layout that has them
_NUMBERED = "ALTER TABLE batch ADD COLUMN number INTEGER NOT NULL DEFAULT 0"
_CAUSED = "ALTER TABLE dead_letter ADD COLUMN cause TEXT NOT NULL DEFAULT ''"

_STORED_AT = {1: "stored_at", 2: f"CASE WHEN stamp % {_STAMP} = 0 THEN stamp / {_STAMP} END"}
_GOOD = {
    1: "1",
    2: """IFNULL(parked IN (0, 1) AND crc = (peer * 40503001 + seq * 1000003 + wire_id * 69061
        + size * 65537 + parked * 32452843 + 104729) % 4294967291, 0)""",
}

_Values = tuple[Any, ...]


def bring_up(connection: sqlite3.Connection, now: int) -> list[str]:
    """Within a transaction. Returns what is damaged, in words."""
    [(old,)] = connection.execute("PRAGMA user_version").fetchall()
    complaints: list[str] = []
    for layout, tables in _NEW.items():
        for table in tables if old < layout else ():
            connection.execute(TABLES[table])
    if old == 3:
        connection.execute(_NUMBERED)
    elif old < 3:
        complaints += _damaged(connection, old)
        _make_batches(connection, old, now)
    if 1 < old < 6:
        connection.execute(_CAUSED)
    if old != LAYOUT:
        connection.execute(f"PRAGMA user_version = {LAYOUT}")
    return complaints


def _make_batches(connection: sqlite3.Connection, old: int, now: int) -> None:
    connection.execute(TABLES["id_span"])
    connection.execute(_ID_SPANS)
    for table, rows in _KEPT[old].items():
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        connection.execute(TABLES[table])
        connection.execute(f"INSERT INTO {table} SELECT {rows} FROM old_{table}")
        connection.execute(f"DROP TABLE old_{table}")
    for table in ("batch", "owed"):
        connection.execute(TABLES[table])
    _gather(connection, old, now)
    for table in ("message", "delivery", "held"):
        connection.execute(f"DROP TABLE {table}")


def _damaged(connection: sqlite3.Connection, old: int) -> Iterator[str]:
    if old == 1:
        return
    [(sealed,)] = connection.execute("SELECT seal FROM instance").fetchall()
    then = json.loads(sealed)["delivery"] if sealed else None
    now = list(connection.execute("SELECT COUNT(*), IFNULL(SUM(crc), 0) FROM delivery").fetchone())
    if then and then != now:
        yield f"table delivery has {now[0]} rows and had {then[0]} at the end of the last use, or others"
    [(bad,)] = connection.execute(f"SELECT COUNT(*) FROM delivery WHERE NOT {_GOOD[old]}").fetchall()
    if bad:
        yield (
            f"{bad} rows of table delivery have a wrong checksum and are left out: these messages are not sent to "
            "that peer: send them again if they matter"
        )


def _gather(connection: sqlite3.Connection, old: int, now: int) -> None:
    """Messages that are owed, and who they are owed to, in the order of seq."""
    stored_at = now
    deliveries = Deliveries(connection, lambda: stored_at)
    for piece in _pieces(_owed(connection, old, now)):
        stored_at = max(at for *_, at in piece)  # never sooner than it would have been
        messages = [message for message, *_ in piece]
        deliveries.store(messages, [peers for _, peers, *_ in piece], ())
        deliveries.spoil([message.seq for message, _, _, good, _ in piece if not good])
        for message, _, parked, *_ in piece:
            for peer in parked:
                deliveries.park(peer, [(message.seq, message.seq)])


_Owed = tuple[StoredMessage, list[int], list[int], bool, int]


def _owed(connection: sqlite3.Connection, old: int, now: int) -> Iterator[_Owed]:
    """Each message, its peers, those where it is parked, whether it is as it was written, and since when."""
    deliveries = f"SELECT seq, peer, wire_id, size, parked FROM delivery WHERE {_GOOD[old]} AND peer > 0 ORDER BY seq"
    messages = f"SELECT seq, wire_id, crc, {_STORED_AT[old]}, channel, key, body FROM message ORDER BY seq"
    peers: list[int] = []
    with closing(connection.execute(deliveries)) as owed, closing(connection.execute(messages)) as stored:
        row = next(stored, None)
        for seq, group in groupby(owed, lambda one: one[0]):
            rows = list(group)
            while row is not None and row[0] < seq:
                row = next(stored, None)
            message, good, since = _message(row if row is not None and row[0] == seq else None, rows[0])
            numbers = [one[1] for one in rows]
            if numbers != peers:  # one object where they are the same
                peers = numbers
            yield message, peers, [one[1] for one in rows if one[4]], good, now if since is None else since


def _message(row: Any, delivery: _Values) -> tuple[StoredMessage, bool, int | None]:
    seq, _, wire_id, size, _ = delivery
    with suppress(TypeError, ValueError, AttributeError, struct_error):
        _, stored_id, crc, since, channel, key, body = row
        if stored_id == wire_id and crc == content_check(seq, wire_id, channel, key, body):
            return StoredMessage(seq, wire_id, channel.decode(), key.decode(), bytes(body), size), True, since
    return StoredMessage(seq, wire_id, "", "", b"", size), False, None


def _pieces(owed: Iterable[_Owed]) -> Iterator[Sequence[_Owed]]:
    piece: list[_Owed] = []
    total = 0
    for one in owed:
        message, *_, since = one
        total += len(message.body)
        if piece and (
            message.seq != piece[-1][0].seq + 1
            or total > PIECE
            or len(piece) == _MOST
            or not 0 <= since - piece[0][-1] < _MINUTE
        ):
            yield piece
            piece, total = [], len(message.body)
        piece.append(one)
    if piece:
        yield piece
