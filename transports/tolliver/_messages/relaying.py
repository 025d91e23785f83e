"""Relay of an outbox: from a program's table into an instance's store.

A relay has a thread of its own, the same on every kind of loop, as drivers of databases block. One batch at a time goes
its way: rows are begun (a commit in the program's database), sent (a commit in the instance's store, on its loop), and
deleted (a commit in the program's database). `_boxes/outbox_table.py` says why that loses nothing and sends nothing
twice; after a kill between two of these commits, what was begun is sent again under its keys (P-60). A key is needed
until its row is deleted, and is kept beyond that for a table that is put back, while there is room for keys.

A channel is *held back* while its first row cannot be sent: nobody subscribes (T-53), and the channel does not keep
(P-95), a peer is at its quota, or the row breaks a rule of this instance. Its rows wait in the table, those of other
channels go on.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from tolliver_proto import ConnectionClosing, Node, NoticeKind, Receipt, TolliverError

from .._boxes.databases import opened
from .._boxes.outbox_table import Batch, OutboxTable, Outcome, Row
from .._driver.pending import PendingCall
from .._driver.threads import start
from ..outbox import Outbox

T = TypeVar("T")
_Given: TypeAlias = tuple[Sequence[Row], Receipt]
_MOST = 1000
_MOST_BYTES = 8 * 2**20
_CHANNELS = 20  # in one batch
_SHORTEST, _LONGEST = 0.005, 0.25  # pauses between looks at a table without rows to send, in seconds
_AGAIN = 1.0  # seconds after an error
_TOLD_EACH = 60.0
_PATIENCE = 10.0  # seconds that the end of an instance waits for its relays
_NOBODY = "nobody subscribes"
_UNTAKEN = "no subscriber takes it: they have left, or are at their quota"


@dataclass(frozen=True)
class RelayStatus:
    """Counts of a relay, and what holds it up.

    `moved` counts rows since its start. `held` has the channels that are held back, each with the reason. `doubtful`
    has rows that an instance began and has not ended, by that instance's UUID: see `Outbox.release`. `error` is the
    last error of the program's database or of the store, None once they work again.
    """

    moved: int = 0
    held: Mapping[str, str] = field(default_factory=dict)
    doubtful: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


class Core(Protocol):
    """The part of an instance that a relay uses."""

    node: Node
    relays: set[Relay]

    @property
    def lock(self) -> AbstractContextManager[object]: ...

    def check_open(self) -> None: ...

    def call_soon(self, job: Callable[[], object]) -> None: ...

    def run_actions(self) -> None: ...

    def notice(self, kind: NoticeKind, detail: str) -> None: ...

    def takes(self, channel: str, key: str) -> bool:
        """True if a message with these names would be stored for somebody: a subscriber, or a channel that keeps."""

    def give(self, row: Row) -> Receipt:
        """Send a row, under its key."""

    def give_all(self, rows: Sequence[Row]) -> Receipt | None:
        """Send rows, each under its key, in one step. None: they are no plain case, and nothing was sent."""

    def given(self, receipts: Sequence[Receipt]) -> Sequence[PendingCall[Receipt]]:
        """The calls that are answered once these receipts are stored."""

    def release(self, names: Iterable[tuple[str, str]]) -> None:
        """Forget keys of rows, as (channel, key), before their time."""

    @property
    def must_release(self) -> bool:
        """True if there is little room for more keys."""

    @property
    def lacks_commits(self) -> bool:
        """True if the store lacks commits that were confirmed, and so may have lost what it had sent."""

    @property
    def remembers(self) -> float:
        """Seconds for which the key of a row is known."""


class _Rest(NamedTuple):
    """A channel that is left alone for a while, in monotonic seconds."""

    reason: str
    until: float


class _OnItsWay(NamedTuple):
    """A batch that the node was given, but for some of its rows, and what is answered once the store has it."""

    batch: Batch
    given: Sequence[_Given]
    unsent: Sequence[Row]
    stored: Future[None]


class _NotGiven(Exception):
    """The instance was closed before it was given anything of a batch."""


class Relay:
    """A running relay, from `Instance.relay`. It ends with `close`, or with its instance."""

    def __init__(self, core: Core, outbox: Outbox) -> None:
        self._core = core
        self._outbox = outbox
        self._over = threading.Event()
        self._status = RelayStatus()
        self._doubts = core.lacks_commits  # rows that were begun before this opening
        self._on_its_way: _OnItsWay | None = None
        self._sent: Outcome | None = None  # stored and not ended
        self._names: list[tuple[str, str]] = []  # of rows that are gone, whose keys are remembered for a while
        self._resting: dict[str, _Rest] = {}
        self._last = ""
        self._left: dict[str, str] = {}  # channels of rows of an earlier life that nobody gets now
        self._told: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="tolliver relay", daemon=True)
        start(self._thread)
        core.relays.add(self)

    @property
    def status(self) -> RelayStatus:
        """Counts of this relay, and what holds it up."""
        return self._status

    def close(self) -> None:
        """End the relay after its running batch. Does not wait; rows that are left stay in the table."""
        self._over.set()
        self._core.relays.discard(self)

    def join(self) -> None:
        """Wait for the end of its running batch, ten seconds at most."""
        self._thread.join(_PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Relay of {self._outbox.table}, {self._status.moved} rows moved>"

    # The thread.

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                with opened(self._outbox.connect) as database:
                    table = OutboxTable(database, self._outbox.table, self._core.node.instance_id, self._core.remembers)
                    self._serve(table)
                    table.give_back_leases()
            except (_NotGiven, ConnectionClosing):
                return
            except Exception as error:  # of any driver, of `connect`, or of the store
                self._failed(error)
                self._over.wait(_AGAIN)

    def _serve(self, table: OutboxTable) -> None:
        self._on_its_way = self._sent = None  # messages sent before an error are of an earlier life now
        if self._doubts:
            table.doubt()
            self._doubts = False
        self._finish_earlier(table)
        self._change(error=None)
        pause, looked = _SHORTEST, 0.0
        while not self._over.is_set():
            if self._move(table):
                pause = _SHORTEST
            else:
                pause = min(2 * pause, _LONGEST)
                self._over.wait(pause)
            if monotonic() > looked + _AGAIN:
                looked = monotonic()
                self._look_around(table)
        self._end(table)

    def _move(self, table: OutboxTable) -> int:
        """Send a batch. It is begun while the store has the batch before, in the commit that ends the one before that.
        Returns how many rows were sent.
        """
        heads = table.heads()
        held = self._held_back(heads) if heads else {}
        self._hold(held)
        ready = self._turn([channel for channel, _ in heads if channel not in held])
        if not ready:
            self._end(table)
            return 0
        batch = table.begin(ready, _MOST, _MOST_BYTES, self._sent)
        self._ended()
        try:
            self._wait_stored()
            late = [row for row in batch.rows if row.channel in self._resting]  # since these were begun
            given, unsent, stored = self._send([row for row in batch.rows if row.channel not in self._resting])
            self._on_its_way = _OnItsWay(batch, given, [*unsent, *late], stored)
        except BaseException:
            table.end(Outcome(batch, batch.rows))  # nothing of it was sent
            raise
        return sum(len(rows) for rows, _ in given)

    def _wait_stored(self) -> None:
        """Wait for the store to have the batch that is on its way. Raises as `_stored` does."""
        if self._on_its_way is not None:
            batch, given, unsent, stored = self._on_its_way
            self._sent = Outcome(batch, self._stored(given, unsent, stored))
            self._on_its_way = None

    def _end(self, table: OutboxTable) -> None:
        """End the batch that is stored, and then the one that is on its way."""
        while self._sent is not None or self._on_its_way is not None:
            if self._sent is None:
                self._wait_stored()
            else:
                table.end(self._sent)
                self._ended()

    def _ended(self) -> None:
        if self._sent is not None:
            batch, unsent = self._sent
            gone = {row.id: row.channel for row in batch.rows}
            for row in unsent:
                del gone[row.id]
            self._names += [(channel, name) for name, channel in gone.items()]
            self._count(len(gone))
            self._sent = None

    def _turn(self, channels: Sequence[str]) -> Sequence[str]:
        """The channels whose turn it is, a few after those of the last batch."""
        after = [one for one in channels if one > self._last]
        turn = [*after, *(one for one in channels if one <= self._last)][:_CHANNELS]
        self._last = turn[-1] if turn else ""
        return turn

    def _finish_earlier(self, table: OutboxTable) -> None:
        """Send what was begun in an earlier life, of which nobody knows whether it went. A row that nobody gets now
        stays begun, and holds its channel back.
        """
        left, after = dict[str, str](), 0
        while not self._over.is_set() and (rows := table.begun(after, _MOST)):
            unsent = {row.number: row for row in self._stored(*self._send(rows))}
            gone = [row for row in rows if row.number not in unsent]
            table.delete(gone)
            self._count(len(gone))
            left.update((row.channel, f"{_NOBODY}, to a row that was begun earlier") for row in unsent.values())
            after = rows[-1].number
        self._left = left

    def _look_around(self, table: OutboxTable) -> None:
        if self._left:
            self._end(table)  # else its rows would be among those of an earlier life
            self._finish_earlier(table)
        doubtful = table.doubtful()
        self._change(doubtful=doubtful)
        for instance, count in doubtful.items():
            mine = instance == str(self._core.node.instance_id)
            text = f"{count} rows were begun by the instance {instance}, and " + (
                "it does not know any more whether they went: call Outbox.release to have them sent, perhaps again"
                if mine
                else "only that one knows whether they went: start it again, or if it never comes back, call "
                "Outbox.release"
            )
            self._tell(instance, NoticeKind.ROWS_HELD, text)

    def _send(self, rows: Sequence[Row]) -> tuple[Sequence[_Given], Sequence[Row], Future[None]]:
        """Send rows. Returns those that are given to the node, the others, whose channels rest, and what is answered
        once the store has them. Raises _NotGiven.
        """
        stored: Future[None] = Future()
        return *self._in_loop(lambda: self._give(rows, stored)), stored

    def _stored(self, given: Sequence[_Given], unsent: Sequence[Row], stored: Future[None]) -> list[Row]:
        """Wait until rows are stored. Returns those that were not sent, whose channels rest.

        Raises StoreError or ConnectionClosing where nobody knows what is stored: these rows stay begun.
        """
        stored.result(None if self._is_open() else _PATIENCE)
        late = [row for rows, receipt in given if not _goes(receipt) for row in rows]
        self._rest({row.channel: _UNTAKEN for row in late})
        return [*unsent, *late]

    def _rest(self, held: Mapping[str, str]) -> None:
        """Leave channels alone for a while, each for a reason."""
        until = monotonic() + _AGAIN
        self._resting.update((channel, _Rest(reason, until)) for channel, reason in held.items())

    def _held_back(self, heads: Iterable[tuple[str, str]]) -> dict[str, str]:
        """Channels of which nothing can be sent now, with the reasons."""
        now = monotonic()
        self._resting = {channel: rest for channel, rest in self._resting.items() if rest.until > now}
        takes = self._core.takes
        held = self._in_loop(lambda: {channel: _NOBODY for channel, key in heads if not takes(channel, key)})
        return {**held, **{channel: rest.reason for channel, rest in self._resting.items()}, **self._left}

    # On the loop, under the lock.

    def _give(self, rows: Sequence[Row], stored: Future[None]) -> tuple[list[_Given], list[Row]]:
        """Give rows to the node, each channel as far as it goes. Returns these, and the others."""
        core, given, unsent = self._core, list[_Given](), list[Row]()
        if core.must_release:
            core.release(self._names)
            self._names.clear()
        channels = defaultdict[str, list[Row]](list)
        for row in rows:
            channels[row.channel].append(row)
        for channel, mine in channels.items():
            gone, reason = self._give_channel(mine)
            given += gone
            if reason is not None:
                unsent += mine[sum(len(some) for some, _ in gone) :]
                self._rest({channel: reason})
        _when_all(core.given([receipt for _, receipt in given]), stored)
        return given, unsent

    def _give_channel(self, rows: Sequence[Row]) -> tuple[list[_Given], str | None]:
        """Give rows of one channel, all in one step if that goes. Returns what went, and why the next one did not."""
        with suppress(TolliverError):  # the row that is refused is found below
            receipt = self._core.give_all(rows)
            if receipt is not None:
                return [(rows, receipt)], None
        given = list[_Given]()
        for row in rows:
            if not self._core.takes(row.channel, row.key):
                return given, _NOBODY
            try:
                receipt = self._core.give(row)
            except TolliverError as error:
                return given, str(error)
            given.append(((row,), receipt))
            if receipt.failure is not None and not _goes(receipt):
                return given, _UNTAKEN
        return given, None

    # Between the thread and the loop.

    def _in_loop(self, job: Callable[[], T]) -> T:
        """The result of a job that runs on the loop, under the lock. Raises _NotGiven if it never runs."""
        done: Future[T] = Future()

        def run() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                with self._core.lock:
                    self._core.check_open()
                    result = job()
                    self._core.run_actions()
            except ConnectionClosing as error:
                done.set_exception(_NotGiven(str(error)))
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)

        self._core.call_soon(run)
        while True:
            try:
                return done.result(_LONGEST)
            except TimeoutError:
                if not self._is_open() and done.cancel():  # a loop that has ended runs nothing more
                    raise _NotGiven from None

    def _is_open(self) -> bool:
        try:
            self._core.check_open()
        except ConnectionClosing:
            return False
        return True

    # Telling.

    def _change(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)

    def _count(self, moved: int) -> None:
        self._change(moved=self._status.moved + moved)

    def _hold(self, held: Mapping[str, str]) -> None:
        if held != self._status.held:
            self._change(held=dict(held))
        for channel, reason in held.items():
            self._tell(f"{channel}\0{reason}", NoticeKind.ROWS_HELD, f"channel {channel!r:.100} is held back: {reason}")

    def _failed(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self._change(error=text)
        self._tell("error", NoticeKind.STORE_ERROR, f"no row moves, until this is over: {text:.500}")

    def _tell(self, name: str, kind: NoticeKind, text: str) -> None:
        """Raise a notice, at most one a minute for each name."""
        now = monotonic()
        self._told = {one: at for one, at in self._told.items() if at > now - _TOLD_EACH}
        if name in self._told:
            return
        self._told[name] = now

        def tell() -> None:
            with self._core.lock:
                if self._is_open():
                    self._core.notice(kind, f"the outbox {self._outbox.table}: {text}")

        self._core.call_soon(tell)


def _goes(receipt: Receipt) -> bool:
    """True if somebody gets the message, or will at its time (P-93)."""
    return receipt.recipients > 0 or receipt.later > 0


def _when_all(calls: Sequence[PendingCall[Receipt]], stored: Future[None]) -> None:
    """Answer `stored` once all calls are answered: with the first error, if there is one."""
    left = len(calls)

    def answered() -> None:
        nonlocal left
        left -= 1
        if left > 0:
            return
        error = next((call.error for call in calls if call.error is not None), None)
        if error is None:
            stored.set_result(None)
        else:
            stored.set_exception(error)

    for call in calls:
        call.when_done(answered)
    if not calls:
        answered()
