"""Work queues of a producer.

Each job is one worker's at a time, until it is done. A job that is put is stored for a worker with room, or for the
queue; those are moved to workers as these have room. A worker whose connection ended keeps its jobs for the lease, as
it may still be at them; then they go back. So they do at once where it is connected and does not subscribe any more. An
acknowledgement says that a job is done.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any
from uuid import UUID

from .._common.derived import is_derived
from .._common.errors import (
    ConnectionClosing,
    LocalProtocolError,
    OutboxFull,
    TolliverError,
    UndeliveredReason,
)
from .._common.link import LinkState
from .._common.queue_ids import queue_id
from .._wire.events import Established
from .actions import Fetch, NoticeKind, Receipt, Stored
from .base import Item
from .batch import Batch
from .flushing import Flushing
from .link import Link, Peer
from .outbox import Outbox, Window
from .queues import Job, JobList, Worker, WorkQueue, grouped, limit_of
from .store import Found, LoadedPeer, ReplacePeerSubscriptions, Row, StoredMessage

_RETRY = 1.0  # seconds after a failure of the store


class Queueing(Flushing):
    """Queues, and who has which job."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._puts: deque[tuple[WorkQueue, list[Item], Receipt]] = deque()  # they wait for room on the disk (D-13)
        self._queue_fetches: dict[UUID, tuple[WorkQueue, int]] = {}

    # Calls of the application.

    def work_queue(self, channel: str, lease: float = 10.0, now: float | None = None) -> None:
        """From now on this channel is a work queue: each message that is `put` there goes to one of the peers that
        subscribe to the whole channel. Jobs of earlier lives go on.

        A job whose worker is cut off for `lease` seconds is given to another one. Raises ReservedChannel, ValueError,
        and LocalProtocolError where this instance is a derived identity, which keeps no peers (T-72a).
        """
        self._tick(now)
        self._checked(channel, "")
        if not channel or not lease > 0:
            raise ValueError(f"a work queue has a channel and a lease in seconds, not {channel!r:.100} and {lease!r}")
        if is_derived(self.instance_id):
            raise LocalProtocolError(
                "write_only", f"{self.instance_id} is a derived identity: it has no workers (T-72a)"
            )
        known = self._queues.get(channel)
        if known is not None:
            known.lease = lease
            return
        uuid = queue_id(channel)
        peer = self._peers.get(uuid) or Peer(uuid, LoadedPeer())
        window = peer.reader = Window(peer.outbox, self.limits, self._resend_first, self._rng.random)
        queue = self._queues[channel] = WorkQueue(channel, lease, peer, window)
        self._queued[channel] = self._peers[peer.uuid] = peer
        self._pair_sizes.clear()
        for one in self._peers.values():
            if (one.outbox.pending or one.outbox.parked) and not one.is_queue:
                queue.workers[one] = Worker(one, is_known=False)
                if one.link is None:
                    self._timers.set(("lease", (channel, one.uuid)), self._now + lease)
        self._declare(queue)
        self._unassigned[channel] = None

    def _declare(self, queue: WorkQueue) -> None:
        """The store is told its channel: jobs are known for jobs by that, before they are asked for again."""
        queue.declared = True
        self._batch.operations.append(ReplacePeerSubscriptions(queue.peer.uuid, (queue.subscription,)))
        self._batch.then.append(partial(self._declared, queue))

    def _declared(self, queue: WorkQueue, error: TolliverError | None) -> None:
        if error is None:
            queue.peer.stored = True
        else:
            queue.declared = False
            self._look_later(queue)

    def put_many(self, channel: str, items: Iterable[tuple[str, bytes]], now: float | None = None) -> Receipt:
        """Store jobs, (key, body) each, all or none, each for one worker or for whoever comes. `Stored` names the
        receipt, and `Acked` when all are done.

        Raises, before anything changes, LocalProtocolError where there is no such queue or a body is no bytes,
        OwnLimitExceeded (T-06, T-07), and OutboxFull where so many jobs wait that nobody has (D-10). While the disk is
        full it waits inside (D-13).
        """
        self._tick(now)
        if self.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        queue = self._declared_queue(channel)
        jobs = [(channel, key, body) for key, body in items]
        receipt = Receipt(0, -1, [])
        if self._apart or self._puts:
            for job in jobs:
                self._job_size(*job)
            self._puts.append((queue, jobs, receipt))
        else:
            self._store_jobs(queue, jobs, receipt)
        return receipt

    def pending_jobs(self, channel: str, most: int = 1000, now: float | None = None) -> JobList:
        """The first jobs that are not done, in order. `jobs` of the token has them, once `Stored`."""
        self._tick(now)
        queue = self._declared_queue(channel)
        token, jobs, counts = JobList(), dict[int, Job](), Counter[Peer]()

        def take(peer: Peer, found: Sequence[Found]) -> bool:
            worker = None if peer is queue.peer else peer.uuid
            for one in found:
                jobs[one.seq] = Job(one.seq, one.key, worker, one.size, one.age, one.parked)
            counts[peer] += len(found)
            return counts[peer] >= most

        def done(error: TolliverError | None) -> None:
            token.jobs = [jobs[number] for number in sorted(jobs)[:most]]
            self._actions.append(Stored([token], error))

        self._look_through(queue, take, done)
        return token

    def cancel_jobs(self, channel: str, numbers: Iterable[int] | None = None, now: float | None = None) -> Receipt:
        """Give up jobs, by their numbers, or all: their receipts are Undelivered, `cancelled`. `receipt.counts` has
        how many, once `Stored`. A worker that is at one goes on, and what it says of it counts no more.
        """
        self._tick(now)
        queue = self._declared_queue(channel)
        receipt, wanted = Receipt(0, -1, []), None if numbers is None else frozenset(numbers)

        def take(peer: Peer, found: Sequence[Found]) -> bool:
            gone = [one for one in found if wanted is None or one.seq in wanted]
            if gone:
                receipt.counts.append(len(gone))
                self._remove(UndeliveredReason.CANCELLED, peer, gone)
            return False

        self._look_through(queue, take, lambda error: self._actions.append(Stored([receipt], error)))
        return receipt

    def reassign(self, channel: str, worker: UUID, now: float | None = None) -> Receipt:
        """Take all jobs from this worker and give them to others. `receipt.counts` has how many, once `Stored`.

        It is given nothing more until it connects again. One that is at a job goes on: that one may be done twice.
        """
        self._tick(now)
        queue = self._declared_queue(channel)
        receipt, peer = Receipt(0, -1, []), self._peers.get(worker)
        known = queue.workers.get(peer) if peer is not None else None
        if known is None:
            self._actions.append(Stored([receipt]))
            return receipt
        known.barred, known.lease_over = known.peer.link, known.peer.link is None
        known.asked.append(receipt)
        self._look_at_queues()
        self._return_jobs(queue, known)
        return receipt

    def forget_peer(self, uuid: UUID, now: float | None = None) -> Receipt:
        """Purge what waits for it, its subscriptions and its pin (T-77), but for jobs that it has: those go back to
        their queue. `Stored` names the receipt. That of a queue which is not declared ends the queue.

        Raises LocalProtocolError for one that is.
        """
        peer = self._peers.get(uuid)
        if peer is None or not peer.is_queue:
            return super().forget_peer(uuid, now)
        if peer.reader is not None:
            raise LocalProtocolError("work_queue", f"{uuid} is a work queue that is in use: cancel its jobs instead")
        self._queued = {channel: one for channel, one in self._queued.items() if one is not peer}
        peer.subscriptions = frozenset()
        return super().forget_peer(uuid, now)

    def _declared_queue(self, channel: str) -> WorkQueue:
        queue = self._queues.get(channel)
        if queue is None:
            raise LocalProtocolError("no_queue", f"{channel!r:.100} is no work queue here: declare it, work_queue(...)")
        return queue

    # Putting.

    def _job_size(self, channel: str, key: str, body: bytes) -> int:
        self._check_body(channel, body)
        return self._around(channel, key) + len(body)

    def _store_jobs(self, queue: WorkQueue, jobs: Sequence[Item], receipt: Receipt) -> None:
        sizes = [self._job_size(*job) for job in jobs]
        waiting = queue.peer.outbox
        if queue.changed:
            self._look_at_workers(queue)
        is_next = not waiting.pending and self._now >= queue.not_before
        given = grouped(queue.allot(len(jobs), self.limits.outbox_messages) if is_next else ())
        start = sum(given.values())
        self._check_room(queue, sizes[start:])
        if not queue.declared:
            self._declare(queue)
        receipt.counts += [1] * len(jobs)
        receipt.recipients = min(1, len(jobs))
        receipt.first_seq = first = self._next_seq
        numbers = zip(count(first), self._ids.take_many(len(jobs)), strict=False)
        rows = [
            StoredMessage(seq, wire_id, *job, size)
            for (seq, wire_id), job, size in zip(numbers, jobs, sizes, strict=False)
        ]
        at = 0
        for worker, number in given.items():
            run = rows[at : at + number]
            self._take_in(run, worker.recipients, False)
            worker.peer.outbox.add(number, sum(sizes[at : at + number]))
            worker.jobs.update(one.seq for one in run)
            at += number
        if at < len(rows):
            self._take_in(rows[at:], queue.recipients, False)
            waiting.add(len(rows) - at, sum(sizes[at:]))
            self._look_at_filling_queue(queue)
            self._unassigned[queue.channel] = None
        if not jobs:
            self._actions.append(Stored([receipt]))
            return
        self._hold_receipt(receipt, len(jobs))

    def _check_room(self, queue: WorkQueue, sizes: Sequence[int]) -> None:
        """A queue refuses at its quota, whatever the policy: what nobody has is nobody's to lose (D-10)."""
        waiting, limits = queue.peer.outbox, self.limits
        count, size = waiting.pending + len(sizes), waiting.pending_bytes + sum(sizes)
        if sizes and (count > limits.outbox_messages or size > limits.outbox_bytes):
            self._quota.refused(waiting)
            raise OutboxFull(
                f"{waiting.pending} jobs ({waiting.pending_bytes} bytes) of {queue.channel!r:.100} wait for workers, "
                f"and {len(sizes)} more would pass the quota (D-10): nothing was stored. Start more workers, or raise "
                "Limits.outbox_messages or outbox_bytes"
            )

    def _look_at_filling_queue(self, queue: WorkQueue) -> None:
        waiting, limits = queue.peer.outbox, self.limits
        if self._quota.begins_to_fill(waiting):
            self._notice(
                NoticeKind.OUTBOX_FILLING,
                queue.peer.uuid,
                f"{waiting.pending} of at most {limits.outbox_messages} jobs of {queue.channel!r:.100} wait for "
                f"workers, {waiting.pending_bytes} of {limits.outbox_bytes} bytes: at the quota a put raises (D-10)",
            )

    # Puts that wait for the disk (D-13).

    @property
    def _waits_alone(self) -> bool:
        return super()._waits_alone or bool(self._puts and self._batch.empty)

    def _store_blocked(self) -> None:
        super()._store_blocked()
        while self._puts:
            queue, jobs, receipt = self._puts.popleft()
            try:
                self._store_jobs(queue, jobs, receipt)
            except TolliverError as error:
                self._actions.append(Stored([receipt], error))

    def _fail_blocked(self, error: TolliverError) -> None:
        super()._fail_blocked(error)
        if self._puts:
            self._actions.append(Stored([receipt for _, _, receipt in self._puts], error))
            self._puts.clear()

    # Giving jobs to workers.

    def _look_later(self, queue: WorkQueue) -> None:
        """The store has failed."""
        queue.not_before = self._now + _RETRY
        self._timers.set(("queue", queue.channel), queue.not_before)

    def _on_queue_timeout(self, channel: str) -> None:
        queue = self._queues[channel]
        queue.changed = True
        if not queue.declared:
            self._declare(queue)
        self._unassigned[channel] = None

    def _assign(self, channel: str) -> None:
        """Jobs of the queue go to workers that have room, the oldest first."""
        queue = self._queues[channel]
        if queue.changed:
            self._look_at_workers(queue)
        if self._now < queue.not_before or not queue.ready:
            return
        window, waiting = queue.window, queue.peer.outbox
        given: dict[Worker, list[StoredMessage]] = {}
        for worker in queue.allot(waiting.pending, self.limits.outbox_messages) if waiting.pending else ():
            run = window.next_run(1)
            if not run:
                break
            window.acked(run[0].wire_id)  # until it is the worker's it leaves the queue
            given.setdefault(worker, []).append(run[0])
        for worker, jobs in given.items():
            self._move(queue.peer, worker.peer, jobs)
        wanted = window.next_fetch() if queue.peer.uuid not in self._queue_fetches else None
        if wanted is not None:
            self._queue_fetches[queue.peer.uuid] = queue, wanted[0]
            self._actions.append(Fetch(queue.peer.uuid, *wanted))

    def fetched(self, peer: UUID, rows: Sequence[Row], now: float | None = None) -> None:
        """Take the result of a Fetch, in order."""
        asked = self._queue_fetches.pop(peer, None)
        if asked is None:
            super().fetched(peer, rows, now)
            return
        self._tick(now)
        queue, after_seq = asked
        self._take_rows(queue.window, peer, rows, after_seq, None)
        self._unassigned[queue.channel] = None

    def fetch_failed(self, peer: UUID, error: TolliverError, now: float | None = None) -> None:
        """The Fetch brought nothing; it is tried again in a second."""
        asked = self._queue_fetches.pop(peer, None)
        super().fetch_failed(peer, error, now)
        if asked is not None:
            self._look_later(asked[0])

    def _look_at_workers(self, queue: WorkQueue) -> None:
        """Those that may be given jobs, and those whose jobs are to go back."""
        queue.changed = False
        queue.ready = []
        for peer in self._routes.of(queue.subscription):
            if peer not in queue.workers and peer.link is not None:
                queue.workers[peer] = Worker(peer, is_known=True)
        for peer, worker in list(queue.workers.items()):
            if self._peers.get(peer.uuid) is not peer:
                del queue.workers[peer]
            elif self._is_ready(queue, worker):
                worker.limit = limit_of(queue.channel, peer.served, self.limits.window_messages)
                if not worker.is_known:
                    self._count_jobs(queue, worker)
                elif worker.limit:
                    queue.ready.append(worker)
            elif worker.jobs or not worker.is_known:
                if self._must_return(queue, worker):
                    self._return_jobs(queue, worker)
            elif not worker.is_searched and (peer.link is None or peer.link is not worker.barred):
                del queue.workers[peer]

    def _is_ready(self, queue: WorkQueue, worker: Worker) -> bool:
        """True if it is connected and wants every job: it acknowledges, and drops, what it does not want (T-46)."""
        peer, link = worker.peer, worker.peer.link
        if link is None or link.state is not LinkState.OPEN or link is worker.barred:
            return False
        return queue.subscription in peer.served and queue.subscription in peer.routed

    def _must_return(self, queue: WorkQueue, worker: Worker) -> bool:
        """True if its jobs are to be another's."""
        link = worker.peer.link
        if link is None:
            return worker.lease_over
        return link.state is LinkState.OPEN and not self._is_ready(queue, worker)

    # The owners.

    def _jobs_of(self, queue: WorkQueue, peer: Peer, found: Iterable[Found]) -> list[Found]:
        """Jobs of this queue among these, but for those that are leaving their owner."""
        if peer is queue.peer:
            return [one for one in found if one.seq not in peer.outbox.leaving]
        return [one for one in found if one.channel == queue.channel and self._is_job(peer, one)]

    def _count_jobs(self, queue: WorkQueue, worker: Worker) -> None:
        """An earlier life gave it some: it gets no more until they are counted."""
        if worker.is_searched:
            return
        worker.is_searched = True

        def take(found: Sequence[Found]) -> None:
            jobs = self._jobs_of(queue, worker.peer, found)
            worker.jobs.update(one.seq for one in jobs if not one.parked)

        def done(error: TolliverError | None) -> None:
            worker.is_searched, worker.is_known = False, error is None
            if error is not None:
                self._look_later(queue)
            else:
                self._look_at_queues()

        self._searches.begin(worker.peer.uuid, take, done)

    def _return_jobs(self, queue: WorkQueue, worker: Worker) -> None:
        """They go back to the queue, unless it has come back meanwhile."""
        if worker.is_searched:
            return
        worker.is_searched = True
        moved = 0

        def take(found: Sequence[Found]) -> bool:
            nonlocal moved
            if not self._must_return(queue, worker):
                return True
            jobs = self._jobs_of(queue, worker.peer, found)
            moved += len(jobs)
            if jobs:
                self._move(worker.peer, queue.peer, jobs)
            return False

        def done(error: TolliverError | None) -> None:
            worker.is_searched = False
            if error is not None:
                self._look_later(queue)
            else:
                worker.is_known = worker.is_known or self._must_return(queue, worker)
                self._look_at_queues()
            asked, worker.asked = worker.asked, []
            for receipt in asked:
                receipt.counts.append(moved)
            if asked:
                self._actions.append(Stored(asked, error))

        self._searches.begin(worker.peer.uuid, take, done)

    def _look_through(
        self,
        queue: WorkQueue,
        take: Callable[[Peer, Sequence[Found]], bool],
        done: Callable[[TolliverError | None], None],
    ) -> None:
        """All jobs, with who has them: first those of nobody, as they go from there to workers. If some came back
        meanwhile, once more."""
        peers, returns = [queue.peer, *queue.workers], queue.returns

        failed: list[TolliverError] = []

        def of(peer: Peer, found: Sequence[Found]) -> bool:
            return take(peer, self._jobs_of(queue, peer, found))

        def ended(is_last: bool, error: TolliverError | None) -> None:
            if error is not None:
                failed.append(error)
            if not is_last:
                return
            if failed or returns == queue.returns:
                done(failed[0] if failed else None)
            else:
                self._look_through(queue, take, done)

        for peer in peers:
            self._searches.begin(peer.uuid, partial(of, peer), partial(ended, peer is peers[-1]))

    # The life of workers and their jobs.

    def _on_lease_timeout(self, whose: tuple[str, UUID]) -> None:
        queue, peer = self._queues[whose[0]], self._peers.get(whose[1])
        worker = queue.workers.get(peer) if peer is not None else None
        if worker is not None and worker.peer.link is None:
            worker.lease_over = True
            self._return_jobs(queue, worker)

    def _on_established(self, link: Link, event: Established) -> None:
        super()._on_established(link, event)
        assert link.peer is not None
        for queue in self._queues.values():
            worker = queue.workers.get(link.peer)
            if worker is not None:
                worker.lease_over = False
                self._timers.cancel(("lease", (queue.channel, worker.peer.uuid)))
        self._on_move(link.peer)

    def _take_down(self, link: Link, error: TolliverError | None) -> None:
        peer, was_up = link.peer, link.up
        super()._take_down(link, error)
        if peer is None or not was_up:
            return
        for queue in self._queues.values():
            worker = queue.workers.get(peer)
            if worker is not None and peer.link is None:
                self._timers.set(("lease", (queue.channel, peer.uuid)), self._now + queue.lease)
        self._on_move(peer)

    def _settle(self, link: Link, acked: Mapping[int, tuple[int, int]]) -> None:
        super()._settle(link, acked)
        if self._queues and link.peer is not None:
            self._lose_jobs(link.peer, [seq for seq, _ in acked.values()])

    def _remove(self, reason: UndeliveredReason, peer: Peer, found: Iterable[Found]) -> None:
        found = list(found)
        super()._remove(reason, peer, found)
        self._lose_jobs(peer, [one.seq for one in found])

    def _park(self, outbox: Outbox, peer: UUID, seq: int, size: int) -> None:
        super()._park(outbox, peer, seq, size)
        self._lose_jobs(self._peers[peer], (seq,))

    def _take_back(self, batch: Batch) -> None:
        super()._take_back(batch)
        for recipients, messages in batch.runs if self._queues else ():
            for peer in recipients.peers:
                self._lose_jobs(peer, [one.seq for one in messages])

    def _lose_jobs(self, peer: Peer, seqs: Sequence[int]) -> None:
        """It has these no more."""
        for queue in self._queues.values():
            worker = queue.workers.get(peer)
            if worker is not None:
                worker.jobs.difference_update(seqs)
                self._unassigned[queue.channel] = None
