"""Daily notices of certificates that end within 30 days."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from .records import record
from .timers import Timers

DAY = 86400.0
"""Seconds between two checks of one certificate."""

_SOON = 30 * DAY


@record
class CertificateExpires:
    """A certificate ends within 30 days, or has ended; the event comes once a day.

    `seconds_left` is negative after the end, `text` is for people. `peer` is the certificate's owner, None for our own
    certificate. A node gives the event only if it was made with `tell_events=True`.
    """

    seconds_left: float
    text: str
    peer: UUID | None


def new_one(has_uuid: bool) -> str:
    """Returns the words for the certificate that is to take the place of one with, or without, a UUID."""
    return "a new one with the same UUID" if has_uuid else "a new one"


class _Certificate(NamedTuple):
    ends: float
    name: str
    remedy: str


class CertificateWatch:
    """Ends of certificates by owner (None: our own), of which the operator is told in time. The timer ("certificate",
    owner) is due when `check` is to be called.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._known: dict[UUID | None, _Certificate] = {}

    def watch(self, owner: UUID | None, ends: float, name: str, remedy: str, now: float) -> None:
        """Watches a certificate, which ends at `ends`, in seconds of the node, and is called `name` in texts. Ours is
        due now; a peer that reconnects keeps the timer that it has.
        """
        self._known[owner] = _Certificate(ends, name, remedy)
        if owner is None or self._timers.due(("certificate", owner)) is None:
            self._timers.set(("certificate", owner), now)

    def check(self, owner: UUID | None, now: float) -> CertificateExpires | None:
        """Checks a certificate whose timer is due, and sets the timer again. Returns the event to tell, None if the
        certificate ends later than in 30 days.
        """
        ends, name, remedy = self._known[owner]
        self._timers.set(("certificate", owner), now + DAY)
        left = ends - now
        if left > _SOON:
            return None
        when = f"ends in {left / DAY:.1f} days" if left > 0 else "has ended"
        return CertificateExpires(left, f"{name} {when}: {remedy}", owner)

    def forget(self, owner: UUID) -> None:
        del self._known[owner]
