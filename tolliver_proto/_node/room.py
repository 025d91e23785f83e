"""Room at a peer's quota, made as its policy says (D-10).

A peer that is skipped is no recipient. One whose oldest go is searched for them, unless some are known: the send waits
meanwhile, and what goes leaves in the commit that stores what comes. As with an acknowledgement nothing is taken back
where that commit fails: the room stays, and the next send finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .._common.errors import TolliverError, UndeliveredReason
from .actions import NoticeKind, Receipt
from .batch import GoOn
from .link import Peer, Recipients
from .moving import Moving
from .oldest import AHEAD, Share
from .policy import QuotaPolicy
from .quota import Quota, narrowed, shares_of
from .store import Found

_DROPPED = "messages, the oldest for this peer, were given up to make room for newer ones, as its policy says (D-10)"
_SKIPPED = (
    UndeliveredReason.SKIPPED,
    NoticeKind.SKIPPED,
    "messages were not kept for this peer, which is at its quota, as its policy says (D-10)",
)
_UNSUBSCRIBED = (
    UndeliveredReason.UNSUBSCRIBED,
    NoticeKind.UNSUBSCRIBED,
    "messages were not kept for this peer: it is at its quota, and does not subscribe to all that waits for it (T-61)",
)


@dataclass(slots=True)
class Room:
    """Room for some messages: who gets them, who is left out of which, and what goes for them."""

    routed: Sequence[Recipients]
    shares: dict[Peer, Share]
    skipped: Sequence[set[Peer]] = ()
    dropped: dict[Peer, list[Found]] = field(default_factory=dict)


class MakingRoom(Moving):
    """Quotas of the outboxes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._quota = Quota(self.limits, self._policy, self._counts)

    def _find_room(
        self, routed: Sequence[Recipients], sizes: Sequence[int], shares: dict[Peer, Share], then: GoOn
    ) -> Room | None:
        """Recipients of the messages, and deliveries that go for them; nothing has changed yet.

        None: it is looked for, and `then` is called. Raises OutboxFull.
        """
        full = self._quota.full(shares)
        room = Room(routed, shares)
        if full[QuotaPolicy.SKIP]:
            room.skipped = self._quota.left_out(routed, sizes, full[QuotaPolicy.SKIP])
            room.routed = narrowed(routed, room.skipped)
            room.shares = shares_of(room.routed, sizes)
        for peer in full[QuotaPolicy.DROP_OLDEST]:
            oldest = self._oldest_of(peer, room.shares[peer], then)
            if oldest is None:
                return None
            room.dropped[peer] = oldest
        return room

    def _use_room(self, room: Room, receipt: Receipt) -> None:
        """Give up what goes, and tell. `receipt` is that of what comes."""
        for peer, oldest in room.dropped.items():
            self._remove(UndeliveredReason.DROPPED_OLDEST, peer, oldest)
            self._counts["dropped_oldest"] += len(oldest)
            self._tally.add(NoticeKind.DROPPED_OLDEST, peer.uuid, len(oldest), _DROPPED, self._now)
        for peer, number in Counter(peer for peers in room.skipped for peer in peers).items():
            reason, kind, text = _UNSUBSCRIBED if peer.held else _SKIPPED
            self._counts[reason] += number
            receipt.give_up(peer.uuid, reason, number)
            self._tally.add(kind, peer.uuid, number, text, self._now)

    def _look_at_filling(self, peers: Iterable[Peer]) -> None:
        limits = self.limits
        for peer in peers:
            outbox = peer.outbox
            if self._quota.begins_to_fill(outbox):
                self._notice(
                    NoticeKind.OUTBOX_FILLING,
                    peer.uuid,
                    f"{outbox.pending} of at most {limits.outbox_messages} messages, {outbox.pending_bytes} of "
                    f"{limits.outbox_bytes} bytes wait for this peer. At the quota its policy is "
                    f"{self._policy.quota_of(peer.uuid).value!r} (D-10): bring it back, forget it, or raise "
                    "Limits.outbox_messages or outbox_bytes",
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
        outbox, is_in_flight = peer.outbox, partial(_is_in_flight, peer)
        is_enough = False

        def take(found: Sequence[Found]) -> bool:
            nonlocal is_enough
            owed = [one for one in found if not one.parked and one.seq not in outbox.leaving]
            for pattern in self._hooks.owns:
                owed = [one for one in owed if not pattern.owns(one.channel)]
            is_enough = outbox.oldest.add(owed, excess, is_in_flight)
            return is_enough

        def done(error: TolliverError | None) -> None:
            outbox.oldest.end(None if error or is_enough else self._next_seq, is_in_flight)
            then(error)

        outbox.oldest.begin()
        self._room.begin(peer.uuid, take, done, piece=AHEAD)


def _is_in_flight(peer: Peer, one: Found) -> bool:
    window = peer.link.window if peer.link is not None else None
    return window is not None and window.is_in_flight(one.wire_id)
