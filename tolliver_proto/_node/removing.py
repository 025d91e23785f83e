"""Removal of deliveries: acknowledged, given up, or set aside.

A delivery goes with the next commit, and with its last delivery the message. Nothing of this is taken back where the
commit fails: the removal waits for the next one. Searches find deliveries one by one, in the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any
from uuid import UUID

from .._common.errors import TolliverError, UndeliveredReason
from .actions import Acked, NoticeKind, Receipt
from .base import NodeState
from .batch import GoOn
from .intervals import spans_of
from .link import Peer
from .outbox import Outbox
from .search import OutboxSearch
from .store import Found, ParkDelivery, RemoveDeliveries


class Removing(NodeState):
    """Deliveries on their way out."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        ids = count(1)
        self._searches = OutboxSearch(self._actions.append, self._when_stored, self._search_failed, ids)
        # Sends wait for what this one finds: it does not queue behind an expiry of a million.
        self._room = OutboxSearch(self._actions.append, self._when_stored, self._search_failed, ids)

    def _release(self, spans: Iterable[tuple[int, int]], ids: Mapping[int, int]) -> None:
        """One peer less for these messages; those without any leave the store with the next commit, unless they are
        kept for who connects (T-62)."""
        for first, last in spans:
            for gone in self._let_go(first, last, ids):
                self._tell_watchers(*gone)
            for seq in self._keeping.released(first, last) if self._keeping else ():
                self._tell_watchers(seq, seq)
        self._timers.set_earlier("removals", self._now + self.limits.removal_delay)

    def _let_go(self, first: int, last: int, ids: Mapping[int, int]) -> list[tuple[int, int]]:
        """One owner less; returns those without any."""
        gone = self._refcounts.take(first, last)
        self._batch.gone += gone
        for gone_first, gone_last in gone:
            self._ids.give_back(spans_of(map(ids.__getitem__, range(gone_first, gone_last + 1))))
        return gone

    def _tell_watchers(self, first: int, last: int) -> None:
        """Nobody is owed these any more."""
        done = []
        for receipt, number in self._receipts.within(first, last):
            receipt.unacked -= number
            if not receipt.unacked and receipt in self._watched:
                self._watched.remove(receipt)
                done.append(receipt)
        well = [receipt for receipt in done if not receipt.undelivered]
        if well:
            self._actions.append(Acked(well))
        self._actions += [Acked([receipt], receipt.undelivered[0]) for receipt in done if receipt.undelivered]

    def unwatch(self, receipt: Receipt) -> None:
        """Nobody waits for it any more."""
        self._watched.discard(receipt)

    def _tell_given_up(self, peer: UUID, seqs: Iterable[int], reason: UndeliveredReason) -> None:
        """That peer will not acknowledge these: for who waits now, and for who asks later (T-54)."""
        for receipt, number in self._receipts.of(seqs).items():
            receipt.give_up(peer, reason, number)
            if receipt in self._watched:
                self._watched.remove(receipt)
                told = next(one for one in receipt.undelivered if one.peer is not None)
                self._actions.append(Acked([receipt], told))

    def _remove(self, reason: UndeliveredReason, peer: Peer, found: Iterable[Found]) -> None:
        """Give up deliveries: nobody will acknowledge them any more."""
        outbox, ids, found = peer.outbox, {}, [*found]
        being_parked = self._being_parked(peer)
        for one in found:
            parked = one.parked or one.seq in being_parked
            if one.seq in outbox.leaving and one.seq not in being_parked:
                continue  # acknowledged, and on its way out already
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
            self._batch.put_away.append(RemoveDeliveries(peer.uuid, spans))
            self._tell_given_up(peer.uuid, ids, reason)
            self._release(spans, ids)
        self._drop(peer, ids)
        for pattern in self._hooks.left:
            pattern.left(peer, [one.seq for one in found])

    def _drop(self, peer: Peer, ids: Mapping[int, int]) -> None:
        """These, wire ids by seq, are not sent to it any more."""
        window = peer.window
        if window is not None:
            window.drop(ids)
        if peer.link is not None:
            self._sendable[peer.link] = None

    def _being_parked(self, peer: Peer) -> set[int]:
        """Seqs that were set aside, which is not stored yet."""
        batches = [self._batch, *([self._running[1]] if self._running else [])]
        operations = [one for batch in batches for one in batch.put_away if one.peer == peer.uuid]
        return {one.seq for one in operations if isinstance(one, ParkDelivery)}

    def _park(self, outbox: Outbox, peer: UUID, seq: int, size: int) -> None:
        """Set a delivery aside with the next commit; the row stays."""
        outbox.park(seq, size)
        self._batch.put_away.append(ParkDelivery(peer, seq))
        self._timers.set_earlier("removals", self._now + self.limits.removal_delay)
        for pattern in self._hooks.left:
            pattern.left(self._peers[peer], (seq,))

    # Searching the store.

    def _when_stored(self, go_on: GoOn) -> None:
        if self._running is None and self._batch.empty:
            go_on(None)
        else:
            self._batch.then.append(go_on)

    def _search_failed(self, peer: UUID | None, error: TolliverError) -> None:
        self._notice(NoticeKind.STORE_ERROR, peer, f"searching the outbox failed: {error}")
