"""Room at a peer's quota, made as its policy says (D-10).

A peer that is skipped is no recipient. One whose oldest go is searched for them, unless some are known: the send waits
meanwhile, and what goes leaves in the commit that stores what comes. As with an acknowledgement nothing is taken back
where that commit fails: the room stays, and the next send finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from .._common.errors import TolliverError
from .actions import NoticeKind
from .batch import GoOn
from .link import BufferedForConnect, Peer
from .oldest import AHEAD, Gathered, Share
from .quota import Quota
from .removing import Removing
from .store import Found


class MakingRoom(Removing):
    """Quotas of the outboxes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._quota = Quota(self.limits, self._policy)

    def _look_at_filling(self, peer: Peer) -> None:
        outbox, limits = peer.outbox, self.limits
        if self._quota.begins_to_fill(outbox):
            self._notice(
                NoticeKind.OUTBOX_FILLING,
                peer.uuid,
                f"{outbox.pending} of at most {limits.outbox_messages} messages, {outbox.pending_bytes} of "
                f"{limits.outbox_bytes} bytes wait for this peer. At the quota its policy is "
                f"{self._policy.quota_of(peer.uuid).value!r} (D-10): bring it back, forget it, or raise "
                "Limits.outbox_messages or outbox_bytes",
            )

    def _on_skipped(
        self, stored: Sequence[int], skipped: Sequence[set[Peer]], kept: Sequence[BufferedForConnect]
    ) -> None:
        """Tell, and see to it that a peer does not get as one that connects what it did not get as one that is full."""
        for peer, number in Counter(peer for peers in skipped for peer in peers).items():
            self._counts["skipped"] += number
            self._tally.add(
                NoticeKind.SKIPPED,
                peer.uuid,
                number,
                "messages were not kept for this peer, which is at its quota, as its policy says (D-10)",
                self._now,
            )
        for seq, at in enumerate(stored, self._next_seq):
            for one in kept:
                one.claimed.update((seq, peer) for peer in skipped[at])

    def _drop_oldest(self, peer: Peer, oldest: Sequence[Found]) -> None:
        self._remove(peer, oldest)
        self._counts["dropped_oldest"] += len(oldest)
        self._tally.add(
            NoticeKind.DROPPED_OLDEST,
            peer.uuid,
            len(oldest),
            "messages, the oldest that waited for this peer, were given up to make room for newer ones, as its policy "
            "says (D-10)",
            self._now,
        )

    def _oldest_of(self, peer: Peer, share: Share, then: GoOn) -> list[Found] | None:
        """Deliveries that make room for that much, or None: then they are looked for, and `then` is called.

        Raises OutboxFull where there is nothing to give up.
        """
        excess = self._quota.excess(peer.outbox, share)
        oldest = peer.outbox.oldest
        chosen = oldest.choose(excess, partial(_is_in_flight, peer), self._next_seq)
        if chosen is None and oldest.complete_at == self._next_seq:
            raise self._quota.refusal(peer, share)
        if chosen is None and not oldest.searching:
            self._look_for_oldest(peer, excess, then)
        return chosen

    def _look_for_oldest(self, peer: Peer, excess: Share, then: GoOn) -> None:
        outbox, gathered = peer.outbox, Gathered(excess, partial(_is_in_flight, peer))

        def take(found: Sequence[Found]) -> bool:
            return gathered.take(one for one in found if not one.parked and one.seq not in outbox.leaving)

        def done(error: TolliverError | None) -> None:
            found = gathered if error is None else ()
            outbox.oldest.end_search(found, self._next_seq if error is None and gathered.complete else 0)
            then(error)

        outbox.oldest.begin_search()
        self._room.begin(peer.uuid, take, done, piece=AHEAD)


def _is_in_flight(peer: Peer, one: Found) -> bool:
    window = peer.link.window if peer.link is not None else None
    return window is not None and window.is_in_flight(one.wire_id)
