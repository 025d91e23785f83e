"""Copies of last values that wait for peers.

A value given to a peer is a copy of its own on disk, as it needs an id of its own: under an id that the peer knows it
would be taken for a duplicate (T-48). Copies not sent yet are removed when the peer unsubscribes, and a copy that still
waits is not queued again: so a peer that subscribes time and again makes the disk grow by the retained values once.
Which deliveries are copies is known in memory alone, as spans: after a restart they are messages like all others.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from .._common.errors import TolliverError, UndeliveredReason
from .._common.intervals import IntervalSet, spans_of
from .._node.actions import GoOn
from .._node.link import Peer
from .._node.services import Services
from .._node.store import Found, StoredMessage
from .._node.subscriptions import matching
from .._wire.events import Subscription
from .value_index import Name


class _Copies:
    """Copies of last values that wait for one peer, and the search for those that it wants no more."""

    __slots__ = ("is_searched", "search_again", "seqs", "wanted")

    def __init__(self) -> None:
        self.seqs = IntervalSet()
        self.wanted: frozenset[Subscription] = frozenset()  # the peer's subscriptions at the last check
        self.is_searched = False  # a search for unwanted copies runs
        self.search_again = False


class ValueCopies:
    """Copies of last values that were stored for peers since the start and have not left their outboxes."""

    def __init__(self, services: Services) -> None:
        self._kernel = services
        self._of: dict[Peer, _Copies] = {}
        self._changed_at: dict[Name, int] = {}  # seq of the last change: copies below are of older values

    def add(self, peer: Peer, rows: Sequence[StoredMessage]) -> None:
        """Records copies that the next commit stores for the peer."""
        copies = self._of.setdefault(peer, _Copies())
        copies.seqs.add(rows[0].seq, rows[-1].seq)
        copies.wanted = peer.lists.subscriptions.union(peer.lists.held)

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        """Forgets copies that do not wait any more."""
        copies = self._of.get(peer)
        if copies is None:
            return
        for first, last in spans_of(seqs):
            copies.seqs.discard(first, last)
        if not copies.seqs:
            del self._of[peer]
        if not self._of:
            self._changed_at.clear()

    def changes(self, name: Name, seq: int) -> None:
        """Records that the name has another value, whose messages have this seq or a higher one."""
        if self._of:
            self._changed_at[name] = seq

    def find(self, peer: Peer | None, queued: dict[Name, int], then: GoOn) -> None:
        """Adds the seqs of the peer's waiting copies, the newest of each name, to `queued`; then calls `then`."""
        if peer is None or peer not in self._of:
            then(None)
            return

        def take(found: Sequence[Found]) -> None:
            queued.update(((one.channel, one.key), one.seq) for one in found if self._waits(peer, one.seq))

        self._kernel.search(peer.uuid, take, then)

    def is_queued(self, peer: Peer, name: Name, seq: int) -> bool:
        """True if the copy with this seq still waits for the peer, and is of the newest value of `name`."""
        return self._waits(peer, seq) and seq >= self._changed_at.get(name, 0)

    def rerouted(self, peer: Peer) -> None:
        """Drops copies that the peer has unsubscribed. Copies that access rules forbid stay, as the rules may change
        again."""
        copies, wanted = self._of.get(peer), peer.lists.subscriptions.union(peer.lists.held)
        if copies is not None:
            copies.search_again = copies.search_again or not copies.wanted <= wanted
            copies.wanted = wanted
            if not copies.is_searched:
                self._drop_unwanted(peer, copies)

    def _drop_unwanted(self, peer: Peer, copies: _Copies, _error: TolliverError | None = None) -> None:
        """Searches for unwanted copies and gives them up; one search at a time, as a peer may unsubscribe often."""
        copies.is_searched = False
        if not copies.search_again or peer.links.forgotten:
            return
        copies.is_searched, copies.search_again = True, False

        def take(found: Sequence[Found]) -> None:
            gone = [
                one
                for one in found
                if self._waits(peer, one.seq)
                and one.seq > peer.outbox.sent_to
                and copies.wanted.isdisjoint(matching(one.channel, one.key))
            ]
            if gone:
                self._kernel.give_up(UndeliveredReason.UNSUBSCRIBED, peer, gone)

        self._kernel.search(peer.uuid, take, partial(self._drop_unwanted, peer, copies))

    def _waits(self, peer: Peer, seq: int) -> bool:
        copies = self._of.get(peer)
        return copies is not None and seq in copies.seqs
