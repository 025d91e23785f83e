"""Notices of frequent events: the first, then a sum each minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

from .._common.timers import Timers
from .actions import NoticeKind

EVERY = 60.0
"""Seconds between two notices of one kind about one peer."""

THROTTLED = frozenset(
    {
        NoticeKind.ACCESS_DENIED,
        NoticeKind.CERTIFICATE_REFUSED,
        NoticeKind.DUPLICATE_CLOSED,
        NoticeKind.HANDLER_FAILED,
        NoticeKind.IDENTITY_MISMATCH,
        NoticeKind.PROTOCOL_ERROR,
        NoticeKind.RESPONDER_FAILED,
        NoticeKind.SELF_CONNECTION,
    }
)
"""Kinds that a peer or a program may cause as often as it likes, each in words of its own."""

PEERS_KNOWN = 100
"""Peers that are told apart in one kind within a minute. Those beyond are one, without a name: a peer may claim UUIDs
without end, and `notices()` keeps 1,000."""

Subject = tuple[NoticeKind, UUID | None]


class NoticeTally:
    """Counts of each kind and peer since the last notice. `tell` gives the notice of a sum to the application."""

    def __init__(self, timers: Timers, tell: Callable[[NoticeKind, UUID | None, str], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._untold: defaultdict[NoticeKind, dict[UUID | None, tuple[int, str]]] = defaultdict(dict)

    def add(self, kind: NoticeKind, peer: UUID | None, count: int, text: str, now: float) -> None:
        """It has happened so often: `text` goes on from the number."""
        if self._is_first(kind, peer, count, text):
            self._say(kind, self._place(kind, peer), count, text, now)

    def is_first(self, kind: NoticeKind, peer: UUID | None, detail: str, now: float) -> bool:
        """True if it is to be told now, in these words; again within the minute it is counted."""
        is_first = self._is_first(kind, peer, 1, f"more like it within a minute; the last one: {detail}")
        if is_first:
            self._begin(kind, self._place(kind, peer), "", now)
        return is_first

    def fall_due(self, subject: Subject, now: float) -> None:
        """A minute is over."""
        kind, peer = subject
        count, text = self._untold[kind].pop(peer)
        if count:
            self._say(kind, peer, count, text, now)

    def _place(self, kind: NoticeKind, peer: UUID | None) -> UUID | None:
        """The peer under whom it is counted."""
        known = self._untold[kind]
        return peer if peer in known or len(known) < PEERS_KNOWN else None

    def _is_first(self, kind: NoticeKind, peer: UUID | None, count: int, text: str) -> bool:
        known, place = self._untold[kind], self._place(kind, peer)
        if place in known:
            known[place] = known[place][0] + count, text
            return False
        return True

    def _say(self, kind: NoticeKind, peer: UUID | None, count: int, text: str, now: float) -> None:
        self._tell(kind, peer, f"{count} {text}")
        self._begin(kind, peer, text, now)

    def _begin(self, kind: NoticeKind, peer: UUID | None, text: str, now: float) -> None:
        self._untold[kind][peer] = 0, text
        self._timers.set(("tally", (kind, peer)), now + EVERY)
