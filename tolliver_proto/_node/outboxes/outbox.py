"""Outbox of a peer, and the send window of its connection.

`Outbox` lives as long as the peer and holds numbers only, never a body. `Window` lives as long as one connection: it
takes rows in order, from the commit that stored them or from a fetch, keeps those that were sent until they are
acknowledged, and says when which must be sent again. Bodies in memory are those of the window and of one commit (T-52);
a message whose first resend has fallen due leaves the window, and its body is read back when it is sent next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from operator import attrgetter

from ..._common.intervals import IntervalSet, Span, spans_of
from ..._common.waiting import EMPTY
from ..._wire.events import Subscription
from ..._wire.limits import Limits
from ..store import CorruptMessage, LoadedPeer, Row, StoredMessage
from .oldest import Oldest
from .suspicion import PoisonDetector

_SEQ = attrgetter("seq")
_SMALL = 4096
"""Bytes with which the window of a connection begins at least, where the one before broke (T-76).

A message or more, a third of what TCP sends at once at its start, and with the handshakes a third of the 20 kB or so
that the worst lines pass before they break: so that the first acknowledgement is back by then.
"""

Holds = Callable[[str, str], bool] | None
"""Tells of a channel and a key whether such a message is held (T-61); None where none is."""


class Outbox:
    """A peer's share of the store, in numbers. `last_seq` is its newest committed delivery."""

    __slots__ = (
        "calm_below",
        "full",
        "last_seq",
        "leaving",
        "oldest",
        "parked",
        "parked_bytes",
        "pending",
        "pending_bytes",
        "poison",
        "proved",
        "reader",
        "round_trip",
        "routed",
        "sent_to",
        "takes_reliable",
        "waits_from",
    )

    def __init__(self, loaded: LoadedPeer) -> None:
        self.pending = loaded.pending
        self.pending_bytes = loaded.pending_bytes
        self.last_seq = loaded.last_seq
        self.waits_from = loaded.first_seq if loaded.pending else loaded.last_seq + 1  # nothing that waits is older
        self.parked = loaded.parked
        self.parked_bytes = loaded.parked_bytes
        self.sent_to = 0  # the newest that was sent since the start: what is not above it is sent again
        self.proved: int | None = (
            None  # bytes that the last connection got acknowledged, if it broke with some in flight
        )
        self.poison = PoisonDetector()
        self.oldest = Oldest()
        self.calm_below: tuple[float, float] | None = None  # that it fills was told; not again until it was below this
        self.full = False  # the last send for it was, at its quota, and nothing has come or gone since (D-10)
        self.leaving = IntervalSet()  # seqs whose removal or parking is not yet committed: a fetch may still bring them
        self.takes_reliable = True  # the peer's layout has acks; else nothing waits for it, and its list is not stored
        self.routed: frozenset[Subscription] = frozenset()  # of what it wants, what it may have now (D-4)
        self.reader: Window | None = None  # of an owner that is no peer: what reads its messages
        self.round_trip: float | None = None  # seconds, the last that was measured

    def add(self, count: int, size: int) -> None:
        self.pending += count
        self.pending_bytes += size
        self.full = False
        calm = self.calm_below
        if calm is not None and self.pending < calm[0] and self.pending_bytes < calm[1]:
            self.calm_below = None

    def leave(self, spans: Iterable[Span]) -> None:
        """The next commit removes these deliveries, or sets them aside."""
        for first, last in spans:
            self.leaving.add(first, last)
            self.oldest.discard(first, last)
            if first <= self.waits_from <= last:
                self.waits_from = last + 1

    def stored(self, first_seq: int, last_seq: int) -> None:
        """These were just stored, and nobody reads them."""
        if self.waits_from > self.last_seq:
            self.waits_from = first_seq
        self.last_seq = last_seq

    def left(self, window: Window) -> None:
        """Nobody reads it from here on."""
        self.proved = window.acked_bytes if window.in_flight else None
        self.waits_from = max(self.waits_from, window.oldest_seq()) if self.pending else self.last_seq + 1

    def add_parked(self, count: int, size: int) -> None:
        self.parked += count
        self.parked_bytes += size

    def park(self, seq: int, size: int) -> None:
        """This delivery is set aside: it waits for nothing any more (V9, T-09)."""
        self.add_parked(1, size)
        self.add(-1, -size)
        self.leave(((seq, seq),))

    def removed(self, spans: Iterable[Span]) -> None:
        """That commit is through."""
        for first, last in spans:
            self.leaving.discard(first, last)


class _Resend:
    """A message that left the window: acknowledged late, if ever. Its body is on disk."""

    __slots__ = ("attempts", "message_size", "name", "queued", "seq")

    def __init__(self, seq: int, size: int, name: tuple[str, str]) -> None:
        self.seq = seq
        self.name = name  # channel and key
        self.message_size = size
        self.attempts = 1
        self.queued = True  # due, waiting for its body or for room


class Window:
    """Send window: the messages in flight to a peer over one connection."""

    __slots__ = (
        "_again",
        "_asked",
        "_backoff",
        "_due",
        "_fresh",
        "_fresh_bytes",
        "_jitter",
        "_limits",
        "_loaded_to",
        "_resend_first",
        "_start_bytes",
        "_unacked",
        "_unacked_bytes",
        "_wanted",
        "acked_bytes",
        "deferred",
        "full",
        "lists_under_way",
        "outbox",
    )

    def __init__(self, outbox: Outbox, limits: Limits, resend_first: float, jitter: Callable[[], float]) -> None:
        self.outbox = outbox
        self._limits = limits
        self._resend_first = resend_first
        self._jitter = jitter
        self._fresh: deque[StoredMessage] = EMPTY
        self._fresh_bytes = 0
        # Everything up to this seq was in `_fresh` once. On a new connection all that is pending is sent again, in
        # order.
        self._loaded_to = 0 if outbox.pending else outbox.last_seq
        self._unacked: dict[int, StoredMessage] = {}
        self._unacked_bytes = 0
        # Bytes that may be in flight: these, and as many again as were acknowledged, so twice as many each round trip.
        self._start_bytes = limits.window_bytes if outbox.proved is None else max(outbox.proved, _SMALL)
        self.acked_bytes = 0
        self._backoff: dict[int, _Resend] = {}
        self._again: deque[StoredMessage] = EMPTY  # due and with a body
        self._wanted: dict[int, int] = {}  # due, body on disk: seq -> wire id
        self._asked = 0  # the last seq that the running fetch covers, if it is one for `_wanted`
        # When, whether they are of the outbox, ids, and when they were sent.
        self._due: list[tuple[float, bool, list[int], float]] = []
        # Commits that are to say which messages are held now. Until then what was just stored is not taken: it would
        # come before what is held no more, which the store does not give out yet (T-61).
        self.lists_under_way = 0
        self.full = False  # the backoff set is at its bound (T-52)
        self.deferred = False  # nothing goes for now: the peer is just back, and the head is suspected (T-09)

    # Rows that come in.

    def committed(self, messages: Sequence[StoredMessage], wanted: Sequence[StoredMessage] | None = None) -> None:
        """These were just stored for the peer. Kept if nothing older is waiting on disk and memory allows.

        `wanted` are those that are not held (T-61), if that is not all of them.
        """
        outbox = self.outbox
        caught_up = self._loaded_to >= outbox.last_seq and not self.lists_under_way
        if caught_up and self._fresh_bytes <= self._limits.window_bytes:
            fresh = messages if wanted is None else wanted
            if self._fresh is EMPTY:
                self._fresh = deque()
            self._fresh.extend(fresh)
            for message in fresh:
                self._fresh_bytes += message.size
            self._loaded_to = messages[-1].seq
        outbox.last_seq = messages[-1].seq

    def moved_in(self, messages: Sequence[StoredMessage]) -> None:
        """Another owner's rows, in order, are stored for the peer now. Kept as those that were just stored."""
        outbox = self.outbox
        caught_up = self._loaded_to >= outbox.last_seq and not self.lists_under_way
        outbox.last_seq = max(outbox.last_seq, messages[-1].seq)
        if not caught_up or self._fresh_bytes > self._limits.window_bytes:
            self.go_back(messages[0].seq - 1)
            return
        self._fresh = deque(merge(self._fresh, messages, key=_SEQ))
        self._fresh_bytes += sum(message.size for message in messages)
        self._loaded_to = max(self._loaded_to, outbox.last_seq)

    def next_fetch(self) -> tuple[int, int, int] | None:
        """The next rows to read: (after_seq, max_count, max_bytes), or None."""
        limits = self._limits
        self._asked = 0
        if self._wanted:
            first, last = spans_of(self._wanted)[0]
            self._asked = last = min(last, first + limits.window_messages - 1)
            return first - 1, last - first + 1, limits.window_bytes
        behind = self._loaded_to < self.outbox.last_seq and self.outbox.pending > 0
        if behind and len(self._fresh) * 2 < limits.window_messages and not self.full:
            return self._loaded_to, limits.window_messages, limits.window_bytes
        return None

    def go_back(self, seq: int) -> None:
        """Rows above `seq` were added below those that were read already: read on from there."""
        if seq < self._loaded_to:
            self._loaded_to = seq
            self._fresh = deque(message for message in self._fresh if message.seq <= seq)
            self._fresh_bytes = sum(message.size for message in self._fresh)

    def fetched(self, rows: Sequence[Row], after_seq: int, holds: Holds) -> list[CorruptMessage]:
        """Take the rows of the fetch that began after `after_seq`, but for those that are held (T-61). Returns those
        that cannot be read (V9)."""
        if self._asked:
            return self._fetched_again(rows, after_seq, holds)
        corrupt: list[CorruptMessage] = []
        if after_seq != self._loaded_to:
            return corrupt  # asked before `go_back`
        if self._fresh is EMPTY:
            self._fresh = deque()
        for row in rows:
            if row.seq in self.outbox.leaving or row.wire_id in self._unacked or row.wire_id in self._backoff:
                continue
            if isinstance(row, CorruptMessage):
                corrupt.append(row)
            elif holds is None or not holds(row.channel, row.key):
                self._fresh.append(row)
                self._fresh_bytes += row.size
        self._loaded_to = rows[-1].seq if rows else self.outbox.last_seq
        return corrupt

    def _fetched_again(self, rows: Sequence[Row], after_seq: int, holds: Holds) -> list[CorruptMessage]:
        asked, self._asked = self._asked, 0
        corrupt: list[CorruptMessage] = []
        for row in rows:
            wire_id = self._wanted.pop(row.seq, None)
            if wire_id is None:
                continue
            if isinstance(row, CorruptMessage):
                self._leave_backoff(wire_id)
                corrupt.append(row)
            elif holds is not None and holds(row.channel, row.key):
                self._leave_backoff(wire_id)  # it goes out anew when it is held no more
            else:
                if self._again is EMPTY:
                    self._again = deque()
                self._again.append(row)
        covered = min(asked, rows[-1].seq) if rows else asked
        for seq in range(after_seq + 1, covered + 1):
            wire_id = self._wanted.pop(seq, None)
            if wire_id is not None:
                self._leave_backoff(wire_id)  # the store holds it
        return corrupt

    def _leave_backoff(self, wire_id: int) -> None:
        self._backoff.pop(wire_id, None)
        self.full = False

    def acked(self, wire_id: int) -> tuple[int, int] | None:
        """(seq, size) of what this acknowledges, or None if it is nothing of ours (T-44)."""
        message = self._unacked.pop(wire_id, None)
        if message is not None:
            self._unacked_bytes -= message.size
            return message.seq, message.size
        resend = self._backoff.pop(wire_id, None)
        if resend is None:
            return None
        self._wanted.pop(resend.seq, None)
        self.full = False
        return resend.seq, resend.message_size

    def take_acked(self, wire_ids: Iterable[int], acked: dict[int, tuple[int, int]]) -> list[int]:
        """As `acked` for each: adds what is ours to the dictionary, by its id, and returns the other ids."""
        take, others, size = self._unacked.pop, [], 0
        for wire_id in wire_ids:
            message = take(wire_id, None)
            if message is not None:
                size += message.size
                acked[wire_id] = message.seq, message.size
            elif (found := self.acked(wire_id)) is not None:
                acked[wire_id] = found
                self.acked_bytes += found[1]
            else:
                others.append(wire_id)
        self._unacked_bytes -= size
        self.acked_bytes += size
        return others

    def drop(self, ids: Mapping[int, int]) -> None:
        """These, wire ids by seq, are owed no more, whether they were sent or not."""
        for wire_id in ids.values():
            self.acked(wire_id)
        fresh = self._fresh
        while fresh and fresh[0].seq in ids:  # the usual case: the oldest go
            self._fresh_bytes -= fresh.popleft().size
        if fresh and max(ids, default=0) > fresh[0].seq:
            self._fresh = deque(message for message in fresh if message.seq not in ids)
            self._fresh_bytes = sum(message.size for message in self._fresh)

    # Frames that go out.

    def next_run(self, room: int) -> Sequence[StoredMessage]:
        """Messages that may go now: one that is due again, else new ones as the window has room for them, until they
        take so many bytes or more."""
        if self.deferred:
            return ()
        while self._again:
            message = self._again.popleft()
            resend = self._backoff.get(message.wire_id)
            if resend is not None:
                resend.queued = False
                return (message,)
        fresh, unacked = self._fresh, self._unacked
        alone = self.outbox.poison.alone
        if self.full or (alone and unacked):
            return ()
        run: list[StoredMessage] = []
        size, until = self._unacked_bytes, self._unacked_bytes + (1 if alone else room)
        limits = self._limits
        count, most = len(unacked), limits.window_messages
        most_bytes = min(limits.window_bytes, self._start_bytes + self.acked_bytes)
        while fresh and size < until:
            message = fresh[0]
            if count and (count >= most or size + message.size > most_bytes):
                break
            unacked[message.wire_id] = fresh.popleft()
            count += 1
            size += message.size
            run.append(message)
        self._fresh_bytes -= size - self._unacked_bytes
        self._unacked_bytes = size
        return run

    def transmitted(self, wire_ids: Sequence[int], control_ids: Collection[int], now: float) -> None:
        """The socket has taken these: from now on the time to their resend runs (T-50).

        `control_ids` are the control messages that are unacknowledged; what is neither theirs nor ours is acknowledged.
        """
        self._drop_settled()
        if wire_ids and all(map(self._unacked.__contains__, wire_ids)):  # the usual case
            heappush(self._due, (now + self.interval(0), True, [*wire_ids], now))
            return
        by_attempts: dict[int, list[int]] = {}
        others: list[int] = []
        for wire_id in wire_ids:
            if wire_id in self._unacked:
                by_attempts.setdefault(0, []).append(wire_id)
            elif wire_id in self._backoff:
                by_attempts.setdefault(self._backoff[wire_id].attempts, []).append(wire_id)
            elif wire_id in control_ids:
                others.append(wire_id)
        for attempts, ids in by_attempts.items():
            heappush(self._due, (now + self.interval(attempts), True, ids, now))
        if others:
            heappush(self._due, (now + self.interval(0), False, others, now))

    def _drop_settled(self) -> None:
        """Forget the times of runs that were acknowledged: at full speed there are many more of them than waiting."""
        due = self._due
        waiting, again = self._unacked.keys(), self._backoff.keys()
        while due and due[0][1] and waiting.isdisjoint(due[0][2]) and again.isdisjoint(due[0][2]):
            heappop(due)

    def interval(self, attempts: int) -> float:
        """Seconds until a message goes out again that was sent again `attempts` times: doubling, jittered (T-50)."""
        doubled = self._resend_first * 2.0 ** min(attempts, 30)
        return min(doubled, max(self._limits.resend_max, self._resend_first)) * (1.0 + 0.2 * self._jitter())

    def refused(self, wire_id: int) -> bool:
        """True if it was sent and is unacknowledged. It leaves the window, and goes again when its resend is due."""
        message = self._unacked.get(wire_id)
        if message is not None and len(self._backoff) < self._limits.backoff_messages:
            del self._unacked[wire_id]
            self._unacked_bytes -= message.size
            resend = self._backoff[wire_id] = _Resend(message.seq, message.size, (message.channel, message.key))
            resend.attempts, resend.queued = 0, False
        return message is not None or wire_id in self._backoff

    def next_due(self) -> float | None:
        return self._due[0][0] if self._due else None

    def hurry(self, wanted: Callable[[str, str], bool], before: float, now: float) -> None:
        """Have what is wanted, and was not sent since then, fall due now (T-50)."""
        due, early = [], list[int]()
        for when, is_ours, ids, sent in self._due:
            if is_ours and sent <= before:
                chosen = {one for one in ids if (name := self._name_of(one)) is not None and wanted(*name)}
                early += chosen
                ids = [one for one in ids if one not in chosen]
            if ids:
                due.append((when, is_ours, ids, sent))
        if early:
            self._due = [*due, (now, True, early, now)]
            heapify(self._due)

    def _name_of(self, wire_id: int) -> tuple[str, str] | None:
        """Channel and key of what was sent and is unacknowledged."""
        message = self._unacked.get(wire_id)
        if message is not None:
            return message.channel, message.key
        resend = self._backoff.get(wire_id)
        return None if resend is None else resend.name

    def fall_due(self, now: float) -> list[int]:
        """Queue again what is due; returns ids that are none of the outbox's: control messages, for their owner."""
        others: list[int] = []
        while self._due and self._due[0][0] <= now:
            for wire_id in heappop(self._due)[2]:
                if wire_id in self._unacked:
                    self._leave_window(wire_id, now)
                elif wire_id in self._backoff:
                    self._ask_again(wire_id)
                else:
                    others.append(wire_id)
        return others

    def _leave_window(self, wire_id: int, now: float) -> None:
        """Its first resend is due: from now on it blocks nobody (T-52). A line that stood for so long is no bad one."""
        self._start_bytes = self._limits.window_bytes
        if self._again is EMPTY:
            self._again = deque()
        if len(self._backoff) >= self._limits.backoff_messages:
            self.full = True
            heappush(self._due, (now + self.interval(0), True, [wire_id], now))
            return
        message = self._unacked.pop(wire_id)
        self._unacked_bytes -= message.size
        self._backoff[wire_id] = _Resend(message.seq, message.size, (message.channel, message.key))
        self._again.append(message)

    def _ask_again(self, wire_id: int) -> None:
        resend = self._backoff[wire_id]
        if not resend.queued:
            resend.queued = True
            resend.attempts += 1
            self._wanted[resend.seq] = wire_id

    def sizes_of(self, wire_ids: Iterable[int]) -> dict[int, int]:
        """Size by seq of those of these messages that are unacknowledged."""
        sizes: dict[int, int] = {}
        for wire_id in wire_ids:
            if wire_id in self._unacked:
                sizes[self._unacked[wire_id].seq] = self._unacked[wire_id].size
            elif wire_id in self._backoff:
                sizes[self._backoff[wire_id].seq] = self._backoff[wire_id].message_size
        return sizes

    def is_in_flight(self, wire_id: int) -> bool:
        """True if it was sent and is unacknowledged."""
        return wire_id in self._unacked or wire_id in self._backoff

    def oldest(self) -> tuple[int, tuple[str, str]] | None:
        """Of what was sent and is unacknowledged, the oldest: its wire id, and its channel and key."""
        waiting = [(one.seq, wire_id, one.name) for wire_id, one in self._backoff.items()]
        waiting += [(one.seq, wire_id, (one.channel, one.key)) for wire_id, one in self._unacked.items()]
        return min(waiting)[1:] if waiting else None

    def oldest_seq(self) -> int:
        """Seq of the first that waits here, or behind which others may be on disk."""
        waiting = [self._fresh[0].seq] if self._fresh else [self._loaded_to + 1]
        waiting += [one.seq for sent in (self._unacked, self._backoff) for one in _first_of(sent)]
        return min(waiting)

    @property
    def in_flight(self) -> bool:
        """True if something was sent and is unacknowledged."""
        return bool(self._unacked or self._backoff)

    @property
    def waiting(self) -> bool:
        """True if something is to be sent, or to be read for that, as soon as there is room."""
        return bool(self._fresh or self._again or self._wanted) or self._loaded_to < self.outbox.last_seq

    def owes(self, seq: int) -> bool:
        """True if a message up to this one was not sent over this connection, and is not set aside or held."""
        if self._fresh and self._fresh[0].seq <= seq:
            return True
        return self._loaded_to < min(seq, self.outbox.last_seq) and self.outbox.pending > 0

    @property
    def idle(self) -> bool:
        """True if there is nothing to send, to read or to wait for."""
        rows = self._fresh or self._again or self._wanted or self._loaded_to < self.outbox.last_seq
        return not (self._unacked or self._backoff or rows or self._due)

    @property
    def in_window(self) -> tuple[int, int]:
        """Messages and bytes that were sent and whose first resend is not due."""
        return len(self._unacked), self._unacked_bytes

    @property
    def in_backoff(self) -> int:
        """Messages that left the window and are still unacknowledged."""
        return len(self._backoff)


def _first_of(sent: Mapping[int, StoredMessage] | Mapping[int, _Resend]) -> Iterable[StoredMessage | _Resend]:
    """The one that was sent first, if there is one."""
    return islice(sent.values(), 1)
