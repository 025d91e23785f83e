"""Durable store of a node, in one SQLite file.

One commit is one transaction of few statements. Each statement releases the interpreter's lock, and taking it back can
take 5 ms while an event loop is busy. So statements have many rows each, in a few fixed sizes, so that prepared
statements are reused; missing rows are padded. The tables of messages and deliveries are managed by `owed`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import lru_cache, partial
from heapq import merge
from itertools import chain, groupby, islice, repeat, takewhile
from math import ceil
from operator import attrgetter, is_
from struct import error as struct_error
from threading import Lock
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from tolliver_proto import NoticeKind, StoreError, Subscription
from tolliver_proto.layouts import MessageSet
from tolliver_proto.store import (
    DUE,
    KILLED_ITS_PROCESS,
    LATER,
    STORING,
    AddDeadLetter,
    AddDeliveries,
    AddOwnSubscription,
    AddPeerSubscription,
    DeadLetter,
    Due,
    ForgetPeer,
    ForgetUnsubscribe,
    Found,
    KeepUnsubscribe,
    Loaded,
    LoadedPeer,
    NamePeer,
    Operation,
    ParkDelivery,
    PinPeer,
    Randomness,
    RememberHandled,
    RemoveDeadLetters,
    RemoveDeliveries,
    RemoveMessages,
    RemoveOwnSubscription,
    RemovePeerSubscription,
    ReplacePeerSubscriptions,
    ReserveIds,
    StoreMessages,
    UnparkDeliveries,
    UnpinPeer,
    begin_elsewhere,
    bytes_of,
    is_keeper,
)

from .begun import SUFFIX, Begun
from .causes import FAILURES, MALFORMED, primary_code, store_error
from .checks import check_of, letter_check
from .clock import StoreClock
from .copying import write_copy
from .file import DatabaseFile
from .health import StoreHealth
from .memory import MemoryDatabase, is_in_memory
from .owed import NOBODY, Deliveries, Holds, Row, Span, joined
from .pieces import in_pieces
from .table_marks import TableMarks

_Values = tuple[Any, ...]
_T = TypeVar("_T")

_SIZES = (1, 4, 16, 64, 256, 1024)  # rows in one statement: benchmarks/store.py
_STATEMENT_BYTES = 2**20  # bytes of bodies in one statement: a prepared statement keeps its last values
_SHORT_SPAN = 8  # rows: shorter spans are removed by single rows, many in one statement

_LETTERS = """
    SELECT number, peer, wire_id, attempts, failed_at, cause, channel, key, body, crc FROM dead_letter
    WHERE number > ? ORDER BY number LIMIT ?"""
_HANDLED = "SELECT peer, wire_id, checksum FROM handled ORDER BY number"
_LETTER_SIZES = """
    SELECT number, IFNULL(LENGTH(CAST(channel AS BLOB)) + LENGTH(CAST(key AS BLOB)) + LENGTH(body), 0)
    FROM dead_letter ORDER BY number"""
_CONDEMNED = "SELECT 1 FROM dead_letter WHERE peer = ? AND wire_id = ? AND cause = ? LIMIT 1"
_LAST_LETTER = """
    SELECT MAX(IFNULL((SELECT MAX(number) FROM dead_letter), 0),
               IFNULL((SELECT seq FROM sqlite_sequence WHERE name = 'dead_letter'), 0))"""
_ID_SPANS = "SELECT first, count FROM id_span ORDER BY number"
_NEWEST_SPAN = "number = (SELECT MAX(number) FROM id_span) AND first = :first"
_EXTEND_SPAN = f"""
    UPDATE id_span SET count = :count, crc = {check_of("id_span", "number", "first", ":count")} WHERE {_NEWEST_SPAN}"""
_NEW_SPAN = f"""
    INSERT INTO id_span SELECT new, :first, :count, {check_of("id_span", "new", ":first", ":count")}
    FROM (SELECT IFNULL(MAX(number), 0) + 1 AS new FROM id_span)
    WHERE NOT EXISTS (SELECT 1 FROM id_span WHERE {_NEWEST_SPAN})"""
_NEW_PEER = "INSERT INTO peer VALUES (:number, :uuid, NULL, row_check(:number, :uuid, NULL))"
_NAME = f"INSERT OR REPLACE INTO peer_name VALUES (:peer, :name, {check_of('peer_name', ':peer', ':name')})"
_PIN = "UPDATE peer SET spki_sha256 = :pin, crc = row_check(id, uuid, :pin) WHERE id = :peer"
_CORRECTION = "SELECT correction FROM clock"
_CORRECT = f"INSERT OR REPLACE INTO clock VALUES (1, :correction, {check_of('clock', ':correction')})"
_NEW_HANDLED = f"NULL, *, {check_of('handled', 'column1', 'column2', 'column3')}"
_NEW_PEER_SUBSCRIPTION = f"*, {check_of('peer_subscription', 'column1', 'column2', 'column3')}"
_NEW_HELD = f"*, {check_of('held_subscription', 'column1', 'column2', 'column3', 'column4')}"
_NEW_UNSAID = f"*, {check_of('unsaid', 'column1', 'column2', 'column3', 'column4')}"
_HELD = "SELECT channel, key, since FROM held_subscription WHERE peer = ?"
_END_HELD = "DELETE FROM held_subscription WHERE peer = ? AND channel = ? AND key = ?"
_NEW_OWN_SUBSCRIPTION = f"*, {check_of('own_subscription', 'column1', 'column2')}"


@lru_cache
def _insert_sql(into: str, columns: str, width: int, size: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"{into} SELECT {columns} FROM (VALUES {', '.join([row] * size)}) LIMIT ?"


@lru_cache
def _delete_sql(head: str, size: int) -> str:
    return f"{head} IN ({', '.join('?' * size)})"


def _chunks(items: Sequence[_T]) -> Iterator[tuple[int, Sequence[_T]]]:
    """Pieces of the items, each after the smallest of _SIZES that it fits into; none is larger than the largest."""
    for start in range(0, len(items), _SIZES[-1]):
        chunk = items[start : start + _SIZES[-1]]
        yield next(size for size in _SIZES if size >= len(chunk)), chunk


def _by_bytes(rows: Sequence[_Values]) -> Iterator[Sequence[_Values]]:
    """Pieces of message rows with at most _STATEMENT_BYTES of bodies (the last column), or a single row."""
    start = total = 0
    for at, row in enumerate(rows):
        total += len(row[-1])
        if total > _STATEMENT_BYTES:
            yield rows[start:at]
            start, total = at, len(row[-1])
    yield rows[start:]


def _by_peer(run: Iterable[RemoveDeliveries | ParkDelivery | UnparkDeliveries]) -> dict[UUID, list[Span]]:
    by_peer: dict[UUID, list[Span]] = {}
    for op in run:
        by_peer.setdefault(op.peer, []).extend(op.spans)
    return by_peer


class SQLiteStore:
    """A node's durable storage in the SQLite file `path`, which implements `tolliver_proto.store.Store`.

    A missing or empty file is created, mode 0600 (D-13), with `instance_id` as the instance's UUID. An existing file
    keeps its own; the caller must compare it, and may give None. `first_id` has no effect any more: ids start at a new
    place at every opening (T-40). The path ":memory:" stores nothing on disk.

    Only one instance at a time can use a database; the lock on `<path>.lock` ends with the process (T-79). Use the
    store from one thread at a time, any thread; `check` from any other meanwhile; never in a forked child.

    Every method except `close` raises StoreError with the file, the cause and what to do. Nothing is partly written
    then, and the next call works once the cause is removed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        instance_id: UUID | None,
        first_id: int | None = None,  # accepted for older programs
        min_free: int = 0,
        clock: StoreClock | None = None,
    ) -> None:
        self._file: DatabaseFile | MemoryDatabase = (
            MemoryDatabase(instance_id) if is_in_memory(path) else DatabaseFile(path, instance_id, min_free)
        )
        self._clock = clock or StoreClock()
        self._correction = 0  # seconds, as stored in the database
        self.instance_id: UUID = self._file.instance_id
        self.unclean: bool = self._file.unclean
        """True if the last use did not end with `close`, or damage was found: call `check` in the background (D-13)."""
        self._execute: Callable[[str, Sequence[Any] | Mapping[str, Any]], object] = self._file.connection.execute
        self._new_peers: list[UUID] = []
        self._ending = False
        self._begun: Begun | None = None
        self._copying = Lock()
        self._deliveries = Deliveries(self._file.connection, lambda: int(self._clock.now()), self._file.tell_damage)
        self._may_hold = False  # True once messages for connecting peers may be stored
        self._peers: dict[UUID, int] = self._file.peers
        with self._file.failing("load", *MALFORMED):
            self._deliveries.look_for_due()
            self._mend_times(self._peers.get(LATER, -1))
            for (kept,) in self._file.connection.execute(_CORRECTION):
                self._clock.correction += kept
                self._correction = kept
            seen = self._file.keep_time(self._clock)
        newest = self._deliveries.newest_stored_at()
        self._clock.not_before(newest)
        if seen is not None and LATER in self._peers:
            self._wait_on(max(seen, newest))

    def _wait_on(self, seen: float) -> None:
        """Have messages with `after` wait for the rest that was left when the last boot was `seen` to run (P-91)."""
        unseen = ceil(1000 * (self._clock.now() - seen))
        with self._file.failing("load", *MALFORMED):
            self._file.transact(lambda: self._deliveries.put_off(unseen))

    def _mend_times(self, later: int) -> None:
        if self.unclean and self._deliveries.must_mend_times(later):
            self._file.transact(lambda: self._deliveries.mend_times(later))

    def __repr__(self) -> str:
        return f"<SQLiteStore {self._file.path} of {self.instance_id}>"

    def close(self) -> None:
        """Close the file in order and release the lock. Never raises. A second call does nothing."""
        self.end()
        with self._copying:
            with suppress(StoreError, *FAILURES):
                self._file.transact(self._tidy)
            if self._begun is not None:
                self._begun.close()
            self._file.close()

    def _tidy(self) -> None:
        self._deliveries.tidy(closing=True)
        self._keep_correction()

    def begun(self) -> Begun | None:
        """Begin to note what handlers begin, until `close`; `load` says from now on what was in hand when an earlier
        run died (T-47).

        None where nothing is noted: in memory, and where the disk has no room for the file.
        """
        if self._begun is None and isinstance(self._file, DatabaseFile):
            with suppress(OSError):  # everything else works without
                self._begun = Begun(f"{self._file.path}{SUFFIX}", self.instance_id)
        return self._begun

    def table_marks(self) -> TableMarks:
        """The marks of programs' tables that this instance has seen (P-76)."""
        path = self._file.path if isinstance(self._file, DatabaseFile) else None
        return TableMarks(path, self.instance_id)

    @property
    def missing(self) -> int:
        """Number of confirmed commits that are missing, as in the notice `commits_missing` (D-13)."""
        return self._file.missing

    def clear_missing(self) -> None:
        """Acknowledge the missing commits: they are not reported again, unless more are missing."""
        with self._file.failing("write the mark of"):
            self._file.clear_missing()

    def check(self) -> list[str]:
        """Faults in the structure of the file, [] if none. Slow: reads all of it, during commits. Raises StoreError if
        `end` cancelled it."""
        return self._file.check()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the present state to a new file. May be called from any thread, during commits; `close` cancels it."""
        with self._copying, self._file.reader() as (source, beside):
            write_copy(source, self._file.path, path, self._look, beside)

    def _look(self) -> None:
        if self._ending:
            raise StoreError(f"the copy of the database {self._file.path} was given up: that is being closed")

    def end(self) -> None:
        """Cancel copies and checks, and prevent later ones. May be called from any thread."""
        self._ending = True
        self._file.end_check()

    def restored(self, rng: Randomness) -> None:
        """Declare that the file was restored from a backup: ids continue elsewhere (T-40), and no commit counts as
        missing (D-13)."""
        self.commit(begin_elsewhere(self.load(), rng))
        self.clear_missing()

    def health(self) -> StoreHealth:
        """Sizes, free disk, and faults that prevent storing messages. May be called from any thread."""
        return self._file.health()

    def try_again(self) -> None:
        """Probe with an empty commit, if the last one failed or the reserve is given up.

        It requires as much free space as the reserve, so that it succeeds only when there is space again, and the
        reserve is created again.
        """
        try:
            self._file.write(partial(self._commit, (), None), lambda: self._file.reserved)
        except FAILURES as error:
            raise store_error(error, f"commit to the database {self._file.path}") from error

    def sync_seconds(self) -> float:
        """Seconds of the last COMMIT, which writes and syncs the log."""
        return self._file.sync_seconds

    def news(self) -> list[tuple[NoticeKind, str]]:
        """Notices for operators since the last call, each as kind and text. May be called from any thread."""
        news = []
        with suppress(IndexError):
            while True:
                news.append(self._file.news.popleft())
        return news

    # Reading.

    def load(self) -> Loaded:
        """Implements `Store.load`. `pending`, `pending_bytes` and `last_seq` count unparked deliveries, the runs all of
        them."""
        connection = self._file.connection
        with self._file.failing("load", *MALFORMED):
            totals = self._deliveries.load()
            lists: dict[int, list[Subscription]] = {}
            for peer, channel, key in connection.execute("SELECT peer, channel, key FROM peer_subscription"):
                lists.setdefault(peer, []).append(Subscription(channel.decode(), key.decode()))
            held, unsaid = self._ages("held_subscription"), self._ages("unsaid")
            names = dict(connection.execute("SELECT peer, name FROM peer_name"))
            peers = {
                UUID(bytes=uuid): replace(
                    LoadedPeer(frozenset(lists.get(number, ())), pin, *totals.peers.get(number, ())),
                    held=held.get(number, {}),
                    unsaid=unsaid.get(number, {}),
                    first_seq=totals.firsts.get(number, 0),
                    name=names.get(number, b"").decode(),
                )
                for number, uuid, pin in connection.execute("SELECT id, uuid, spki_sha256 FROM peer")
            }
            own = connection.execute("SELECT channel, key FROM own_subscription")
            own_subscriptions = frozenset(Subscription(channel.decode(), key.decode()) for channel, key in own)
            next_seq = max(self._deliveries.newest, totals.last_seq) + 1
            by_number = {number: uuid for uuid, number in self._peers.items()}
            [(count,)] = connection.execute("SELECT COUNT(*) FROM handled").fetchall()
            handled = MessageSet(count + 1)  # the set that a node uses to remember so many
            for peer, wire_id, checksum in connection.execute(_HANDLED):
                if peer in by_number:
                    handled.add(by_number[peer], wire_id, checksum)
            due = self._deliveries.next_due()
            expires_in = None if due is None else due - self._clock.now()
            letters, next_letter = self._letters()
            ages = [*self._deliveries.ages(self._clock.now())]
            suspects = dict(self._suspects())
            id_spans = [(first % 2**64, int(count)) for first, count in connection.execute(_ID_SPANS)]
        return Loaded(
            own_subscriptions,
            peers,
            next_seq,
            totals.ids,
            totals.owed,
            handled,
            letters,
            next_letter,
            id_spans,
            expires_in,
            ages,
            suspects,
        )

    def _suspects(self) -> Iterator[tuple[tuple[UUID, int], int | None]]:
        """Messages that were in hand when the process died, each with its deaths; None instead where its dead letter is
        stored, as the process died again before the ack went out."""
        for (peer, wire_id), deaths in self._begun.suspects.items() if self._begun is not None else ():
            row = (self._peers.get(peer, 0), wire_id, KILLED_ITS_PROCESS)
            is_kept = self._file.connection.execute(_CONDEMNED, row).fetchall()
            yield (peer, wire_id), None if is_kept else deaths

    def _ages(self, table: str) -> dict[int, dict[Subscription, float]]:
        """Age in seconds of each subscription in the table, by peer."""
        now = int(self._clock.now())
        ages: dict[int, dict[Subscription, float]] = {}
        for peer, channel, key, since in self._file.connection.execute(
            f"SELECT peer, channel, key, since FROM {table} ORDER BY since"
        ):
            ages.setdefault(peer, {})[Subscription(channel.decode(), key.decode())] = float(now - since)
        return ages

    def _held(self, peer: int) -> Holds | None:
        """Function that tests if messages of a channel and key are held for the peer (T-61); None if none are."""
        execute = self._file.connection.execute
        held = {(channel.decode(), key.decode()) for channel, key, _ in execute(_HELD, (peer,))}
        if not held:
            return None
        listed = execute("SELECT channel, key FROM peer_subscription WHERE peer = ?", (peer,))
        wanted = {(channel.decode(), key.decode()) for channel, key in listed}

        def holds(channel: str, key: str) -> bool:
            pairs = ((channel, key), (channel, ""), ("", key), ("", ""))
            return wanted.isdisjoint(pairs) and not held.isdisjoint(pairs)

        return holds

    def fetch(self, peer: UUID, after_seq: int, max_count: int, max_bytes: int) -> list[Row]:
        """Implements `Store.fetch`: all rows together have at most `max_bytes`, or there is a single one."""
        with self._file.failing("read", *MALFORMED):
            number = self._peers.get(peer, -1)
            if peer == LATER and after_seq == DUE:
                return self._deliveries.fetch_due(number, max_count, max_bytes, self._clock.now(), self._clock.wall())
            return self._deliveries.fetch(number, after_seq, max_count, max_bytes, self._held(number))

    def find(self, peer: UUID | None, after_seq: int, max_count: int, min_age: float) -> list[Found]:
        """Implements `Store.find`. A result may end between two peers of one message only when it has `max_count`
        entries."""
        now = int(self._clock.now())
        asked = [peer] if peer is not None else [uuid for uuid in self._peers if not is_keeper(uuid)]
        uuids = {self._peers[uuid]: uuid for uuid in asked if uuid in self._peers}
        with self._file.failing("search", *MALFORMED), ExitStack() as stack:
            # Each peer's deliveries are read lazily, in order of seq.
            queues = []
            for number in uuids:
                rows = stack.enter_context(closing(self._deliveries.listed(number, after_seq, now)))
                queues.append(takewhile(lambda row: row[5] <= now - min_age, rows))
            return [
                Found(uuids[number], seq, wire_id, size, parked, float(now - stored_at), *names)
                for seq, number, wire_id, size, parked, stored_at, names in islice(merge(*queues), max_count)
            ]

    def expiring(self, max_count: int) -> list[Found]:
        """Implements `Store.expiring`. A delivery whose place in its batch is damaged is left out: it does not expire
        (V9).

        Stores the clock's correction if the wall clock was set since the last reading.
        """
        now = self._look_at_clocks()
        uuids = {number: uuid for uuid, number in self._peers.items()}
        with self._file.failing("search", *MALFORMED):
            return [
                Found(uuids[number], seq, wire_id, size, parked, now - stored_at, *names, due - now)
                for (seq, number, wire_id, size, parked, stored_at, names), due in islice(
                    self._deliveries.expiring(), max_count
                )
                if number in uuids
            ]

    def _look_at_clocks(self) -> float:
        """The time; stores the correction of the clock if the wall clock was set."""
        now = self._clock.now()
        if round(self._clock.correction) != self._correction:
            self.commit(())
        return now

    def later(self, max_count: int) -> list[Found]:
        """Implements `Store.later`. Stores the clock's correction, as `expiring` does, and the time (P-91)."""
        self._file.note_time()
        now, number = self._look_at_clocks(), self._peers.get(LATER, -1)
        with self._file.failing("search", *MALFORMED):
            return [
                Found(LATER, seq, wire_id, size, parked, now - stored_at, *names, seconds)
                for (seq, _, wire_id, size, parked, stored_at, names), seconds in islice(
                    self._deliveries.listed_later(number, now, self._clock.wall()), max_count
                )
            ]

    def dead_letters(self, after_number: int, max_count: int) -> list[DeadLetter]:
        """Implements `Store.dead_letters`. One with a wrong checksum is left out, with a notice in `news` (V9)."""
        letters = []
        uuids = {number: uuid for uuid, number in self._peers.items()}
        with self._file.failing("read", *MALFORMED):
            for row in self._file.connection.execute(_LETTERS, (after_number, max_count)).fetchall():
                number, peer, wire_id, attempts, failed_at, cause, channel, key, body, crc = row
                try:
                    good = crc == letter_check(row[:5], cause, channel, key, body)
                except (*MALFORMED, struct_error):
                    good = False
                if good and peer in uuids:
                    names = (channel.decode(), key.decode())
                    rest = (wire_id, attempts, number, failed_at, cause.decode())
                    letters.append(DeadLetter(uuids[peer], *names, body, *rest))
                else:
                    text = f"dead letter {number} has a wrong checksum and is left out: its text is lost"
                    self._file.tell_damage(text)
        return letters

    def _letters(self) -> tuple[list[tuple[int, int]], int]:
        """Number and size in bytes of each dead letter, and the number of the next one. An unreadable table was
        reported by the opening.
        """
        sizes: list[tuple[int, int]] = []
        with suppress(sqlite3.DatabaseError, *MALFORMED):
            sizes += ((int(number), int(size)) for number, size in self._file.connection.execute(_LETTER_SIZES))
        numbers = [number for number, _ in sizes]
        if numbers != sorted(numbers):
            self._file.tell_damage(
                "dead letters are out of order, and some are missed: put back a copy if they matter (docs/backup.md)"
            )
        try:
            [(last,)] = self._file.connection.execute(_LAST_LETTER).fetchall()
        except sqlite3.DatabaseError:
            last = max((number for number, _ in sizes), default=0)
            self._file.tell_damage("the number of the newest dead letter cannot be read: one that went may come again")
        return sizes, int(last) + 1

    # Writing.

    def commit(self, operations: Sequence[Operation]) -> None:
        """Implements `Store.commit`: on return everything is on disk (T-54)."""
        kinds = {*map(type, operations)}
        growth = None if kinds.isdisjoint(STORING) else partial(bytes_of, operations)
        known = dict(self._peers) if ForgetPeer in kinds else None
        try:
            if growth is not None:
                self._file.write(partial(self._commit, operations, known), growth)
            else:
                self._write_as_there_is_room(operations, known)
        except FAILURES as error:
            raise store_error(error, f"commit to the database {self._file.path}") from error

    def _write_as_there_is_room(self, operations: Sequence[Operation], known: dict[UUID, int] | None) -> None:
        """Write the operations, on a full disk in several commits if needed (D-13)."""
        try:
            self._file.write(partial(self._commit, operations, known))
        except sqlite3.Error as error:
            pieces = [*in_pieces(operations)] if primary_code(error) == sqlite3.SQLITE_FULL else []
            if not pieces:
                raise
            for piece in pieces:
                self._write_as_there_is_room(piece, known)

    def _commit(self, operations: Sequence[Operation], known: dict[UUID, int] | None) -> None:
        self._new_peers.clear()
        newest = self._deliveries.newest
        correction = self._correction

        def work() -> bool:
            nonlocal correction
            self._deliveries.begin(self._file.next_commit)
            for kind, run in groupby(operations, type):
                self._APPLY[kind](self, list(run))
            self._deliveries.tidy()
            correction = self._keep_correction()
            return self._deliveries.numbered is not None

        try:
            self._file.transact(work)
            self._correction = correction
        except BaseException:
            self._deliveries.undone(newest)
            for peer in self._new_peers:
                self._peers.pop(peer, None)
            self._peers = self._peers if known is None else known
            raise

    def _keep_correction(self) -> int:
        """Store the clock's correction for the next run (D-10), whose ages would otherwise jump by it; returns it, in
        seconds."""
        self._clock.now()
        correction = round(self._clock.correction)
        if correction != self._correction:
            self._execute(_CORRECT, {"correction": correction})
        return correction

    def _insert(self, into: str, rows: Sequence[_Values], columns: str = "*") -> None:
        for size, chunk in _chunks(rows):
            padding = [0] * ((size - len(chunk)) * len(chunk[0]))
            self._execute(
                _insert_sql(into, columns, len(chunk[0]), size), [*chain.from_iterable(chunk), *padding, len(chunk)]
            )

    def _delete(self, head: str, spans: Iterable[Span], *fixed: int) -> None:
        short: list[int] = []
        for first, last in joined(spans):
            if last - first < _SHORT_SPAN:
                short += range(first, last + 1)
            else:
                self._execute(f"{head} BETWEEN ? AND ?", (*fixed, first, last))
        for size, chunk in _chunks(short):
            self._execute(_delete_sql(head, size), [*fixed, *chunk, *[chunk[-1]] * (size - len(chunk))])

    def _number(self, peer: UUID) -> int:
        """Small number that stands for the peer in all other tables; 0 stands for none."""
        number = self._peers.get(peer)
        if number is None:
            number = max(self._peers.values(), default=0) + 1
            self._execute(_NEW_PEER, {"number": number, "uuid": peer.bytes})
            self._peers[peer] = number
            self._new_peers.append(peer)
        return number

    def _store_messages(self, run: list[StoreMessages]) -> None:
        for (after, later), some in groupby(run, attrgetter("expire_after", "due")):
            due = None if after is None else ceil(self._clock.now() + after)  # rounded up: never early
            self._store_alike([*some], due, None if later is None else self._time_of(later))

    def _time_of(self, due: Due) -> tuple[int, int]:
        """The time until which messages wait, as the table `later` has it; rounded up: never early."""
        if due.not_before is None:
            return 0, ceil((self._clock.now() + due.after) * 1000)
        return 1, ceil(due.not_before * 1000)

    def _store_alike(self, run: list[StoreMessages], due: int | None, time: tuple[int, int] | None) -> None:
        held = [seq for op in run for seq in op.held]
        owners: list[list[int]] = []
        for op in run:
            owners += self._numbers(op.recipients)
        messages = run[0].messages if len(run) == 1 else [message for op in run for message in op.messages]
        self._deliveries.store(messages, owners, held, due, time)
        self._may_hold = self._may_hold or bool(held) or not all(owners)

    def _numbers(self, recipients: Sequence[Sequence[UUID]]) -> list[list[int]]:
        """Numbers of each message's peers. The lists are mostly one object or few, looked up once, as hashing UUIDs is
        slow."""
        first = [self._number(peer) for peer in recipients[0]]
        if len(recipients) == 1 or all(map(is_, recipients, repeat(recipients[0]))):
            return [first] * len(recipients)
        places = [*map(id, recipients)]
        each = dict(zip(places, recipients, strict=True))
        numbers = {place: [self._number(peer) for peer in peers] for place, peers in each.items()}
        return [numbers[place] for place in places]

    def _add_deliveries(self, run: list[AddDeliveries]) -> None:
        for op in run:
            self._deliveries.add(self._number(op.peer), [seq for seq, _, _ in op.deliveries])

    def _remove_deliveries(self, run: list[RemoveDeliveries]) -> None:
        for peer, spans in _by_peer(run).items():
            self._deliveries.remove(self._peers.get(peer, -1), spans)

    def _remove_messages(self, run: list[RemoveMessages]) -> None:
        spans = [span for op in run for span in op.spans]
        if self._may_hold:
            self._deliveries.remove(NOBODY, spans)
        self._deliveries.remove_messages(spans)

    def _park(self, run: list[ParkDelivery]) -> None:
        for peer, spans in _by_peer(run).items():
            self._deliveries.park(self._peers.get(peer, -1), spans)

    def _unpark(self, run: list[UnparkDeliveries]) -> None:
        for peer, spans in _by_peer(run).items():
            self._deliveries.unpark(self._peers.get(peer, -1), spans)

    def _replace_peer_subscriptions(self, run: list[ReplacePeerSubscriptions]) -> None:
        for op in run:
            number = self._number(op.peer)
            self._execute("DELETE FROM peer_subscription WHERE peer = ?", (number,))
            rows = [(number, *subscription) for subscription in op.subscriptions]
            self._insert("INSERT OR IGNORE INTO peer_subscription", rows, _NEW_PEER_SUBSCRIPTION)
            self._replace_held(number, op.held)

    def _replace_held(self, peer: int, held: Sequence[Subscription]) -> None:
        """Replace the peer's held subscriptions. Those held before keep their time."""
        rows = self._file.connection.execute(_HELD, (peer,)).fetchall()
        known = {Subscription(channel.decode(), key.decode()): since for channel, key, since in rows}
        if known:
            self._execute("DELETE FROM held_subscription WHERE peer = ?", (peer,))
        now = int(self._clock.now())
        new = [(peer, *one, known.get(one, now)) for one in held]
        self._insert("INSERT OR IGNORE INTO held_subscription", new, _NEW_HELD)

    def _keep_unsubscribes(self, run: list[KeepUnsubscribe]) -> None:
        now = int(self._clock.now())
        rows = [(self._number(peer), *op.subscription, now) for op in run for peer in op.peers]
        self._insert("INSERT OR IGNORE INTO unsaid", rows, _NEW_UNSAID)

    def _forget_unsubscribes(self, run: list[ForgetUnsubscribe]) -> None:
        for op in run:
            for peer in op.peers:
                row = (self._peers.get(peer, 0), *op.subscription)
                self._execute("DELETE FROM unsaid WHERE peer = ? AND channel = ? AND key = ?", row)

    def _add_peer_subscriptions(self, run: list[AddPeerSubscription]) -> None:
        rows = [(self._number(op.peer), *op.subscription) for op in run]
        for row in rows:
            self._execute(_END_HELD, row)
        self._insert("INSERT OR IGNORE INTO peer_subscription", rows, _NEW_PEER_SUBSCRIPTION)

    def _remove_peer_subscriptions(self, run: list[RemovePeerSubscription]) -> None:
        for op in run:
            row = (self._peers.get(op.peer, 0), *op.subscription)
            self._execute("DELETE FROM peer_subscription WHERE peer = ? AND channel = ? AND key = ?", row)
            self._execute(_END_HELD, row)

    def _add_own_subscriptions(self, run: list[AddOwnSubscription]) -> None:
        rows = [op.subscription for op in run]
        self._insert("INSERT OR IGNORE INTO own_subscription", rows, _NEW_OWN_SUBSCRIPTION)

    def _remove_own_subscriptions(self, run: list[RemoveOwnSubscription]) -> None:
        for op in run:
            self._execute("DELETE FROM own_subscription WHERE channel = ? AND key = ?", op.subscription)

    def _pin_peers(self, run: list[PinPeer]) -> None:
        for op in run:
            self._execute(_PIN, {"pin": op.spki_sha256, "peer": self._number(op.peer)})

    def _unpin_peers(self, run: list[UnpinPeer]) -> None:
        for op in run:
            self._execute(_PIN, {"pin": None, "peer": self._peers.get(op.peer, 0)})

    def _name_peers(self, run: list[NamePeer]) -> None:
        for op in run:
            self._execute(_NAME, {"peer": self._number(op.peer), "name": op.name})

    def _forget_peers(self, run: list[ForgetPeer]) -> None:
        """Forget the peers that this run of operations names. The row of a peer that dead letters name stays, without
        its pinned key.
        """
        numbers = {op.peer: self._peers.pop(op.peer) for op in run if op.peer in self._peers}
        spans = [(number, number) for number in numbers.values()]  # together, as each statement scans `handled`
        for table in ("owed", "peer_name", "peer_subscription", "held_subscription", "unsaid", "handled"):
            self._delete(f"DELETE FROM {table} WHERE peer", spans)
        self._delete("DELETE FROM peer WHERE id NOT IN (SELECT peer FROM dead_letter) AND id", spans)
        for peer, number in numbers.items():
            self._execute(_PIN, {"pin": None, "peer": number})
            if self._file.connection.execute("SELECT id FROM peer WHERE id = ?", (number,)).fetchall():
                self._peers[peer] = number

    def _add_dead_letters(self, run: list[AddDeadLetter]) -> None:
        now = int(self._clock.now())
        rows = []
        [(last,)] = self._file.connection.execute(_LAST_LETTER).fetchall()
        for letter in (op.letter for op in run):
            number = last = max(letter.number, last + 1)
            peer = self._number(letter.peer)
            numbers = (number, peer, letter.message_id, letter.attempts, now)
            texts = (letter.cause, letter.channel, letter.key)
            cause, channel, key = (text.encode() for text in texts)
            crc = letter_check(numbers, cause, channel, key, letter.body)
            rows.append((*numbers, crc, *texts, letter.body))
        for some in _by_bytes(rows):
            self._insert("INSERT INTO dead_letter", some)

    def _remove_dead_letters(self, run: list[RemoveDeadLetters]) -> None:
        spans = [(number, number) for op in run for number in op.numbers]
        self._delete("DELETE FROM dead_letter WHERE number", spans)

    def _remember_handled(self, run: list[RememberHandled]) -> None:
        rows = [(self._number(peer), wire_id, checksum) for op in run for peer, wire_id, checksum in op.messages]
        kept = run[0].keep
        for op in run[1:]:
            kept = min(kept + len(op.messages), op.keep)
        self._insert("INSERT INTO handled", rows, _NEW_HANDLED)
        self._execute("DELETE FROM handled WHERE number <= (SELECT MAX(number) FROM handled) - ?", (kept,))

    def _reserve_ids(self, run: list[ReserveIds]) -> None:
        for op in run:
            first = op.first - (op.first >> 63 << 64)  # columns are signed 64-bit integers
            span = {"first": first, "count": op.count}
            self._execute(_EXTEND_SPAN, span)
            self._execute(_NEW_SPAN, span)
            self._execute("DELETE FROM id_span WHERE number <= (SELECT MAX(number) FROM id_span) - ?", (op.keep,))

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
        KeepUnsubscribe: _keep_unsubscribes,
        ForgetUnsubscribe: _forget_unsubscribes,
        PinPeer: _pin_peers,
        UnparkDeliveries: _unpark,
        UnpinPeer: _unpin_peers,
        NamePeer: _name_peers,
        ForgetPeer: _forget_peers,
        AddDeadLetter: _add_dead_letters,
        RemoveDeadLetters: _remove_dead_letters,
        RememberHandled: _remember_handled,
        ReserveIds: _reserve_ids,
    }
