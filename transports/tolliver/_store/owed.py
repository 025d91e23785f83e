"""Deliveries on disk, and the batches that hold their messages.

A delivery is a message owed to a peer. A peer's share of a batch is one row of the table `owed`: a whole batch, which
is the usual case, or a bitmap, if some messages are acknowledged, were for other peers, or are parked. A commit touches
only the rows of its batches. Peer number 0 stands for no peer: its rows are messages kept for remotes that are
connecting (T-62). A batch is deleted with its last share, and rewritten, smaller, when less than half of it is owed.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from heapq import merge
from itertools import accumulate, chain, compress, groupby, islice
from operator import attrgetter
from struct import error as struct_error
from typing import Any, NamedTuple

from tolliver_proto.layouts import IntervalSet, RefCounts
from tolliver_proto.store import CorruptMessage, StoredMessage

from .batches import Directory, Messages, in_columns, pack
from .causes import primary_code
from .checks import batch_check, owed_check

Span = tuple[int, int]
Row = StoredMessage | CorruptMessage
Listed = tuple[int, int, int, int, bool, int, tuple[str, str]]
"""A delivery: seq, peer number, message id, size in bytes, parked, time of storing, (channel, key)."""
Holds = Callable[[str, str], bool]
"""Function of channel and key: True if such a message is held (T-61)."""

NOBODY = 0
_ASKED = 256  # most spans in one query,
_NEAR = 4096  # and most seqs between two of them
_NEW = 16  # newest batches that are not rewritten, as they are soon acknowledged in full
_LOOKS = 64  # most batches whose age an opening reads
_ANEW = 16  # most batches that one commit rewrites
_LAST_SEQ = 2**63 - 1
_SIZE = attrgetter("size")

_COLUMNS = "peer, first_seq, last_seq, first_id, bytes, owed, parked"
_FROM = "first_seq >= IFNULL((SELECT MAX(first_seq) FROM {table} WHERE {where}first_seq <= :first), :first)"
_SHARES = f"""
    SELECT {_COLUMNS} FROM owed
    WHERE peer = :peer AND {_FROM.format(table="owed", where="peer = :peer AND ")} AND first_seq <= :last
    AND last_seq >= :first ORDER BY first_seq"""
_BATCHES = f"""
    SELECT first_seq, last_seq, crc FROM batch
    WHERE {_FROM.format(table="batch", where="")} AND first_seq <= :last AND last_seq >= :first
    ORDER BY first_seq"""
_OWNERS = """
    SELECT owed.owed FROM (SELECT 0 AS id UNION ALL SELECT id FROM peer) AS one CROSS JOIN owed
    ON owed.peer = one.id AND owed.first_seq = ?"""
_NEXT_BATCH = "SELECT first_seq, last_seq FROM batch WHERE first_seq >= ? ORDER BY first_seq LIMIT 1"
_EXPIRE = "INSERT OR REPLACE INTO expiry VALUES (:first, :due, row_check(:first, :due))"
_DUE = "SELECT first_seq, due FROM expiry ORDER BY due, first_seq"
_LATER = "SELECT first_seq, due FROM later WHERE by_wall = ? ORDER BY due, first_seq"
_NEW_LATER = "INSERT OR REPLACE INTO later VALUES (:kind, :due, :first, row_check(:kind, :due, :first))"
_PUT_OFF = """
    UPDATE later SET due = due + :more, crc = row_check(0, due + :more, first_seq)
    WHERE by_wall = 0 AND crc = row_check(0, due, first_seq)"""  # a damaged one stays one
_END_LATER = "DELETE FROM later WHERE by_wall = ? AND due = ? AND first_seq = ?"
_WITHOUT_TIME = """
    SELECT first_seq FROM owed WHERE peer = ? AND first_seq NOT IN (SELECT first_seq FROM later)"""
_NO_MESSAGE = "NOT EXISTS (SELECT 1 FROM owed WHERE peer = ? AND owed.first_seq = later.first_seq)"
_ORPHAN_TIME = f"SELECT 1 FROM later WHERE {_NO_MESSAGE} LIMIT 1"
_NO_MESSAGES = f"DELETE FROM later WHERE {_NO_MESSAGE}"
_DUE_SHARES = f"""
    SELECT {_COLUMNS} FROM (SELECT id FROM peer) AS one CROSS JOIN owed ON owed.peer = one.id AND owed.first_seq = ?"""
_ORPHANS = """
    DELETE FROM expiry WHERE NOT EXISTS (SELECT 1 FROM batch WHERE batch.first_seq = expiry.first_seq)"""
_REMOVE_SHARE = "DELETE FROM owed WHERE peer = ? AND first_seq = ? AND last_seq = ?"
_REMOVE_BATCH = "DELETE FROM batch WHERE first_seq = ? AND last_seq = ? AND crc = ?"
_END = (0, -1)  # peer and first seq of a sentinel behind the last row
_ZERO_OR_ONE = bytes(byte & 1 for byte in range(256))  # translates the ASCII digits 0 and 1 to the bytes 0 and 1


class Share(NamedTuple):
    """A row of the table `owed`: the messages of one batch that one peer is owed. `first_id` is None if the batch's ids
    are not consecutive; `owed` is None if all of the batch is owed."""

    peer: int
    first_seq: int
    last_seq: int
    first_id: int | None
    size: int  # bytes of frames of the whole batch
    owed: bytes | None
    parked: bytes | None

    @property
    def everything(self) -> int:
        return (1 << (self.last_seq + 1 - self.first_seq)) - 1

    @property
    def bits(self) -> int:
        return self.everything if self.owed is None else int.from_bytes(self.owed, "little")

    @property
    def parked_bits(self) -> int:
        return 0 if self.parked is None else int.from_bytes(self.parked, "little")

    def with_bits(self, owed: int, parked: int) -> Share:
        return self._replace(
            owed=None if owed == self.everything else _blob(owed), parked=_blob(parked) if parked else None
        )

    def without(self, met: int) -> Share | None:
        """The share without the messages whose bits are set in `met`; None if nothing is left."""
        left = self.bits & ~met
        return self.with_bits(left, self.parked_bits & left) if left else None


class Part(NamedTuple):
    """Messages of a batch that wait for a peer, or are parked for it. `size` is in bytes of frames."""

    first_seq: int
    parked: bool
    messages: int
    size: int


def _blob(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _span(peer: int, first: int, last: int) -> dict[str, int]:
    return {"peer": peer, "first": first, "last": last}


def _share(row: Sequence[int | bytes | None]) -> Share:
    peer, first, last, first_id, size, owed, parked = row
    return Share(peer, first, last, first_id if first_id is None else first_id % 2**64, size, owed, parked)  # type: ignore[arg-type]


def places_of(bits: int) -> Iterable[int]:
    """Indexes of the bits that are set, ascending, from 0 for the lowest."""
    return compress(range(bits.bit_length()), _flags(bits))


def mask(first: int, last: int, spans: Iterable[Span]) -> int:
    """Bitmap of the seqs in these spans, for a batch from seq `first` to `last`: its lowest bit is `first`."""
    bits = 0
    for low, high in spans:
        low, high = max(low, first), min(high, last)
        bits |= ((1 << (high + 1 - low)) - 1) << (low - first)
    return bits


def joined(spans: Iterable[Span]) -> list[Span]:
    """Merges spans: the same numbers in the fewest spans, ascending."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _questions(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    """Groups of spans that are joined and near each other, each group for one query."""
    start = 0
    for at in range(1, len(spans) + 1):
        if at == len(spans) or at - start == _ASKED or spans[at][0] - spans[at - 1][1] > _NEAR:
            yield spans[start:at]
            start = at


def _meeting(
    ask: Callable[[int, int], Iterable[Sequence[int]]], place: int, spans: Iterable[Span]
) -> Iterator[tuple[Sequence[int], list[Span]]]:
    """Rows that overlap any of the spans, each with those spans. `place` is the index of the column with a row's first
    seq; the next one has its last.

    `ask` returns the rows that overlap a range, in order.
    """
    for asked in _questions(joined(spans)):
        at = 0
        for row in ask(asked[0][0], asked[-1][1]):
            first, last = row[place], row[place + 1]
            while at < len(asked) and asked[at][1] < first:
                at += 1
            end = at
            while end < len(asked) and asked[end][0] <= last:
                end += 1
            if end > at:
                yield row, list(asked[at:end])


def _around(first: int, last: int, met: Sequence[Span]) -> Span:
    """The first of the spans `met` if that covers the whole row, from seq `first` to `last`, so that one statement can
    delete it with its neighbours; else (-1, first).
    """
    return met[0] if met[0][0] <= first and met[0][1] >= last else (-1, first)


class Deliveries:
    """The tables `batch` and `owed`: the messages, and what each peer is owed of them. Every change runs inside the
    caller's transaction.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        now: Callable[[], int],
        tell: Callable[[str], None] = lambda _damage: None,
    ) -> None:
        self._connection = connection
        self._execute: Callable[[str, Sequence[object] | Mapping[str, object]], sqlite3.Cursor] = connection.execute
        self._now = now
        self._tell = tell
        self._damaged: set[int] = set()  # first seqs of damaged batches already reported
        [(self.newest,)] = connection.execute("SELECT IFNULL(MAX(last_seq), 0) FROM batch").fetchall()
        self._number = 0  # number of the current commit
        self.numbered: int | None = None
        """First seq of the newest batch, if it holds the number of this commit, which then needs no row of its own
        (D-13)."""
        self._expires = False  # True if a batch may have a time of expiry
        self._times: dict[int, tuple[int, int]] = {}  # of the batches that were listed last, by first seq
        self._recent: deque[int] = deque(maxlen=_NEW)  # first seqs
        self._holes: dict[int, list[int]] = {}  # by batch: number of its messages, number of those owed
        self._sparse: dict[int, None] = {}  # batches of which less than half may be owed
        self._read: tuple[int, Directory, bytes] | None = None  # last batch read: mostly the next one, too

    def look_for_due(self) -> None:
        """Check if batches of earlier runs may expire. Not called for layouts without expiry."""
        [(self._expires,)] = self._execute("SELECT EXISTS (SELECT 1 FROM expiry)", ()).fetchall()

    def mend_times(self, later: int) -> None:
        """Make messages of the owner `later` due whose time is lost, and remove times whose messages are gone (V9)."""
        self._execute(_NO_MESSAGES, (later,))
        for (first,) in self._execute(_WITHOUT_TIME, (later,)).fetchall():
            self._execute(_NEW_LATER, {"kind": 0, "due": 0, "first": first})

    def put_off(self, more: int) -> None:
        """Add so many ms to the times that are by the store's clock."""
        self._execute(_PUT_OFF, {"more": more})

    def must_mend_times(self, later: int) -> bool:
        """True if `mend_times` has something to do."""
        return any(self._execute(query, (later,)).fetchone() for query in (_ORPHAN_TIME, _WITHOUT_TIME))

    def newest_stored_at(self) -> int:
        """Time of storing of the newest batch, in seconds since 1970; 0 if there is none, or it is damaged."""
        for (first,) in self._execute("SELECT MAX(first_seq) FROM batch", ()).fetchall():
            directory = None if first is None else self.directory(first)
            if directory is not None:
                return directory.stored_at
        return 0

    def ages(self, now: float) -> Iterator[tuple[int, float]]:
        """Last seq, and age in seconds, of at most a few dozen batches, ascending.

        Only for display: after a damaged one the rest is left out.
        """
        with suppress(sqlite3.DatabaseError):
            [(first, last)] = self._execute("SELECT MIN(first_seq), MAX(first_seq) FROM batch", ()).fetchall()
            after = 0
            while first is not None and after <= last:
                [(one, until)] = self._execute(_NEXT_BATCH, (after,)).fetchall()
                directory = self.directory(one)
                if directory is not None:
                    yield until, max(0.0, now - directory.stored_at)
                after = max(until + 1, one + (last - first) // _LOOKS)

    def begin(self, number: int) -> None:
        """Begin the commit of this number."""
        self._number, self.numbered = number, None

    def undone(self, newest: int) -> None:
        """Restore the state after a rollback; `newest` is the newest seq from before the transaction."""
        self.newest = newest
        self._read = None
        self._holes.clear()
        self._sparse.clear()

    # Storing.

    def store(
        self,
        messages: Sequence[StoredMessage],
        owners: Sequence[Sequence[int]],
        held: Iterable[int],
        due: int | None = None,
        time: tuple[int, int] | None = None,
    ) -> None:
        """Store messages; `owners[i]` are the peer numbers for `messages[i]`, the same object if they are the same;
        `held` are the seqs of messages kept for connecting peers.

        `due` is the time at which all of them expire, by the store's clock; `time` that until which they wait, in ms,
        behind 1 if it is by the wall clock, else 0. Raises sqlite3.IntegrityError for a seq
        that exists already.
        """
        kept = {*held}
        if len(messages) == 1:
            self._store(Messages.of(messages[0]), owners, kept)
            self._set_due(messages[0].seq, due, time)
            return
        for at, run in in_columns(messages):
            for start, stop in run.pieces():
                self._store(run.part(start, stop), owners[at + start : at + stop], kept)
                self._set_due(run.first_seq + start, due, time)

    def _set_due(self, first: int, due: int | None, time: tuple[int, int] | None) -> None:
        if time is not None:
            self._execute(_NEW_LATER, {"kind": time[0], "due": time[1], "first": first})
        if due is not None:
            self._expires = True
            self._execute(_EXPIRE, {"first": first, "due": due})

    def _end_due(self, firsts: Iterable[int]) -> None:
        """Remove the times of the deleted batches with these first seqs."""
        for first in firsts if self._expires or self._times else ():
            if self._expires:
                self._execute("DELETE FROM expiry WHERE first_seq = ?", (first,))
            if first in self._times:
                self._execute(_END_LATER, (*self._times.pop(first), first))

    def _store(self, messages: Messages, owners: Sequence[Sequence[int]], held: set[int]) -> None:
        ids, first, last = messages.ids, messages.first_seq, messages.last_seq
        if first <= self.newest and self._execute(_BATCHES, {"first": first, "last": last}).fetchone():
            raise sqlite3.IntegrityError(f"there is a message between {first} and {last}")
        self._execute(
            "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)",
            (first, last, batch_check(first, last), *pack(messages, self._now()), self._number),
        )
        if last > self.newest:
            self.newest, self.numbered = last, first
        self._recent.append(first)
        first_id = ids[0] if ids[-1] - ids[0] == len(ids) - 1 else None  # ids ascend, except where they start over
        size = sum(messages.sizes)
        if not held and owners[0] and owners.count(owners[0]) == len(owners):
            for peer in owners[0]:
                self._put((peer, first, last, first_id, size, None, None))
            return
        whole = Share(NOBODY, first, last, first_id, size, None, None)
        bits: defaultdict[int, int] = defaultdict(int)
        for place, peers in enumerate(owners):
            bit = 1 << place
            for peer in peers:
                bits[peer] |= bit
            if not peers or first + place in held:
                bits[NOBODY] |= bit
        for peer, owed in bits.items():
            self._put(whole._replace(peer=peer).with_bits(owed, 0))

    def _put(self, row: tuple[int, int, int, int | None, int, bytes | None, bytes | None]) -> None:
        """Insert a row of the table `owed`, or replace it."""
        first_id = row[3]
        if first_id is not None and first_id >= 2**63:
            row = (*row[:3], first_id - 2**64, *row[4:])
        self._execute("INSERT OR REPLACE INTO owed VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, owed_check(*row)))

    def add(self, peer: int, seqs: Iterable[int]) -> None:
        """Add deliveries of stored messages to another peer."""
        for (first, last, _), met in self._batches((seq, seq) for seq in seqs):
            known = [_share(row) for row in self._execute(_SHARES, _span(peer, first, last))]
            share = known[0] if known else self._new_share(peer, first, last)
            self._put(share.with_bits(share.bits | mask(first, last, met), share.parked_bits))

    def _new_share(self, peer: int, first: int, last: int) -> Share:
        directory = self.directory(first)
        if directory is None or not directory.count:
            return Share(peer, first, last, None, 0, b"", None)
        ids, places = directory.ids, directory.places
        consecutive = ids[-1] - ids[0] == places[-1] - places[0] == directory.count - 1
        return Share(peer, first, last, ids[0] - places[0] if consecutive else None, sum(directory.sizes), b"", None)

    def _replace(self, first: int, directory: bytes, bodies: bytes) -> None:
        self._execute("UPDATE batch SET directory = ?, bodies = ? WHERE first_seq = ?", (directory, bodies, first))
        self._read = None

    # Removing and parking.

    def _change(self, peer: int, spans: Iterable[Span], change: Callable[[Share, int], Share | None]) -> None:
        """Replace each share of the peer that overlaps the spans by `change(share, overlapping bits)`."""
        gone: list[tuple[Span, int]] = []
        for row, met in _meeting(lambda low, high: self._execute(_SHARES, _span(peer, low, high)), 1, spans):
            share = _share(row)
            new = change(share, mask(share.first_seq, share.last_seq, met))
            if new is None:
                gone.append((_around(share.first_seq, share.last_seq, met), share.first_seq))
            elif new != share:
                self._put(new)
        self._delete("DELETE FROM owed WHERE peer = ? AND first_seq", gone, peer)

    def _delete(self, head: str, gone: Sequence[tuple[Span, int]], *fixed: int) -> None:
        """Delete rows: for each, `gone` has the span that covers it and its first seq. Rows covered by one span are
        neighbours, and are deleted as one range. `head` is the statement up to its last column, `fixed` its values."""
        for _, group in groupby(gone, lambda one: one[0]):
            firsts = [first for _, first in group]
            if len(firsts) == 1:
                self._execute(f"{head} = ?", (*fixed, *firsts))
            else:
                self._execute(f"{head} BETWEEN ? AND ?", (*fixed, firsts[0], firsts[-1]))

    def remove(self, peer: int, spans: Sequence[Span]) -> None:
        if len(spans) == 1 and self._execute(_REMOVE_SHARE, (peer, *spans[0])).rowcount:
            return  # the usual case: exactly one batch
        self._change(peer, spans, Share.without)

    def park(self, peer: int, spans: Iterable[Span]) -> None:
        self._change(peer, spans, lambda share, met: share.with_bits(share.bits, share.parked_bits | met & share.bits))

    def unpark(self, peer: int, spans: Iterable[Span]) -> None:
        self._change(peer, spans, lambda share, met: share.with_bits(share.bits, share.parked_bits & ~met))

    def forget(self, peer: int) -> None:
        self._execute("DELETE FROM owed WHERE peer = ?", (peer,))

    def remove_messages(self, spans: Sequence[Span]) -> None:
        """Delete messages that are not owed to any peer."""
        self._read = None
        if self.numbered is not None and any(last >= self.numbered for _, last in spans):
            self.numbered = None
        if len(spans) == 1 and self._execute(_REMOVE_BATCH, (*spans[0], batch_check(*spans[0]))).rowcount:
            self._holes.pop(spans[0][0], None)
            self._sparse.pop(spans[0][0], None)
            self._end_due((spans[0][0],))
            return
        gone: list[tuple[Span, int]] = []
        for (first, last, _), met in self._batches(spans):
            around = _around(first, last, met)
            if around[0] >= 0 or self._thinned(first, last, met):
                gone.append((around, first))
        self._delete("DELETE FROM batch WHERE first_seq", gone)
        self._end_due(first for _, first in gone)
        for _, first in gone:
            self._holes.pop(first, None)
            self._sparse.pop(first, None)

    def _thinned(self, first: int, last: int, met: Sequence[Span]) -> bool:
        """Count the messages in the spans `met` as gone from the batch from seq `first` to `last`; True if all of it is
        gone.
        """
        hole = self._holes.setdefault(first, [last + 1 - first] * 2)
        hole[1] -= mask(first, last, met).bit_count()
        if hole[1] * 2 < hole[0]:
            self._sparse[first] = None
        return hole[1] <= 0 and not self._execute(_OWNERS, (first,)).fetchone()

    def _batches(self, spans: Iterable[Span]) -> Iterator[tuple[Sequence[int], list[Span]]]:
        """First seq, last seq and checksum of each batch that overlaps the spans, with those spans."""
        for row, met in _meeting(lambda low, high: self._execute(_BATCHES, {"first": low, "last": high}), 0, spans):
            if row[2] != batch_check(row[0], row[1]):  # its first or last seq is damaged
                directory = self.directory(row[0])
                if directory is None:
                    continue
                row = (row[0], directory.last_seq, row[2])
            yield row, met

    # Maintenance.

    def drop_held(self) -> None:
        """Delete messages that were kept for connecting peers, none of which became a recipient (T-62)."""
        kept = self._execute("SELECT first_seq FROM owed WHERE peer = ?", (NOBODY,)).fetchall()
        self.forget(NOBODY)
        for (first,) in kept:
            if not self._execute(_OWNERS, (first,)).fetchone():
                self._execute("DELETE FROM batch WHERE first_seq = ?", (first,))
        self._execute(_ORPHANS, ())

    def tidy(self, closing: bool = False) -> None:
        """Rewrite batches of which less than half is owed; the newest ones only when the store closes (`closing`)."""
        if not self._sparse:
            return
        newest = self._recent[0] if self._recent and not closing else _LAST_SEQ
        for first in [first for first in self._sparse if first < newest][:_ANEW]:
            del self._sparse[first]
            self._write_anew(first)

    def _write_anew(self, first: int) -> None:
        owners = [owed for (owed,) in self._execute(_OWNERS, (first,))]
        directory, bodies = self._batch(first)
        if directory is None or not directory.whole or None in owners:
            return
        owed = 0
        for bits in owners:
            owed |= int.from_bytes(bits, "little")
        kept = [at for at, place in enumerate(directory.places) if owed >> place & 1]
        self._holes[first] = [len(kept), len(kept)]
        if 2 * sum(directory.lengths[at] for at in kept) <= len(bodies):
            self._replace(first, *directory.only(kept, bodies))

    # Reading.

    def _batch(self, first: int) -> tuple[Directory | None, bytes]:
        """Directory and bodies of the batch with this first seq; directory None if its row is missing or unreadable
        (V9).
        """
        if self._read is None or self._read[0] != first:
            self._read = None
            row = self._row(first, "directory, bodies")
            directory = self._directory(first, row)
            if row is None or directory is None:
                return None, b""
            self._read = (first, directory, row[1])
        return self._read[1:]

    def directory(self, first: int) -> Directory | None:
        """Directory of the batch with this first seq, read without the bodies; None also if it is damaged."""
        directory = self._directory(first, self._row(first, "directory"))
        return directory if directory is not None and directory.whole else None

    def _row(self, first: int, columns: str) -> tuple[bytes, ...] | None:
        """These columns of the row of the batch with this first seq; None if it is missing, or a page of it is
        unreadable.
        """
        try:
            row = self._execute(f"SELECT {columns} FROM batch WHERE first_seq = ?", (first,)).fetchone()
        except sqlite3.DatabaseError as error:
            if primary_code(error) != sqlite3.SQLITE_CORRUPT:
                raise
            return None
        return row if row and all(type(value) is bytes for value in row) else None

    def _directory(self, first: int, row: tuple[bytes, ...] | None) -> Directory | None:
        """Parse the directory in the row of the batch with this first seq. Damage is reported, once for each batch."""
        try:
            directory = None if row is None else Directory(row[0])
        except (ValueError, TypeError, IndexError, struct_error):
            directory = None
        if directory is not None and directory.first_seq != first:
            directory = None
        if (directory is None or not directory.whole) and first not in self._damaged:
            self._damaged.add(first)
            self._tell(
                f"the batch of messages from {first} on is missing or damaged: those that fail their checks are set "
                "aside, size and age of the others may be guessed. Put back a copy if they matter (docs/backup.md)"
            )
        return directory

    def fetch(self, peer: int, after_seq: int, max_count: int, max_bytes: int, holds: Holds | None = None) -> list[Row]:
        """Implements `Store.fetch`."""
        rows: list[Row] = []
        left = max_bytes
        with closing(self._execute(_SHARES, _span(peer, after_seq + 1, _LAST_SEQ))) as shares:
            for share in map(_share, shares):
                if rows and share.first_seq == share.last_seq and share.size > left:
                    break  # without reading its body, which may be large
                places = self._waiting(share, after_seq, max_count - len(rows), holds)
                found = self._messages(share, places, left, not rows) if places else []
                rows += found
                left -= sum(map(_SIZE, found))
                if len(found) < len(places) or len(rows) == max_count:
                    break
        return rows

    def _waiting(self, share: Share, after_seq: int, most: int, holds: Holds | None) -> Sequence[int]:
        """Indexes in their batch of the sendable messages of a share, at most `most`, above `after_seq` and not
        held.
        """
        start = max(0, after_seq + 1 - share.first_seq)
        if share.owed is None and share.parked is None and holds is None:  # the usual case
            return range(start, min(start + most, share.last_seq + 1 - share.first_seq))
        bits = share.bits & ~share.parked_bits & -1 << start
        if holds is not None and bits:
            bits = self._not_held(share.first_seq, bits, holds)
        return [*islice(places_of(bits), most)]

    def _not_held(self, first: int, bits: int, holds: Holds) -> int:
        """The bits without those of held messages, in the batch with this first seq. Only names are read for this
        (T-61).
        """
        directory = self.directory(first)
        held = [holds(channel, key) for channel, key, _ in directory.names] if directory is not None else []
        if directory is None or not any(held):
            return bits
        if all(held):
            return 0
        for place in places_of(bits):
            names = directory.names_at(place)
            if names is not None and holds(*names):
                bits &= ~(1 << place)
        return bits

    def _messages(self, share: Share, places: Sequence[int], most: int, one_at_least: bool) -> list[Row]:
        """Messages at these indexes of a share's batch, at most `most` bytes in all, but with `one_at_least` the first
        in any case.
        """
        directory, bodies = self._batch(share.first_seq)
        if directory is not None and directory.count == share.last_seq + 1 - share.first_seq and directory.whole:
            if share.size > most:
                totals = accumulate(map(directory.sizes.__getitem__, places))
                places = places[: max(bisect_right([*totals], most), one_at_least)]
            return directory.messages(places, bodies)
        rows: list[Row] = []
        for place in places:
            at = directory.at(place) if directory is not None else None
            row = _lost(share, place) if directory is None or at is None else directory.message(at, bodies)
            if isinstance(row, CorruptMessage) and directory is not None and not directory.whole:
                row = _lost(share, place)  # its id and size may be the damaged part
            most -= row.size
            if most < 0 and (rows or not one_at_least):
                break
            rows.append(row)
        return rows

    def listed(self, peer: int, after_seq: int, now: int) -> Generator[Listed]:
        """Deliveries of a peer above `after_seq`, by seq. A damaged one has age 0, so that it does not expire (V9)."""
        with closing(self._execute(_SHARES, _span(peer, after_seq + 1, _LAST_SEQ))) as shares:
            for share in map(_share, shares):
                yield from self._listed(share, share.bits & -1 << max(0, after_seq + 1 - share.first_seq), now)

    def _listed(self, share: Share, bits: int, now: int | None) -> Iterator[Listed]:
        """Deliveries of a share for these bits, as `Store.find` lists them. With `now=None` damaged ones are left
        out.
        """
        parked = share.parked_bits
        directory = self.directory(share.first_seq) if bits else None
        for place in places_of(bits):
            at = directory.at(place) if directory is not None else None
            if directory is not None and at is not None:
                what, stored_at = (directory.ids[at], directory.sizes[at]), directory.stored_at
                names = directory.names_at(place)
            elif now is not None:
                lost = _lost(share, place)
                what, stored_at, names = (lost.wire_id, lost.size), now, None
            else:
                continue
            yield (
                share.first_seq + place,
                share.peer,
                *what,
                bool(parked >> place & 1),
                stored_at,
                names or ("", ""),
            )

    def next_due(self) -> int | None:
        """Earliest time of expiry, by the store's clock, of deliveries sent with `expire_after`; None without one.
        Batches that are not owed any more are ignored.
        """
        return next((due for _, due in self.expiring()), None)

    def expiring(self) -> Iterator[tuple[Listed, int]]:
        """Deliveries with their own expiry, soonest first, each with its time by the store's clock."""
        for first, due in self._execute(_DUE, ()).fetchall() if self._expires else ():
            for row in self._execute(_DUE_SHARES, (first,)).fetchall():
                share = _share(row)
                for one in self._listed(share, share.bits, None):
                    yield one, due

    def later(self, peer: int, now: float, wall: float) -> Iterator[tuple[Share, float]]:
        """Shares of the owner of messages for a time, each with the seconds until that, the soonest first.

        Their times are remembered until the next call, so that they can be removed with their batches.
        """
        self._times.clear()
        with closing(self._execute(_LATER, (0,))) as by_store, closing(self._execute(_LATER, (1,))) as by_wall:
            waiting = merge(
                ((due / 1000 - now, first, 0, due) for first, due in by_store),
                ((due / 1000 - wall, first, 1, due) for first, due in by_wall),
            )
            for seconds, first, kind, due in waiting:
                for row in self._execute(_SHARES, _span(peer, first, first)).fetchall():
                    self._times[first] = (kind, due)
                    yield _share(row), seconds

    def fetch_due(self, peer: int, max_count: int, max_bytes: int, now: float, wall: float) -> list[Row]:
        """Messages that are due, as `fetch` returns messages, but in the order of their times."""
        rows: list[Row] = []
        left = max_bytes
        for share, seconds in self.later(peer, now, wall):
            if seconds > 0 or (rows and share.first_seq == share.last_seq and share.size > left):
                break
            places = self._waiting(share, 0, max_count - len(rows), None)
            found = self._messages(share, places, left, not rows) if places else []
            rows += found
            left -= sum(map(_SIZE, found))
            if len(found) < len(places) or len(rows) == max_count:
                break
        return rows

    def listed_later(self, peer: int, now: float, wall: float) -> Iterator[tuple[Listed, float]]:
        """Messages for a time, the soonest first, each with the seconds until that."""
        for share, seconds in self.later(peer, now, wall):
            for one in self._listed(share, share.bits & ~share.parked_bits, int(now)):
                yield one, seconds

    def parts(self, peer: int) -> Iterator[Part]:
        """Waiting and parked messages of each batch of the peer, by seq, without reading bodies."""
        for share in map(_share, self._execute(_SHARES, _span(peer, 0, _LAST_SEQ))):
            directory = None if share.owed is share.parked is None else self.directory(share.first_seq)
            for parked, bits in ((False, share.bits & ~share.parked_bits), (True, share.parked_bits)):
                if bits:
                    size = share.size if bits == share.everything else _size_of(share, directory, bits)
                    yield Part(share.first_seq, parked, bits.bit_count(), size)

    # Loading.

    def load(self) -> Totals:
        """Totals of all deliveries, from the shares, and from the directories of batches with a bitmap."""
        totals = Totals()
        shares: list[Sequence[Any]] = []  # of one batch
        with closing(self._execute(f"SELECT {_COLUMNS} FROM owed WHERE peer > 0 ORDER BY first_seq", ())) as rows:
            for row in chain(rows, [_END]):
                if shares and shares[0][1] != row[1]:
                    peer, first, last, first_id, size, owed, parked = shares[0]
                    if len(shares) == 1 and owed is parked is None and first_id is not None:
                        totals.whole(peer, first, last, first_id % 2**64, size)
                    else:
                        totals.end_run()
                        self._load_batch(totals, first, [_share(one) for one in shares])
                    shares.clear()
                shares.append(row)
        totals.end_run()
        return totals

    def _load_batch(self, totals: Totals, first: int, shares: list[Share]) -> None:
        share = shares[0]
        holes = [one for one in shares if one.owed is not None or one.parked is not None]
        directory = self.directory(first) if holes or share.first_id is None else None
        union = 0
        for one in shares:
            bits, parked = one.bits, one.parked_bits
            union |= bits
            count, size = (bits & ~parked).bit_count(), one.size
            if one in holes:
                size = _size_of(one, directory, bits & ~parked)
            totals.count(one.peer, count, size, first, bits & ~parked)
            if parked:
                totals.count_parked(one.peer, parked.bit_count(), _size_of(one, directory, parked))
        if holes:
            self._holes[first] = [directory.count if directory else 0, union.bit_count()]
            if self._holes[first][1] * 2 < self._holes[first][0]:
                self._sparse[first] = None
        firsts, lasts = runs_of(union, first)
        totals.last_seq = lasts[-1]
        if share.first_id is not None:
            move = share.first_id - first
            totals.ids.extend([one + move for one in firsts], [one + move for one in lasts])
        elif directory is not None:
            for place, wire_id in zip(directory.places, directory.ids, strict=True):
                if union >> place & 1:
                    totals.ids.add(wire_id, wire_id)
        if len({one.bits for one in shares}) == 1:
            totals.owed.extend(firsts, lasts, len(shares))
            return
        owners = [sum(one.bits >> place & 1 for one in shares) for place in range(union.bit_length())]
        place = 0
        for count, same in groupby(owners):
            end = place + len(list(same))
            if count:
                totals.owed.add(first + place, count, end - place)
            place = end


class Totals:
    """Sums over all deliveries in the store at its opening: of each peer, and how many peers are owed each message."""

    def __init__(self) -> None:
        self.peers: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
        """By peer number: pending messages, their bytes, last seq, parked messages, their bytes."""
        self.firsts: dict[int, int] = {}
        """By peer number: first pending seq."""
        self.ids = IntervalSet()
        self.owed = RefCounts()
        self.last_seq = 0
        self._run = (0, 0, 0, 0)  # adjacent whole batches of one peer: first and next seq, first and next id

    def whole(self, peer: int, first: int, last: int, first_id: int, size: int) -> None:
        """Count a batch, from seq `first` to `last`, that one peer is owed in full, with `size` bytes: the usual case,
        and frequent in a backlog.
        """
        known = self.peers[peer]
        if not known[0]:
            self.firsts[peer] = first
        known[0] += last + 1 - first
        known[1] += size
        known[2] = last
        run_first, run_next, run_id, run_next_id = self._run
        if first != run_next or first_id != run_next_id:
            self.end_run()
            run_first, run_id = first, first_id
        self._run = (run_first, last + 1, run_id, first_id + last + 1 - first)

    def end_run(self) -> None:
        first, end, first_id, end_id = self._run
        self._run = (0, 0, 0, 0)
        if end:
            self.owed.add(first, 1, end - first)
            self.ids.add(first_id, end_id - 1)
            self.last_seq = end - 1

    def count(self, peer: int, pending: int, size: int, first: int, bits: int) -> None:
        """Count the pending messages of a peer's share of a batch: `size` is in bytes, `bits` are the messages from seq
        `first` on."""
        known = self.peers[peer]
        if pending and not known[0]:
            self.firsts[peer] = first + (bits & -bits).bit_length() - 1
        known[0] += pending
        known[1] += size
        if pending:
            known[2] = first + bits.bit_length() - 1

    def count_parked(self, peer: int, count: int, size: int) -> None:
        known = self.peers[peer]
        known[3] += count
        known[4] += size


def runs_of(bits: int, first: int) -> tuple[list[int], list[int]]:
    """First and last numbers of the runs of set bits, in two lists; bit 0 stands for `first`."""
    if bits & (bits + 1) == 0:  # the usual case: a single run from `first` on
        return [first], [first + bits.bit_length() - 1]
    numbers = range(first, first + bits.bit_length())
    starts, ends = bits & ~(bits << 1), bits & ~(bits >> 1)
    return [*compress(numbers, _flags(starts))], [*compress(numbers, _flags(ends))]


def _flags(bits: int) -> bytes:
    """A byte of 0 or 1 for each bit of the number, lowest bit first."""
    return f"{bits:b}"[::-1].encode().translate(_ZERO_OR_ONE)


def _size_of(share: Share, directory: Directory | None, bits: int) -> int:
    if directory is None:
        return bits.bit_count() * _mean(share)
    if directory.count == share.last_seq + 1 - share.first_seq:
        return sum(compress(directory.sizes, _flags(bits)))
    there = [size for place, size in zip(directory.places, directory.sizes, strict=True) if bits >> place & 1]
    return sum(there) + (bits.bit_count() - len(there)) * _mean(share)


def _mean(share: Share) -> int:
    return share.size // (share.last_seq + 1 - share.first_seq)


def _lost(share: Share, place: int) -> CorruptMessage:
    """Placeholder for a damaged message at index `place` of a share's batch, of which only the position is known (V9).
    Its size is the batch's average.
    """
    wire_id = 0 if share.first_id is None else share.first_id + place
    return CorruptMessage(share.first_seq + place, wire_id, _mean(share))
