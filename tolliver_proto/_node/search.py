"""Searches of the outbox: deliveries in the store, found piece by piece.

The node knows its deliveries as numbers, not one by one; who must know them asks the store. One search goes after the
other, and each piece is looked for when all that changed before is stored: what is found is then as the node counts it,
but for what has been acknowledged, given up or set aside meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from uuid import UUID

from .._common.errors import TolliverError
from .actions import Find
from .batch import GoOn
from .store import Found

_PIECE = 1000  # deliveries of one search


@dataclass(slots=True)
class _Search:
    peer: UUID | None
    min_age: float
    take: Callable[[Sequence[Found]], bool | None]
    done: GoOn
    piece: int
    expiring: bool
    after_seq: int = 0
    over: bool = False


class OutboxSearch:
    """Searches, one after the other: `ask` hands a Find to the store, `when_stored` calls when all is stored so far.

    `ids` numbers the Finds, of all objects of this kind that a node has."""

    def __init__(
        self,
        ask: Callable[[Find], None],
        when_stored: Callable[[GoOn], None],
        on_error: Callable[[UUID | None, TolliverError], None],
        ids: Iterator[int],
    ) -> None:
        self._ids = ids
        self._ask = ask
        self._when_stored = when_stored
        self._on_error = on_error
        self._searches: deque[_Search] = deque()  # the first is running
        self._last_id = 0
        self._asked = False

    @property
    def busy(self) -> bool:
        return bool(self._searches)

    def begin(
        self,
        peer: UUID | None,
        take: Callable[[Sequence[Found]], bool | None],
        done: GoOn,
        min_age: float = 0.0,
        piece: int = _PIECE,
        expiring: bool = False,
    ) -> None:
        """Find the peer's deliveries, or everybody's: `take` is given each piece, and may say that it is enough; `done`
        is told the end. With `expiring` those with an expiry of their own, soonest first, each piece from the first
        on: `take` removes what it was given."""
        self._searches.append(_Search(peer, inf if expiring else min_age, take, done, piece, expiring))
        if len(self._searches) == 1:
            self._when_stored(self._go_on)

    def _go_on(self, error: TolliverError | None) -> None:
        """Look for the next piece, or begin the next search where this one is over."""
        search = self._searches[0]
        if error is None and not search.over:
            self._last_id = next(self._ids)
            self._asked = True
            bounds = (search.peer, search.after_seq, search.piece, search.min_age)
            self._ask(Find(self._last_id, *bounds, search.expiring))
            return
        self._searches.popleft()
        others_wait = bool(self._searches)  # one that `done` begins where none does is begun there
        search.done(error)
        if others_wait:
            self._when_stored(self._go_on)

    def found(self, search_id: int, rows: Sequence[Found], error: TolliverError | None) -> None:
        """Take the result of a Find."""
        if search_id != self._last_id or not self._asked:
            return
        self._asked = False
        search = self._searches[0]
        if error is not None:
            self._on_error(search.peer, error)
            self._go_on(error)
            return
        enough = False
        if rows:
            enough = bool(search.take(rows))
            search.after_seq = rows[-1].seq - (search.peer is None)  # it may be owed to others too
        search.over = enough or len(rows) < search.piece
        self._when_stored(self._go_on)
