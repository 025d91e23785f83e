"""Deliveries that get another owner.

They are jobs of a work queue, between it and its workers. The new owner has them from the commit on that takes them
from the old one: at no time has a job two, and at none has it nobody. Until that commit neither is sent them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from .._common.errors import TolliverError
from .batch import Move
from .intervals import spans_of
from .link import Peer
from .removing import Removing
from .store import Found, StoredMessage

_RETRY = 1.0  # seconds after a failure of the store


class Moving(Removing):
    """Moves from owner to owner."""

    def _move(self, source: Peer, target: Peer, messages: Sequence[StoredMessage | Found]) -> None:
        """These are the target's with the next commit: by seq, and all of one queue."""
        move = Move(source, target, messages)
        count, size = len(messages), move.size
        parked, parked_size = _parked(move)
        source.outbox.add(parked - count, parked_size - size)
        source.outbox.add_parked(-parked, -parked_size)
        target.outbox.add(count, size)
        source.outbox.leave(spans_of(move.ids))
        self._drop(source, move.ids)
        self._note_owner(move, source, target)
        self._batch.moves.append(move)
        self._batch.then.append(partial(self._moved, move))

    def _note_owner(self, move: Move, before: Peer, after: Peer) -> None:
        """Count the jobs of those who are workers."""
        queue = self._queues.get(move.messages[0].channel)
        if queue is None:
            return
        if before in queue.workers:
            queue.workers[before].jobs.difference_update(move.ids)
        if after in queue.workers:
            queue.workers[after].jobs.update(move.ids)
        queue.returns += after is queue.peer
        self._unassigned[queue.channel] = None

    def _moved(self, move: Move, error: TolliverError | None) -> None:
        source, target, messages = move.source, move.target, move.messages
        source.outbox.removed(spans_of(move.ids))
        if error is None:
            self._hand_over(target, messages)
            return
        parked, parked_size = _parked(move)
        source.outbox.add(len(messages) - parked, move.size - parked_size)
        source.outbox.add_parked(parked, parked_size)
        target.outbox.add(-len(messages), -move.size)
        self._note_owner(move, target, source)
        queue = self._queues.get(messages[0].channel)
        if queue is not None:
            queue.not_before = self._now + _RETRY
            self._timers.set(("queue", queue.channel), queue.not_before)
        self._read_again(source, messages[0].seq, source.outbox.last_seq)

    def _hand_over(self, target: Peer, messages: Sequence[StoredMessage | Found]) -> None:
        link, bodies = target.link, [one for one in messages if isinstance(one, StoredMessage)]
        if link is not None and link.window is not None and len(bodies) == len(messages) and not target.kept_back:
            target.outbox.oldest.forget()
            link.window.moved_in(bodies)
            self._sendable[link] = None
        else:
            self._read_again(target, messages[0].seq, messages[-1].seq)
            self._look_at_queues()

    def _read_again(self, peer: Peer, first: int, last: int) -> None:
        """Deliveries were added below what a live window may have read already."""
        peer.outbox.last_seq = max(peer.outbox.last_seq, last)
        peer.outbox.oldest.forget()
        window = peer.window
        if window is not None:
            window.go_back(first - 1)
        if peer.link is not None:
            self._sendable[peer.link] = None

    def _save_jobs(self, peer: Peer, found: Iterable[Found]) -> list[Found]:
        """Jobs among these, which the peer is to have no more, go back to their queues; returns the others."""
        if peer.is_queue:
            return [*found]
        others: list[Found] = []
        jobs: dict[str, list[Found]] = {}
        for one in found:
            (jobs.setdefault(one.channel, []) if self._is_job(peer, one) else others).append(one)
        for channel, back in jobs.items():
            self._move(peer, self._queued[channel], back)
        return others

    def _is_job(self, peer: Peer, one: Found) -> bool:
        """True if it is that peer's alone, and of a queue. A message that was sent before there was one, and to
        several, is no job."""
        is_of_queue = one.channel in self._queued
        return is_of_queue and one.seq not in peer.outbox.leaving and self._refcounts.count_of(one.seq) == 1


def _parked(move: Move) -> tuple[int, int]:
    """Messages and bytes of those that the source has set aside."""
    parked = [one.size for one in move.messages if isinstance(one, Found) and one.parked]
    return len(parked), sum(parked)
