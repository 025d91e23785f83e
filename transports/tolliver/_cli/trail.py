"""History of one status endpoint: snapshots, and rates between them.

A rate is the difference of two snapshots by the instance's own clock. Where a counter has gone back, or another
instance answers, it began anew and there is no rate; where nothing answers, the history has a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .endpoints import Endpoint, Look, Part

KEPT = 300
"""Values of a history."""


class Row:
    """A part of a status that a line is for, and the same part a look before."""

    def __init__(self, trail: Trail, part: Part, before: Part | None) -> None:
        self.trail = trail
        self.part = part
        self._before = before

    def rate(self, name: str, within: str = "counters") -> float | None:
        """Growth in a second; `within` is the part that has it, "" for this one."""
        now, before = (
            (one.part(within) if within else one).number(name) if one is not None else None
            for one in (self.part, self._before)
        )
        if now is None or before is None or self.trail.seconds <= 0 or now < before:
            return None
        return (now - before) / self.trail.seconds


class Trail:
    """An endpoint, as it was seen."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.last: Look | None = None
        self.status: Part | None = None
        """The newest, also where nothing answers any more."""
        self.answered_at: float | None = None
        self.seconds = 0.0
        """Between the last two snapshots."""
        self._before: Part | None = None
        self.history = {name: deque[float | None](maxlen=KEPT) for name in _HISTORY}

    @property
    def answers(self) -> bool:
        return self.last is not None and self.last.status is not None

    @property
    def name(self) -> str:
        """The name in its certificate, else where it is."""
        return (self.status.text("name") if self.status is not None else "") or str(self.endpoint)

    @property
    def row(self) -> Row:
        """The instance itself."""
        return Row(self, self.status or Part(None), self._before)

    def add(self, look: Look) -> None:
        """A newer one."""
        was_away = not self.answers
        self.last = look
        if look.status is None:
            for history in self.history.values():
                history.append(None)
            return
        before, self.status, self.answered_at = self.status, look.status, look.at
        if was_away or before is None or _began_anew(before, look.status):
            before = None
        elif before.number("time") == look.status.number("time"):  # it is the same snapshot
            return
        self._before = before
        self.seconds = 0.0 if before is None else (look.status.number("time") or 0) - (before.number("time") or 0)
        row = self.row
        for name, value in _HISTORY.items():
            self.history[name].append(value(row))

    def rows(self, kind: str, key: str) -> list[Row]:
        """Rows of its peers, remotes and so on; `key` names what tells one from the other."""
        if self.status is None:
            return []
        before = {one.text(key): one for one in self._before.parts(kind)} if self._before is not None else {}
        return [Row(self, one, before.get(one.text(key))) for one in self.status.parts(kind)]


def _began_anew(before: Part, now: Part) -> bool:
    return before.text("uuid") != now.text("uuid") or (now.number("uptime") or 0) < (before.number("uptime") or 0)


def oldest(row: Row) -> float:
    """Age of the oldest message that waits, 0 where none does."""
    return row.part.part("gauges").number("oldest_unacknowledged_seconds") or 0.0


_HISTORY: dict[str, Callable[[Row], float | None]] = {
    "acked": lambda row: row.rate("acked"),
    "handled": lambda row: row.rate("handled"),
    "pending": lambda row: row.part.part("gauges").number("pending"),
    "oldest": oldest,
}
