"""Outbox of a peer, and the send window of its connection.

State: `Outbox` lives as long as the peer, and has numbers only, never a body. `Window` lives as long as one connection.
A message in the window goes through these places:

- `_fresh`: read, not yet sent; `_loaded_to` is the last seq that was read, from a commit or from a fetch;
- `_unacked`: sent, with its body, until the ack or the first resend;
- `_backoff`: sent, without a body, after the first resend fell due; `_wanted` has those whose body must be read for the
  next resend, `_again` those with a body, to be resent now.

`_due` is a heap of the times at which runs of sent ids fall due: one entry for each run, not for each message. An
acknowledged id stays in its entry; an entry without an unacknowledged id is dropped when it comes to the top.

Invariants: new messages go out in the order of their seqs. Bodies in memory are those of the window and of one commit
(T-52). Messages that wait for a late ack block no other message, until `Limits.backoff_messages` of them wait (`full`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from operator import attrgetter

from ..._common.empty_queue import EMPTY
from ..._common.intervals import IntervalSet, Span, spans_of
from ..._wire.events import Subscription
from ..._wire.limits import Limits
from ..store import CorruptMessage, LoadedPeer, Row, StoredMessage
from .drop_oldest import Oldest
from .suspicion import PoisonDetector

_SEQ = attrgetter("seq")
_SMALL = 4096
"""Least bytes with which a window begins after a broken connection (T-76).

At least one message; a third of what TCP sends at once at its start; and, with the handshakes, a third of the 20 kB or
so that the worst lines pass before they break. So the first ack arrives before the break.
"""

Holds = Callable[[str, str], bool] | None
"""Tells whether a message with this channel and key is held (T-61); None if no message is."""


class Outbox:
    """Counts of the deliveries that one peer is owed in the store, whether it is connected or not. `last_seq` is its
    newest committed delivery.
    """

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
        self.pending: int = loaded.pending
        self.pending_bytes: int = loaded.pending_bytes
        self.last_seq: int = loaded.last_seq
        # No waiting delivery is older.
        self.waits_from: int = loaded.first_seq if loaded.pending else loaded.last_seq + 1
        self.parked: int = loaded.parked
        self.parked_bytes: int = loaded.parked_bytes
        self.sent_to: int = 0  # the newest seq sent since the start: up to here it is a resend
        self.proved: int | None = None  # bytes acknowledged on the last connection, if it broke with messages in flight
        self.poison: PoisonDetector = PoisonDetector()
        self.oldest: Oldest = Oldest()
        # Messages and bytes below which the outbox must fall before OUTBOX_FILLING is reported again.
        self.calm_below: tuple[float, float] | None = None
        self.full: bool = False  # the quota refused the last send, and no delivery came or went since (D-10)
        # Seqs whose removal or parking is not yet durable: a fetch may still return them.
        self.leaving: IntervalSet = IntervalSet()
        # The layout has acks; else no message waits, and the peer's list is not stored.
        self.takes_reliable: bool = True
        self.routed: frozenset[Subscription] = frozenset()  # the subscriptions that the peer may have now (D-4)
        self.reader: Window | None = None  # reads the messages of an owner that is no peer
        self.round_trip: float | None = None  # seconds, as last measured

    def add(self, count: int, size: int) -> None:
        self.pending += count
        self.pending_bytes += size
        self.full = False
        calm = self.calm_below
        if calm is not None and self.pending < calm[0] and self.pending_bytes < calm[1]:
            self.calm_below = None

    def leave(self, spans: Iterable[Span]) -> None:
        """Marks deliveries, spans of seqs, that the next commit removes or sets aside."""
        for first, last in spans:
            self.leaving.add(first, last)
            self.oldest.discard(first, last)
            if first <= self.waits_from <= last:
                self.waits_from = last + 1

    def stored(self, first_seq: int, last_seq: int) -> None:
        """Notes new deliveries from `first_seq` to `last_seq` while no window reads them, as the peer is away."""
        if self.waits_from > self.last_seq:
            self.waits_from = first_seq
        self.last_seq = last_seq

    def left(self, window: Window) -> None:
        """Takes over from the ended window how many bytes were acknowledged, and the first seq that still waits."""
        self.proved = window.acked_bytes if window.in_flight else None
        self.waits_from = max(self.waits_from, window.oldest_seq()) if self.pending else self.last_seq + 1

    def add_parked(self, count: int, size: int) -> None:
        self.parked += count
        self.parked_bytes += size

    def park(self, seq: int, size: int) -> None:
        """Counts the delivery of the message `seq`, of `size` bytes, as parked and no longer as pending (V9, T-09)."""
        self.add_parked(1, size)
        self.add(-1, -size)
        self.leave(((seq, seq),))

    def removed(self, spans: Iterable[Span]) -> None:
        """Forgets the marks of `leave`, as the commit is durable."""
        for first, last in spans:
            self.leaving.discard(first, last)


class _Resend:
    """A sent message that the window no longer counts: its ack is late or does not come. The body is on disk."""

    __slots__ = ("attempts", "message_size", "name", "queued", "seq")

    def __init__(self, seq: int, size: int, name: tuple[str, str]) -> None:
        self.seq = seq
        self.name = name  # channel and key
        self.message_size = size
        self.attempts = 1
        self.queued = True  # due, waiting for its body or for room


class Window:
    """Messages for one peer on one connection: those sent and unacknowledged, up to a limit, and those read from the
    store to be sent next.
    """

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
        "_retry_interval",
        "_start_bytes",
        "_unacked",
        "_unacked_bytes",
        "_wanted",
        "acked_bytes",
        "deferred",
        "full",
        "lists_failed",
        "lists_under_way",
        "outbox",
    )

    def __init__(self, outbox: Outbox, limits: Limits, retry_interval: float, jitter: Callable[[], float]) -> None:
        self.outbox: Outbox = outbox
        self._limits = limits
        self._retry_interval = retry_interval
        self._jitter = jitter
        self._fresh: deque[StoredMessage] = EMPTY
        self._fresh_bytes = 0
        # All rows up to this seq were read. A new connection reads all pending ones again, to send them in order.
        self._loaded_to = 0 if outbox.pending else outbox.last_seq
        self._unacked: dict[int, StoredMessage] = {}
        self._unacked_bytes = 0
        # These plus the acknowledged bytes may be in flight: the window doubles with each round trip.
        self._start_bytes = limits.window_bytes if outbox.proved is None else max(outbox.proved, _SMALL)
        self.acked_bytes: int = 0
        self._backoff: dict[int, _Resend] = {}
        self._again: deque[StoredMessage] = EMPTY  # due and with a body
        self._wanted: dict[int, int] = {}  # due, body on disk: seq -> wire id
        self._asked = 0  # the last seq of the running fetch, if that fetch is for `_wanted`
        # Time of the resend, True for messages (False for control messages), ids, and time of the send.
        self._due: list[tuple[float, bool, list[int], float]] = []
        # Commits that change which messages are held. Until they end, new messages are not taken from commits: they
        # would go before older messages whose hold has ended, which the store does not return yet (T-61).
        self.lists_under_way: int = 0
        self.lists_failed: int = 0  # of these, those that failed and that a later commit stores
        self.full: bool = False  # the backoff set is at its bound (T-52)
        self.deferred: bool = False  # no message goes yet: the peer is just back, and the head is suspected (T-09)

    # Rows that come in.

    def committed(self, messages: Sequence[StoredMessage], wanted: Sequence[StoredMessage] | None = None) -> None:
        """Takes messages just stored for the peer, if no older one waits on disk and memory allows.

        `wanted` are those that are not held (T-61); None: all.
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
        """Takes messages that came from another owner, ordered by seq, or reads them later if an older one waits on
        disk.
        """
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
        """Returns the next rows to read from the store as (after_seq, max_count, max_bytes), or None if none are to be
        read now.
        """
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
        """Continues reading after `seq`, as rows were added before those already read."""
        if seq < self._loaded_to:
            self._loaded_to = seq
            self._fresh = deque(message for message in self._fresh if message.seq <= seq)
            self._fresh_bytes = sum(message.size for message in self._fresh)

    def fetched(self, rows: Sequence[Row], after_seq: int, holds: Holds) -> list[CorruptMessage]:
        """Takes the rows of the Fetch that began after `after_seq`, except held ones (T-61); returns the unreadable
        rows (V9).
        """
        if self._asked:
            return self._fetched_again(rows, after_seq, holds)
        corrupt: list[CorruptMessage] = []
        if after_seq != self._loaded_to:
            return corrupt  # the fetch began before `go_back`
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
                self._leave_backoff(wire_id)  # sent as new when the hold ends
            else:
                if self._again is EMPTY:
                    self._again = deque()
                self._again.append(row)
        covered = min(asked, rows[-1].seq) if rows else asked
        for seq in range(after_seq + 1, covered + 1):
            wire_id = self._wanted.pop(seq, None)
            if wire_id is not None:
                self._leave_backoff(wire_id)  # not returned: the store holds it
        return corrupt

    def _leave_backoff(self, wire_id: int) -> None:
        self._backoff.pop(wire_id, None)
        self.full = False

    def acked(self, wire_id: int) -> tuple[int, int] | None:
        """Removes the message with this wire id, which is acknowledged; returns its (seq, size in bytes), or None for
        an unknown id (T-44).
        """
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
        """Removes the acknowledged messages; adds (seq, size in bytes) of each to `acked`, by wire id; returns the
        unknown ids.
        """
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
        """Removes messages that are no longer owed, sent or not, given as wire ids by seq."""
        for wire_id in ids.values():
            self.acked(wire_id)
        fresh = self._fresh
        while fresh and fresh[0].seq in ids:  # the usual case: the oldest ones
            self._fresh_bytes -= fresh.popleft().size
        if fresh and max(ids, default=0) > fresh[0].seq:
            self._fresh = deque(message for message in fresh if message.seq not in ids)
            self._fresh_bytes = sum(message.size for message in self._fresh)

    # Frames that go out.

    def next_run(self, room: int) -> Sequence[StoredMessage]:
        """Returns the messages to send now: one resend, else new ones up to the bounds of the window.

        New messages end with the one that reaches `room` bytes.
        """
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
        """Starts the time to the resend of messages that the socket has taken (T-50).

        `wire_ids` are all ids that it has taken, `control_ids` the unacknowledged control messages; an id of neither
        kind is acknowledged already.
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
        """Forgets the resend times of messages that are acknowledged: at full speed they far outnumber the others."""
        due = self._due
        waiting, again = self._unacked.keys(), self._backoff.keys()
        while due and due[0][1] and waiting.isdisjoint(due[0][2]) and again.isdisjoint(due[0][2]):
            heappop(due)

    def interval(self, attempts: int) -> float:
        """Returns the seconds until the next resend, after `attempts` resends: doubling, jittered (T-50)."""
        doubled = self._retry_interval * 2.0 ** min(attempts, 30)
        return min(doubled, max(self._limits.resend_max, self._retry_interval)) * (1.0 + 0.2 * self._jitter())

    def refused(self, wire_id: int) -> bool:
        """Moves the message with this wire id, which the peer has refused, out of the window until its resend; returns
        False if the id is not in flight.
        """
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
        """Makes the messages in flight for which `wanted(channel, key)` is True due for a resend now, except those sent
        after `before`, in seconds (T-50).
        """
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
        """Returns channel and key of the message in flight with this wire id, or None if there is none."""
        message = self._unacked.get(wire_id)
        if message is not None:
            return message.channel, message.key
        resend = self._backoff.get(wire_id)
        return None if resend is None else resend.name

    def fall_due(self, now: float) -> list[int]:
        """Queues the messages whose resend is due; returns the other ids that are due, which are of control
        messages.
        """
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
        """Counts the message with this wire id no longer in the window, at its first resend, so that it blocks no other
        (T-52).

        The line has stood so long that the small start of the window (T-76) is no longer needed.
        """
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
        """Returns the sizes, by seq, of those of these messages that are in flight."""
        sizes: dict[int, int] = {}
        for wire_id in wire_ids:
            if wire_id in self._unacked:
                sizes[self._unacked[wire_id].seq] = self._unacked[wire_id].size
            elif wire_id in self._backoff:
                sizes[self._backoff[wire_id].seq] = self._backoff[wire_id].message_size
        return sizes

    def is_in_flight(self, wire_id: int) -> bool:
        """True if the message with this wire id was sent and is unacknowledged."""
        return wire_id in self._unacked or wire_id in self._backoff

    def oldest(self) -> tuple[int, tuple[str, str]] | None:
        """Returns wire id and (channel, key) of the oldest message in flight, or None if there is none."""
        waiting = [(one.seq, wire_id, one.name) for wire_id, one in self._backoff.items()]
        waiting += [(one.seq, wire_id, (one.channel, one.key)) for wire_id, one in self._unacked.items()]
        return min(waiting)[1:] if waiting else None

    def oldest_seq(self) -> int:
        """Returns the first seq that is in the window, or may wait on disk."""
        waiting = [self._fresh[0].seq] if self._fresh else [self._loaded_to + 1]
        waiting += [one.seq for sent in (self._unacked, self._backoff) for one in _first_of(sent)]
        return min(waiting)

    @property
    def in_flight(self) -> bool:
        """True if a sent message is unacknowledged."""
        return bool(self._unacked or self._backoff)

    @property
    def waiting(self) -> bool:
        """True if messages are to be sent or read as soon as there is room."""
        return bool(self._fresh or self._again or self._wanted) or self._loaded_to < self.outbox.last_seq

    def owes(self, seq: int) -> bool:
        """True if a message up to this seq is still to be sent over this connection; held and parked ones are not."""
        if self._fresh and self._fresh[0].seq <= seq:
            return True
        return self._loaded_to < min(seq, self.outbox.last_seq) and self.outbox.pending > 0

    @property
    def idle(self) -> bool:
        """True if there is no message to send, to read or to wait for."""
        rows = self._fresh or self._again or self._wanted or self._loaded_to < self.outbox.last_seq
        return not (self._unacked or self._backoff or rows or self._due)

    @property
    def in_window(self) -> tuple[int, int]:
        """Returns number and bytes of the messages that were sent and whose first resend is not due."""
        return len(self._unacked), self._unacked_bytes

    @property
    def in_backoff(self) -> int:
        """Number of messages that left the window and are still unacknowledged."""
        return len(self._backoff)


def _first_of(sent: Mapping[int, StoredMessage] | Mapping[int, _Resend]) -> Iterable[StoredMessage | _Resend]:
    """Returns the message that was sent first, if there is one, as the only item."""
    return islice(sent.values(), 1)
