"""Detects silent corruption: row checksums, table seals, a log check (D-13, V9).

Rows can be lost or altered in three ways, each detected by its own means:

- A row changes: every important row has a checksum of all its columns, computed in SQL where many are checked.
- A row vanishes, because a page that leads to it changed: `close` stores the seal, the number of rows and sum of
  checksums of each table; after a use that ended without `close`, SQLite checks its own structure.
- SQLite itself drops it: a wrong checksum in the log counts as the log's end for SQLite. Then valid frames follow that
  end.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Any
from zlib import crc32

_PRIME = 4294967291  # largest prime below 2**32: every single flipped bit changes the sum


def row_check(*values: int | bytes | None) -> int:
    """Checksum of a row of one of the small tables, from its values; also an SQL function."""
    return crc32(repr(values).encode())


_LETTER = Struct(">qII")


def letter_check(numbers: Sequence[int], cause: bytes, channel: bytes, key: bytes, body: bytes) -> int:
    """Checksum of a dead letter. `numbers`: its own, the peer's, the message id, attempts and time of failure."""
    number, peer, wire_id, attempts, failed_at = numbers
    content = crc32(cause, crc32(body, crc32(_LETTER.pack(wire_id, len(channel), len(key)) + channel + key)))
    return (content + number * 65537 + peer * 40503001 + attempts * 1000003 + failed_at * 69061) % _PRIME


def batch_check(first_seq: int, last_seq: int) -> int:
    """Checksum of a batch's range of seqs, from `first_seq` to `last_seq`. Its contents have checksums of their own."""
    return (first_seq * 1000003 + (last_seq - first_seq) * 69061 + 104729) % _PRIME


def owed_check(
    peer: int, first_seq: int, last_seq: int, first_id: int | None, size: int, owed: bytes | None, parked: bytes | None
) -> int:
    """Checksum of a row of the table `owed`, from its columns; also an SQL function. Where all of a batch is owed, SQL
    uses plain arithmetic instead.
    """
    check = peer * 40503001 + first_seq * 1000003 + (last_seq - first_seq) * 69061 + size * 65537
    if first_id is None:
        check += 15485863
    else:
        check += (first_id & 0xFFFFFFFF) * 524287 + (first_id >> 32 & 0xFFFFFFFF) * 131071
    if owed is not None:
        check += crc32(owed, 1)
    if parked is not None:
        check += crc32(parked, 2) * 3
    return (check + 104729) % _PRIME


def make_known(connection: sqlite3.Connection) -> None:
    """Define the checksum functions of this module as SQL functions of the connection."""
    connection.create_function("row_check", -1, row_check, deterministic=True)
    connection.create_function("owed_check", 7, partial(_checked, owed_check), deterministic=True)


def _checked(check: Callable[..., int], *row: Any) -> int | None:
    """Result of a check function for the values of a row; None for values of a wrong type, as SQLite does not pass
    exceptions on.
    """
    try:
        return check(*row)
    except (TypeError, struct_error):
        return None


_COLUMNS = {
    "expiry": ("first_seq", "due"),
    "later": ("by_wall", "due", "first_seq"),
    "owed": ("peer", "first_seq", "last_seq", "first_id", "bytes", "owed", "parked"),
    "handled": ("peer", "wire_id", "checksum"),
    "id_span": ("number", "first", "count"),
    "clock": ("correction",),
    "own_subscription": ("channel", "key"),
    "peer_subscription": ("peer", "channel", "key"),
    "held_subscription": ("peer", "channel", "key", "since"),
    "unsaid": ("peer", "channel", "key", "since"),
    "peer_name": ("peer", "name"),
}
_FORMULAS = {  # exact in 64 bits up to seq 2**42
    "expiry": "row_check({}, {})",
    "later": "row_check({}, {}, {})",
    "owed": (
        "CASE WHEN {5} IS NULL AND {6} IS NULL AND {3} IS NOT NULL THEN "
        "({0} * 40503001 + {1} * 1000003 + ({2} - {1}) * 69061 + {4} * 65537"
        f" + ({{3}} & 0xFFFFFFFF) * 524287 + ({{3}} >> 32 & 0xFFFFFFFF) * 131071 + 104729) % {_PRIME}"
        " ELSE owed_check({0}, {1}, {2}, {3}, {4}, {5}, {6}) END"
    ),
    "handled": (  # NULL checksum: a message known by its id alone
        f"({{}} * 40503001 + {{}} * 69061 + IFNULL({{}} * 1000003 + 32452843, 0) + 104729) % {_PRIME}"
    ),
    "id_span": "row_check({}, {}, {})",
    "clock": "row_check({})",
    "own_subscription": "row_check(CAST({} AS BLOB), CAST({} AS BLOB))",
    "peer_subscription": "row_check({}, CAST({} AS BLOB), CAST({} AS BLOB))",
    "held_subscription": "row_check({}, CAST({} AS BLOB), CAST({} AS BLOB), {})",
    "unsaid": "row_check({}, CAST({} AS BLOB), CAST({} AS BLOB), {}, 1)",
    "peer_name": "row_check({}, CAST({} AS BLOB))",
}


def check_of(table: str, *columns: str) -> str:
    """SQL for the checksum of a row of the table, from the given SQL terms, by default its own columns."""
    return _FORMULAS[table].format(*(columns or _COLUMNS[table]))


GOOD = {table: f"IFNULL(crc = {check_of(table)}, 0)" for table in _COLUMNS}
"""SQL condition for an undamaged row, by table."""

# Seal of the tables.

SEALED = (
    "peer",
    "peer_name",
    "owed",
    "handled",
    "id_span",
    "clock",
    "expiry",
    "later",
    "own_subscription",
    "peer_subscription",
    "held_subscription",
    "unsaid",
    "dead_letter",
)


def seal(connection: sqlite3.Connection) -> bytes:
    """Seal of the present rows: number of rows of each table, and the sum of their checksums, as JSON."""
    return json.dumps({table: _sums(connection, table) for table in SEALED}).encode()


def write_seal(connection: sqlite3.Connection) -> None:
    """Store the seal of the current rows, for the next opening to compare."""
    _set_seal(connection, None)  # if the rest fails, the next opening counts as unclean
    _set_seal(connection, seal(connection))


def break_seal(connection: sqlite3.Connection) -> None:
    """Remove the seal, before rows change."""
    _set_seal(connection, None)


def _set_seal(connection: sqlite3.Connection, value: bytes | None) -> None:
    connection.execute("UPDATE instance SET seal = :seal, crc = row_check(uuid, :seal)", {"seal": value})


def _sums(connection: sqlite3.Connection, table: str) -> list[int]:
    return list(connection.execute(f"SELECT COUNT(*), IFNULL(SUM(crc), 0) FROM {table}").fetchone())


# Findings.

_THEN = {
    "owed": "the messages of that batch are not sent to that peer: put back a copy if they matter (docs/backup.md)",
    "handled": "what they name may be handled once more if it comes again (T-48)",
    "id_span": "ids that were given then may come again, as after a copy was put back (T-40)",
    "clock": "messages are as old as the wall clock says",
    "expiry": "messages of that batch do not expire when their send said, but as the policy says (P-27)",
    "later": "messages of that batch go now, though their time may not have come",
    "own_subscription": "subscribe to it again if it is wanted",
    "held_subscription": "messages that were held for it are sent to that peer (T-61)",
    "unsaid": "that peer is not told again that it is wanted no more (T-61)",
    "peer_name": "that peer is called by its UUID alone until it connects",
    "peer_subscription": "messages for it are not kept for that peer until it connects and says its list again (T-30)",
}
_SHOWN = 3


def damage(connection: sqlite3.Connection, table: str, sealed: dict[str, list[int]]) -> Iterator[str]:
    """Texts about damage in a table. Rows with a wrong checksum are deleted."""
    bad = []
    if table in GOOD:
        query = f"FROM {table} WHERE NOT {GOOD[table]}"
        bad = connection.execute(f"SELECT * {query} LIMIT {_SHOWN}").fetchall()
    if table in sealed:
        yield from _broken_seal(table, sealed[table], _sums(connection, table), bool(bad))
    if bad:
        [(count,)] = connection.execute(f"SELECT COUNT(*) {query}").fetchall()
        shown = ", ".join(repr(row)[:200] for row in bad) + (" and others" if count > len(bad) else "")
        yield f"{count} rows of table {table} have a wrong checksum and are left out, {shown}: {_THEN[table]}"
        _leave_out(connection, table)
    if table in ("owed", "peer_name", "peer_subscription", "held_subscription", "unsaid", "handled"):
        query = (
            f"SELECT peer, COUNT(*) FROM {table} WHERE peer > 0 GROUP BY peer HAVING peer NOT IN (SELECT id FROM peer)"
        )
        for peer, count in connection.execute(query).fetchall():  # else a new peer could get such a number
            yield f"{count} rows of table {table} belong to a peer ({peer}) whose own row is missing: they are removed"
            connection.execute(f"DELETE FROM {table} WHERE peer = ?", (peer,))


def _broken_seal(table: str, then: list[int], now: list[int], known: bool) -> Iterator[str]:
    missing = then[0] - now[0]
    if missing:
        number = f"{abs(missing)} rows {'are missing' if missing > 0 else 'too many'}"
        yield f"table {table} has {now[0]} rows and had {then[0]} at the end of the last use: {number}"
    elif then != now and not known:
        yield f"the rows of table {table} are not those of the end of the last use"


def _leave_out(connection: sqlite3.Connection, table: str) -> None:
    """Rebuild the table from its good rows.

    A changed key puts a row out of order in the table's tree. Searches, those of a DELETE included, would then miss
    this and good rows, without an error.
    """
    connection.execute(f"CREATE TEMP TABLE good AS SELECT * FROM main.{table} WHERE {GOOD[table]}")
    connection.execute(f"DELETE FROM main.{table}")
    connection.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM good")
    connection.execute("DROP TABLE temp.good")


# Write-ahead log.

_LOG_HEADER = Struct(">8I")
_FRAME_HEADER = Struct(">6I")
_LITTLE_ENDIAN = 0x377F0682  # the magic number's last bit gives the byte order of checksums
_SAME = 2  # most differing bits of the 64-bit salts of one log


class Log:
    """SQLite's write-ahead log file, read before SQLite opens the database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._size = path.stat().st_size
            with path.open("rb") as file:
                self._header = file.read(_LOG_HEADER.size)
        except FileNotFoundError:
            self._size = 0
        self.there = self._size > _LOG_HEADER.size

    def _frames(self, first: int = 0) -> Iterator[tuple[tuple[int, ...], bytes]]:
        """Header and page of each frame of the log, from frame number `first`, counted from 0."""
        page_size = _LOG_HEADER.unpack(self._header)[2]
        with self._path.open("rb") as file:
            file.seek(_LOG_HEADER.size + first * (_FRAME_HEADER.size + page_size))
            while len(head := file.read(_FRAME_HEADER.size)) == _FRAME_HEADER.size:
                yield _FRAME_HEADER.unpack(head), file.read(page_size)

    def page_one(self) -> bytes:
        """The last version of the database's first page in the log; b"" if it has none."""
        pages = [page for head, page in self._frames() if head[0] == 1] if self.there else []
        return pages[-1] if pages else b""

    def complaints(self, frames: int) -> Iterator[str]:
        """Texts about anomalies of the log, in which SQLite found `frames` valid frames.

        Valid frames after those belong to a commit that a kill interrupted.
        """
        magic, _, page_size, _, salt, other_salt, *checksum = _LOG_HEADER.unpack(self._header)
        if _checksum(self._header[:24], magic, [0, 0]) != checksum:
            yield (
                f"the head of {self._path} is damaged. If the process was killed as it began the log anew, or power "
                "failed, that is as it should be: it held nothing. Else what it held, the last messages stored and "
                "removed, is lost"
            )
            return
        if frames:
            head, _ = next(self._frames(frames - 1))
            checksum = list(head[4:])
        cut, commits = False, 0
        for head, page in self._frames(frames):
            if ((head[2] ^ salt) << 32 | head[3] ^ other_salt).bit_count() > _SAME or len(page) < page_size:
                break
            if not cut:
                checksum = _checksum(_FRAME_HEADER.pack(*head)[:8] + page, magic, checksum)
                cut = checksum != list(head[4:]) or head[2:4] != (salt, other_salt)  # salts have no checksum
            commits += cut and bool(head[1])
        if commits > 1:
            yield (
                f"{self._path} is damaged in its midst: {commits} commits behind that place are lost, "
                "messages stored and removed"
            )
        elif cut:
            yield (
                f"{self._path} ends with a commit that is not whole. If the process was killed as it wrote, or power "
                "failed, that is as it should be: `send` had not returned. Else the disk has lost it"
            )


def _checksum(data: bytes, magic: int, start: list[int]) -> list[int]:
    """SQLite's checksum of frames of the log, continued from `start`; `magic` is the number that the log begins with,
    which tells the byte order.
    """
    one, other = start
    words = Struct(f"{'<' if magic == _LITTLE_ENDIAN else '>'}{len(data) // 4}I").unpack(data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + second + one) & 0xFFFFFFFF
    return [one, other]
