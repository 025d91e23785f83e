"""Messages with an expiry of their own (P-27).

They are given up by the store's clock, whoever sent them and whenever. The store knows when each expires, and the node
when the first of them does: then it asks for those that are soonest, gives up what is over, and learns when the next
one is.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._common.errors import TolliverError
from .actions import NoticeKind
from .maintenance import SOONEST, Maintenance
from .store import Found

_TEXT = (
    "messages were given up without an acknowledgement, when the time was over that their send gave them (expire_after)"
)


class Expiring(Maintenance):
    """Messages that were sent with an `expire_after`."""

    _looked_at = float("-inf")

    def _look_at_due(self, seconds: float) -> None:
        super()._look_at_due(max(seconds, self._looked_at + SOONEST - self._now))

    def _on_due_timeout(self, _subject: None) -> None:
        self._looked_at = self._now
        self._searches.begin(None, self._give_up_due, self._on_looked, expiring=True)

    def _give_up_due(self, found: Sequence[Found]) -> bool:
        """Returns True where no more are over, or those that are over are on their way out already."""
        over = [one for one in found if one.expires_in <= 0]
        gone = 0
        for uuid, count in self._give_up_expired(over):
            gone += count
            self._tally.add(NoticeKind.EXPIRED, uuid, count, _TEXT, self._now)
        if len(over) < len(found):
            self._look_at_due(found[len(over)].expires_in)
            return True
        if not gone:
            self._look_at_due(SOONEST)
        return not gone

    def _on_looked(self, error: TolliverError | None) -> None:
        if error is not None:
            self._look_at_due(SOONEST)
