"""Marking of programs' tables, which tells that one was put back (P-76).

An outbox is marked by its relay, an inbox by the instance whose deliveries it notes: no call is needed. Both look when
they begin, and then at most once a second, after something was committed. A count grows when the program's commit is
over, as a message is acknowledged after it. The count is read, then the mark is committed, and then the instance
remembers it: that is the order on which `_boxes/marks.py` rests.

The mark stays as it is once commits are gone, so every opening tells it again, until `tolliver outbox restored`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeAlias

from tolliver_proto import ConnectionClosing, NoticeKind

from .._boxes.databases import Database, opened
from .._boxes.marks import Mark, raised
from .._driver.threads import start
from .._store.table_marks import SeenMark, TableMarks
from ..inbox import Inbox
from .channels import ChannelCounts

Tell: TypeAlias = Callable[[NoticeKind, str], object]
_EACH = 1.0  # seconds between two looks
_PATIENCE = 10.0  # seconds that the end of an instance waits for the last mark
GONE = {
    "inbox": "Effects of messages that were acknowledged since then are gone, and nobody sends these messages again",
    "outbox": "Rows that went since then may go again, and what the program did since then is gone",
}


class Core(Protocol):
    """The part of an instance that marking uses."""

    table_marks: TableMarks

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def check_open(self) -> None: ...

    def call_soon(self, job: Callable[[], object]) -> None: ...

    def notice(self, kind: NoticeKind, detail: str) -> None: ...


class _CommitsGone(Exception):
    """The table lacks what was committed there."""


class Marker:
    """The mark of one table."""

    def __init__(self, marks: TableMarks, table: str, kind: str, tell: Tell) -> None:
        """`kind`: a key of GONE. `tell` raises a notice."""
        self._marks, self._table, self._kind, self._tell = marks, table, kind, tell
        self._count: int | None = None  # at the last mark
        self._is_over = False  # commits are gone, and that is told

    def must_look(self, count: int) -> bool:
        """True if `count` has grown since the last mark."""
        return not self._is_over and count != self._count

    def look(self, database: Database, count: int) -> None:
        """Raise the mark if `count` has grown, and tell where commits are gone. Raises the errors of the driver."""
        if not self.must_look(count):
            return
        marks, step = self._marks, count - (self._count or 0)  # 0 at the first look, which only compares
        try:
            with database.transaction():
                mark = raised(database, self._table, marks.instance_id, step)
                known = marks.known(mark.lineage, mark.place, mark.before is None)
                if known is not None and (mark.before is None or mark.before < known.number):
                    raise _CommitsGone(self._gone(mark, known))
        except _CommitsGone as gone:
            self._is_over = True
            self._tell(NoticeKind.COMMITS_MISSING, str(gone))
        else:
            marks.note(mark.lineage, SeenMark(mark.place, mark.number, mark.at))
            self._count = count

    def _gone(self, mark: Mark, known: SeenMark) -> str:
        if mark.before is None:
            since = f"all that was committed until {_time(known.at)}: it is a new table, or an old copy"
        else:
            since = (
                f"what was committed between {_time(mark.before_at)} and {_time(known.at)}, some "
                f"{known.number - mark.before} messages: a copy was put in the place of its database"
            )
        own = self._marks.database
        end = "" if own is None else f"; then `tolliver outbox restored {own}` ends this notice"
        return f"the table {self._table} lacks {since}. {GONE[self._kind]}. docs/exactly-once.md says what to do{end}"


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def tell(core: Core, kind: NoticeKind, text: str) -> None:
    """Raise a notice, from any thread. An instance that is closed raises none."""

    def told() -> None:
        with core.lock:
            try:
                core.check_open()
            except ConnectionClosing:
                return
            core.notice(kind, text)

    core.call_soon(told)


class Inboxes:
    """The inboxes that note deliveries of an instance, and the thread that marks them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._lock = threading.Lock()
        self._markers: dict[Inbox, tuple[Marker, set[ChannelCounts]]] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._error = ""

    def watch(self, inbox: Inbox, counts: ChannelCounts) -> None:
        """Mark this inbox; `counts` are of a channel whose deliveries it notes. Raises OutOfThreads."""
        with self._lock:
            if inbox not in self._markers:
                marker = Marker(self._core.table_marks, inbox.table, "inbox", partial(tell, self._core))
                self._markers[inbox] = marker, set()
            self._markers[inbox][1].add(counts)
            if self._thread is None and not self._over.is_set():
                thread = threading.Thread(target=self._run, name="tolliver inboxes", daemon=True)
                start(thread)
                self._thread = thread

    def join(self) -> None:
        """Mark a last time, and end the thread. Waits ten seconds at most."""
        with self._lock:
            self._over.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def _run(self) -> None:
        self._look()
        while not self._over.wait(_EACH):
            self._look()
        self._look()  # at what was acknowledged since

    def _look(self) -> None:
        with self._lock:
            all_of_them = [(inbox, marker, [*counts]) for inbox, (marker, counts) in self._markers.items()]
        for inbox, marker, counts in all_of_them:
            count = sum(one.handled for one in counts)
            if not marker.must_look(count):
                continue
            try:
                with opened(inbox.connect) as database:
                    marker.look(database, count)
                self._error = ""
            except Exception as error:  # of any driver, or of `connect`
                text = f"the table {inbox.table} is not marked: {type(error).__name__}: {error}"
                if text != self._error:
                    tell(self._core, NoticeKind.STORE_ERROR, f"{text:.500}")
                self._error = text
