"""The batch of the next commit, the running commit, and store searches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any
from uuid import UUID

from ..._common.errors import DiskFull, TolliverError, Unconfirmed
from ..actions import Commit, Find, GoOn, NoticeKind, Stored
from ..context import Context
from ..link import Link
from ..store import Found
from .batch import Batch

_PIECE = 1000  # deliveries of one search


@dataclass(slots=True)
class _Search:
    peer: UUID | None
    min_age: float
    take: Callable[[Sequence[Found]], bool | None]
    done: GoOn
    piece: int
    expiring: bool
    after_seq: int = 0
    over: bool = False


class OutboxSearch:
    """A queue of searches that run one after the other.

    `ask` hands a Find to the store, `when_stored` calls back when all changes so far are stored, and `ids` numbers the
    Finds: all search queues of a node share `ids`.
    """

    def __init__(
        self,
        ask: Callable[[Find], None],
        when_stored: Callable[[GoOn], None],
        on_error: Callable[[UUID | None, TolliverError], None],
        ids: Iterator[int],
    ) -> None:
        self._ids = ids
        self._ask = ask
        self._when_stored = when_stored
        self._on_error = on_error
        self._searches: deque[_Search] = deque()  # the first is running
        self._last_id = 0
        self._asked = False

    @property
    def busy(self) -> bool:
        return bool(self._searches)

    def begin(
        self,
        peer: UUID | None,
        take: Callable[[Sequence[Found]], bool | None],
        done: GoOn,
        min_age: float = 0.0,
        piece: int = _PIECE,
        expiring: bool = False,
    ) -> None:
        """Searches the deliveries of the peer, or of all peers for None.

        `take` gets each piece of at most `piece` deliveries, and returns True to end the search; `done` gets None at
        the end, or the error. `min_age` is in seconds. With `expiring` the search finds deliveries with an expiry of
        their own, soonest first; each piece then starts at the first again, so `take` must remove what it was given.
        """
        self._searches.append(_Search(peer, inf if expiring else min_age, take, done, piece, expiring))
        if len(self._searches) == 1:
            self._when_stored(self._go_on)

    def _go_on(self, error: TolliverError | None) -> None:
        """Asks the store for the next piece. At the end of this search, which `error` ends too, begins the next
        search.
        """
        search = self._searches[0]
        if error is None and not search.over:
            self._last_id = next(self._ids)
            self._asked = True
            bounds = (search.peer, search.after_seq, search.piece, search.min_age)
            self._ask(Find(self._last_id, *bounds, search.expiring))
            return
        self._searches.popleft()
        others_wait = bool(self._searches)  # else `begin` starts a search that `done` adds
        search.done(error)
        if others_wait:
            self._when_stored(self._go_on)

    def found(self, search_id: int, rows: Sequence[Found], error: TolliverError | None) -> None:
        """Takes the result of the action Find with this id: its rows, or the error of the store. Ignores a Find of
        another queue.
        """
        if search_id != self._last_id or not self._asked:
            return
        self._asked = False
        search = self._searches[0]
        if error is not None:
            self._on_error(search.peer, error)
            self._go_on(error)
            return
        enough = False
        if rows:
            enough = bool(search.take(rows))
            search.after_seq = rows[-1].seq - (search.peer is None)  # other peers may be owed the last message too
        search.over = enough or len(rows) < search.piece
        self._when_stored(self._go_on)


STORE_RETRY = 1.0
"""Seconds from a store failure to the next attempt."""


class Commits:
    """Owner of the batch that collects changes, of at most one running commit, and of at most one running search of
    each queue.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._actions = context.actions
        self.batch: Batch = Batch()
        self.running: tuple[int, Batch] | None = None
        self._last_batch = 0
        self.removals_due: bool = False
        self.apart: bool = False  # the disk was full (D-13): messages go in commits of their own
        self.full_until: float = 0.0  # time of the next try to store dead letters, as the disk was full
        ids = count(1)
        self.searches: OutboxSearch = OutboxSearch(context.actions.append, self.when_stored, self._search_failed, ids)
        # Sends wait for the result of these searches, so they must not queue behind the expiry of a million messages.
        self.room_searches: OutboxSearch = OutboxSearch(
            context.actions.append, self.when_stored, self._search_failed, ids
        )
        context.due["removals"] = self._on_removals_timeout

    def lead_to(
        self,
        done: tuple[tuple[str, Callable[[Any], None]], ...],
        undone: tuple[Callable[[Batch], None], ...],
    ) -> None:
        """Registers functions of the parts above. After a commit each of `done`, (attribute of the batch, function),
        gets that attribute unless it is empty; after a failed one, each of `undone` gets the batch."""
        self._done, self._undone = done, undone

    def take(self) -> Batch:
        """Returns the batch of changes collected so far, with all removals, and starts an empty one."""
        self.removals_due = False
        batch, self.batch = self.batch, Batch()
        return batch

    def remove_now(self) -> None:
        """Has the removals that wait for another change committed now, without one."""
        self.removals_due = True

    def begin(self, batch: Batch) -> None:
        """Hands the batch to the store as the next commit."""
        self._last_batch += 1
        self.running = (self._last_batch, batch)
        self._actions.append(Commit(self._last_batch, batch.all_operations(self._context.policy.dedupe)))

    def when_stored(self, go_on: GoOn) -> None:
        if self.running is None and self.batch.empty:
            go_on(None)
        else:
            self.batch.then.append(go_on)

    def _search_failed(self, peer: UUID | None, error: TolliverError) -> None:
        self._context.notice(NoticeKind.STORE_ERROR, peer, f"searching the outbox failed: {error}")

    def ack(self, link: Link, message_ids: Sequence[int]) -> None:
        connection = link.connection
        if connection is not None and connection.live:
            before = connection.unsent_bytes
            connection.send_acks(message_ids)
            self._context.cause(link, connection.unsent_bytes - before)
            self._context.writable[link] = None

    def batches(self) -> Sequence[Batch]:
        """Returns the batch of the next commit and, if a commit runs, that of the running one."""
        return (self.batch,) if self.running is None else (self.batch, self.running[1])

    def committed(self, batch_id: int, now: float | None) -> None:
        """Completes the running commit, which has this id and is durable: its effects here, then those in the parts
        above, then the calls that wait for it (`then`).
        """
        self._context.tick(now)
        if self.running is None or self.running[0] != batch_id:
            return
        batch, self.running = self.running[1], None
        self.apart = self.apart and not batch.stores  # a commit that stored messages: the disk has room again
        for one in batch.put_away:
            self._context.peers[one.peer].outbox.removed(one.spans)
        if batch.tokens:
            self._actions.append(Stored(batch.tokens))
        for link, message_ids in batch.acks.items():
            self.ack(link, message_ids)
        for name, effect in self._done:
            changes = getattr(batch, name)
            if changes:
                effect(changes)
        for go_on in batch.then:
            go_on(None)

    def failed(self, batch_id: int, error: TolliverError, now: float | None) -> bool:
        """Undoes the running commit, which has this id and was not applied because of `error`. Returns True if even a
        commit without messages failed while the disk is full.
        """
        self._context.tick(now)
        if self.running is None or self.running[0] != batch_id:
            return False
        batch, self.running = self.running[1], None
        sure = "" if isinstance(error, Unconfirmed) else ", nothing of it was stored"
        self._context.notice(NoticeKind.STORE_ERROR, None, f"a commit failed{sure}: {error}")
        no_room = batch.stores and isinstance(error, DiskFull)
        if no_room:
            self.apart = True
            self.full_until = self._context.now + STORE_RETRY
            if self.batch.stores:  # the gathering batch would fail as well
                self._fail(self.take(), error)
        self._fail(batch, error)
        if no_room and self.batch.putting_away:
            self.remove_now()
        return self.apart and not no_room

    def _fail(self, batch: Batch, error: TolliverError) -> None:
        for undo in self._undone:
            undo(batch)
        self.batch.follow(batch)
        if self.batch.putting_away:
            self._context.timers.set("removals", self._context.now + STORE_RETRY)
        if batch.tokens:
            self._actions.append(Stored(batch.tokens, error))
        for go_on in batch.then:
            go_on(error)

    def found(
        self, search_id: int, rows: Sequence[Found], error: TolliverError | None = None, now: float | None = None
    ) -> None:
        """Takes the result of the action Find with this id, for the queue that asked: the rows, or the error of the
        store.
        """
        self._context.tick(now)
        for searches in (self.room_searches, self.searches):
            searches.found(search_id, rows, error)

    def _on_removals_timeout(self, _subject: None) -> None:
        self.removals_due = True
