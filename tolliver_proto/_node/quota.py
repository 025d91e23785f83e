"""Quota of each peer: the room in its outbox (D-10).

An outbox that is nearly full is looked at closely, all others pass with two comparisons. Room is made by leaving a peer
out of the recipients, or by giving up its oldest deliveries (`oldest`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence, Set
from itertools import groupby

from .._common.errors import OutboxFull
from .._wire.limits import Limits
from .link import Peer, Recipients
from .oldest import Share
from .outbox import Outbox
from .policy import Policy, QuotaPolicy

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
            policy = QuotaPolicy.SKIP if peer.held else self._policy.quota_of(peer.uuid)  # T-61
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
