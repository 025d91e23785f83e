"""Last values of names, for new subscribers (P-30 to P-36).

The newest of each name is kept, and given once to whoever subscribes anew. A value is sent to those who subscribe now,
as any reliable message, and kept in the store by the same commit. An entry that a peer's list lacked is new: before the
list counts, the values that match are looked up, and they are stored as messages for that peer by the commit that
stores the list. So they come before whatever is sent later, and a crash leaves both or neither. While that goes on
nothing else is read from the peer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, count
from typing import Any
from uuid import UUID

from .._common.errors import ConnectionClosing, TolliverError
from .._wire.events import Subscription
from .actions import FindRetained, NoticeKind, Receipt, Stored, WeighRetained
from .holds import Holding
from .link import Hold, Link, Peer
from .retained_sizes import Look, Retention
from .store import RetainedValue, StoredMessage
from .terms import Terms

_PIECE = 1000  # values of one question
_PIECE_BYTES = 2**20
_WEIGHED = 1000  # names of one question

GoOn = Callable[["Giving | None"], None]


class Giving:
    """A peer's new entries and the values for them: they are looked up, then stored with its list."""

    __slots__ = ("after", "error", "go_on", "look", "room", "search_id", "storing", "uuid", "waiting")

    def __init__(self, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> None:
        self.uuid = uuid
        self.look = Look(wanted)
        self.go_on = go_on
        self.room = (0, 0)  # values and bytes that the peer's outbox takes: more are not looked up
        self.after: tuple[str, str] | None = None
        self.search_id = 0
        self.storing = False
        self.error: TolliverError | None = None
        self.waiting: list[GoOn] = []  # other lists of this peer


class Retaining(Holding):
    """Values that are kept."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._questions = count(1)
        self._givings: dict[UUID, Giving] = {}
        self._unweighed: deque[Retention] = deque()  # in order; the names of the first are asked for
        self._weighing: WeighRetained | None = None

    # The application's calls.

    def retain(self, channel: str, key: str, body: bytes | None, now: float | None = None) -> Receipt:
        """Send this to whoever subscribes, and keep it for whoever does so later, in place of the value before.

        None clears the name and sends nothing. `Stored` names the receipt, which is that of the send. Raises as `send`
        does, and OwnLimitExceeded where `Limits.max_retained` or `max_retained_bytes` would be passed. A name that was
        not in use lately is looked up first: then `Stored` has the error.
        """
        self._tick(now)
        if self.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        self._size(channel, key, b"" if body is None else body)
        size = None if body is None else self._name_size(channel) + self._name_size(key) + len(body)
        change = Retention((channel, key), body, size)
        if self._unweighed or change.name not in self._retained:
            self._unweighed.append(change)
            self._weigh()
        else:
            self._send_change(change)
        return change

    def _weigh(self) -> None:
        """Ask for the sizes of names that are not in use."""
        if self._weighing is None and self._unweighed:
            names = dict.fromkeys(change.name for change in self._unweighed if change.name not in self._retained)
            self._weighing = WeighRetained(next(self._questions), [*names][:_WEIGHED])
            self._actions.append(self._weighing)

    def _send_change(self, change: Retention) -> None:
        """Or put it behind the sends that wait."""
        items = [] if change.body is None else [(*change.name, change.body)]
        waits = self._blocked or (items and self._must_wait())
        if waits or not self._store(items, self._sizes(items), change, Terms()):
            self._blocked.append((items, change, Terms()))

    def _weighed(self, asked: WeighRetained, sizes: Sequence[int | None], error: TolliverError | None) -> None:
        self._weighing = None
        if error is not None:
            self._notice(NoticeKind.STORE_ERROR, None, f"reading the retained values failed: {error}")
            self._actions.append(Stored([*self._unweighed], error))
            self._unweighed.clear()
            return
        self._retained.learn(asked.names, sizes, self._needed())
        while self._unweighed and self._unweighed[0].name in self._retained:
            change = self._unweighed.popleft()
            try:
                self._send_change(change)
            except TolliverError as failure:
                self._actions.append(Stored([change], failure))
        self._weigh()

    def _needed(self) -> set[tuple[str, str]]:
        """Names whose changes are on their way: their sizes must stay known."""
        names = set(self._batch.values)
        if self._running is not None:
            names |= self._running[1].values.keys()
        names.update(receipt.name for _, receipt, _ in self._blocked if isinstance(receipt, Retention))
        return names.union(change.name for change in self._unweighed if change.name in self._retained)

    def retained_found(
        self,
        search_id: int,
        found: Sequence[RetainedValue] | Sequence[int | None],
        error: TolliverError | None = None,
        now: float | None = None,
    ) -> None:
        """Take the answer to a FindRetained or a WeighRetained."""
        self._tick(now)
        if self._weighing is not None and self._weighing.search_id == search_id:
            self._weighed(self._weighing, found, error)  # type: ignore[arg-type]  # as it asked
            return
        for giving in self._givings.values():
            if giving.search_id == search_id:
                self._found_values(giving, found, error)  # type: ignore[arg-type]  # as above
                return

    # Values for a peer that subscribes anew.

    def _look_first(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> bool:
        """True where this change of the peer's list has to wait: `go_on` is called with the values for what is new, or
        with None where it is to be looked at once more."""
        giving = self._givings.get(uuid)
        if giving is not None:
            giving.waiting.append(go_on)
        else:
            known = self._peers.get(uuid)
            new = wanted if known is None else wanted - known.subscriptions - known.held.keys()
            if not (new and self._keeps_values()):
                return False
            giving = self._givings[uuid] = Giving(uuid, new, go_on)
            self._begin_look(giving)
        link.holding |= Hold.LIST
        return True

    def _is_covered(self, giving: Giving, wanted: frozenset[Subscription]) -> bool:
        """True unless more is new than was looked for: a hold may have ended meanwhile (T-61)."""
        known = self._peers.get(giving.uuid)
        new = wanted if known is None else wanted - known.subscriptions - known.held.keys()
        return new <= giving.look.wanted

    def _keeps_values(self) -> bool:
        running = self._running[1].values if self._running is not None else None
        return bool(self._retained.count or self._batch.values or running)

    def _room_of(self, peer: Peer | None) -> tuple[int, int]:
        pending, size = (0, 0) if peer is None else (peer.outbox.pending, peer.outbox.pending_bytes)
        return self.limits.outbox_messages - pending, self.limits.outbox_bytes - size

    def _begin_look(self, giving: Giving) -> None:
        """The store has by then what the running commit changes, or never will; it has not what gathers."""
        giving.look.begin(self._batch.values)
        if giving.look not in self._retained.looks:
            self._retained.looks.append(giving.look)
        giving.after, giving.room = None, self._room_of(self._peers.get(giving.uuid))
        self._look_for_values(giving)

    def _look_for_values(self, giving: Giving) -> None:
        giving.search_id = next(self._questions)
        question = FindRetained(giving.search_id, giving.look.wanted, giving.after, _PIECE, _PIECE_BYTES)
        self._actions.append(question)

    def _found_values(self, giving: Giving, found: Sequence[RetainedValue], error: TolliverError | None) -> None:
        giving.search_id = 0
        if error is not None:
            self._notice(NoticeKind.STORE_ERROR, giving.uuid, f"reading the retained values failed: {error}")
            giving.error = error
            self._give(giving)
            return
        looked = giving.look.found
        looked.update(((one.channel, one.key), one.body) for one in found)
        size = sum(one.size for one in found)
        giving.room = giving.room[0], giving.room[1] - size
        is_last = len(found) < _PIECE and size < _PIECE_BYTES
        if is_last or len(looked) > giving.room[0] or giving.room[1] < 0:
            self._look_at(giving)
        else:
            giving.after = found[-1].channel, found[-1].key
            self._look_for_values(giving)

    def _look_at(self, giving: Giving, _error: TolliverError | None = None) -> None:
        """The search is over. A change that was seen counts once it is stored, or goes with the list."""
        look = giving.look
        if look.spoilt:
            self._begin_look(giving)
        elif self._running is not None and not look.changed.keys().isdisjoint(self._running[1].values):
            self._running[1].then.append(partial(self._look_at, giving))
        else:
            self._give(giving)

    def _give(self, giving: Giving) -> None:
        self._retained.looks.remove(giving.look)
        giving.go_on(giving)
        if not giving.storing:
            self._end_giving(giving)

    def _end_giving(self, giving: Giving, _error: TolliverError | None = None) -> None:
        """The peer's other lists may go on."""
        del self._givings[giving.uuid]
        for go_on in giving.waiting:
            go_on(None)

    def _give_values(self, peer: Peer, giving: Giving) -> None:
        """Its list is in the routes: what it may have becomes messages of the same commit."""
        items = giving.look.values()
        routed = self._routes.match_all(items)
        items = [item for item, recipients in zip(items, routed, strict=True) if peer in recipients.peers]
        most, room = (0, 0) if self._apart else self._room_of(peer)
        sizes = [self._encoder.overhead + len(c.encode()) + len(k.encode()) + len(body) for c, k, body in items]
        fits = min(bisect_right([*accumulate(sizes)], room), max(most, 0))
        left_out = len(items) - fits
        if left_out:
            self._counts["skipped"] += left_out
            text = "retained values were not given to this peer, as it is at its quota, or the disk is full (P-35)"
            self._tally.add(NoticeKind.SKIPPED, peer.uuid, left_out, text, self._now)
        if not (items and fits):
            return
        numbers = zip(count(self._next_seq), self._ids.take_many(fits), items[:fits], sizes[:fits], strict=False)
        messages = [StoredMessage(seq, wire_id, *item, size) for seq, wire_id, item, size in numbers]
        self._take_in(messages, peer.alone, False)
        peer.outbox.add(fits, sum(sizes[:fits]))
        self._look_at_filling([peer])
        giving.storing = True
        self._batch.then.append(partial(self._end_giving, giving))
