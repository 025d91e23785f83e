"""Silence of a connected peer: much was sent, and nothing is acknowledged.

A peer that takes what is written to it and never answers looks connected. So what is sent and unacknowledged has a
clock, which begins anew with each acknowledgement.
"""

from __future__ import annotations


class AckWatch:
    """Clock of one connection. It needs a timer at `due` at most, however many messages go."""

    __slots__ = ("_after", "_since", "_told")

    def __init__(self, after: float | None) -> None:
        self._after = after
        self._since: float | None = None  # from when on something has waited, without any acknowledgement
        self._told = False

    def sent(self, now: float) -> float | None:
        """Something waits for an acknowledgement. When to `look`, if nobody is going to."""
        if self._since is not None or self._after is None:
            return None
        self._since, self._told = now, False
        return now + self._after

    def acked(self, now: float, waits: bool) -> float | None:
        """One came; `waits`: for others. When to `look`, if nobody is going to."""
        was_told, self._told = self._told, False
        self._since = now if waits and self._after is not None else None
        return now + self._after if was_told and waits and self._after is not None else None

    def look(self, now: float) -> tuple[float | None, float | None]:
        """The seconds of silence, if they are to be told now, and when to look again."""
        if self._since is None or self._after is None or self._told:
            return None, None
        due = self._since + self._after
        if now < due:
            return None, due
        self._told = True
        return now - self._since, None
