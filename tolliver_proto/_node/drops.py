"""Notices of messages that were acknowledged and not handed out (T-46, T-10, D-5).

An ack destroys the sender's copy, so whoever drops a message should be able to see it: the first is told at once, then
a sum each minute, by peer and channel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from uuid import UUID

from .._common.timers import Timers
from .actions import NoticeKind
from .tally import EVERY, Subject

_NAMED = 20  # channels that are told by their names
_OTHERS = "others"

_WHY = {
    NoticeKind.UNWANTED: "nothing here is subscribed to them: give an instance its subscriptions before it "
    "connects (T-46). By channel:",
    NoticeKind.REFUSED: "the access rules do not let this peer publish there (D-5). By channel:",
    NoticeKind.IGNORED: "they cannot be understood (T-10, T-20, T-27). By reason:",
}


class Drops:
    """Counts by kind, peer and name since the last notice. `tell` gives a notice to the application."""

    def __init__(self, timers: Timers, tell: Callable[[NoticeKind, UUID | None, str], None]) -> None:
        self._timers = timers
        self._tell = tell
        self._untold: dict[Subject, Counter[str]] = {}

    def add(self, kind: NoticeKind, peer: UUID | None, name: str, now: float) -> None:
        """One more. `name` is a channel or a reason."""
        subject = kind, peer
        counts = self._untold.get(subject)
        if counts is None:
            self._say(subject, Counter((f"{name!r:.100}",)), now)
        else:
            shown = f"{name!r:.100}"
            counts[shown if shown in counts or len(counts) < _NAMED else _OTHERS] += 1

    def fall_due(self, subject: Subject, now: float) -> None:
        """A minute is over."""
        counts = self._untold.pop(subject)
        if counts:
            self._say(subject, counts, now)

    def _say(self, subject: Subject, counts: Counter[str], now: float) -> None:
        names = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        text = f"{counts.total()} messages were acknowledged and dropped, as {_WHY[subject[0]]} {names}"
        self._tell(*subject, text)
        self._untold[subject] = Counter()
        self._timers.set(("drops", subject), now + EVERY)
