"""Token bucket for rate limits on a peer (T-65, T-66, D-12) and on dials (T-76).

The state is the number of tokens and the time at which that number was right.
"""

from __future__ import annotations

_ROUNDING = 1e-6  # of a token: else a pause could be too short for the clock to move


class TokenBucket:
    """Rate limit: tokens up to `burst`, refilled at `per_second`; each event spends one token."""

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
        """Returns the seconds until a token can be spent; 0.0 if there is one now."""
        missing = 1.0 - min(self._limit, self._left + (now - self._seen) * self._rate)
        return missing / self._rate if missing > _ROUNDING else 0.0
