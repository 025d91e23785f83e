"""Last values of names, for new subscribers (P-30 to P-36).

The newest value of each name is kept, and given once to each new subscriber. A value goes to current subscribers like
any reliable message, and the same commit keeps it in the store. An entry that a peer's list lacked before is new:
before the list counts, the matching values are looked up, and the commit that stores the list stores them as messages
for that peer. So they come before any later message, and a crash leaves both or neither. During that time nothing else
is read from the peer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import accumulate, count
from uuid import UUID

from .._common.errors import ConnectionClosing, TolliverError
from .._node.actions import FindRetained, GoOn, NoticeKind, Receipt, Rider, Stored, WeighRetained
from .._node.link import Link, Peer
from .._node.node import Node
from .._node.pattern import Pattern
from .._node.services import Services
from .._node.store import RetainedValue
from .._wire.events import Subscription
from .retained_sizes import Look, Name, RetainedSizes
from .value_copies import ValueCopies

_PIECE = 1000  # values per search
_PIECE_BYTES = 2**20
_WEIGHED = 1000  # names per lookup


class Retention(Rider):
    """Receipt of a `retain`, with its change of the stored value: `size` is None if the name is cleared."""

    __slots__ = ("_copies", "_sizes", "body", "name", "size")

    def __init__(
        self, sizes: RetainedSizes, copies: ValueCopies, name: Name, body: bytes | None, size: int | None
    ) -> None:
        super().__init__(0, -1, [])
        self._sizes, self._copies = sizes, copies
        self.name = name
        self.body = body
        self.size = size

    def check(self) -> None:
        self._sizes.check(self.name, self.size)

    def ride(self) -> None:
        self._sizes.take(self.name, self.body, self.size)
        self._copies.changes(self.name, self.first_seq)


class Giving:
    """A peer's new entries and the values for them, which are looked up, then stored with its list."""

    __slots__ = ("after", "go_on", "is_ready", "look", "queued", "room", "search_id", "storing", "uuid", "waiting")

    def __init__(self, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> None:
        self.uuid = uuid
        self.look = Look(wanted)
        self.go_on = go_on
        self.room = (0, 0)  # values and bytes that fit the peer's outbox: the search ends beyond
        self.after: tuple[str, str] | None = None
        self.queued: dict[Name, int] = {}  # seqs of copies in the peer's outbox
        self.search_id = 0
        self.is_ready = False  # its list takes effect now
        self.storing = False
        self.waiting: list[GoOn] = []  # other lists of this peer that wait


class LastValues(Pattern):
    """Keeps values and gives them to new subscribers."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel, self._limits = node, services, services.limits
        self._sizes = RetainedSizes(services)
        self._copies = ValueCopies(services)
        self._questions = count(1)
        self._givings: dict[UUID, Giving] = {}
        self._unweighed: deque[Retention] = deque()  # in order; the sizes of the first are being looked up
        self._weighing: WeighRetained | None = None

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if values of an earlier run are kept."""
        return services.stored_values[0] > 0

    def stats(self) -> Mapping[str, int]:
        return {"retained": self._sizes.count, "retained_bytes": self._sizes.bytes}

    def unsent(self) -> Collection[Receipt]:
        return self._unweighed

    def busy(self) -> bool:
        return bool(self._givings or self._unweighed)

    # The application's calls.

    def retain(self, channel: str, key: str, body: bytes | None, now: float | None = None) -> Receipt:
        """Sends this value to current subscribers and keeps it for later ones, in place of the previous value.

        None clears the name and sends nothing. `Stored` names the receipt, which is that of the send. Raises as `send`
        does, and OwnLimitExceeded above `Limits.max_retained` or `max_retained_bytes`. A name that was not in use
        lately is looked up first: then `Stored` has the error.
        """
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        self._kernel.size(channel, key, b"" if body is None else body)
        size = None if body is None else self._kernel.name_size(channel) + self._kernel.name_size(key) + len(body)
        change = Retention(self._sizes, self._copies, (channel, key), body, size)
        if self._unweighed or change.name not in self._sizes:
            self._unweighed.append(change)
            self._weigh()
        else:
            self._send_change(change)
        return change

    def _weigh(self) -> None:
        """Asks the store for the sizes of values whose names are not in use."""
        if self._weighing is None and self._unweighed:
            names = dict.fromkeys(change.name for change in self._unweighed if change.name not in self._sizes)
            self._weighing = WeighRetained(next(self._questions), [*names][:_WEIGHED])
            self._kernel.tell(self._weighing)

    def _send_change(self, change: Retention) -> None:
        self._kernel.send_with(change, [] if change.body is None else [(*change.name, change.body)])

    def _weighed(self, asked: WeighRetained, sizes: Sequence[int | None], error: TolliverError | None) -> None:
        self._weighing = None
        if error is not None:
            self._kernel.notice(NoticeKind.STORE_ERROR, None, f"reading the retained values failed: {error}")
            self._kernel.tell(Stored([*self._unweighed], error))
            self._unweighed.clear()
            return
        self._sizes.learn(asked.names, sizes, self._needed())
        while self._unweighed and self._unweighed[0].name in self._sizes:
            change = self._unweighed.popleft()
            try:
                self._send_change(change)
            except TolliverError as failure:
                self._kernel.tell(Stored([change], failure))
        self._weigh()

    def _needed(self) -> set[tuple[str, str]]:
        """Names with pending changes, whose sizes must stay known."""
        names = set(self._kernel.values)
        if self._kernel.running is not None:
            names |= self._kernel.running.values.keys()
        names.update(one.name for one in self._kernel.waiting_sends() if isinstance(one, Retention))
        return names.union(change.name for change in self._unweighed if change.name in self._sizes)

    def retained_found(
        self,
        search_id: int,
        found: Sequence[RetainedValue] | Sequence[int | None],
        error: TolliverError | None = None,
        now: float | None = None,
    ) -> None:
        """Takes the answer to a FindRetained or a WeighRetained."""
        self._kernel.tick(now)
        if self._weighing is not None and self._weighing.search_id == search_id:
            self._weighed(self._weighing, found, error)  # type: ignore[arg-type]  # the answer fits the question
            return
        for giving in self._givings.values():
            if giving.search_id == search_id:
                self._found_values(giving, found, error)  # type: ignore[arg-type]  # as above
                return

    # Values for a peer that subscribes anew.

    def before_list(self, link: Link, uuid: UUID, wanted: frozenset[Subscription], go_on: GoOn) -> bool:
        """Delays the list until the values for its new entries are looked up (P-31)."""
        giving = self._givings.get(uuid)
        known = self._kernel.peers.get(uuid)
        new = wanted if known is None else wanted - known.lists.subscriptions - known.lists.held.keys()
        if giving is not None:
            if giving.is_ready and new <= giving.look.wanted:  # else more is new, as a hold has ended meanwhile (T-61)
                return False
            giving.waiting.append(go_on)
        elif new and self._keeps_values():
            giving = self._givings[uuid] = Giving(uuid, new, go_on)
            self._copies.find(known, giving.queued, partial(self._begin_look, giving))
        else:
            return False
        return True

    def with_list(self, peer: Peer) -> bool:
        giving = self._givings.get(peer.uuid)
        return giving is not None and giving.is_ready and self._give_values(peer, giving)

    def rerouted(self, peer: Peer) -> None:
        self._copies.rerouted(peer)

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        self._copies.left(peer, seqs)

    def _keeps_values(self) -> bool:
        running = self._kernel.running
        return bool(self._sizes.count or self._kernel.values or (running is not None and running.values))

    def _room_of(self, peer: Peer | None) -> tuple[int, int]:
        pending, size = (0, 0) if peer is None else (peer.outbox.pending, peer.outbox.pending_bytes)
        return self._limits.outbox_messages - pending, self._limits.outbox_bytes - size

    def _begin_look(self, giving: Giving, error: TolliverError | None = None) -> None:
        """Begins the search. By now the store has the changes of the running commit, or never will; those of the
        gathering batch are added here."""
        if error is not None:
            self._give(giving, error)
            return
        giving.look.begin(self._kernel.values)
        if giving.look not in self._sizes.looks:
            self._sizes.looks.append(giving.look)
        giving.after, giving.room = None, self._room_of(self._kernel.peers.get(giving.uuid))
        self._look_for_values(giving)

    def _look_for_values(self, giving: Giving) -> None:
        giving.search_id = next(self._questions)
        question = FindRetained(giving.search_id, giving.look.wanted, giving.after, _PIECE, _PIECE_BYTES)
        self._kernel.tell(question)

    def _found_values(self, giving: Giving, found: Sequence[RetainedValue], error: TolliverError | None) -> None:
        giving.search_id = 0
        if error is not None:
            self._kernel.notice(NoticeKind.STORE_ERROR, giving.uuid, f"reading the retained values failed: {error}")
            self._give(giving, error)
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
        """Ends the search. Waits for a running commit with a change that the search has seen; starts over if such a
        change failed."""
        look, running = giving.look, self._kernel.running
        if look.spoilt:
            self._begin_look(giving)
        elif running is not None and not look.changed.keys().isdisjoint(running.values):
            running.then.append(partial(self._look_at, giving))
        else:
            self._give(giving, None)

    def _give(self, giving: Giving, error: TolliverError | None) -> None:
        if giving.look in self._sizes.looks:
            self._sizes.looks.remove(giving.look)
        giving.is_ready = True
        giving.go_on(error)
        giving.is_ready = False
        if not giving.storing:
            self._end_giving(giving)

    def _end_giving(self, giving: Giving, _error: TolliverError | None = None) -> None:
        """Lets the peer's other lists go on."""
        del self._givings[giving.uuid]
        for go_on in giving.waiting:
            go_on(None)

    def _give_values(self, peer: Peer, giving: Giving) -> bool:
        """Stores the values that the peer may have as messages, in the commit of its list. Returns False if there are
        none."""
        queued, is_queued = giving.queued, self._copies.is_queued
        values = [one for one in giving.look.values() if not is_queued(peer, one[:2], queued.get(one[:2], 0))]
        items = self._kernel.wanted_by(peer, values)
        most, room = (0, 0) if self._kernel.apart else self._room_of(peer)
        sizes = [self._kernel.encoded_size(*item) for item in items]
        fits = min(bisect_right([*accumulate(sizes)], room), max(most, 0))
        left_out = len(items) - fits
        if left_out:
            self._kernel.counts["skipped"] += left_out
            text = "retained values were not given to this peer, as it is at its quota, or the disk is full (P-35)"
            self._kernel.tally(NoticeKind.SKIPPED, peer.uuid, left_out, text, self._kernel.now)
        if not (items and fits):
            return False
        self._copies.add(peer, self._kernel.store_for([(peer.alone, fits)], items[:fits], sizes[:fits], None))
        self._kernel.look_at_filling([peer])
        giving.storing = True
        self._kernel.after_commit(partial(self._end_giving, giving))
        return True
