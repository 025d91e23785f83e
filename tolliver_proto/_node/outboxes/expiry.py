"""Expiry of messages, by the policy and by their own `expire_after` (P-27).

The store's clock decides when a message expires, across restarts. With `expire_after` in the policy, the node searches
the store ten times within that time. For messages with an expiry of their own, the store knows each time, and the node
knows the first: at that time the node asks for the soonest, gives up the expired ones, and learns the next time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID

from ..._common.errors import TolliverError, UndeliveredReason
from ..actions import LOOK, NoticeKind
from ..commits.commits import Commits
from ..context import Context
from ..store import Found
from .ledger import Ledger

_TEXT = (
    "messages were given up without an acknowledgement, when the time was over that their send gave them (expire_after)"
)
_EXPIRY_CHECKS = 10  # searches of the store within `expire_after`
_CLOCK_LOOK = 60.0  # seconds between two checks of the store's clocks
SOONEST = 1.0  # least seconds between two searches


class Expiry:
    """Gives up messages that waited too long, and has the store check its clocks."""

    def __init__(self, context: Context, commits: Commits, ledger: Ledger) -> None:
        self._context = context
        self._policy = context.policy
        self._timers = context.timers
        self._counts = context.counts
        self._actions = context.actions
        self._peers = context.peers
        self._commits = commits
        self._ledger = ledger
        self._looked_at = float("-inf")
        context.due.update(
            {"clock": self._on_clock_timeout, "expire": self._on_expire_timeout, "due": self._on_due_timeout}
        )

    def look_at_due(self, seconds: float) -> None:
        """Schedules a search for expired messages, as one expires in `seconds` (P-27)."""
        seconds = max(seconds, self._looked_at + SOONEST - self._context.now)
        self._timers.set_earlier("due", self._context.now + seconds)
        self.watch_clock()

    def watch_clock(self) -> None:
        """Has the store check its clocks while something ages: the clock may be set while the node is idle (D-10)."""
        self._timers.set_earlier("clock", self._context.now + _CLOCK_LOOK)

    def _on_clock_timeout(self, _subject: None) -> None:
        expires = self._policy.expire_after is not None or self._timers.due("due") is not None
        if expires or any(peer.lists.held or peer.lists.unsaid for peer in self._peers.values()):
            self._actions.append(LOOK)
            self.watch_clock()

    def _schedule_expiry(self) -> None:
        if self._policy.expire_after is not None:
            every = max(SOONEST, self._policy.expire_after / _EXPIRY_CHECKS)
            self._timers.set("expire", self._context.now + every)
            self.watch_clock()

    def _on_expire_timeout(self, _subject: None) -> None:
        assert self._policy.expire_after is not None
        self._commits.searches.begin(
            None, self._expire, lambda _error: self._schedule_expiry(), self._policy.expire_after
        )

    def _expire(self, found: Sequence[Found]) -> None:
        for uuid, count in self._give_up_expired(found):
            self._context.notice(
                NoticeKind.EXPIRED,
                uuid,
                f"{count} messages were given up after {self._policy.expire_after:g} s without an acknowledgement, "
                "as the policy says (expire_after)",
            )

    def _give_up_expired(self, found: Sequence[Found]) -> Iterator[tuple[UUID, int]]:
        """Gives up the deliveries `found`, which have expired by the policy; yields each peer, and the number of its
        messages."""
        by_peer: dict[UUID, list[Found]] = {}
        for one in found:
            by_peer.setdefault(one.peer, []).append(one)
        for uuid, expired in by_peer.items():
            peer = self._peers[uuid]
            before = peer.outbox.pending + peer.outbox.parked
            self._ledger.remove(UndeliveredReason.EXPIRED, peer, expired)
            count = before - peer.outbox.pending - peer.outbox.parked
            if count:
                self._counts["expired_messages"] += count
                yield uuid, count

    def _on_due_timeout(self, _subject: None) -> None:
        self._looked_at = self._context.now
        self._commits.searches.begin(None, self._give_up_due, self._on_looked, expiring=True)

    def _give_up_due(self, found: Sequence[Found]) -> bool:
        """Gives up expired messages; returns True to end the search.

        The search ends when no more have expired, or when all expired ones are being removed already.
        """
        over = [one for one in found if one.expires_in <= 0]
        gone = 0
        for uuid, count in self._give_up_expired(over):
            gone += count
            self._context.tally.add(NoticeKind.EXPIRED, uuid, count, _TEXT, self._context.now)
        if len(over) < len(found):
            self.look_at_due(found[len(over)].expires_in)
            return True
        if not gone:
            self.look_at_due(SOONEST)
        return not gone

    def _on_looked(self, error: TolliverError | None) -> None:
        if error is not None:
            self.look_at_due(SOONEST)
