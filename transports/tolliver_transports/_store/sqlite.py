"""Durable store of a node, in one SQLite file.

One commit is one transaction of few statements. Each statement gives up the interpreter's lock, and beside a busy event
loop getting it back can take 5 ms, so rows go many to a statement; sizes are fixed, so that prepared statements are
used again, and padding fills what is missing. Every message has a checksum. A delivery repeats the wire id and the size
of its message: opening counts deliveries and never looks at a body.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from functools import lru_cache, partial
from heapq import merge
from itertools import accumulate, chain, groupby, islice, takewhile
from struct import Struct
from struct import error as struct_error
from typing import Any, ClassVar, TypeVar
from uuid import UUID
from zlib import crc32

from tolliver_proto import (
    STORING,
    AddDeadLetter,
    AddDeliveries,
    AddOwnSubscription,
    AddPeerSubscription,
    CorruptMessage,
    DeadLetter,
    ForgetPeer,
    Found,
    Loaded,
    LoadedPeer,
    NoticeKind,
    Operation,
    ParkDelivery,
    PinPeer,
    RememberHandled,
    RemoveDeadLetters,
    RemoveDeliveries,
    RemoveMessages,
    RemoveOwnSubscription,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    ReserveIds,
    StoredMessage,
    StoreMessages,
    Subscription,
    UnparkDeliveries,
    UnpinPeer,
    bytes_of,
)

from .causes import MALFORMED, primary_code
from .checks import GOOD, PARK, STAMP, UNPARK, check_of, letter_check
from .file import DatabaseFile, set_instance

Row = StoredMessage | CorruptMessage
Span = tuple[int, int]
_Values = tuple[Any, ...]
_T = TypeVar("_T")

_SIZES = (1, 4, 16, 64, 256, 1024)  # rows in one statement: benchmarks/store.py
_STATEMENT_BYTES = 2**20  # of bodies in one statement: a prepared one keeps a copy of what it was last given
_SHORT_SPAN = 8  # rows: shorter spans are removed row by row, many to a statement

_COUNTS = """
    SELECT peer, SUM(1 - parked), SUM(size * (1 - parked)), MAX(seq * (1 - parked)), SUM(parked)
    FROM delivery GROUP BY peer"""
_OWED = "SELECT seq, wire_id, COUNT(*) FROM delivery GROUP BY seq"
_DELIVERIES = f"""
    SELECT seq, wire_id, size, {GOOD["delivery"]} FROM delivery
    WHERE peer = ? AND seq > ? AND parked = 0 ORDER BY seq LIMIT ?"""
_OLD = """
    SELECT seq, ?1 AS peer, delivery.wire_id, size, parked, stamp FROM delivery LEFT JOIN message USING (seq)
    WHERE peer = ?1 AND seq > ?2 ORDER BY seq"""
_LETTERS = """
    SELECT number, peer, wire_id, attempts, failed_at, channel, key, body, crc FROM dead_letter
    WHERE number > ? ORDER BY number LIMIT ?"""
_LAST_LETTER = """
    SELECT MAX(IFNULL((SELECT MAX(number) FROM dead_letter), 0),
               IFNULL((SELECT seq FROM sqlite_sequence WHERE name = 'dead_letter'), 0))"""
_PIN = "UPDATE peer SET spki_sha256 = ?1, crc = row_check(id, uuid, ?1) WHERE id = ?2"
_MESSAGE = "SELECT message.seq, message.wire_id, message.crc, channel, key, body FROM"
_MESSAGES = f"""
    {_MESSAGE} delivery CROSS JOIN message USING (seq) WHERE peer = ? AND seq BETWEEN ? AND ? AND parked = 0"""

_NEW_DELIVERY = f"*, 0, {check_of('delivery', 'column1', 'column2', 'column3', 'column4', '0')}"
_NEW_HANDLED = f"NULL, *, {check_of('handled', 'column1', 'column2')}"
_NEW_PEER_SUBSCRIPTION = f"*, {check_of('peer_subscription', 'column1', 'column2', 'column3')}"
_NEW_OWN_SUBSCRIPTION = f"*, {check_of('own_subscription', 'column1', 'column2')}"

_CHECKED = Struct(">qqII")


def _checksum(seq: int, wire_id: int, channel: bytes, key: bytes, body: bytes) -> int:
    return crc32(body, crc32(_CHECKED.pack(seq, wire_id, len(channel), len(key)) + channel + key))


def _verified(seq: int, wire_id: int, size: int, stored: Any) -> Row:
    """The message of a delivery, or CorruptMessage where its row is missing or not what was written (V9)."""
    with suppress(*MALFORMED, struct_error):
        _, stored_id, crc, channel, key, body = stored
        if stored_id == wire_id and crc == _checksum(seq, wire_id, channel, key, body):
            return StoredMessage(seq, wire_id, channel.decode(), key.decode(), body, size)
    return CorruptMessage(seq, wire_id, size)


def _stored_at(stamp: int | None, now: int) -> int:
    """A delivery that has lost its message, or when that was stored, is not old: it may not expire for that (V9)."""
    return now if stamp is None or stamp % STAMP else stamp // STAMP


@lru_cache
def _insert_sql(into: str, columns: str, width: int, size: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"{into} SELECT {columns} FROM (VALUES {', '.join([row] * size)}) LIMIT ?"


@lru_cache
def _delete_sql(head: str, size: int) -> str:
    return f"{head} IN ({', '.join('?' * size)})"


def _chunks(items: Sequence[_T]) -> Iterator[tuple[int, Sequence[_T]]]:
    """The items in pieces of at most the largest of _SIZES, each with the smallest that it fits in."""
    for start in range(0, len(items), _SIZES[-1]):
        chunk = items[start : start + _SIZES[-1]]
        yield next(size for size in _SIZES if size >= len(chunk)), chunk


def _by_bytes(rows: Sequence[_Values]) -> Iterator[Sequence[_Values]]:
    """Message rows in pieces whose bodies, the last column, take at most _STATEMENT_BYTES, or of one row."""
    start = total = 0
    for at, row in enumerate(rows):
        total += len(row[-1])
        if total > _STATEMENT_BYTES:
            yield rows[start:at]
            start, total = at, len(row[-1])
    yield rows[start:]


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The same numbers in as few spans as can be, ascending."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _runs(rows: Iterable[tuple[int, int, int]]) -> tuple[list[Span], list[tuple[int, int, int]]]:
    """From (seq, wire id, peers) in the order of seq: the spans of wire ids, and the runs owed to equally many."""
    ids: list[Span] = []
    owed: list[tuple[int, int, int]] = []
    first_seq = next_seq = first_id = next_id = count = 0
    for seq, wire_id, peers in rows:
        if wire_id != next_id:
            ids.append((first_id, next_id - 1))
            first_id = wire_id
        if seq != next_seq or peers != count:
            owed.append((first_seq, next_seq - 1, count))
            first_seq, count = seq, peers
        next_seq, next_id = seq + 1, wire_id + 1
    ids.append((first_id, next_id - 1))
    owed.append((first_seq, next_seq - 1, count))
    return _joined(ids[1:]), owed[1:]  # without what ended where the first row began


class SQLiteStore:
    """A node's durable storage in the SQLite file `path`: the contract is `tolliver_proto.Store`.

    A file that is missing or empty is made, mode 0600 (D-13), with `instance_id` as the instance's UUID and `first_id`
    as the wire id at which messages begin: choose it at random (T-40). A file that is there keeps both; `instance_id`
    may then be None, and it is for the caller to compare.

    One instance at a time uses a database; the lock on `<path>.lock` ends with the process (T-79). Use the store from
    one thread at a time, whichever; `check` from any other meanwhile; not at all in a forked child.

    Every method but `close` raises StoreError with the file, the cause and what to do. Nothing is half-written then,
    and the next call works if the cause is gone.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, instance_id: UUID | None, first_id: int, min_free: int = 0
    ) -> None:
        self._file = DatabaseFile(path, instance_id, first_id, min_free)
        self.instance_id: UUID = self._file.instance_id
        self.unclean: bool = self._file.unclean
        """The last use did not end with `close`, or damage was found: call `check` when there is time (D-13)."""
        self._execute: Callable[[str, Sequence[Any]], object] = self._file.connection.execute
        self._new_peers: list[UUID] = []
        # Nobody connecting, nothing held, nothing lost its recipients: then nothing is to be removed from `held`.
        self._may_hold = bool(self._file.damage)
        self._peers: dict[UUID, int] = self._file.peers

    def close(self) -> None:
        """End the use in order and let the lock go. A second call does nothing. Never raises."""
        self._file.close()

    @property
    def missing(self) -> int:
        """Commits that were confirmed and are not there: the notice `commits_missing` (D-13)."""
        return self._file.missing

    def clear_missing(self) -> None:
        """What is missing is known and put up with: no opening tells of it again, until more is."""
        with self._file.failing("write the mark of"):
            self._file.clear_missing()

    def check(self) -> list[str]:
        """Faults in the structure of the file, [] if none. Slow: reads all of it, beside commits."""
        return self._file.check()

    def news(self) -> list[tuple[NoticeKind, str]]:
        """What an operator may want to know of it, since the last call: any thread."""
        news = []
        with suppress(IndexError):
            while True:
                news.append(self._file.news.popleft())
        return news

    # Reading.

    def load(self) -> Loaded:
        """As `Store.load`. `pending`, `pending_bytes` and `last_seq` are of unparked deliveries, the runs of all."""
        connection = self._file.connection
        with self._file.failing("load", *MALFORMED):
            counts = {peer: [int(number) for number in numbers] for peer, *numbers in connection.execute(_COUNTS)}
            lists: dict[int, list[Subscription]] = {}
            for peer, channel, key in connection.execute("SELECT peer, channel, key FROM peer_subscription"):
                lists.setdefault(peer, []).append(Subscription(channel.decode(), key.decode()))
            peers = {
                UUID(bytes=uuid): LoadedPeer(frozenset(lists.get(number, ())), pin, *counts.get(number, ()))
                for number, uuid, pin in connection.execute("SELECT id, uuid, spki_sha256 FROM peer")
            }
            own = connection.execute("SELECT channel, key FROM own_subscription")
            own_subscriptions = frozenset(Subscription(channel.decode(), key.decode()) for channel, key in own)
            [(next_id,)] = connection.execute("SELECT next_id FROM instance").fetchall()
            [(newest,)] = connection.execute("SELECT IFNULL(MAX(seq), 0) FROM message").fetchall()
            live_ids, owed = _runs(connection.execute(_OWED))
            next_seq = max(newest, owed[-1][1] if owed else 0) + 1
            by_number = {number: uuid for uuid, number in self._peers.items()}
            handled = [
                (by_number[peer], int(wire_id))
                for peer, wire_id in connection.execute("SELECT peer, wire_id FROM handled ORDER BY number")
                if peer in by_number
            ]
        return Loaded(own_subscriptions, peers, next_seq, int(next_id), live_ids, owed, handled)

    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> list[Row]:
        """As `Store.fetch`: all rows together stay within `max_bytes`, or there is only one."""
        connection = self._file.connection
        number = self._peers.get(peer, 0)
        with self._file.failing("read", *MALFORMED):
            rows = connection.execute(_DELIVERIES, (number, after_seq, max_count)).fetchall()
            deliveries = [(int(seq), int(wire_id), int(size)) for seq, wire_id, size, _ in rows]
            damaged = {row[0] for row in rows if not row[3]}
            within = sum(total <= max_bytes for total in accumulate(size for _, _, size in deliveries))
            deliveries = deliveries[: max(1, within)]
            if not deliveries:
                return []
            try:
                span = (number, deliveries[0][0], deliveries[-1][0])
                stored = {row[0]: row for row in connection.execute(_MESSAGES, span)}
            except sqlite3.DatabaseError as error:
                if primary_code(error) != sqlite3.SQLITE_CORRUPT:
                    raise
                stored = dict(self._salvaged(seq for seq, _, _ in deliveries))
            for seq in damaged:
                stored.pop(seq, None)
            return [_verified(seq, wire_id, size, stored.get(seq)) for seq, wire_id, size in deliveries]

    def find(self, peer: UUID | None, after_seq: int, max_count: int, min_age: float) -> list[Found]:
        """As `Store.find`. With several peers owed one message, a piece may end between them only at `max_count`."""
        now = int(time.time())
        uuids = {number: uuid for uuid, number in self._peers.items() if peer in (None, uuid)}
        with self._file.failing("search", *MALFORMED), ExitStack() as cursors:
            # Each peer's deliveries lie in the order of seq: what is not asked for is not read.
            queues = []
            for number in uuids:
                cursor = cursors.enter_context(closing(self._file.connection.execute(_OLD, (number, after_seq))))
                aged = ((*row, _stored_at(stamp, now)) for *row, stamp in cursor)
                queues.append(takewhile(lambda row: row[5] <= now - min_age, aged))
            return [
                Found(uuids[number], int(seq), int(wire_id), int(size), bool(parked), float(now - stored_at))
                for seq, number, wire_id, size, parked, stored_at in islice(merge(*queues), max_count)
            ]

    def dead_letters(self, after_number: int, max_count: int) -> list[DeadLetter]:
        """As `Store.dead_letters`. One whose checksum is wrong is left out, and `news` tells of it (V9)."""
        letters = []
        uuids = {number: uuid for uuid, number in self._peers.items()}
        with self._file.failing("read", *MALFORMED):
            for number, peer, *row in self._file.connection.execute(_LETTERS, (after_number, max_count)).fetchall():
                wire_id, attempts, failed_at, channel, key, body, crc = row
                try:
                    content = _checksum(0, wire_id, channel, key, body)
                    good = crc == letter_check(content, number, peer, attempts, failed_at)
                except (*MALFORMED, struct_error):
                    good = False
                if good and peer in uuids:
                    names = (channel.decode(), key.decode())
                    letters.append(DeadLetter(uuids[peer], *names, body, wire_id, attempts, number, failed_at))
                else:
                    text = f"dead letter {number} has a wrong checksum and is left out: its text is lost"
                    self._file.tell_damage(text)
        return letters

    def _salvaged(self, seqs: Iterable[int]) -> Iterator[tuple[int, _Values]]:
        """One by one, the message rows that can be read: one damaged page must not hold up a peer (V9)."""
        for seq in seqs:
            with suppress(sqlite3.DatabaseError):
                for row in self._file.connection.execute(f"{_MESSAGE} message WHERE seq = ?", (seq,)).fetchall():
                    yield seq, row

    # Writing.

    def commit(self, operations: Sequence[Operation]) -> None:
        """As `Store.commit`: when it returns, all is on the disk (T-54)."""
        growth = partial(bytes_of, operations) if any(type(operation) in STORING for operation in operations) else None
        with self._file.failing("commit to"):
            self._file.write(partial(self._commit, operations), growth)

    def _commit(self, operations: Sequence[Operation]) -> None:
        self._new_peers.clear()
        known = dict(self._peers) if any(type(operation) is ForgetPeer for operation in operations) else None
        try:
            with self._file.transaction():
                for kind, run in groupby(operations, type):
                    self._APPLY[kind](self, list(run))
        except BaseException:
            for peer in self._new_peers:
                self._peers.pop(peer, None)
            self._peers = self._peers if known is None else known
            raise

    def _insert(self, into: str, rows: Sequence[_Values], columns: str = "*") -> None:
        for size, chunk in _chunks(rows):
            padding = [0] * ((size - len(chunk)) * len(chunk[0]))
            self._execute(
                _insert_sql(into, columns, len(chunk[0]), size), [*chain.from_iterable(chunk), *padding, len(chunk)]
            )

    def _delete(self, head: str, spans: Iterable[Span], *fixed: int) -> None:
        short: list[int] = []
        for first, last in _joined(spans):
            if last - first < _SHORT_SPAN:
                short += range(first, last + 1)
            else:
                self._execute(f"{head} BETWEEN ? AND ?", (*fixed, first, last))
        for size, chunk in _chunks(short):
            self._execute(_delete_sql(head, size), [*fixed, *chunk, *[chunk[-1]] * (size - len(chunk))])

    def _number(self, peer: UUID) -> int:
        """The small number that stands for the peer in all other tables. 0 is nobody's."""
        number = self._peers.get(peer)
        if number is None:
            number = max(self._peers.values(), default=0) + 1
            self._execute("INSERT INTO peer VALUES (?1, ?2, NULL, row_check(?1, ?2, NULL))", (number, peer.bytes))
            self._peers[peer] = number
            self._new_peers.append(peer)
        return number

    def _store_messages(self, run: list[StoreMessages]) -> None:
        stamp = int(time.time()) * STAMP
        messages, deliveries = [], []
        held = {seq for op in run for seq in op.held}
        recipients, numbers = None, list[int]()
        for message, peers in chain.from_iterable(zip(op.messages, op.recipients, strict=True) for op in run):
            if peers is not recipients:  # mostly the same ones as before, and hashing UUIDs is slow
                recipients, numbers = peers, [self._number(peer) for peer in peers]
            seq, wire_id, channel, key, body = message.seq, message.wire_id, message.channel, message.key, message.body
            crc = _checksum(seq, wire_id, channel.encode(), key.encode(), body)
            messages.append((seq, wire_id, crc, stamp, channel, key, body))
            for number in numbers:
                deliveries.append((number, seq, wire_id, message.size))
            if not peers:
                held.add(seq)
        for rows in _by_bytes(messages):
            self._insert("INSERT INTO message", rows)
        self._insert("INSERT INTO delivery", deliveries, _NEW_DELIVERY)
        self._insert("INSERT OR IGNORE INTO held", [(seq,) for seq in sorted(held)])
        self._may_hold = self._may_hold or bool(held)

    def _add_deliveries(self, run: list[AddDeliveries]) -> None:
        rows = [(self._number(op.peer), *delivery) for op in run for delivery in op.deliveries]
        self._insert("INSERT OR IGNORE INTO delivery", rows, _NEW_DELIVERY)

    def _remove_deliveries(self, run: list[RemoveDeliveries]) -> None:
        by_peer: dict[UUID, list[Span]] = {}
        for op in run:
            by_peer.setdefault(op.peer, []).extend(op.spans)
        for peer, spans in by_peer.items():
            self._delete("DELETE FROM delivery WHERE peer = ? AND seq", spans, self._peers.get(peer, 0))

    def _remove_messages(self, run: list[RemoveMessages]) -> None:
        spans = [span for op in run for span in op.spans]
        self._delete("DELETE FROM message WHERE seq", spans)
        if self._may_hold:
            self._delete("DELETE FROM held WHERE seq", spans)

    def _park(self, run: list[ParkDelivery]) -> None:
        for op in run:
            delivery = (self._peers.get(op.peer, 0), op.seq)
            self._execute(f"UPDATE delivery SET {PARK} WHERE peer = ? AND seq = ? AND parked = 0", delivery)

    def _replace_peer_subscriptions(self, run: list[ReplacePeerSubscriptions]) -> None:
        for op in run:
            number = self._number(op.peer)
            self._execute("DELETE FROM peer_subscription WHERE peer = ?", (number,))
            rows = [(number, *subscription) for subscription in op.subscriptions]
            self._insert("INSERT OR IGNORE INTO peer_subscription", rows, _NEW_PEER_SUBSCRIPTION)

    def _add_peer_subscriptions(self, run: list[AddPeerSubscription]) -> None:
        rows = [(self._number(op.peer), *op.subscription) for op in run]
        self._insert("INSERT OR IGNORE INTO peer_subscription", rows, _NEW_PEER_SUBSCRIPTION)

    def _remove_peer_subscriptions(self, run: list[RemovePeerSubscription]) -> None:
        for op in run:
            row = (self._peers.get(op.peer, 0), *op.subscription)
            self._execute("DELETE FROM peer_subscription WHERE peer = ? AND channel = ? AND key = ?", row)

    def _add_own_subscriptions(self, run: list[AddOwnSubscription]) -> None:
        rows = [op.subscription for op in run]
        self._insert("INSERT OR IGNORE INTO own_subscription", rows, _NEW_OWN_SUBSCRIPTION)

    def _remove_own_subscriptions(self, run: list[RemoveOwnSubscription]) -> None:
        for op in run:
            self._execute("DELETE FROM own_subscription WHERE channel = ? AND key = ?", op.subscription)

    def _pin_peers(self, run: list[PinPeer]) -> None:
        for op in run:
            self._execute(_PIN, (op.spki_sha256, self._number(op.peer)))

    def _unpark(self, run: list[UnparkDeliveries]) -> None:
        for op in run:
            for first, last in op.spans:
                self._execute(
                    f"UPDATE delivery SET {UNPARK} WHERE peer = ? AND seq BETWEEN ? AND ? AND parked = 1",
                    (self._peers.get(op.peer, 0), first, last),
                )

    def _unpin_peers(self, run: list[UnpinPeer]) -> None:
        for op in run:
            self._execute(_PIN, (None, self._peers.get(op.peer, 0)))

    def _forget_peers(self, run: list[ForgetPeer]) -> None:
        """Its row stays where dead letters name it, without a pin."""
        numbers = {op.peer: self._peers.pop(op.peer) for op in run if op.peer in self._peers}
        spans = [(number, number) for number in numbers.values()]  # together: `handled` is walked for each statement
        for table in ("delivery", "peer_subscription", "handled"):
            self._delete(f"DELETE FROM {table} WHERE peer", spans)
        self._delete("DELETE FROM peer WHERE id NOT IN (SELECT peer FROM dead_letter) AND id", spans)
        for peer, number in numbers.items():
            self._execute(_PIN, (None, number))
            if self._file.connection.execute("SELECT id FROM peer WHERE id = ?", (number,)).fetchall():
                self._peers[peer] = number

    def _add_dead_letters(self, run: list[AddDeadLetter]) -> None:
        now = int(time.time())
        rows = []
        [(last,)] = self._file.connection.execute(_LAST_LETTER).fetchall()
        for number, letter in enumerate((op.letter for op in run), last + 1):
            peer, names = self._number(letter.peer), (letter.channel, letter.key, letter.body)
            content = _checksum(0, letter.message_id, letter.channel.encode(), letter.key.encode(), letter.body)
            crc = letter_check(content, number, peer, letter.attempts, now)
            rows.append((number, peer, letter.message_id, letter.attempts, now, crc, *names))
        for some in _by_bytes(rows):
            columns = "number, peer, wire_id, attempts, failed_at, crc, channel, key, body"
            self._insert(f"INSERT INTO dead_letter({columns})", some)

    def _remove_dead_letters(self, run: list[RemoveDeadLetters]) -> None:
        spans = [(number, number) for op in run for number in op.numbers]
        self._delete("DELETE FROM dead_letter WHERE number", spans)

    def _remember_handled(self, run: list[RememberHandled]) -> None:
        rows = [(self._number(peer), wire_id) for op in run for peer, wire_id in op.messages]
        kept = run[0].keep
        for op in run[1:]:
            kept = min(kept + len(op.messages), op.keep)
        self._insert("INSERT INTO handled", rows, _NEW_HANDLED)
        self._execute("DELETE FROM handled WHERE number <= (SELECT MAX(number) FROM handled) - ?", (kept,))

    def _reserve_ids(self, run: list[ReserveIds]) -> None:
        set_instance(self._file.connection, "next_id", run[-1].next_id)

    _APPLY: ClassVar[dict[type[Operation], Callable[[Any, list[Any]], None]]] = {
        StoreMessages: _store_messages,
        AddDeliveries: _add_deliveries,
        RemoveDeliveries: _remove_deliveries,
        RemoveMessages: _remove_messages,
        ParkDelivery: _park,
        ReplacePeerSubscriptions: _replace_peer_subscriptions,
        AddPeerSubscription: _add_peer_subscriptions,
        RemovePeerSubscription: _remove_peer_subscriptions,
        AddOwnSubscription: _add_own_subscriptions,
        RemoveOwnSubscription: _remove_own_subscriptions,
        PinPeer: _pin_peers,
        UnparkDeliveries: _unpark,
        UnpinPeer: _unpin_peers,
        ForgetPeer: _forget_peers,
        AddDeadLetter: _add_dead_letters,
        RemoveDeadLetters: _remove_dead_letters,
        RememberHandled: _remember_handled,
        ReserveIds: _reserve_ids,
    }
