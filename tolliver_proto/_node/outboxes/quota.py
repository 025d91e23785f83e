"""Room at a peer's quota, made as its policy says (D-10).

A skipped peer is no recipient. For a peer whose oldest messages are dropped, the store is searched for them unless some
are known; the send waits meanwhile, and one commit removes the oldest messages and stores the new ones. If that commit
fails, the removal is not taken back, as with an ack: the next send finds the room.
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
from .drop_oldest import AHEAD, Share
from .ledger import Ledger
from .outbox import Outbox

_FILLING, _CALM = 80, 60  # per cent of the quota: reported at the first; again only after a fall below the second


def shares_of(routed: Sequence[Recipients], sizes: Sequence[int]) -> dict[Peer, Share]:
    """Returns for each peer the number and the bytes of its messages. `routed` has the recipients of each message,
    `sizes` its bytes.
    """
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
    """Quota of every outbox in messages and bytes, and the policy of each peer when it is reached."""

    __slots__ = ("_bytes", "_counts", "_messages", "_policy", "_tight_bytes", "_tight_messages")

    def __init__(self, limits: Limits, policy: Policy, counts: MutableMapping[str, int]) -> None:
        self._messages, self._bytes = limits.outbox_messages, limits.outbox_bytes
        self._tight_messages, self._tight_bytes = self._messages * _FILLING / 100, self._bytes * _FILLING / 100
        self._policy = policy
        self._counts = counts

    def used(self, outbox: Outbox) -> float:
        """Returns the used share of the quota: 1 is full."""
        return max(outbox.pending / self._messages, outbox.pending_bytes / self._bytes)

    def is_tight(self, outbox: Outbox, count: int, size: int) -> bool:
        """True if `count` more messages of `size` bytes make the outbox nearly full or fuller."""
        return outbox.pending + count >= self._tight_messages or outbox.pending_bytes + size >= self._tight_bytes

    def full(self, shares: Mapping[Peer, Share]) -> dict[QuotaPolicy, list[Peer]]:
        """Returns the peers without room, by policy. Raises OutboxFull if a policy says so, or if the messages exceed
        the whole quota of a peer."""
        full: dict[QuotaPolicy, list[Peer]] = {policy: [] for policy in QuotaPolicy}
        for peer, share in shares.items():
            if max(self.excess(peer.outbox, share)) <= 0:
                continue
            policy = QuotaPolicy.SKIP if peer.lists.held else self._policy.quota_of(peer.uuid)  # T-61
            if peer.is_owner:
                raise self.kept_refusal(peer, share)
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
        """Returns by how many messages and bytes the outbox and `share` together exceed the quota; negative where there
        is room."""
        return outbox.pending + share[0] - self._messages, outbox.pending_bytes + share[1] - self._bytes

    def refused(self, outbox: Outbox) -> None:
        """Marks the outbox as full, as a send was refused for it; not for a send too large for an empty outbox."""
        self._counts["refused_sends"] += 1
        outbox.full = outbox.pending > 0

    def refusal(self, peer: Peer, share: Share) -> OutboxFull:
        self.refused(peer.outbox)
        return OutboxFull(
            f"peer {peer.uuid} has {peer.outbox.pending} messages ({peer.outbox.pending_bytes} bytes) waiting, "
            f"and {share[0]} more would pass the quota (D-10): nothing was stored. Wait until it has caught up, "
            "forget the peer, or choose another quota_policy for it"
        )

    def kept_refusal(self, owner: Peer, share: Share) -> OutboxFull:
        self.refused(owner.outbox)
        channel = next(iter(owner.lists.subscriptions)).channel
        return OutboxFull(
            f"the channel {channel!r:.100} keeps {owner.outbox.pending} messages ({owner.outbox.pending_bytes} bytes) "
            f"for its first subscriber, and {share[0]} more would pass the quota (D-10): nothing was stored. Connect a "
            "subscriber, or raise Limits.outbox_messages or outbox_bytes"
        )

    def left_out(self, routed: Sequence[Recipients], sizes: Sequence[int], full: Iterable[Peer]) -> list[set[Peer]]:
        """Returns for each message, in order, the full peers without room for that message. `sizes` are in bytes."""
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
        """True if the outbox has just passed the share of its quota from which the operator is told."""
        if outbox.calm_below is not None:
            return False
        if outbox.pending < self._tight_messages and outbox.pending_bytes < self._tight_bytes:
            return False
        outbox.calm_below = self._messages * _CALM / 100, self._bytes * _CALM / 100
        return True


def narrowed(routed: Sequence[Recipients], without: Sequence[Set[Peer]]) -> list[Recipients]:
    """Returns the recipients without the skipped ones; equal neighbours are one object, so that runs stay runs."""
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
    """Drops the oldest deliveries of full outboxes where the policy says so, to make room for a send."""

    def __init__(self, context: Context, commits: Commits, ledger: Ledger) -> None:
        self._context = context
        self._limits = context.limits
        self._policy = context.policy
        self._counts = context.counts
        self._hooks = context.hooks
        self._commits = commits
        self._ledger = ledger
        self.quota: Quota = Quota(context.limits, context.policy, context.counts)

    def find_room(
        self, routed: Sequence[Recipients], sizes: Sequence[int], shares: dict[Peer, Share], then: GoOn
    ) -> Room | None:
        """Returns the recipients of the messages and the deliveries to drop for them, and changes nothing yet.

        Returns None while a search looks for deliveries to drop; `then` is called at its end. Raises OutboxFull.
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
        """Gives up the dropped deliveries, and reports them. `receipt` is that of the new messages."""
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
        """Returns the peer's oldest deliveries, which make room for `share` more messages and bytes. None: a search
        begins, and `then` is called at its end.

        Raises OutboxFull if the peer has too few deliveries to drop.
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
    """Room for some messages: their recipients, the peers skipped for each, and the deliveries dropped for them."""

    routed: Sequence[Recipients]
    shares: dict[Peer, Share]
    skipped: Sequence[set[Peer]] = ()
    dropped: dict[Peer, list[Found]] = field(default_factory=dict)
