"""Expiry of messages, by the policy and by their own terms (P-27).

A message is given up by the store's clock, whoever sent it and whenever. Where the policy says for how long messages
wait, the store is searched ten times within that. Of messages with an expiry of their own the store knows when each
expires, and the node when the first of them does: then the node asks for those that are soonest, gives up what is over,
and learns when the next one is.
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
_EXPIRY_CHECKS = 10  # how often within `expire_after` the store is searched
_CLOCK_LOOK = 60.0  # seconds between two looks of the store at its clocks
SOONEST = 1.0  # seconds between such searches at least


class Expiry:
    """Messages that wait for too long, and the look of the store at its clock."""

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
        """Some message expires then (P-27)."""
        seconds = max(seconds, self._looked_at + SOONEST - self._context.now)
        self._timers.set_earlier("due", self._context.now + seconds)
        self.watch_clock()

    def watch_clock(self) -> None:
        """Something has an age, so the store looks for steps of its clock, as the machine of an idle node is set, too
        (D-10)."""
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
        """Returns how many went, by peer."""
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
        """Returns True where no more are over, or those that are over are on their way out already."""
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
