"""Steps of a relay: from a program's table into an instance's store.

One batch at a time goes its way: rows are begun (a commit in the program's database), sent (a commit in the instance's
store, on its loop), and deleted (a commit in the program's database). `_boxes/outbox_table.py` says why that loses
nothing and sends nothing twice; after a kill between two of these commits, what was begun is sent again under its keys
(P-60). A key is needed until its row is deleted, and is kept beyond that for a table that is put back, while there is
room for keys.

A channel is *held back* while its first row cannot be sent: nobody subscribes (T-53), and the channel does not keep
(P-95), a peer is at its quota, or the row breaks a rule of this instance. Its rows wait in the table, those of other
channels go on.

The steps are a generator without threads and clocks: what must wait is a `Step` that somebody else does, a thread of
the relay, or a simulated network in virtual time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from tolliver_proto import ConnectionClosing, Node, NoticeKind, Receipt
from tolliver_proto.node import MessageKeys

from .._boxes.databases import Database, opened
from .._boxes.outbox_table import Batch, OutboxTable, Outcome, Row
from .._driver.pending import PendingCall
from .._store.table_marks import TableMarks
from ..outbox import Outbox
from .giving import NOBODY, UNTAKEN, Given, Giver, goes, when_all
from .marking import Marker

T = TypeVar("T")
_MOST = 1000
_MOST_BYTES = 8 * 2**20
_CHANNELS = 20  # in one batch
SHORTEST, LONGEST = 0.005, 0.25  # pauses between looks at a table without rows to send, in seconds
_AGAIN = 1.0  # seconds after an error
_TOLD_EACH = 60.0


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


class Sender(Protocol):
    """The part of an instance that the steps of a relay use, on its loop."""

    node: Node
    table_marks: TableMarks

    def given(self, receipts: Sequence[Receipt]) -> Sequence[PendingCall[Receipt]]:
        """The calls that are answered once these receipts are stored."""

    @property
    def lacks_commits(self) -> bool:
        """True if the store lacks commits that were confirmed, and so may have lost what it had sent."""

    @property
    def remembers(self) -> float:
        """Seconds for which the key of a row is known."""


class OnLoop(NamedTuple):
    """A job for the instance's loop, whose result is the answer. Fails with NotGiven if the job never runs."""

    job: Callable[[], Any]


class Until(NamedTuple):
    """A wait for the store. Fails with StoreError or ConnectionClosing."""

    stored: Future[None]


class Pause(NamedTuple):
    """A wait, in seconds, which the end of the relay may shorten."""

    seconds: float


Step: TypeAlias = OnLoop | Until | Pause
Steps: TypeAlias = Generator[Step, Any, T]


class _Rest(NamedTuple):
    """A channel that is left alone for a while, until a time of the relay's clock."""

    reason: str
    until: float


class _OnItsWay(NamedTuple):
    """A batch that the node was given, but for some of its rows, and what is answered once the store has it."""

    batch: Batch
    given: Sequence[Given]
    unsent: Sequence[Row]
    stored: Future[None]


class NotGiven(Exception):
    """The instance was closed before it was given anything of a batch."""


class RelaySteps:
    """State and steps of one relay: `run` is its life, in which `closed` may be set at any moment."""

    def __init__(
        self, sender: Sender, outbox: Outbox, clock: Callable[[], float], tell: Callable[[NoticeKind, str], object]
    ) -> None:
        """`clock` is that of the node's inputs; `tell` raises a notice of the instance."""
        self.closed = False
        self.status = RelayStatus()
        self._sender = sender
        self._node = sender.node
        self._outbox = outbox
        self._clock = clock
        self._giver = Giver(sender.node, clock)
        self._say = tell
        self._marker = Marker(sender.table_marks, outbox.table, "outbox", tell)
        self._doubts = sender.lacks_commits  # rows that were begun before this opening
        self._on_its_way: _OnItsWay | None = None
        self._sent: Outcome | None = None  # stored and not ended
        self._names: list[tuple[str, str]] = []  # of rows that are gone, whose keys are remembered for a while
        self._resting: dict[str, _Rest] = {}
        self._last = ""
        self._left: dict[str, str] = {}  # channels of rows of an earlier life that nobody gets now
        self._told: dict[str, float] = {}

    def run(self) -> Steps[None]:
        """Relay until `closed`, or until the instance is. Begins anew after an error."""
        sender, outbox = self._sender, self._outbox
        while not self.closed:
            try:
                with opened(outbox.connect) as database:
                    table = OutboxTable(database, outbox.table, self._node.instance_id, sender.remembers)
                    yield from self._serve(table, database)
                    table.give_back_leases()
            except (NotGiven, ConnectionClosing):
                return
            except Exception as error:  # of any driver, of `connect`, or of the store
                self._failed(error)
                yield Pause(_AGAIN)

    def _serve(self, table: OutboxTable, database: Database) -> Steps[None]:
        self._on_its_way = self._sent = None  # messages sent before an error are of an earlier life now
        if self._doubts:
            table.doubt()
            self._doubts = False
        self._marker.look(database, self.status.moved)
        yield from self._finish_earlier(table)
        self._change(error=None)
        pause, looked = SHORTEST, 0.0
        while not self.closed:
            if (yield from self._move(table)):
                pause = SHORTEST
            else:
                pause = min(2 * pause, LONGEST)
                yield Pause(pause)
            if self._clock() > looked + _AGAIN:
                looked = self._clock()
                yield from self._look_around(table)
                self._marker.look(database, self.status.moved)
        yield from self._end(table)
        self._marker.look(database, self.status.moved)

    def _move(self, table: OutboxTable) -> Steps[int]:
        """Send a batch. It is begun while the store has the batch before, in the commit that ends the one before that.
        Returns how many rows were sent.
        """
        heads = table.heads()
        held = (yield from self._held_back(heads)) if heads else {}
        self._hold(held)
        ready = self._turn([channel for channel, _ in heads if channel not in held])
        if not ready:
            yield from self._end(table)
            return 0
        batch = table.begin(ready, _MOST, _MOST_BYTES, self._sent)
        self._ended()
        try:
            yield from self._wait_stored()
            late = [row for row in batch.rows if row.channel in self._resting]  # since these were begun
            given, unsent, stored = yield from self._send(
                [row for row in batch.rows if row.channel not in self._resting]
            )
            self._on_its_way = _OnItsWay(batch, given, [*unsent, *late], stored)
        except Exception:
            table.end(Outcome(batch, batch.rows))  # nothing of it was sent
            raise
        return sum(len(rows) for rows, _ in given)

    def _wait_stored(self) -> Steps[None]:
        """Wait for the store to have the batch that is on its way. Raises as `_stored` does."""
        if self._on_its_way is not None:
            batch, given, unsent, stored = self._on_its_way
            self._sent = Outcome(batch, (yield from self._stored(given, unsent, stored)))
            self._on_its_way = None

    def _end(self, table: OutboxTable) -> Steps[None]:
        """End the batch that is stored, and then the one that is on its way."""
        while self._sent is not None or self._on_its_way is not None:
            if self._sent is None:
                yield from self._wait_stored()
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

    def _finish_earlier(self, table: OutboxTable) -> Steps[None]:
        """Send what was begun in an earlier life, of which nobody knows whether it went. A row that nobody gets now
        stays begun, and holds its channel back.
        """
        left, after = dict[str, str](), 0
        while not self.closed and (rows := table.begun(after, _MOST)):
            given = yield from self._send(rows)
            unsent = {row.number: row for row in (yield from self._stored(*given))}
            gone = [row for row in rows if row.number not in unsent]
            table.delete(gone)
            self._count(len(gone))
            left.update((row.channel, f"{NOBODY}, to a row that was begun earlier") for row in unsent.values())
            after = rows[-1].number
        self._left = left

    def _look_around(self, table: OutboxTable) -> Steps[None]:
        if self._left:
            yield from self._end(table)  # else its rows would be among those of an earlier life
            yield from self._finish_earlier(table)
        doubtful = table.doubtful()
        self._change(doubtful=doubtful)
        for instance, count in doubtful.items():
            mine = instance == str(self._node.instance_id)
            text = f"{count} rows were begun by the instance {instance}, and " + (
                "it does not know any more whether they went: call Outbox.release to have them sent, perhaps again"
                if mine
                else "only that one knows whether they went: start it again, or if it never comes back, call "
                "Outbox.release"
            )
            self._tell(instance, NoticeKind.ROWS_HELD, text)

    def _send(self, rows: Sequence[Row]) -> Steps[tuple[Sequence[Given], Sequence[Row], Future[None]]]:
        """Send rows. Returns those that are given to the node, the others, whose channels rest, and what is answered
        once the store has them. Raises NotGiven.
        """
        stored: Future[None] = Future()
        given, unsent = yield OnLoop(lambda: self._give(rows, stored))
        return given, unsent, stored

    def _stored(self, given: Sequence[Given], unsent: Sequence[Row], stored: Future[None]) -> Steps[list[Row]]:
        """Wait until rows are stored. Returns those that were not sent, whose channels rest.

        Raises StoreError or ConnectionClosing where nobody knows what is stored: these rows stay begun.
        """
        yield Until(stored)
        late = [row for rows, receipt in given if not goes(receipt) for row in rows]
        self._rest({row.channel: UNTAKEN for row in late})
        return [*unsent, *late]

    def _rest(self, held: Mapping[str, str]) -> None:
        """Leave channels alone for a while, each for a reason."""
        until = self._clock() + _AGAIN
        self._resting.update((channel, _Rest(reason, until)) for channel, reason in held.items())

    def _held_back(self, heads: Iterable[tuple[str, str]]) -> Steps[dict[str, str]]:
        """Channels of which nothing can be sent now, with the reasons."""
        now = self._clock()
        self._resting = {channel: rest for channel, rest in self._resting.items() if rest.until > now}
        held = yield OnLoop(lambda: {channel: NOBODY for channel, key in heads if not self._giver.takes(channel, key)})
        return {**held, **{channel: rest.reason for channel, rest in self._resting.items()}, **self._left}

    # On the loop.

    def _give(self, rows: Sequence[Row], stored: Future[None]) -> tuple[list[Given], list[Row]]:
        """Give rows to the node, each channel as far as it goes. Returns these, and the others."""
        keys, given, unsent = self._node.use(MessageKeys), list[Given](), list[Row]()
        if keys.is_half_full:
            keys.release(self._names)
            self._names.clear()
        channels = defaultdict[str, list[Row]](list)
        for row in rows:
            channels[row.channel].append(row)
        for channel, mine in channels.items():
            gone, reason = self._giver.give(mine)
            given += gone
            if reason is not None:
                unsent += mine[sum(len(some) for some, _ in gone) :]
                self._rest({channel: reason})
        when_all(self._sender.given([receipt for _, receipt in given]), stored)
        return given, unsent

    # Telling.

    def _change(self, **changes: Any) -> None:
        self.status = replace(self.status, **changes)

    def _count(self, moved: int) -> None:
        self._change(moved=self.status.moved + moved)

    def _hold(self, held: Mapping[str, str]) -> None:
        if held != self.status.held:
            self._change(held=dict(held))
        for channel, reason in held.items():
            self._tell(f"{channel}\0{reason}", NoticeKind.ROWS_HELD, f"channel {channel!r:.100} is held back: {reason}")

    def _failed(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self._change(error=text)
        self._tell("error", NoticeKind.STORE_ERROR, f"no row moves, until this is over: {text:.500}")

    def _tell(self, name: str, kind: NoticeKind, text: str) -> None:
        """Raise a notice, at most one a minute for each name."""
        now = self._clock()
        self._told = {one: at for one, at in self._told.items() if at > now - _TOLD_EACH}
        if name in self._told:
            return
        self._told[name] = now
        self._say(kind, f"the outbox {self._outbox.table}: {text}")
