"""Token bucket for rate limits on a peer (T-65, T-66, D-12) and on dials (T-76).

A burst is allowed, and refilled at a steady rate. The state is one number and the time of the last look at it.
"""

from __future__ import annotations

_ROUNDING = 1e-6  # of a token: else a pause could be too short for the clock to move


class TokenBucket:
    """A burst, refilled at a steady rate: how often a peer may do what it has no reason to do."""

    __slots__ = ("_left", "_limit", "_rate", "_seen")

    def __init__(self, burst: int, per_second: float) -> None:
        self._left = float(burst)
        self._limit = float(burst)
        self._rate = per_second
        self._seen = 0.0

    def spend(self, now: float) -> bool:
        self._left = min(self._limit, self._left + (now - self._seen) * self._rate)
        self._seen = now
        self._left -= 1.0
        return self._left >= 0.0

    def pause(self, now: float) -> float:
        """Seconds until one can be spent; 0.0 where one can be now."""
        missing = 1.0 - min(self._limit, self._left + (now - self._seen) * self._rate)
        return missing / self._rate if missing > _ROUNDING else 0.0
