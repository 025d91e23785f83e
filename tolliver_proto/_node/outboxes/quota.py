"""Room at a peer's quota, made as its policy says (D-10).

A peer that is skipped is no recipient. One whose oldest go is searched for them, unless some are known: the send waits
meanwhile, and what goes leaves in the commit that stores what comes. As with an acknowledgement nothing is taken back
where that commit fails: the room stays, and the next send finds it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby

from ..._common.errors import OutboxFull, TolliverError, UndeliveredReason
from ..._wire.limits import Limits
from ..actions import GoOn, NoticeKind, Receipt
from ..commits.commits import Commits
from ..context import Context
from ..link import Peer, Recipients
from ..policy import Policy, QuotaPolicy
from ..store import Found
from .ledger import Ledger
from .oldest import AHEAD, Share
from .outbox import Outbox

_FILLING, _CALM = 80, 60  # per cent of the quota: at the one it is told, and again once it was below the other


def shares_of(routed: Sequence[Recipients], sizes: Sequence[int]) -> dict[Peer, Share]:
    """For each peer the number and the bytes of the messages that are for it."""
    wanted: dict[Recipients, Share] = {}
    start = 0
    for recipients, run in groupby(routed):  # mostly one
        stop = start + len([*run])
        count, total = wanted.get(recipients, (0, 0))
        wanted[recipients] = count + stop - start, total + sum(sizes[start:stop])
        start = stop
    shares: dict[Peer, Share] = {}
    for recipients, (count, total) in wanted.items():
        for peer in recipients.peers:
            so_far = shares.get(peer, (0, 0))
            shares[peer] = so_far[0] + count, so_far[1] + total
    return shares


class Quota:
    """Bounds of every outbox, and the policy of each peer at them."""

    __slots__ = ("_bytes", "_counts", "_messages", "_policy", "_tight_bytes", "_tight_messages")

    def __init__(self, limits: Limits, policy: Policy, counts: MutableMapping[str, int]) -> None:
        self._messages, self._bytes = limits.outbox_messages, limits.outbox_bytes
        self._tight_messages, self._tight_bytes = self._messages * _FILLING / 100, self._bytes * _FILLING / 100
        self._policy = policy
        self._counts = counts

    def used(self, outbox: Outbox) -> float:
        """Share of the quota that is used: 1 where it is full."""
        return max(outbox.pending / self._messages, outbox.pending_bytes / self._bytes)

    def is_tight(self, outbox: Outbox, count: int, size: int) -> bool:
        """True if it would be nearly full, or more than full, with so many messages more, of so many bytes."""
        return outbox.pending + count >= self._tight_messages or outbox.pending_bytes + size >= self._tight_bytes

    def full(self, shares: Mapping[Peer, Share]) -> dict[QuotaPolicy, list[Peer]]:
        """The peers that have no room, by what their policy says. Raises OutboxFull where it says so, and where no
        room could be made."""
        full: dict[QuotaPolicy, list[Peer]] = {policy: [] for policy in QuotaPolicy}
        for peer, share in shares.items():
            if max(self.excess(peer.outbox, share)) <= 0:
                continue
            policy = QuotaPolicy.SKIP if peer.lists.held else self._policy.quota_of(peer.uuid)  # T-61
            if policy is QuotaPolicy.RAISE:
                raise self.refusal(peer, share)
            if policy is QuotaPolicy.DROP_OLDEST and (share[0] > self._messages or share[1] > self._bytes):
                self._counts["refused_sends"] += 1
                raise OutboxFull(
                    f"{share[0]} messages ({share[1]} bytes) at once for peer {peer.uuid} are more than its whole "
                    "quota (D-10): nothing was stored. Send fewer at once, or raise Limits.outbox_messages or "
                    "outbox_bytes"
                )
            full[policy].append(peer)
        return full

    def excess(self, outbox: Outbox, share: Share) -> Share:
        """Messages and bytes that would be too many; neither is above zero where there is room."""
        return outbox.pending + share[0] - self._messages, outbox.pending_bytes + share[1] - self._bytes

    def refused(self, outbox: Outbox) -> None:
        """A send for it is. One that is too large for an empty outbox says nothing of the outbox."""
        self._counts["refused_sends"] += 1
        outbox.full = outbox.pending > 0

    def refusal(self, peer: Peer, share: Share) -> OutboxFull:
        self.refused(peer.outbox)
        return OutboxFull(
            f"peer {peer.uuid} has {peer.outbox.pending} messages ({peer.outbox.pending_bytes} bytes) waiting, "
            f"and {share[0]} more would pass the quota (D-10): nothing was stored. Wait until it has caught up, "
            "forget the peer, or choose another quota_policy for it"
        )

    def left_out(self, routed: Sequence[Recipients], sizes: Sequence[int], full: Iterable[Peer]) -> list[set[Peer]]:
        """For each message those of the full peers that have no room for it, in order."""
        waiting = {peer: [peer.outbox.pending, peer.outbox.pending_bytes] for peer in full}
        without: list[set[Peer]] = []
        for recipients, size in zip(routed, sizes, strict=True):
            skipped: set[Peer] = set()
            for peer in waiting.keys() & set(recipients.peers):
                count, total = waiting[peer]
                if count < self._messages and total + size <= self._bytes:
                    waiting[peer] = [count + 1, total + size]
                else:
                    skipped.add(peer)
            without.append(skipped)
        return without

    def begins_to_fill(self, outbox: Outbox) -> bool:
        """True if it has passed the share of its quota at which that is told, and was calm before."""
        if outbox.calm_below is not None:
            return False
        if outbox.pending < self._tight_messages and outbox.pending_bytes < self._tight_bytes:
            return False
        outbox.calm_below = self._messages * _CALM / 100, self._bytes * _CALM / 100
        return True


def narrowed(routed: Sequence[Recipients], without: Sequence[Set[Peer]]) -> list[Recipients]:
    """The same recipients without those: one object for equal ones that follow each other, so that runs stay runs."""
    left: list[Recipients] = []
    last: tuple[Recipients, Set[Peer]] | None = None
    for recipients, skipped in zip(routed, without, strict=True):
        if not skipped:
            left.append(recipients)
        elif last is not None and last == (recipients, skipped):
            left.append(left[-1])
        else:
            left.append(Recipients(tuple(peer for peer in recipients.peers if peer not in skipped)))
        last = recipients, skipped
    return left


_UNSUBSCRIBED = (
    UndeliveredReason.UNSUBSCRIBED,
    NoticeKind.UNSUBSCRIBED,
    "messages were not kept for this peer: it is at its quota, and does not subscribe to all that waits for it (T-61)",
)
_SKIPPED = (
    UndeliveredReason.SKIPPED,
    NoticeKind.SKIPPED,
    "messages were not kept for this peer, which is at its quota, as its policy says (D-10)",
)
_DROPPED = "messages, the oldest for this peer, were given up to make room for newer ones, as its policy says (D-10)"


class QuotaRoom:
    """Quotas of the outboxes."""

    def __init__(self, context: Context, commits: Commits, ledger: Ledger) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._counts = context.counts
        self._hooks = context.hooks
        self._commits = commits
        self._ledger = ledger
        self.quota = Quota(context.limits, context.policy, context.counts)

    def find_room(
        self, routed: Sequence[Recipients], sizes: Sequence[int], shares: dict[Peer, Share], then: GoOn
    ) -> Room | None:
        """Recipients of the messages, and deliveries that go for them; nothing has changed yet.

        None: it is looked for, and `then` is called. Raises OutboxFull.
        """
        full = self.quota.full(shares)
        room = Room(routed, shares)
        if full[QuotaPolicy.SKIP]:
            room.skipped = self.quota.left_out(routed, sizes, full[QuotaPolicy.SKIP])
            room.routed = narrowed(routed, room.skipped)
            room.shares = shares_of(room.routed, sizes)
        for peer in full[QuotaPolicy.DROP_OLDEST]:
            oldest = self._oldest_of(peer, room.shares[peer], then)
            if oldest is None:
                return None
            room.dropped[peer] = oldest
        return room

    def use_room(self, room: Room, receipt: Receipt) -> None:
        """Give up what goes, and tell. `receipt` is that of what comes."""
        for peer, oldest in room.dropped.items():
            self._ledger.remove(UndeliveredReason.DROPPED_OLDEST, peer, oldest)
            self._counts["dropped_oldest"] += len(oldest)
            self._context.tally.add(NoticeKind.DROPPED_OLDEST, peer.uuid, len(oldest), _DROPPED, self._context.now)
        for peer, number in Counter(peer for peers in room.skipped for peer in peers).items():
            reason, kind, text = _UNSUBSCRIBED if peer.lists.held else _SKIPPED
            self._counts[reason] += number
            receipt.give_up(peer.uuid, reason, number)
            self._context.tally.add(kind, peer.uuid, number, text, self._context.now)

    def look_at_filling(self, peers: Iterable[Peer]) -> None:
        limits = self._limits
        for peer in peers:
            outbox = peer.outbox
            if self.quota.begins_to_fill(outbox):
                self._context.notice(
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
        excess = self.quota.excess(peer.outbox, share)
        oldest = peer.outbox.oldest
        chosen = oldest.choose(excess, partial(_is_in_flight, peer), self._ledger.next_seq)
        if chosen is None and oldest.complete_at == self._ledger.next_seq:
            raise self.quota.refusal(peer, share)
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
            outbox.oldest.end(None if error or is_enough else self._ledger.next_seq, is_in_flight)
            then(error)

        outbox.oldest.begin()
        self._commits.room_searches.begin(peer.uuid, take, done, piece=AHEAD)


def _is_in_flight(peer: Peer, one: Found) -> bool:
    window = peer.link.sending.window if peer.link is not None else None
    return window is not None and window.is_in_flight(one.wire_id)


@dataclass(slots=True)
class Room:
    """Room for some messages: who gets them, who is left out of which, and what goes for them."""

    routed: Sequence[Recipients]
    shares: dict[Peer, Share]
    skipped: Sequence[set[Peer]] = ()
    dropped: dict[Peer, list[Found]] = field(default_factory=dict)
