"""Notices of certificates that end soon.

They come 30 days before, and each day from then on.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from .records import record
from .timers import Timers

DAY = 86400.0
"""Seconds between two looks at one certificate."""

_SOON = 30 * DAY


@record
class CertificateExpires:
    """A certificate ends within 30 days, or has ended. Told once a day.

    `seconds_left` is negative where it is over, `text` says it to people. `peer` is whose it is, None where it is our
    own. A node tells it where it was made with `tell_events=True`.
    """

    seconds_left: float
    text: str
    peer: UUID | None


class _Certificate(NamedTuple):
    ends: float
    name: str
    remedy: str


class CertificateWatch:
    """Certificates by their owner, None for us. The timer ("certificate", owner) says when to `look`."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._known: dict[UUID | None, _Certificate] = {}

    def watch(self, owner: UUID | None, ends: float, name: str, remedy: str, now: float) -> None:
        """Ours is looked at now; a peer's, which may come and go, not before its day is over."""
        self._known[owner] = _Certificate(ends, name, remedy)
        if owner is None or self._timers.due(("certificate", owner)) is None:
            self._timers.set(("certificate", owner), now)

    def look(self, owner: UUID | None, now: float) -> CertificateExpires | None:
        """Its day is over. None where there is nothing to tell."""
        ends, name, remedy = self._known[owner]
        self._timers.set(("certificate", owner), now + DAY)
        left = ends - now
        if left > _SOON:
            return None
        when = f"ends in {left / DAY:.1f} days" if left > 0 else "has ended"
        return CertificateExpires(left, f"{name} {when}: {remedy}", owner)

    def forget(self, owner: UUID) -> None:
        del self._known[owner]
