"""Ledger of deliveries: the owners of each message, and the receipts.

State: `refcounts` has the number of owners of each message, by seq: the peers that have not acknowledged the message,
and one more for all windows that keep it (T-62); `ids` has the wire ids in use; `receipts` has the sends that wait for
acks. The ledger has no list of deliveries: the store has that list, and searches find single deliveries there.

Invariants: a message leaves the store when its last owner is gone. A delivery ends with a commit: acknowledged, given
up, set aside, or moved to another owner. A removal is never taken back: after a failed commit the removal goes into the
next one. One commit takes a moved delivery from the old owner and gives it to the new one, so that a delivery has
exactly one owner at all times; until that commit the delivery is sent to neither.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID
from weakref import ref

from ..._common.arguments import check_peer
from ..._common.derived_ids import is_derived
from ..._common.errors import TolliverError, UndeliveredReason
from ..._common.intervals import RefCounts, spans_of
from ..actions import Acked, Receipt, Stored
from ..commits.batch import Kept
from ..commits.commits import Commits
from ..context import Context
from ..link import Peer, Recipients
from ..store import (
    AddDeliveries,
    Due,
    Found,
    Loaded,
    ParkDelivery,
    RemoveDeliveries,
    RemoveMessages,
    StoredMessage,
    UnparkDeliveries,
)
from .connect_windows import Keeping
from .ids import IdAllocator
from .outbox import Outbox

_GONE = 64  # places, at least, before those of dropped or acknowledged receipts are removed


class HeldReceipts:
    """Receipts of sends that stored messages, until all messages of the send are acknowledged.

    The application owns the receipts; the ledger has weak references only.
    """

    def __init__(self, kept_from: Callable[[], int]) -> None:
        """Messages from `kept_from()` on may still get another owner (T-62): their receipts stay, even if all owners
        have acknowledged."""
        self._kept_from = kept_from
        self._firsts: list[int] = []  # seqs, ascending
        self._lasts: list[int] = []
        self._receipts: list[ref[Receipt]] = []
        self._most = _GONE

    def __len__(self) -> int:
        return sum(one() is not None for one in self._receipts)

    @property
    def places(self) -> int:
        """Number of receipts in memory, with those that the application has dropped."""
        return len(self._firsts)

    def add(self, receipt: Receipt) -> None:
        self._firsts.append(receipt.first_seq)
        self._lasts.append(receipt.last_seq)
        self._receipts.append(ref(receipt))
        if len(self._firsts) > self._most:
            self._drop_gone()

    def add_for(self, seq: int, receipt: Receipt) -> None:
        """Has the receipt cover the message `seq`, which another receipt may cover, too."""
        at = bisect_right(self._firsts, seq)
        self._firsts.insert(at, seq)
        self._lasts.insert(at, seq)
        self._receipts.insert(at, ref(receipt))

    def _drop_gone(self) -> None:
        """Removes dropped and settled receipts; runs at doubling sizes, so that each receipt costs a step or two."""
        kept_from = self._kept_from()
        held = [
            at
            for at, found in enumerate(self._receipts)
            if (one := found()) is not None and (one.unacked or self._lasts[at] >= kept_from)
        ]
        self._firsts = [self._firsts[at] for at in held]
        self._lasts = [self._lasts[at] for at in held]
        self._receipts = [self._receipts[at] for at in held]
        self._most = 2 * len(held) + _GONE

    def within(self, first: int, last: int) -> Iterator[tuple[Receipt, int]]:
        """Yields the receipts with messages from seq `first` to `last`, each with the number of those messages."""
        firsts, place = self._firsts, bisect_left(self._firsts, first)
        for at in range(max(place - 1, 0), len(firsts)):
            if firsts[at] > last:
                return
            receipt = self._receipts[at]()
            if receipt is not None:
                count = min(last, self._lasts[at]) + 1 - max(first, firsts[at])
                if count > 0:
                    yield receipt, count

    def of(self, seqs: Iterable[int]) -> Counter[Receipt]:
        """Returns for each receipt how many of these messages it covers."""
        found: Counter[Receipt] = Counter()
        for seq in seqs:
            found.update(receipt for receipt, _ in self.within(seq, seq))
        return found


_APART = 0.1  # seconds
_MARKS = 4096


class StoredTimes:
    """Times at which messages were stored, one for all up to a seq. `known` has those of earlier openings."""

    __slots__ = ("_seqs", "_times")

    def __init__(self, known: Iterable[tuple[int, float]] = ()) -> None:
        self._seqs: list[int] = []
        self._times: list[float] = []
        for seq, when in known:
            self._add(seq, when)

    def stored(self, last_seq: int, now: float) -> None:
        """Marks all messages up to `last_seq` as stored at `now`, in seconds."""
        if self._times and now - self._times[-1] < _APART:
            self._seqs[-1] = last_seq
            return
        self._add(last_seq, now)

    def _add(self, seq: int, when: float) -> None:
        self._seqs.append(seq)
        self._times.append(when)
        if len(self._seqs) > _MARKS:  # merges pairs at the earlier time, so that no age is too small
            half = _MARKS // 2
            self._seqs[:half], self._times[:half] = self._seqs[1:half:2], self._times[0:half:2]

    def of(self, seq: int) -> float | None:
        """Returns the time at which the message `seq` was stored, in seconds of the node; None if the message is newer
        than all known times.
        """
        at = bisect_left(self._seqs, seq)
        return self._times[at] if at < len(self._times) else None


Moved = Callable[[TolliverError | None, bool], None]


class Ledger:
    """Counts the owners of each message: the peers that are owed it, and the windows that keep it. A message without an
    owner leaves the store, and completes its receipt.
    """

    def __init__(self, context: Context, commits: Commits, loaded: Loaded) -> None:
        self._context = context
        self._limits = context.limits
        self._timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._hooks = context.hooks
        self._commits = commits
        self.next_seq: int = loaded.next_seq
        self.ids: IdAllocator = IdAllocator.opened(loaded, None if is_derived(context.instance_id) else context.rng)
        self.refcounts: RefCounts = loaded.owed if isinstance(loaded.owed, RefCounts) else RefCounts(loaded.owed)
        self.stored_times: StoredTimes = StoredTimes((seq, context.now - age) for seq, age in loaded.ages)
        self._watched: set[Receipt] = set()
        self.keeping: Keeping = Keeping(context.limits.keep_bytes)
        self.receipts: HeldReceipts = HeldReceipts(self.keeping.first)

    def release(self, spans: Iterable[tuple[int, int]], ids: Mapping[int, int]) -> None:
        """Takes one owner off the messages of these spans, (first seq, last seq) each; `ids` has their wire ids by seq.
        Messages without an owner leave the store with the next commit; those that a window keeps stay (T-62).
        """
        for first, last in spans:
            for gone in self.let_go(first, last, ids):
                self.tell_watchers(*gone)
            for seq in self.keeping.released(first, last) if self.keeping else ():
                self.tell_watchers(seq, seq)
        self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)

    def let_go(self, first: int, last: int, ids: Mapping[int, int]) -> list[tuple[int, int]]:
        """Takes one owner off the messages from seq `first` to `last`, and removes those without any; returns the spans
        of the removed ones.
        """
        gone = self.refcounts.take(first, last)
        self._commits.batch.gone.extend(gone)
        for gone_first, gone_last in gone:
            self.ids.give_back(spans_of(map(ids.__getitem__, range(gone_first, gone_last + 1))))
        return gone

    def tell_watchers(self, first: int, last: int) -> None:
        """Counts the messages from seq `first` to `last` as settled, and answers the watched receipts that are now
        complete.
        """
        well, ill = [], []
        for receipt, number in self.receipts.within(first, last):
            receipt.unacked -= number
            if not receipt.unacked and receipt in self._watched:
                self._watched.remove(receipt)
                undelivered = receipt.undelivered
                if undelivered:
                    ill.append(Acked([receipt], undelivered[0]))
                else:
                    well.append(receipt)
        if well:
            self._actions.append(Acked(well))
        self._actions += ill

    def unwatch(self, receipt: Receipt) -> None:
        """Stops watching the receipt."""
        self._watched.discard(receipt)

    def _tell_given_up(self, peer: UUID, seqs: Iterable[int], reason: UndeliveredReason) -> None:
        """Notes on the receipts that the peer will not acknowledge these messages, for this reason; answers the watched
        ones (T-54).
        """
        for receipt, number in self.receipts.of(seqs).items():
            receipt.give_up(peer, reason, number)
            if receipt in self._watched:
                self._watched.remove(receipt)
                self._actions.append(Acked([receipt], receipt.failure))

    def remove(self, reason: UndeliveredReason, peer: Peer, found: Iterable[Found]) -> None:
        """Gives up these deliveries of the peer with the next commit, for this reason."""
        outbox, ids, found = peer.outbox, {}, [*found]
        being_parked = self._being_parked(peer)
        for one in found:
            parked = one.parked or one.seq in being_parked
            if one.seq in outbox.leaving and one.seq not in being_parked:
                continue  # acknowledged: the removal is in a commit
            if parked:
                outbox.add_parked(-1, -one.size)
            else:
                outbox.add(-1, -one.size)
            ids[one.seq] = one.wire_id
        spans = spans_of(ids)
        outbox.leave(spans)
        if spans:
            for counts in (self._counts, peer.counts.by):
                counts[f"given_up_{reason}"] += len(ids)
            self._commits.batch.put_away.append(RemoveDeliveries(peer.uuid, spans))
            for pattern in self._hooks.given_up:
                self._commits.batch.put_away.extend(pattern.given_up(reason, ids))
            self._tell_given_up(peer.uuid, ids, reason)
            self.release(spans, ids)
        self._drop(peer, ids)
        for pattern in self._hooks.left:
            pattern.left(peer, [one.seq for one in found])

    def withdraw(self, owner: Peer, ids: Mapping[int, int], size: int) -> None:
        """Removes messages, given as wire ids by seq, with the next commit: this owner alone is owed them. They stay if
        the commit fails. `size` is of all together, in bytes."""
        spans = spans_of(ids)
        self._commits.batch.operations.extend([RemoveDeliveries(owner.uuid, spans), RemoveMessages(spans)])

        def withdrawn(error: TolliverError | None) -> None:
            if error is None:
                owner.outbox.add(-len(ids), -size)
                for first, last in spans:
                    self.refcounts.take(first, last)
                self.ids.give_back(spans_of(ids.values()))

        self._commits.batch.then.append(withdrawn)

    def _drop(self, peer: Peer, ids: Mapping[int, int]) -> None:
        """Has the peer's window forget these messages, given as wire ids by seq."""
        window = peer.window
        if window is not None:
            window.drop(ids)
        if peer.link is not None:
            self._context.sendable[peer.link] = None

    def _being_parked(self, peer: Peer) -> set[int]:
        """Returns the seqs of the peer's messages whose parking is not yet durable."""
        batches = [self._commits.batch, *([self._commits.running[1]] if self._commits.running else [])]
        operations = [one for batch in batches for one in batch.put_away if one.peer == peer.uuid]
        return {one.seq for one in operations if isinstance(one, ParkDelivery)}

    def park(self, outbox: Outbox, peer: UUID, seq: int, size: int) -> None:
        """Sets a delivery of the message `seq`, of `size` bytes, aside with the next commit; the row stays."""
        outbox.park(seq, size)
        self._commits.batch.put_away.append(ParkDelivery(peer, seq))
        self._timers.set_earlier("removals", self._context.now + self._limits.removal_delay)
        for pattern in self._hooks.left:
            pattern.left(self._peers[peer], (seq,))

    def move(self, source: Peer, target: Peer, messages: Sequence[StoredMessage | Found], then: Moved) -> None:
        """Moves these messages, ordered by seq, from the owner `source` to `target` with the next commit.

        `then` gets None or the error, and True if the target's connection has taken the messages.
        """
        ids = {one.seq: one.wire_id for one in messages}
        spans, rows = spans_of(ids), [(one.seq, one.wire_id, one.size) for one in messages]
        _move(source.outbox, target.outbox, messages, 1)
        source.outbox.leave(spans)
        self._drop(source, ids)
        self._commits.batch.operations.extend((AddDeliveries(target.uuid, rows), RemoveDeliveries(source.uuid, spans)))
        self._commits.batch.then.append(partial(self._moved, source, target, messages, then))

    def _moved(
        self,
        source: Peer,
        target: Peer,
        messages: Sequence[StoredMessage | Found],
        then: Moved,
        error: TolliverError | None,
    ) -> None:
        source.outbox.removed(spans_of(one.seq for one in messages))
        if error is None:
            then(None, self._hand_over(target, messages))
            return
        _move(source.outbox, target.outbox, messages, -1)
        then(error, False)
        self.read_again(source, messages[0].seq, source.outbox.last_seq)

    def _hand_over(self, target: Peer, messages: Sequence[StoredMessage | Found]) -> bool:
        """Returns True if the target's connection takes the messages; else a window reads them from the store."""
        link, bodies = target.link, [one for one in messages if isinstance(one, StoredMessage)]
        if (
            link is not None
            and link.sending.window is not None
            and len(bodies) == len(messages)
            and not target.lists.kept_back
        ):
            target.outbox.oldest.forget()
            link.sending.window.moved_in(bodies)
            self._context.sendable[link] = None
            return True
        self.read_again(target, messages[0].seq, messages[-1].seq)
        return False

    def read_again(self, peer: Peer, first: int, last: int) -> None:
        """Has the connection's window read rows of the store again from seq `first` on, as deliveries up to `last` were
        added below the rows already read.
        """
        peer.outbox.last_seq = max(peer.outbox.last_seq, last)
        peer.outbox.oldest.forget()
        window = peer.window
        if window is not None:
            window.go_back(first - 1)
        if peer.link is not None:
            self._context.sendable[peer.link] = None

    def watch(self, receipt: Receipt) -> bool:
        """Has `Acked` name this receipt once all recipients have acknowledged all its messages, or one is given up.

        Messages without recipients are reported when all others are acknowledged. Returns True if the answer is given
        at once.
        """
        if receipt.failure is not None or not receipt.unacked:
            self._actions.append(Acked([receipt], receipt.failure))
            return True
        self._watched.add(receipt)
        return False

    def take_in(
        self,
        messages: Sequence[StoredMessage],
        recipients: Recipients,
        is_kept: bool,
        expire_after: float | None = None,
        due: Due | None = None,
    ) -> None:
        """Adds new messages to the next commit, with an owner for each recipient, and one for the windows if `is_kept`.
        They expire after `expire_after` seconds, with None never; with `due` they wait for that time.
        """
        self._commits.batch.store(messages, recipients, is_kept, expire_after, due)
        self.refcounts.add(self.next_seq, len(recipients.peers) + is_kept, len(messages))
        self.next_seq += len(messages)

    def hold_receipt(self, receipt: Receipt, count: int) -> None:
        """Has the receipt count the acks of the last `count` messages that were taken in."""
        receipt.last_seq = self.next_seq - 1
        receipt.unacked = count
        self.receipts.add(receipt)
        self._commits.batch.tokens.append(receipt)

    def follow(self, receipt: Receipt) -> None:
        """Has the receipt count the acks of a message, its `first_seq`, that another send has stored."""
        receipt.unacked = int(self.refcounts.count_of(receipt.first_seq) > 0)
        if receipt.unacked:
            self.receipts.add_for(receipt.first_seq, receipt)

    def replace(self, seq: int, new_seq: int | None, recipients: int) -> None:
        """Has the receipts of the message `seq`, whose time has come, count the acks of the message `new_seq`, which is
        stored in its place; None if nobody gets that (T-53)."""
        for receipt, _ in [*self.receipts.within(seq, seq)]:
            receipt.later -= 1
            receipt.recipients = max(receipt.recipients, recipients)
            receipt.counts[min(seq - receipt.first_seq, len(receipt.counts) - 1)] = recipients
            if new_seq is not None:
                self.receipts.add_for(new_seq, receipt)
                if len(receipt.counts) == 1:
                    receipt.first_seq = receipt.last_seq = new_seq
                continue
            receipt.unacked -= 1
            receipt.give_up(None, UndeliveredReason.NO_RECIPIENTS, 1)
            if receipt in self._watched and not receipt.unacked:
                self._watched.remove(receipt)
                self._actions.append(Acked([receipt], receipt.failure))

    def link_kept(self, peer: Peer, claimed: list[Kept]) -> None:
        """Gives kept messages to the peer with the next commit (T-62)."""
        if claimed:
            peer.outbox.add(len(claimed), sum(kept.message.size for kept in claimed))
            self._commits.batch.linked.append((peer, claimed))

    def unlink_kept(self, peer: Peer, claimed: list[Kept]) -> None:
        peer.outbox.add(-len(claimed), -sum(kept.message.size for kept in claimed))

    def retry(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Sends the parked messages of this peer again (T-09). `receipt.counts` has their number, once `Stored`."""
        return self._change_parked(uuid, self._unpark, now)

    def drop_parked(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Gives up the parked messages of this peer. `receipt.counts` has their number, once `Stored`."""
        return self._change_parked(uuid, partial(self.remove, UndeliveredReason.DROPPED), now)

    def _change_parked(self, uuid: UUID, change: Callable[[Peer, Sequence[Found]], None], now: float | None) -> Receipt:
        self._context.tick(now)
        check_peer("peer", uuid)
        receipt = Receipt(0, -1, [])
        peer = self._peers.get(uuid)
        if peer is None:
            self._actions.append(Stored([receipt]))
            return receipt

        def take(found: Sequence[Found]) -> None:
            parked = [one for one in found if one.parked and one.seq not in peer.outbox.leaving]
            if parked:
                receipt.counts.append(len(parked))
                change(peer, parked)

        def done(error: TolliverError | None) -> None:
            self._actions.append(Stored([receipt], error))

        self._commits.searches.begin(uuid, take, done)
        return receipt

    def _unpark(self, peer: Peer, found: Sequence[Found]) -> None:
        outbox, count, size = peer.outbox, len(found), sum(one.size for one in found)
        outbox.add_parked(-count, -size)
        outbox.add(count, size)

        def unparked(error: TolliverError | None) -> None:
            if error is None:
                self.read_again(peer, found[0].seq, found[-1].seq)
            else:
                outbox.add_parked(count, size)
                outbox.add(-count, -size)

        self._commits.batch.operations.append(UnparkDeliveries(peer.uuid, spans_of(one.seq for one in found)))
        self._commits.batch.then.append(unparked)


def _move(source: Outbox, target: Outbox, messages: Sequence[StoredMessage | Found], sign: int) -> None:
    """Moves the messages from one outbox to the other in the counts of both; with a `sign` of -1 back."""
    parked = [one.size for one in messages if isinstance(one, Found) and one.parked]
    count, size = sign * len(messages), sign * sum(one.size for one in messages)
    parked_count, parked_size = sign * len(parked), sign * sum(parked)
    source.add(parked_count - count, parked_size - size)
    source.add_parked(-parked_count, -parked_size)
    target.add(count, size)
