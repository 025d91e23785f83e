"""History of one status endpoint: snapshots, and rates between them.

A rate is the difference of two snapshots, by the instance's own clock. If a counter has decreased, or another instance
responds, counting started again and there is no rate; if nothing responds, the history has a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .endpoints import Endpoint, Look, Part

KEPT = 300
"""Most values of a history."""


class Row:
    """Part of a status, such as a peer, that is shown as a row of a table, and the same part one reading before."""

    def __init__(self, trail: Trail, part: Part, before: Part | None) -> None:
        self.trail = trail
        self.part = part
        self._before = before

    def rate(self, name: str, within: str = "counters") -> float | None:
        """Growth of the number called `name` per second, None if it is unknown; `within` is the name of the part that
        has the number, "" for this one.
        """
        now, before = (
            (one.part(within) if within else one).number(name) if one is not None else None
            for one in (self.part, self._before)
        )
        if now is None or before is None or self.trail.seconds <= 0 or now < before:
            return None
        return (now - before) / self.trail.seconds


class Trail:
    """Readings of one status endpoint over time, from which `tolliver top` makes its rows and charts."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.last: Look | None = None
        self.status: Part | None = None
        """The latest status, even if the endpoint does not respond any more."""
        self.answered_at: float | None = None
        self.seconds = 0.0
        """Seconds between the last two snapshots."""
        self._before: Part | None = None
        self.history = {name: deque[float | None](maxlen=KEPT) for name in _HISTORY}

    @property
    def answers(self) -> bool:
        return self.last is not None and self.last.status is not None

    @property
    def name(self) -> str:
        """Name in the instance's certificate, else its address."""
        return (self.status.text("name") if self.status is not None else "") or str(self.endpoint)

    @property
    def row(self) -> Row:
        """Row of the instance itself."""
        return Row(self, self.status or Part(None), self._before)

    def add(self, look: Look) -> None:
        """Add a newer reading."""
        was_away = not self.answers
        self.last = look
        if look.status is None:
            for history in self.history.values():
                history.append(None)
            return
        before, self.status, self.answered_at = self.status, look.status, look.at
        if was_away or before is None or _began_anew(before, look.status):
            before = None
        elif before.number("time") == look.status.number("time"):  # the same snapshot
            return
        self._before = before
        self.seconds = 0.0 if before is None else (look.status.number("time") or 0) - (before.number("time") or 0)
        row = self.row
        for name, value in _HISTORY.items():
            self.history[name].append(value(row))

    def rows(self, kind: str, key: str) -> list[Row]:
        """Rows of the part `kind` of the status, such as "peers" or "remotes"; `key` is the field that identifies a
        row.
        """
        if self.status is None:
            return []
        before = {one.text(key): one for one in self._before.parts(kind)} if self._before is not None else {}
        return [Row(self, one, before.get(one.text(key))) for one in self.status.parts(kind)]


def _began_anew(before: Part, now: Part) -> bool:
    return before.text("uuid") != now.text("uuid") or (now.number("uptime") or 0) < (before.number("uptime") or 0)


def oldest(row: Row) -> float:
    """Age in seconds of the oldest message that waits for a peer, 0 without one."""
    return row.part.part("gauges").number("oldest_unacknowledged_seconds") or 0.0


_HISTORY: dict[str, Callable[[Row], float | None]] = {
    "acked": lambda row: row.rate("acked"),
    "handled": lambda row: row.rate("handled"),
    "pending": lambda row: row.part.part("gauges").number("pending"),
    "oldest": oldest,
}
