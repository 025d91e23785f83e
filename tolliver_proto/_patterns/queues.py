"""Work queues of a producer.

State: each queue has an owner, a peer record that no peer can claim, which is owed the jobs that no worker has; each
worker has the set of its jobs (`Worker.jobs`). The store has the same: a job is a message with exactly one owner. A
worker known from an earlier run gets no jobs until its jobs are counted by a search.

Invariants: a job has one owner at a time, until it is done. A put stores each job for a worker with room, or for the
queue; jobs of the queue move to workers as these have room, oldest first. A move is one commit, and counts for both
owners from its start; a failed commit undoes the count. The ack of a worker says that a job is done, so workers that
would drop a job get none (T-46).

A worker whose connection ended keeps its jobs for the lease, as it may still work on them; then they return to the
queue. They return at once if the worker is connected and no longer subscribes. A job that a worker had begun may so be
done twice.

Rejected: the quota policies for a queue. Jobs that no worker has must not be dropped, so a put above the quota raises,
whatever the policy (D-10).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from uuid import UUID

from .._common.arguments import check_count, check_peer
from .._common.base_link import LinkState
from .._common.derived_ids import is_derived
from .._common.errors import ConnectionClosing, LocalProtocolError, OutboxFull, TolliverError, UndeliveredReason
from .._common.owner_ids import is_queue, queue_id
from .._common.reserved import users_key
from .._node.actions import Fetch, NoticeKind, Receipt, Rider, Stored
from .._node.link import Link, Peer, peer_of
from .._node.node import Node
from .._node.pattern import Pattern
from .._node.services import Services
from .._node.sizes import Item
from .._node.store import Found, ReplacePeerSubscriptions, Row, StoredMessage
from .._wire.events import Subscription
from .work_queue import Job, JobList, QueueNumbers, Worker, WorkQueue, check_queue, grouped, limit_of

_RETRY = 1.0  # seconds after a failure of the store


class Queues(Pattern):
    """Pattern of a producer: the work queues of this instance, their workers, and the jobs of each."""

    def __init__(self, node: Node, services: Services) -> None:
        self._node, self._kernel = node, services
        self._limits, self._timers = services.limits, services.timers
        self._queued: dict[str, Peer] = {  # owners of the jobs that no worker has, by channel
            one.channel: peer
            for peer in services.peers.values()
            if is_queue(peer.uuid)
            for one in peer.lists.subscriptions
        }
        self._queues: dict[str, WorkQueue] = {}  # declared queues
        self._unassigned: dict[str, None] = {}  # queues whose jobs are to be assigned, in a turn
        services.on_timer("lease", self._on_lease_timeout)
        services.on_timer("queue", self._on_queue_timeout)
        self._puts: deque[tuple[WorkQueue, list[Item], Receipt]] = deque()  # puts that wait for room on the disk (D-13)
        self._queue_fetches: dict[UUID, tuple[WorkQueue, int]] = {}

    @staticmethod
    def is_stored(services: Services) -> bool:
        """True if jobs of an earlier opening may wait, in a queue or with workers."""
        return any(map(is_queue, services.peers))

    # Calls of the application.

    def work_queue(self, channel: str, lease: float = 10.0, now: float | None = None) -> None:
        """Declares this channel as a work queue: each message that is `put` there goes to one of the peers that
        subscribe to the whole channel. Jobs of earlier runs go on.

        A job whose worker is disconnected for `lease` seconds is given to another one. Raises ReservedChannel,
        ValueError, and LocalProtocolError if this instance is a derived identity, which keeps no peers (T-72a).
        """
        self._kernel.tick(now)
        self._kernel.check(channel, "")
        check_queue(channel, lease)
        if is_derived(self._kernel.instance_id):
            raise LocalProtocolError(
                "write_only", f"{self._kernel.instance_id} is a derived identity: it has no workers (T-72a)"
            )
        known = self._queues.get(channel)
        if known is not None:
            known.lease = lease
            return
        peer = self._kernel.owner(queue_id(channel))
        queue = self._queues[channel] = WorkQueue(channel, lease, peer, self._kernel.read_for(peer))
        self._queued[channel] = peer
        self._kernel.refuse_names()
        for one in self._kernel.peers.values():
            if (one.outbox.pending or one.outbox.parked) and not one.is_owner:
                queue.workers[one] = Worker(one, is_known=False)
                if one.link is None:
                    self._timers.set(("lease", (channel, one.uuid)), self._kernel.now + lease)
        self._declare(queue)
        self._look_at(queue)

    def _declare(self, queue: WorkQueue) -> None:
        """Stores the queue's channel, by which a later run recognises jobs before the queue is declared again."""
        queue.declared = True
        self._kernel.operate(ReplacePeerSubscriptions(queue.peer.uuid, (queue.subscription,)))
        self._kernel.after_commit(partial(self._declared, queue))

    def _declared(self, queue: WorkQueue, error: TolliverError | None) -> None:
        if error is not None:
            queue.declared = False
            self._look_later(queue)

    def put_many(
        self,
        channel: str,
        items: Iterable[tuple[str, bytes]],
        now: float | None = None,
        *,
        receipt: Receipt | None = None,
    ) -> Receipt:
        """Stores jobs, (key, body) each, all or none, each for one worker or for the queue. `Stored` names the receipt,
        a new one or `receipt`, and `Acked` when all are done.

        Raises, before anything changes, ConnectionClosing, LocalProtocolError for an unknown queue or a body that is
        not bytes, OwnLimitExceeded (T-06, T-07), and OutboxFull if too many jobs wait for workers (D-10). Waits inside
        while the disk is full (D-13).
        """
        self._kernel.tick(now)
        if self._node.closing:
            raise ConnectionClosing("the instance is closing: nothing was stored")
        queue = self._declared_queue(channel)
        jobs = [(channel, key, body) for key, body in items]
        receipt = receipt or Receipt(0, -1, [])
        if self._kernel.apart or self._puts:
            for job in jobs:
                self._kernel.size_for(*job)
            self._puts.append((queue, jobs, receipt))
        else:
            self._store_jobs(queue, jobs, receipt)
        return receipt

    def is_declared(self, channel: str) -> bool:
        """True if this run has declared the queue."""
        return channel in self._queues

    def undeclared(self) -> list[str]:
        """Queues that earlier runs have declared and this one has not."""
        return [channel for channel in self._queued if channel not in self._queues]

    def check_declared(self, channel: str) -> None:
        """Raises LocalProtocolError if this run has not declared the queue."""
        self._declared_queue(channel)

    def put_due(self, channel: str, items: Sequence[tuple[str, bytes]], receipt: Receipt) -> None:
        """Stores jobs of this queue whose time has come, though this run may not have declared the queue, and though it
        may be full: they are on disk already (P-94)."""
        jobs = [(channel, key, body) for key, body in items]
        sizes = [self._kernel.size_for(*job) for job in jobs]
        owner, queue = self._kernel.owner(queue_id(channel)), self._queues.get(channel)
        receipt.counts += [1] * len(jobs)
        receipt.recipients = 1
        self._kernel.store_for([(owner.alone, len(jobs))], jobs, sizes, receipt)
        if queue is not None:
            self._look_at_filling_queue(queue)
            self._look_at(queue)

    def pending_jobs(self, channel: str, count: int = 1000, now: float | None = None) -> JobList:
        """Lists the first `count` jobs that are not done, in order. Returns a token, whose `jobs` are set once Stored
        names it."""
        self._kernel.tick(now)
        check_count("count", count)
        queue = self._declared_queue(channel)
        token, jobs, counts = JobList(), dict[int, Job](), Counter[Peer]()

        def take(peer: Peer, found: Sequence[Found]) -> bool:
            worker = None if peer is queue.peer else peer.uuid
            for one in found:
                jobs[one.seq] = Job(one.seq, users_key(one.key), worker, one.size, one.age, one.parked)
            counts[peer] += len(found)
            return counts[peer] >= count

        def done(error: TolliverError | None) -> None:
            token.jobs = [jobs[number] for number in sorted(jobs)[:count]]
            self._kernel.tell(Stored([token], error))

        self._look_through(queue, take, done)
        return token

    def cancel_jobs(self, channel: str, numbers: Iterable[int] | None = None, now: float | None = None) -> Receipt:
        """Gives up jobs, by their numbers, or all: their receipts are Undelivered, `cancelled`. `receipt.counts` has
        the number of jobs, once `Stored`. A worker that has begun one goes on, and its verdict is ignored."""
        self._kernel.tick(now)
        queue = self._declared_queue(channel)
        receipt, wanted = Receipt(0, -1, []), None if numbers is None else frozenset(numbers)

        def take(peer: Peer, found: Sequence[Found]) -> bool:
            gone = [one for one in found if wanted is None or one.seq in wanted]
            if gone:
                receipt.counts.append(len(gone))
                self._kernel.give_up(UndeliveredReason.CANCELLED, peer, gone)
            return False

        self._look_through(queue, take, lambda error: self._kernel.tell(Stored([receipt], error)))
        return receipt

    def reassign(self, channel: str, worker: UUID, now: float | None = None) -> Receipt:
        """Takes all jobs from this worker and gives them to others. `receipt.counts` has the number of jobs, once
        `Stored`.

        The worker gets no more jobs until it connects again. A job that it has begun may be done twice.
        """
        self._kernel.tick(now)
        check_peer("worker", worker)
        queue = self._declared_queue(channel)
        receipt, peer = Receipt(0, -1, []), self._kernel.peers.get(worker)
        known = queue.workers.get(peer) if peer is not None else None
        if known is None:
            self._kernel.tell(Stored([receipt]))
            return receipt
        known.barred, known.lease_over = known.peer.link, known.peer.link is None
        known.asked.append(receipt)
        self._look_at_all()
        self._return_jobs(queue, known)
        return receipt

    def numbers(self) -> list[QueueNumbers]:
        """Statistics of the queues that this instance has declared."""
        return [
            QueueNumbers(
                one.channel,
                one.peer.outbox.pending,
                sum(len(worker.jobs) for worker in one.workers.values()),
                len(one.ready),
                self._kernel.quota.used(one.peer.outbox),
                one.peer.outbox.full,
            )
            for one in self._queues.values()
        ]

    def _declared_queue(self, channel: str) -> WorkQueue:
        queue = self._queues.get(channel)
        if queue is None:
            raise LocalProtocolError("no_queue", f"{channel!r:.100} is no work queue here: declare it, work_queue(...)")
        return queue

    # Putting.

    def _store_jobs(self, queue: WorkQueue, jobs: Sequence[Item], receipt: Receipt) -> None:
        sizes = [self._kernel.size_for(*job) for job in jobs]
        rider = receipt if isinstance(receipt, Rider) else None
        if rider is not None and not rider.check(False):
            return
        waiting = queue.peer.outbox
        if queue.changed:
            self._look_at_workers(queue)
        is_next = not waiting.pending and self._kernel.now >= queue.not_before
        given = grouped(queue.allot(len(jobs), self._limits.outbox_messages) if is_next else ())
        start = sum(given.values())
        self._check_room(queue, sizes[start:])
        if not queue.declared:
            self._declare(queue)
        receipt.counts += [1] * len(jobs)
        receipt.recipients = min(1, len(jobs))
        shares = [(worker.recipients, number) for worker, number in given.items()]
        if start < len(jobs):
            shares.append((queue.recipients, len(jobs) - start))
        rows = iter(self._kernel.store_for(shares, jobs, sizes, receipt))
        if rider is not None:
            rider.ride()
        for worker, number in given.items():
            worker.jobs.update(one.seq for one in islice(rows, number))
        if start < len(jobs):
            self._look_at_filling_queue(queue)
            self._look_at(queue)
        if not jobs:
            self._kernel.tell(Stored([receipt]))

    def _check_room(self, queue: WorkQueue, sizes: Sequence[int]) -> None:
        """Raises OutboxFull if jobs of these sizes in bytes exceed the quota, whatever the policy: jobs that no worker
        has must not be lost (D-10).
        """
        waiting, limits = queue.peer.outbox, self._limits
        count, size = waiting.pending + len(sizes), waiting.pending_bytes + sum(sizes)
        if sizes and (count > limits.outbox_messages or size > limits.outbox_bytes):
            self._kernel.quota.refused(waiting)
            raise OutboxFull(
                f"{waiting.pending} jobs ({waiting.pending_bytes} bytes) of {queue.channel!r:.100} wait for workers, "
                f"and {len(sizes)} more would pass the quota (D-10): nothing was stored. Start more workers, or raise "
                "Limits.outbox_messages or outbox_bytes"
            )

    def _look_at_filling_queue(self, queue: WorkQueue) -> None:
        waiting, limits = queue.peer.outbox, self._limits
        if self._kernel.quota.begins_to_fill(waiting):
            self._kernel.notice(
                NoticeKind.OUTBOX_FILLING,
                queue.peer.uuid,
                f"{waiting.pending} of at most {limits.outbox_messages} jobs of {queue.channel!r:.100} wait for "
                f"workers, {waiting.pending_bytes} of {limits.outbox_bytes} bytes: at the quota a put raises (D-10)",
            )

    # Puts that wait for the disk (D-13).

    def waits(self) -> bool:
        return bool(self._puts)

    busy = waits

    def room_is_back(self) -> None:
        while self._puts:
            queue, jobs, receipt = self._puts.popleft()
            try:
                self._store_jobs(queue, jobs, receipt)
            except TolliverError as error:
                self._kernel.tell(Stored([receipt], error))

    def no_room(self, error: TolliverError) -> None:
        if self._puts:
            self._kernel.tell(Stored([receipt for _, _, receipt in self._puts], error))
            self._puts.clear()

    # Giving jobs to workers.

    def _look_later(self, queue: WorkQueue) -> None:
        """Tries again after a pause, as the store has failed."""
        queue.not_before = self._kernel.now + _RETRY
        self._timers.set(("queue", queue.channel), queue.not_before)

    def _on_queue_timeout(self, channel: str) -> None:
        queue = self._queues[channel]
        queue.changed = True
        if not queue.declared:
            self._declare(queue)
        self._look_at(queue)

    def _look_at(self, queue: WorkQueue) -> None:
        """Schedules, for the next turn, that jobs of this queue are given to workers."""
        self._unassigned[queue.channel] = None
        self._kernel.ask_turn(self)

    def _look_at_all(self) -> None:
        """Schedules finding the workers of all queues and giving them jobs, in the next turn."""
        for queue in self._queues.values():
            queue.changed = True
            self._look_at(queue)

    def turn(self) -> None:
        self._assign(self._queues[self._unassigned.popitem()[0]])
        if self._unassigned:
            self._kernel.ask_turn(self)

    def _assign(self, queue: WorkQueue) -> None:
        """Gives jobs of the queue to workers with room, oldest first."""
        if queue.changed:
            self._look_at_workers(queue)
        if self._kernel.now < queue.not_before or not queue.ready:
            return
        window, waiting = queue.window, queue.peer.outbox
        given: dict[Worker, list[StoredMessage]] = {}
        for worker in queue.allot(waiting.pending, self._limits.outbox_messages) if waiting.pending else ():
            run = window.next_run(1)
            if not run:
                break
            window.acked(run[0].wire_id)  # takes the job out of the queue's window
            given.setdefault(worker, []).append(run[0])
        for worker, jobs in given.items():
            self._give(queue, queue.peer, worker.peer, jobs)
        wanted = window.next_fetch() if queue.peer.uuid not in self._queue_fetches else None
        if wanted is not None:
            self._queue_fetches[queue.peer.uuid] = queue, wanted[0]
            self._kernel.tell(Fetch(queue.peer.uuid, *wanted))

    def rows(self, owner: UUID, rows: Sequence[Row], error: TolliverError | None) -> bool:
        asked = self._queue_fetches.pop(owner, None)
        if asked is None:
            return False
        queue, after_seq = asked
        if error is not None:
            self._look_later(queue)
        else:
            self._kernel.take_rows(queue.window, owner, rows, after_seq, None)
            self._look_at(queue)
        return True

    def stored(self, owner: Peer, messages: Sequence[StoredMessage]) -> None:
        self._look_at(self._queues[messages[0].channel])  # a worker may have come while the commit ran

    def _look_at_workers(self, queue: WorkQueue) -> None:
        """Looks which peers may get jobs of this queue now; returns the jobs of all others to the queue."""
        queue.changed = False
        queue.ready = []
        for peer in self._kernel.peers_with(queue.subscription):
            if peer not in queue.workers and peer.link is not None:
                queue.workers[peer] = Worker(peer, is_known=True)
        for peer, worker in list(queue.workers.items()):
            if self._kernel.peers.get(peer.uuid) is not peer:
                del queue.workers[peer]
            elif self._is_ready(queue, worker):
                worker.limit = limit_of(queue.channel, peer.lists.served, self._limits.window_messages)
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
        """True if the worker is connected and wants every job: it acknowledges, and drops, messages that it does not
        want (T-46)."""
        peer, link = worker.peer, worker.peer.link
        if link is None or link.state is not LinkState.OPEN or link is worker.barred:
            return False
        return queue.subscription in peer.lists.served and queue.subscription in peer.outbox.routed

    def _must_return(self, queue: WorkQueue, worker: Worker) -> bool:
        """True if the worker's jobs must go back to the queue: it is away for longer than the lease, or takes no jobs
        any more.
        """
        link = worker.peer.link
        if link is None:
            return worker.lease_over
        return link.state is LinkState.OPEN and not self._is_ready(queue, worker)

    # The owners.

    def _jobs_of(self, queue: WorkQueue, peer: Peer, found: Iterable[Found]) -> list[Found]:
        """Returns the jobs of this queue among the deliveries `found` of one owner, without those that are leaving that
        owner.
        """
        if peer is queue.peer:
            return [one for one in found if one.seq not in peer.outbox.leaving]
        return [one for one in found if one.channel == queue.channel and self._is_job(peer, one)]

    def _count_jobs(self, queue: WorkQueue, worker: Worker) -> None:
        """Counts the jobs that the worker has from an earlier opening; until that is done, it gets no more."""
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
                self._look_at_all()

        self._kernel.search(worker.peer.uuid, take, done)

    def _return_jobs(self, queue: WorkQueue, worker: Worker) -> None:
        """Returns the worker's jobs to the queue, unless the worker comes back meanwhile."""
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
                self._give(queue, worker.peer, queue.peer, jobs)
            return False

        def done(error: TolliverError | None) -> None:
            worker.is_searched = False
            if error is not None:
                self._look_later(queue)
            else:
                worker.is_known = worker.is_known or self._must_return(queue, worker)
                self._look_at_all()
            asked, worker.asked = worker.asked, []
            for receipt in asked:
                receipt.counts.append(moved)
            if asked:
                self._kernel.tell(Stored(asked, error))

        self._kernel.search(worker.peer.uuid, take, done)

    def _look_through(
        self,
        queue: WorkQueue,
        take: Callable[[Peer, Sequence[Found]], bool],
        done: Callable[[TolliverError | None], None],
    ) -> None:
        """Searches all jobs, first those of the queue, as jobs go from there to workers; they return by a search of
        their own, which runs before these or after. Starts over if a worker came meanwhile, to which jobs may have
        gone. `take` gets each owner and some of its jobs, and returns True to end the search of this owner; `done` gets
        None at the end, or the error."""
        peers, failed = [queue.peer, *queue.workers], list[TolliverError]()

        def of(peer: Peer, found: Sequence[Found]) -> bool:
            return take(peer, self._jobs_of(queue, peer, found))

        def ended(is_last: bool, error: TolliverError | None) -> None:
            if error is not None:
                failed.append(error)
            if not is_last:
                return
            if failed or queue.workers.keys() <= {*peers}:
                done(failed[0] if failed else None)
            else:
                self._look_through(queue, take, done)

        for peer in peers:
            self._kernel.search(peer.uuid, partial(of, peer), partial(ended, peer is peers[-1]))

    # The life of workers and their jobs.

    def _on_lease_timeout(self, whose: tuple[str, UUID]) -> None:
        queue, peer = self._queues[whose[0]], self._kernel.peers.get(whose[1])
        worker = queue.workers.get(peer) if peer is not None else None
        if worker is not None and worker.peer.link is None:
            worker.lease_over = True
            self._return_jobs(queue, worker)

    def peer_up(self, link: Link) -> None:
        assert link.peer is not None
        for queue in self._queues.values():
            worker = queue.workers.get(link.peer)
            if worker is not None:
                worker.lease_over = False
                self._timers.cancel(("lease", (queue.channel, worker.peer.uuid)))

    def peer_down(self, link: Link, was_up: bool) -> None:
        peer = peer_of(link)
        if not was_up or peer.link is not None:
            return
        for queue in self._queues.values():
            if peer in queue.workers:
                self._timers.set(("lease", (queue.channel, peer.uuid)), self._kernel.now + queue.lease)

    def peer_moved(self, peer: Peer) -> None:
        self._look_at_all()

    def left(self, peer: Peer, seqs: Collection[int]) -> None:
        for queue in self._queues.values():
            worker = queue.workers.get(peer)
            if worker is not None:
                worker.jobs.difference_update(seqs)
                self._look_at(queue)

    def refuses(self, channel: str) -> LocalProtocolError | None:
        if channel not in self._queued:
            return None
        return LocalProtocolError(
            "work_queue",
            f"{channel!r:.100} is a work queue of this instance, and what is sent there would be for all its workers: "
            "put it, work_queue(...).put(...), or send on another channel (P-03)",
        )

    def owns(self, channel: str) -> bool:
        return channel in self._queued

    def holds(self, entry: Subscription) -> bool | None:
        """Implements `Pattern.holds`: a worker's subscription is held until its jobs have another owner; its
        concurrency entry, which matches no message, never is."""
        return not entry.key if entry.channel in self._queued else None

    def forgets(self, peer: Peer) -> None:
        """Implements `Pattern.forgets`: a queue that this run has not declared ends. Raises LocalProtocolError for one
        in use."""
        if not is_queue(peer.uuid):
            return
        if peer.outbox.reader is not None:
            raise LocalProtocolError(
                "work_queue", f"{peer.uuid} is a work queue that is in use: cancel its jobs instead"
            )
        self._queued = {channel: one for channel, one in self._queued.items() if one is not peer}
        peer.lists.subscriptions = frozenset()

    # Jobs that get another owner.

    def _give(self, queue: WorkQueue | None, source: Peer, target: Peer, jobs: Sequence[StoredMessage | Found]) -> None:
        """Moves jobs from one owner to the other with the next commit; they count as those of `target` from now on."""
        self._note_owner(queue, source, target, jobs)
        self._kernel.move(source, target, jobs, partial(self._given, queue, source, target, jobs))

    def _note_owner(
        self, queue: WorkQueue | None, before: Peer, after: Peer, jobs: Iterable[StoredMessage | Found]
    ) -> None:
        """Takes jobs that moved from the owner `before` to `after` over into the sets of the workers among these."""
        if queue is None:
            return
        seqs = {one.seq for one in jobs}
        if before in queue.workers:
            queue.workers[before].jobs -= seqs
        if after in queue.workers:
            queue.workers[after].jobs |= seqs
        self._look_at(queue)

    def _given(
        self,
        queue: WorkQueue | None,
        source: Peer,
        target: Peer,
        jobs: Sequence[StoredMessage | Found],
        error: TolliverError | None,
        is_handed: bool,
    ) -> None:
        if error is None:
            if not is_handed:
                self._look_at_all()
            return
        self._note_owner(queue, target, source, jobs)
        if queue is not None:
            self._look_later(queue)

    def rescues(self, peer: Peer, found: list[Found]) -> list[Found]:
        """Implements `Pattern.rescues`: gives the jobs among the deliveries `found` back to their queues, and returns
        the other deliveries.
        """
        if peer.is_owner:
            return found
        others: list[Found] = []
        jobs: dict[str, list[Found]] = {}
        for one in found:
            (jobs.setdefault(one.channel, []) if self._is_job(peer, one) else others).append(one)
        for channel, back in jobs.items():
            self._give(self._queues.get(channel), peer, self._queued[channel], back)
        return others

    def _is_job(self, peer: Peer, one: Found) -> bool:
        """True if the delivery `one` belongs to a queue and to that peer alone. A message sent before the queue
        existed, to several peers, is no job.
        """
        is_of_queue = one.channel in self._queued
        return is_of_queue and one.seq not in peer.outbox.leaving and self._kernel.is_owned_once(one.seq)
