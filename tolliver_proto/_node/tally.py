"""Notices of frequent events: the first, then a sum each minute."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from .._common.timers import Timers
from .actions import NoticeKind

EVERY = 60.0
"""Seconds between two notices of one kind about one peer."""

Subject = tuple[NoticeKind, UUID | None]


class NoticeTally:
    """Counts of each kind and peer since the last notice. `tell` gives a notice to the application."""

    def __init__(self, timers: Timers, tell: Callable[[NoticeKind, UUID | None, str], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._untold: dict[Subject, tuple[int, str]] = {}

    def add(self, kind: NoticeKind, peer: UUID | None, count: int, text: str, now: float) -> None:
        """It has happened so often: `text` goes on from the number."""
        subject = kind, peer
        known = self._untold.get(subject)
        if known is not None:
            self._untold[subject] = known[0] + count, text
        else:
            self._say(subject, count, text, now)

    def repeat(self, kind: NoticeKind, peer: UUID | None, detail: str, now: float) -> None:
        """It has happened, in these words; again within the minute it is counted."""
        subject = kind, peer
        known = self._untold.get(subject)
        if known is None:
            self._tell(kind, peer, detail)
            self._begin(subject, "", now)
        else:
            self._untold[subject] = known[0] + 1, f"more like it within a minute; the last one: {detail}"

    def fall_due(self, subject: Subject, now: float) -> None:
        """A minute is over."""
        count, text = self._untold.pop(subject)
        if count:
            self._say(subject, count, text, now)

    def _say(self, subject: Subject, count: int, text: str, now: float) -> None:
        self._tell(*subject, f"{count} {text}")
        self._begin(subject, text, now)

    def _begin(self, subject: Subject, text: str, now: float) -> None:
        self._untold[subject] = 0, text
        self._timers.set(("tally", subject), now + EVERY)
