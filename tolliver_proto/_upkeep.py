"""What an operator does about the outbox, and what time does: forgetting, retrying, dropping, expiring.

The idea: the node knows its deliveries as numbers, not one by one, so each of these begins with a search that the
store answers, a piece at a time, and treats what was found like an acknowledgement: counted off, removed with the
next commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from ._actions import Find, NoticeKind, Receipt, Stored
from ._errors import ConnectionLost, TolliverError
from ._link import Peer
from ._spans import spans_of
from ._store import ForgetPeer, Found, PinPeer, RemoveDeliveries, UnparkDeliveries, UnpinPeer
from ._storing import Storing

_PIECE = 1000  # deliveries of one search
_EXPIRY_CHECKS = 10  # how often within `expire_after` the store is searched
_SOONEST = 1.0  # seconds between such searches at least

OnFound = Callable[[Sequence[Found]], None]
"""Deals with a piece of what was found."""


class _Search:
    """A walk over the store's deliveries, piece by piece."""

    __slots__ = ("after_seq", "done", "min_age", "peer", "take")

    def __init__(
        self, peer: UUID | None, min_age: float, take: OnFound, done: Callable[[TolliverError | None], None]
    ) -> None:
        self.peer = peer
        self.min_age = min_age
        self.take = take
        self.done = done
        self.after_seq = 0


class Upkeep(Storing):
    """Searches, and what is done with their results."""

    _last_search = 0

    def forget_peer(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Purge what waits for it, its subscriptions and its pin (T-77). `Stored` names the receipt.

        Its connection is closed. What it is owed by nobody else leaves the store. Unknown peers are no error.
        """
        self._tick(now)
        receipt = Receipt(0, -1, [])
        peer = self._peers.get(uuid)
        if peer is None:
            self._actions.append(Stored([receipt]))
            return receipt
        peer.forgotten = True
        for link in list(self._links.values()):
            if link.peer is peer:
                self._refuse(link, ConnectionLost(f"peer {uuid} is being forgotten here"))
        peer.voices.clear()
        self._route_to(peer)

        def purge(found: Sequence[Found]) -> None:
            self._remove(peer, found)

        def finish(error: TolliverError | None) -> None:
            peer.forgotten = False
            if error is not None:
                self._actions.append(Stored([receipt], error))
                return
            peer.spki_sha256 = None
            self._batch.operations.append(ForgetPeer(uuid))
            self._batch.tokens.append(receipt)
            if peer.link is None and self._peers.get(uuid) is peer:
                self._batch.forgotten.append(peer)

        self._search(_Search(uuid, 0.0, purge, finish))
        return receipt

    def repin(self, uuid: UUID, spki_sha256: bytes | None = None, now: float | None = None) -> Receipt:
        """The peer has a new key: this one, or, if None, the one that it shows next (D-3)."""
        self._tick(now)
        peer = self._peers.get(uuid)
        if peer is not None:
            peer.spki_sha256 = spki_sha256
            self._batch.operations.append(UnpinPeer(uuid) if spki_sha256 is None else PinPeer(uuid, spki_sha256))
        receipt = Receipt(0, -1, [])
        self._batch.tokens.append(receipt)
        return receipt

    def retry(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Send what was set aside for this peer once more (T-09). `receipt.counts` has how many, once `Stored`."""
        return self._change_parked(uuid, self._unpark, now)

    def drop_parked(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Give up what was set aside for this peer. `receipt.counts` has how many, once `Stored`."""
        return self._change_parked(uuid, self._remove, now)

    def _change_parked(self, uuid: UUID, change: Callable[[Peer, Sequence[Found]], None], now: float | None) -> Receipt:
        self._tick(now)
        receipt = Receipt(0, -1, [])
        peer = self._peers.get(uuid)
        if peer is None:
            self._actions.append(Stored([receipt]))
            return receipt

        def take(found: Sequence[Found]) -> None:
            parked = [one for one in found if one.parked]
            if parked:
                receipt.counts.append(len(parked))
                change(peer, parked)

        def done(error: TolliverError | None) -> None:
            if error is None:
                self._batch.tokens.append(receipt)
            else:
                self._actions.append(Stored([receipt], error))

        self._search(_Search(uuid, 0.0, take, done))
        return receipt

    def _unpark(self, peer: Peer, found: Sequence[Found]) -> None:
        outbox = peer.outbox
        outbox.parked -= len(found)
        outbox.add(len(found), sum(one.size for one in found))
        self._batch.operations.append(UnparkDeliveries(peer.uuid, spans_of(one.seq for one in found)))
        self._batch.unparked.append((peer, found))

    def _remove(self, peer: Peer, found: Iterable[Found]) -> None:
        """Count off deliveries that nobody will acknowledge any more."""
        outbox, ids = peer.outbox, {}
        for one in found:
            if one.seq in outbox.leaving and not one.parked:
                continue  # acknowledged, and on its way out already
            if one.parked:
                outbox.parked -= 1
            else:
                outbox.add(-1, -one.size)
            ids[one.seq] = one.wire_id
        if peer.link is not None and peer.link.window is not None:
            peer.link.window.drop(set(ids.values()))
        spans = spans_of(ids)
        for first, last in spans:
            outbox.leaving.add(first, last)
        if spans:
            self._batch.removals.append(RemoveDeliveries(peer.uuid, spans))
            self._release(spans, ids)

    # Expiry.

    def _schedule_expiry(self) -> None:
        if self._policy.expire_after is not None:
            every = max(_SOONEST, self._policy.expire_after / _EXPIRY_CHECKS)
            self._timers.set("expire", self._now + every)

    def _on_expire_timeout(self, _subject: None) -> None:
        assert self._policy.expire_after is not None
        self._search(_Search(None, self._policy.expire_after, self._expire, lambda _error: self._schedule_expiry()))

    def _expire(self, found: Sequence[Found]) -> None:
        by_peer: dict[UUID, list[Found]] = {}
        for one in found:
            by_peer.setdefault(one.peer, []).append(one)
        for uuid, expired in by_peer.items():
            peer = self._peers.get(uuid)
            if peer is None:
                continue
            self._remove(peer, expired)
            self._counts["expired_messages"] += len(expired)
            self._notice(
                NoticeKind.EXPIRED,
                uuid,
                f"{len(expired)} messages were given up after {self._policy.expire_after:g} s without an "
                "acknowledgement, as the policy says (expire_after)",
            )

    # Searching.

    def _search(self, search: _Search) -> None:
        self._last_search += 1
        self._searches[self._last_search] = search
        self._actions.append(Find(self._last_search, search.peer, search.after_seq, _PIECE, search.min_age))

    def found(
        self, search_id: int, rows: Sequence[Found], error: TolliverError | None = None, now: float | None = None
    ) -> None:
        """What a Find brought."""
        self._tick(now)
        search = self._searches.pop(search_id, None)
        if search is None:
            return
        if error is not None:
            self._notice(NoticeKind.STORE_ERROR, search.peer, f"searching the outbox failed: {error}")
            search.done(error)
            return
        if rows:
            search.take(rows)
        if len(rows) < _PIECE:
            search.done(None)
            return
        search.after_seq = rows[-1].seq
        self._search(search)
