"""Database file: its layout, its transactions, and the files next to it.

Nothing is changed before the file is known to be ours: first a lock is taken, then the header is read without SQLite,
and only then is the file opened for writing. From then on every failure, of SQLite or the system, becomes a StoreError
with the file, the cause and advice. Damage found on the way that does not prevent the use is reported by `check`.
Commits are counted, for the mark (`mark`). A commit is confirmed only if the file still has its name, as far as that
can be checked, and its log has not been cut.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from uuid import UUID
from weakref import WeakSet

from tolliver_proto import NoticeKind, StoreError
from tolliver_proto.errors import Unconfirmed

from .._private import must_be_file, open_private, take_place
from .causes import DAMAGED, FAILURES, MALFORMED, NOT_A_DATABASE, primary_code, store_error
from .checks import SEALED, Log, break_seal, damage, make_known, row_check, seal, write_seal
from .clock import StoreClock
from .health import StoreHealth
from .layout import APPLICATION_ID, LAYOUT, TABLES, refuse_unknown
from .lock import Lock, check_names
from .mark import Mark, mark_path
from .migration import bring_up
from .owed import Deliveries
from .room import Growth, Room
from .table_marks import SUFFIX as TABLES_SEEN

MAGIC = b"SQLite format 3\0"
HEADER = struct.Struct(">60xI4xI28x")  # user_version and application_id
_PRAGMAS = (
    "PRAGMA synchronous = FULL",  # a commit is on disk when it returns (T-54)
    "PRAGMA fullfsync = ON",  # macOS: fsync alone leaves data in the drive's cache
    "PRAGMA cell_size_check = ON",  # detects damage when a page is read (V9)
    "PRAGMA wal_autocheckpoint = 1500",  # pages: a batch removed before that is never copied into the file
    f"PRAGMA journal_size_limit = {64 * 2**20}",  # bytes: shrinks the log after a burst
)
BESIDE = ("-wal", "-shm", "-journal", ".lock", ".mark", ".reserve", ".begun", TABLES_SEEN, ".new", ".new-journal")
"""Suffixes of files that we or SQLite create beside a database."""
_OLDEST = (3, 32)  # since this version a statement takes more than 999 values
_BUSY_TIMEOUT = 1.0  # seconds to wait for another program that reads the file
_AGAIN = 0.05  # seconds until a check is interrupted again, in case it had not begun
# The number of the last commit is in the newest batch if that commit stored it and it still exists, else here. It has
# no checksum: a wrong number only leads to a wrong notice.
_COUNT = "UPDATE instance SET commits = ?"
_COUNTED = "SELECT MAX(commits, IFNULL((SELECT number FROM batch ORDER BY first_seq DESC LIMIT 1), 0)) FROM instance"
_NOTHING = f"PRAGMA application_id = {APPLICATION_ID}"  # writes a page, which an UPDATE without a change does not
_TAKE_COUNT = """
    UPDATE instance
    SET commits = MAX(commits, IFNULL((SELECT number FROM batch ORDER BY first_seq DESC LIMIT 1), 0))"""
_BEFORE_ITS_END = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, getattr(sqlite3, "SQLITE_IOERR_WRITE", None))
"""Errors of a COMMIT that did not write all of the transaction into the log."""
_UNCONFIRMED = "Whether this commit was stored shows at the next opening: messages that are there are sent then"
_CUT = (
    "the log {path}-wal was cut while the instance used it: commits that were confirmed are missing. Messages whose "
    "`send` returned may be lost, and some may come twice. Stop the instance; docs/backup.md says what to do (D-13)"
)
_MISSING = (
    "the database {path} lacks {count} commits that were confirmed: its log ({path}-wal) was removed or cut, the disk "
    "lost what it had promised, or a copy was put in its place. Messages whose `send` returned may be lost, and some "
    "may come twice. docs/backup.md says what to do; then `tolliver outbox restored {path}` ends this notice (D-13)"
)


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=128
    )


def _plain(sql: bytes | str) -> tuple[str, ...]:
    """Words of a table's SQL, without those that depend on SQLite's version or on columns added later."""
    text = sql.decode(errors="replace") if isinstance(sql, bytes) else sql
    return tuple(text.replace("STRICT", " ").replace(",", " ").replace(")", " ) ").split())


def connect_beside(path: str, options: str) -> sqlite3.Connection:
    """A second connection, with these options of SQLite's URI, to a database that an instance may have open."""
    uri = f"{Path(path).as_uri()}?{options}"
    return sqlite3.connect(uri, uri=True, timeout=_BUSY_TIMEOUT, isolation_level=None)


class Failing(AbstractContextManager[None]):
    """Context manager that turns failures into StoreErrors. Exceptions of the types `malformed` mean damage of the
    file."""

    __slots__ = ("_doing", "_malformed", "_path")

    def __init__(self, doing: str, path: str, malformed: tuple[type[Exception], ...]) -> None:
        self._doing = doing
        self._path = path
        self._malformed = malformed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, FAILURES + self._malformed):
            raise store_error(error, f"{self._doing} the database {self._path}", self._malformed) from error


def failing(doing: str, path: str, *malformed: type[Exception]) -> Failing:
    return Failing(doing, path, malformed)


def check_place(given: str | os.PathLike[str]) -> None:
    """Raises StoreError unless there is an instance's database at the path, or one can be created. Changes nothing."""
    path = os.path.realpath(given)
    with failing("open", path):
        _must_be_files(given, path)
        if _is_there(path):
            check_names(path)
            probe(path)
        else:
            _refuse_to_replace(path)
            os.stat(os.path.dirname(path))


def _must_be_files(given: str | os.PathLike[str], path: str) -> None:
    """Raises NotAFile unless the database and the files next to it, if they exist, are regular files; and OSError."""
    must_be_file(given)  # first, as a descriptor's path may not resolve to a name
    for beside in BESIDE:
        must_be_file(f"{path}{beside}")


def _is_there(path: str) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0


def _refuse_to_replace(path: str) -> None:
    """Raises StoreError for a mark or log without a database: the database was moved, removed or emptied."""
    state = "is empty" if os.path.exists(path) else "is not there"
    for beside in (mark_path(path), f"{path}-wal"):
        if os.path.exists(beside):
            raise StoreError(
                f"the database {path} {state}, but {beside} belongs to one that was: put that database back, "
                f"or a copy of it (docs/backup.md), or remove {beside} to begin anew"
            )


def probe(path: str) -> None:
    """Check the header without SQLite, before that may change anything. SQLite would not read the log for this.

    The file alone need not be valid, if power failed while the log was being copied into it.
    """
    with open(path, "rb") as file:
        header = file.read(HEADER.size)
    if not header.startswith(MAGIC):
        header = Log(Path(f"{path}-wal")).page_one()[: HEADER.size]
    if not header.startswith(MAGIC):
        raise StoreError(f"cannot open the database {path}: {'; '.join(NOT_A_DATABASE)}")
    layout, application = HEADER.unpack(header)
    refuse_unknown(path, application, layout)


class DatabaseFile:
    """The database `path`, locked for this process until `close` or the end of the process.

    A missing or empty file is created, mode 0600, for `instance_id`. Raises StoreError. `news` collects notices for
    operators, oldest first; the caller that reports one removes it.
    """

    def __init__(self, path: str | os.PathLike[str], instance_id: UUID | None, min_free: int = 0) -> None:
        self.path = os.path.realpath(path)  # so that two names of one file share a lock
        self.news: deque[tuple[NoticeKind, str]] = deque()
        self._min_free = min_free
        self._connection: sqlite3.Connection | None = None
        self._mark: Mark | None = None
        self._ended = "is closed: open it again"
        self._checking = threading.Lock()
        self._checker: sqlite3.Connection | None = None
        self._ending = False
        self.sync_seconds = 0.0  # duration of the last COMMIT, which writes and syncs the log
        with self.failing("open", *MALFORMED):
            _must_be_files(path, self.path)
            self._lock = Lock(self.path)
            try:
                self._open(instance_id)
            except BaseException:
                self._release()
                raise
        _open_files.add(self)

    def _open(self, instance_id: UUID | None) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreError(f"Python's sqlite3 has SQLite {sqlite3.sqlite_version}: use a build with 3.32 or later")
        self._room = Room(self.path, self._min_free, self._tell)
        if not _is_there(self.path):
            _refuse_to_replace(self.path)
            try:
                self._create(instance_id)
            finally:
                self._remove_draft()
        self._lock.take_file()
        probe(self.path)
        try:
            self._begin()
        except sqlite3.Error as error:  # needs a little disk space
            self._do_with_reserve(self._begin, error)
        self._room.restore(self.connection, is_news=False)

    def _begin(self) -> None:
        log = Log(Path(f"{self.path}-wal"))
        if self._connection is not None:
            self._connection.close()
        connection = self._connection = _connect(self.path)
        make_known(connection)
        connection.text_factory = bytes  # damaged text must reach the checksum, not fail in a decoder
        if self._lock.is_sqlites:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        [(journal,)] = connection.execute("PRAGMA journal_mode = WAL").fetchall()
        if journal != b"wal":
            raise StoreError(f"the database {self.path} is on a file system without shared memory: use a local disk")
        self._room.opened(connection)
        self.damage: list[str] = self._log_damage(connection, log)
        self.transact(lambda: bring_up(connection))
        self._look_at_schema(connection)
        self.transact(lambda: self._take_over(connection))
        self._count_commits(connection)

    def _take_over(self, connection: sqlite3.Connection) -> None:
        instance = self._instance_row(connection)
        self.damage += self._look_at_rows(connection, instance[1])
        connection.execute(_TAKE_COUNT)
        Deliveries(connection, lambda: 0).drop_held()
        break_seal(connection)
        self.instance_id = UUID(bytes=instance[0])
        self.unclean = instance[1] is None or bool(self.damage)

    def _count_commits(self, connection: sqlite3.Connection) -> None:
        """Start counting commits (D-13)."""
        self._commits: int
        [(self._commits,)] = connection.execute("SELECT commits FROM instance").fetchall()
        self._mark = Mark(self.path, self.instance_id, self._commits)
        self._mark.write(self._commits)
        self._lock.lost()  # remembers the present length of the log
        self.missing = self._mark.missing
        if self.missing:
            self._tell(NoticeKind.COMMITS_MISSING, _MISSING.format(path=self.path, count=self.missing))

    def keep_time(self, clock: StoreClock) -> float | None:
        """Continue the clock from the last note, if that was in this boot; each commit notes the clock from now on.

        Returns None, or after another boot the time of that note; 0 without one.
        """
        if self._mark is None:
            return None
        note, self._mark.clock = self._mark.noted, clock
        if note is not None and clock.go_on(note):
            return None
        return 0.0 if note is None else note.time

    def note_time(self) -> None:
        """Note the clock without a commit."""
        if self._mark is not None:
            self._mark.write_clock()

    def _tell(self, kind: NoticeKind, text: str) -> None:
        self.news.append((kind, text))

    def tell_damage(self, text: str) -> None:
        self._tell(NoticeKind.STORE_ERROR, f"a look at the database {self.path} found damage: {text}")

    def clear_missing(self) -> None:
        """Acknowledge the missing commits, and those of programs' tables (P-76): they are not reported again at later
        openings.
        """
        _ = self.connection
        if self._mark is not None:
            self._mark.clear()
        with suppress(FileNotFoundError):
            os.remove(f"{self.path}{TABLES_SEEN}")
        self.missing = 0

    def _create(self, instance_id: UUID | None) -> None:
        """Create the file under a temporary name, without WAL, so that it is complete and marked as ours from the
        start."""
        if instance_id is None:
            raise StoreError(f"there is no database {self.path} yet: check the path, or give an instance_id")
        draft = f"{self.path}.new"
        self._remove_draft()
        os.close(open_private(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL))  # SQLite's files inherit its mode (D-13)
        with closing(_connect(draft)) as connection:
            connection.execute("BEGIN")
            for statement in TABLES.values():
                connection.execute(statement)
            row = (instance_id.bytes, seal(connection))
            connection.execute("INSERT INTO instance VALUES (1, ?, ?, ?, 0)", (*row, row_check(*row)))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {LAYOUT}")
            connection.execute("COMMIT")
        take_place(draft, self.path)  # SQLite syncs the directory when it creates its log

    def _remove_draft(self) -> None:
        """Remove the temporary file of a creation that was interrupted."""
        for leftover in (f"{self.path}.new", f"{self.path}.new-journal"):
            with suppress(FileNotFoundError):
                os.remove(leftover)

    # Damage.

    def _log_damage(self, connection: sqlite3.Connection, log: Log) -> list[str]:
        """Texts about damage of the log, which is checked before anything is written, while it is as the last use left
        it."""
        if not log.there:
            return []
        [(_, frames, _)] = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        found = list(log.complaints(max(frames, 0)))
        if found:  # else the same frames would be found again at the next opening
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return found

    def _look_at_schema(self, connection: sqlite3.Connection) -> None:
        """Raises StoreError if the SQL of a table is changed: it decides how rows are read and written."""
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        found = {(kind, name, table, _plain(sql)) for kind, name, table, sql in rows}
        expected = {(b"table", name.encode(), name.encode(), _plain(sql)) for name, sql in TABLES.items()}
        if found != expected:
            raise StoreError(self._damaged("the description of its tables is not the one it was made with"))

    def _instance_row(self, connection: sqlite3.Connection) -> tuple[bytes, bytes | None]:
        [(*row, crc)] = connection.execute("SELECT uuid, seal, crc FROM instance").fetchall()
        if crc != row_check(*row):
            raise StoreError(self._damaged("the row with the instance's UUID has a wrong checksum"))
        uuid, sealed = row
        return uuid, sealed

    def _look_at_rows(self, connection: sqlite3.Connection, sealed: bytes | None) -> list[str]:
        """Texts about damaged rows; `sealed` is the stored seal, None without one. Rows with a wrong checksum are
        deleted.
        """
        self.peers = {}
        for number, uuid, pin, crc in connection.execute("SELECT id, uuid, spki_sha256, crc FROM peer"):
            if crc != row_check(number, uuid, pin):
                raise StoreError(self._damaged(f"the row of peer {number}, its UUID and its pin, has a wrong checksum"))
            self.peers[UUID(bytes=uuid)] = int(number)
        complaints: list[str] = []
        for table in SEALED:
            try:
                complaints += damage(connection, table, json.loads(sealed or b"{}"))
            except sqlite3.DatabaseError as error:
                if primary_code(error) != sqlite3.SQLITE_CORRUPT:
                    raise
                complaints.append(f"table {table} cannot be read to its end: {error}")
        return complaints

    def _damaged(self, what: str) -> str:
        return f"cannot open the database {self.path}: {what}; {DAMAGED[1]}"

    def close(self) -> None:
        """Close the file in order and release the lock. Never raises. A second call does nothing."""
        connection = self._connection
        if connection is not None:
            with suppress(StoreError, *FAILURES):
                self.transact(lambda: write_seal(connection))
            self.end_check()
            while not self._checking.acquire(timeout=_AGAIN):
                self.end_check()  # again, for a check that had not begun
            self._release()  # must be the last connection for SQLite to copy its log into the file
            self._checking.release()
            self._room.closed()

    def _release(self) -> None:
        self._end()
        self._let_go()

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _let_go(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            mark.close()
        self._lock.close()

    def disown(self) -> None:
        """In a forked child: SQLite must not be used after a fork, and our copy of the lock must not outlive the
        parent."""
        _inherited.append(self._connection)  # kept from the garbage collector, which would close it
        self._connection = None
        self._let_go()
        self._ended = "belongs to the parent process: open another one in each process, after the fork (T-79)"

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"the database {self.path} {self._ended}")
        return self._connection

    def failing(self, doing: str, *malformed: type[Exception]) -> AbstractContextManager[None]:
        if self._connection is None and doing != "open":
            raise StoreError(f"the database {self.path} {self._ended}")
        return Failing(doing, self.path, malformed)

    @contextmanager
    def reader(self) -> Iterator[tuple[sqlite3.Connection, bool]]:
        """Context manager: a connection for reading, for any thread, during commits; and True if it is a second one,
        False if it is that of the commits.
        """
        connection = self.connection
        if self._lock.is_sqlites:  # exclusive mode: no second connection, so reads and commits take turns
            yield connection, False
        else:
            with closing(connect_beside(self.path, "mode=ro")) as beside:
                yield beside, True

    @property
    def next_commit(self) -> int:
        return self._commits + 1

    def transact(self, work: Callable[[], bool | None]) -> None:
        """Run `work` in a transaction, which takes the write lock at its beginning: SQLite waits for that lock only
        then.

        `work` returns True if it stored the number of this commit in the newest batch; then it is not stored again.
        """
        self._refuse_cut_log()
        connection = self.connection
        try:
            if connection.in_transaction:  # the last ROLLBACK failed
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            numbered = work()
            if self._mark is not None and not numbered:
                connection.execute(_COUNT, (self.next_commit,))
            began = time.monotonic()
            self._commit(connection)
            self.sync_seconds = time.monotonic() - began
        except BaseException:
            with suppress(sqlite3.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            raise
        if self._mark is not None:
            self._confirm(self._mark)

    def _commit(self, connection: sqlite3.Connection) -> None:
        """Commit the transaction.

        Raises Unconfirmed if a failed commit may exist at the next opening: it was written in full, and only its sync
        failed. An empty commit is then tried, which replaces it in the log; if that succeeds, the failure is an
        ordinary one.
        """
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction or getattr(error, "sqlite_errorcode", None) in _BEFORE_ITS_END:
                raise
            try:
                for statement in ("BEGIN IMMEDIATE", _NOTHING, "COMMIT"):
                    connection.execute(statement)
            except sqlite3.Error:
                text = store_error(error, f"commit to the database {self.path}")
                raise Unconfirmed(f"{text}. {_UNCONFIRMED}") from error
            raise

    def _confirm(self, mark: Mark) -> None:
        """Count the commit that is now on disk.

        It is valid if it is in the file that the next opening finds, or if that cannot be checked. Otherwise raises
        Unconfirmed.
        """
        self._commits += 1
        lost = self._lock.lost()
        if lost is None:
            mark.write(self._commits)
            return
        self._ended = (
            f"cannot be used any more, as {lost} was removed or replaced while it was open. Stop the instance, put "
            "that file or a copy of the database back (docs/backup.md), and start it again"
        )
        self._end()  # SQLite then copies its log into the file, even if the log has no name any more
        is_there = lost != self.path and self._is_counted("mode=ro&immutable=1")
        if is_there:
            mark.write(self._commits)
        self._let_go()
        if not is_there:
            raise Unconfirmed(f"the database {self.path} {self._ended}. {_UNCONFIRMED}")

    def _is_counted(self, options: str, in_whole: bool = False) -> bool:
        """True if another connection, opened with these options of SQLite's URI, sees the last commit, and with
        `in_whole` if every page is valid, too.
        """
        with suppress(sqlite3.Error), closing(connect_beside(self.path, options)) as another:
            is_there = another.execute(_COUNTED).fetchall() == [(self._commits,)]
            return is_there and (not in_whole or another.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)])
        return False

    def _refuse_cut_log(self) -> None:
        """Check before a commit that the log was not cut. SQLite assumes its old length, and would write after a gap of
        zeros."""
        if self._mark is None or not self._lock.is_cut():
            return
        empty = not os.path.getsize(f"{self.path}-wal")  # as left by a program that has copied it into the file
        if self._is_counted("mode=ro", in_whole=not empty):
            return
        self._tell(NoticeKind.COMMITS_MISSING, _CUT.format(path=self.path))
        self._ended = (
            f"cannot be used any more, as its log {self.path}-wal was cut while it was open, and nothing more is "
            "stored. Stop the instance and start it again: it says then what is missing"
        )
        self._leave_log()
        raise StoreError(f"the database {self.path} {self._ended}")

    def _leave_log(self) -> None:
        """Close without copying the log into the file, as after a kill, because the log is incomplete."""
        with closing(connect_beside(self.path, "mode=ro")) as another:
            with suppress(sqlite3.Error):
                another.execute("SELECT COUNT(*) FROM sqlite_master").fetchall()
            self._release()

    def write(self, job: Callable[[], object], growth: Growth | None = None) -> None:
        """Run a job that commits. `growth` returns the bytes of messages that it stores; a job without `growth` may use
        the reserve when the disk is full."""
        connection = self.connection
        self._refuse_cut_log()
        if growth is not None:
            self._room.require(connection, growth)
        try:
            job()
        except sqlite3.Error as error:
            if growth is not None:
                raise
            self._do_with_reserve(job, error)
        if self._connection is not None:  # None if the job has ended the use
            self._room.restore(connection)

    def _do_with_reserve(self, job: Callable[[], object], error: sqlite3.Error) -> None:
        """Run the job again after `error`, giving up the reserve step by step. Raises its last error."""
        for _ in self._room.make(error, self._connection):
            try:
                job()
            except sqlite3.Error as again:
                error = again
            else:
                return
        raise error

    @property
    def reserved(self) -> int:
        """Bytes of disk that the reserve takes."""
        return self._room.reserved

    def health(self) -> StoreHealth:
        """Sizes and faults now, from a few system calls that read no file. May be called from any thread."""
        faults: list[str] = []
        if self._connection is None:
            faults.append(f"the database {self.path} {self._ended}")
        elif (lost := self._lock.lost()) is not None:
            faults.append(f"{lost} was removed or replaced while in use: put it back, and start the instance again")
        elif not os.access(self.path, os.W_OK):
            faults.append(f"the database {self.path} cannot be written: make the file and its disk writable")
        try:
            return self._room.health(faults)
        except OSError as error:
            return StoreHealth((*faults, f"the disk of the database {self.path} does not answer: {error}"))

    def check(self) -> list[str]:
        """Findings of the opening, and faults in the file's structure. Reads the whole file.

        May be called from any thread, during commits. Raises StoreError if `end_check` cancelled it.
        """
        with self._checking, self.failing("check"):
            try:
                with self.reader() as (reader, is_beside):
                    self._checker = reader if is_beside else None
                    reader.text_factory = bytes
                    lines = [] if self._ending else reader.execute("PRAGMA quick_check").fetchall()
            except sqlite3.DatabaseError as error:
                if primary_code(error) not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                    raise
                return [*self.damage, str(error)]
            finally:
                self._checker = None
        return [*self.damage, *(line.decode(errors="replace") for (line,) in lines if line != b"ok")]

    def end_check(self) -> None:
        """Cancel a running check, and prevent later ones. May be called from any thread."""
        self._ending = True
        if (checker := self._checker) is not None:
            with suppress(sqlite3.ProgrammingError):  # the check has ended meanwhile
                checker.interrupt()


_open_files: WeakSet[DatabaseFile] = WeakSet()
_inherited: list[sqlite3.Connection | None] = []


def _disown_all() -> None:
    for file in list(_open_files):
        file.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
