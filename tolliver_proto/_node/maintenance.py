"""Maintenance of the outbox: forgetting, retrying, dropping, expiring.

Each of these begins with a search that the store answers, and treats what was found like an acknowledgement: counted
off, removed with the next commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from uuid import UUID

from .._common.derived import is_derived
from .._common.errors import ConnectionLost, TolliverError, UndeliveredReason
from .actions import NoticeKind, Receipt, Stored
from .inbox import Inbox
from .intervals import spans_of
from .link import Peer
from .store import Found, LoadedPeer, UnparkDeliveries
from .storing import Storing

_EXPIRY_CHECKS = 10  # how often within `expire_after` the store is searched
SOONEST = 1.0  # seconds between such searches at least


class Maintenance(Storing):
    """An operator's calls about the outbox, and expiry."""

    def forget_peer(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Purge what waits for it, its subscriptions and its pin (T-77). `Stored` names the receipt.

        Its connection is closed, and it may come back, as a new one, when all is purged. A message owed to nobody else
        leaves the store; dead letters that came from it stay. An unknown peer is no error.
        """
        self._tick(now)
        receipt = Receipt(0, -1, [])
        if is_derived(uuid):  # it may be known by its handled messages alone
            self._peers.setdefault(uuid, Peer(uuid, LoadedPeer()))
        peer = self._peers.get(uuid)
        if peer is None:
            self._actions.append(Stored([receipt]))
            return receipt
        for pattern in self._hooks.forgets:
            pattern.forgets(peer)
        peer.forgotten.append(receipt)
        if len(peer.forgotten) == 1:
            self._forget_all_of(peer)
        return receipt

    def _on_away_timeout(self, uuid: UUID) -> None:
        """It was not connected for so long, unless it is now, or is about to be: then the end of that counts."""
        peer = self._peers.get(uuid)
        if peer is None or peer.forgotten or any(link.peer is peer for link in self._links.values()):
            return
        count = peer.outbox.pending + peer.outbox.parked
        self._notice(
            NoticeKind.FORGOTTEN,
            uuid,
            f"it was not connected for {self._policy.forget_after:g} s, and is forgotten, with {count} messages that "
            "waited for it (forget_after)",
        )
        self.forget_peer(uuid)

    def _forget_all_of(self, peer: Peer) -> None:
        error = ConnectionLost(f"peer {peer.uuid} is being forgotten here: try again in a moment")
        for link in [link for link in self._links.values() if link.peer is peer]:
            self._take_down(link, error)
            self._refuse(link, error)
        self._batch.peer_lists.setdefault(peer, (peer.subscriptions, peer.held))
        self._hold(peer, {})  # its held messages go with all else, and for the same reason (T-54)
        self._route_to(peer, peer.subscriptions)  # nobody speaks for it now: it wants nothing
        self._batch.lists[peer] = None

        def purged(error: TolliverError | None) -> None:
            if error is not None:
                forgotten(error)
                return
            self._batch.forgets.append(peer.uuid)
            self._batch.then.append(forgotten)

        def forgotten(error: TolliverError | None) -> None:
            receipts, peer.forgotten = peer.forgotten, []
            if error is None:
                del self._peers[peer.uuid]
                self._dedupe.forget(peer.uuid)
                self._left_inboxes.pop(peer.uuid, None)
                peer.inbox = Inbox()
            elif peer.derived:
                self._drop_derived(peer)
            else:
                self._reroute(peer)
                self._count_absence(peer)
            self._actions.append(Stored(receipts, error))
            repins, peer.repins = peer.repins, []
            for spki_sha256, receipt in repins:
                self._repin(peer.uuid, spki_sha256, receipt)

        def take(found: Sequence[Found]) -> None:
            gone = [*found]
            for pattern in self._hooks.rescues:
                gone = pattern.rescues(peer, gone)
            self._remove(UndeliveredReason.FORGOTTEN, peer, gone)

        self._searches.begin(peer.uuid, take, purged)

    def repin(self, uuid: UUID, spki_sha256: bytes | None = None, now: float | None = None) -> Receipt:
        """The peer has a new key: this one, or, if None, the one that it shows next (D-3). `Stored` names the receipt.

        A connection that stands on another key than this one is closed. Of a peer that is being forgotten it becomes
        the pin once that is done, or the pin would be forgotten too (T-77).
        """
        self._tick(now)
        receipt = Receipt(0, -1, [])
        peer = self._peers.get(uuid)
        if peer is not None and peer.forgotten:
            peer.repins.append((spki_sha256, receipt))
        else:
            self._repin(uuid, spki_sha256, receipt)
        return receipt

    def _repin(self, uuid: UUID, spki_sha256: bytes | None, receipt: Receipt) -> None:
        self._batch.tokens.append(receipt)
        peer = self._peers.get(uuid)
        if peer is None and spki_sha256 is None:
            return
        if peer is None:
            peer = self._peers[uuid] = Peer(uuid, LoadedPeer())
        self._change_pin(peer, spki_sha256)
        link = peer.link
        if link is not None and not link.identity.uuids and spki_sha256 not in (None, link.identity.spki_sha256):
            self._end(link)

    def retry(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Send what was set aside for this peer once more (T-09). `receipt.counts` has how many, once `Stored`."""
        return self._change_parked(uuid, self._unpark, now)

    def drop_parked(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Give up what was set aside for this peer. `receipt.counts` has how many, once `Stored`."""
        return self._change_parked(uuid, partial(self._remove, UndeliveredReason.DROPPED), now)

    def _change_parked(self, uuid: UUID, change: Callable[[Peer, Sequence[Found]], None], now: float | None) -> Receipt:
        self._tick(now)
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

        self._searches.begin(uuid, take, done)
        return receipt

    def _unpark(self, peer: Peer, found: Sequence[Found]) -> None:
        outbox, count, size = peer.outbox, len(found), sum(one.size for one in found)
        outbox.add_parked(-count, -size)
        outbox.add(count, size)

        def unparked(error: TolliverError | None) -> None:
            if error is None:
                self._read_again(peer, found[0].seq, found[-1].seq)
            else:
                outbox.add_parked(count, size)
                outbox.add(-count, -size)

        self._batch.operations.append(UnparkDeliveries(peer.uuid, spans_of(one.seq for one in found)))
        self._batch.then.append(unparked)

    # Expiry.

    def _schedule_expiry(self) -> None:
        if self._policy.expire_after is not None:
            every = max(SOONEST, self._policy.expire_after / _EXPIRY_CHECKS)
            self._timers.set("expire", self._now + every)
            self._watch_clock()

    def _on_expire_timeout(self, _subject: None) -> None:
        assert self._policy.expire_after is not None
        self._searches.begin(None, self._expire, lambda _error: self._schedule_expiry(), self._policy.expire_after)

    def _expire(self, found: Sequence[Found]) -> None:
        for uuid, count in self._give_up_expired(found):
            self._notice(
                NoticeKind.EXPIRED,
                uuid,
                f"{count} messages were given up after {self._policy.expire_after:g} s without an acknowledgement, "
                "as the policy says (expire_after)",
            )

    def _give_up_expired(self, found: Sequence[Found]) -> Iterator[tuple[UUID, int]]:
        """Returns how many went, by peer."""
        by_peer: dict[UUID, list[Found]] = {}
        for one in found:
            by_peer.setdefault(one.peer, []).append(one)
        for uuid, expired in by_peer.items():
            peer = self._peers[uuid]
            before = peer.outbox.pending + peer.outbox.parked
            self._remove(UndeliveredReason.EXPIRED, peer, expired)
            count = before - peer.outbox.pending - peer.outbox.parked
            if count:
                self._counts["expired_messages"] += count
                yield uuid, count

    # Notices of others.

    def notice(self, kind: NoticeKind, detail: str, peer: UUID | None = None, now: float | None = None) -> None:
        """Tell an operator something of a store or an adapter: counted, and handed out as a Notice."""
        self._tick(now)
        self._notice(kind, peer, detail)

    # Searching.

    def found(
        self, search_id: int, rows: Sequence[Found], error: TolliverError | None = None, now: float | None = None
    ) -> None:
        """Take the result of a Find."""
        self._tick(now)
        for searches in (self._room, self._searches):
            searches.found(search_id, rows, error)
