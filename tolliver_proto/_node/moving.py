"""Deliveries that get another owner.

The new owner has them from the commit on that takes them from the old one: at no time has a message two, and at none
has it nobody. Until that commit neither is sent them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from .._common.errors import TolliverError
from .batch import Move
from .intervals import spans_of
from .link import Peer
from .removing import Removing
from .store import Found, StoredMessage

Moved = Callable[[TolliverError | None, bool], None]


class Moving(Removing):
    """Moves from owner to owner."""

    def _move(self, source: Peer, target: Peer, messages: Sequence[StoredMessage | Found], then: Moved) -> None:
        """These, by seq, are the target's with the next commit. `then` is told, and whether its connection has them."""
        move = Move(source, target, messages)
        count, size = len(messages), move.size
        parked, parked_size = _parked(move)
        source.outbox.add(parked - count, parked_size - size)
        source.outbox.add_parked(-parked, -parked_size)
        target.outbox.add(count, size)
        source.outbox.leave(spans_of(move.ids))
        self._drop(source, move.ids)
        self._batch.moves.append(move)
        self._batch.then.append(partial(self._moved, move, then))

    def _moved(self, move: Move, then: Moved, error: TolliverError | None) -> None:
        source, target, messages = move.source, move.target, move.messages
        source.outbox.removed(spans_of(move.ids))
        if error is None:
            then(None, self._hand_over(target, messages))
            return
        parked, parked_size = _parked(move)
        source.outbox.add(len(messages) - parked, move.size - parked_size)
        source.outbox.add_parked(parked, parked_size)
        target.outbox.add(-len(messages), -move.size)
        then(error, False)
        self._read_again(source, messages[0].seq, source.outbox.last_seq)

    def _hand_over(self, target: Peer, messages: Sequence[StoredMessage | Found]) -> bool:
        """True if a connection takes them; else they are read when one comes."""
        link, bodies = target.link, [one for one in messages if isinstance(one, StoredMessage)]
        if link is not None and link.window is not None and len(bodies) == len(messages) and not target.kept_back:
            target.outbox.oldest.forget()
            link.window.moved_in(bodies)
            self._sendable[link] = None
            return True
        self._read_again(target, messages[0].seq, messages[-1].seq)
        return False

    def _read_again(self, peer: Peer, first: int, last: int) -> None:
        """Deliveries were added below what a live window may have read already."""
        peer.outbox.last_seq = max(peer.outbox.last_seq, last)
        peer.outbox.oldest.forget()
        window = peer.window
        if window is not None:
            window.go_back(first - 1)
        if peer.link is not None:
            self._sendable[peer.link] = None


def _parked(move: Move) -> tuple[int, int]:
    """Messages and bytes of those that the source has set aside."""
    parked = [one.size for one in move.messages if isinstance(one, Found) and one.parked]
    return len(parked), sum(parked)
