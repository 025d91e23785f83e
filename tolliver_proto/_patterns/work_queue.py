"""Work queue: its workers, and the jobs that each of them has.

A job is a message owed to one owner: a worker or, while no worker has it, the queue, a peer record that no peer can
claim. Workers are the peers that subscribe to the whole channel. Each has at most as many jobs as it works on at a
time and wants in advance, and the next job goes to the worker with the smallest share of its limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from uuid import UUID

from .._common.arguments import check_seconds
from .._common.records import frozen
from .._node.actions import Receipt
from .._node.link import Link, Peer, Recipients
from .._node.outboxes.outbox import Window
from .._wire.events import Subscription

CONCURRENCY = "tolliver.concurrency="
"""Prefix of the key of a worker's second subscription; the number behind it is its concurrency."""

PREFETCH = "tolliver.prefetch="
"""Prefix of the key of a worker's third subscription; the number behind it is how many jobs it wants in advance."""

MOST_CONCURRENT = 10_000


@frozen
class Job:
    """A job that is not done: its `number` in the queue's order, its key, and its worker, None if it waits in the
    queue.

    `size` is in bytes of its frame, `age` in seconds since the put. A `parked` job was set aside, because its worker
    closes the connection whenever the job comes (T-09) or its row is damaged (V9).
    """

    number: int
    key: str
    worker: UUID | None
    size: int
    age: float
    parked: bool = False


@frozen
class QueueNumbers:
    """Statistics of a work queue: jobs without a worker, jobs of workers, workers that may get more, and the use of its
    quota."""

    channel: str
    waiting: int
    running: int
    workers: int
    quota_used: float
    full: bool


def check_queue(channel: str, lease: float) -> None:
    """Raises ValueError for the channel "", and for a lease that is not above 0."""
    if not channel:
        raise ValueError("channel='': give the channel of the queue, as there is no wildcard for jobs")
    check_seconds("lease", lease, is_endless=True)


class JobList(Receipt):
    """Result of a call that lists jobs: `jobs` is set once the action Stored names this object."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        super().__init__(0, -1, [])
        self.jobs: list[Job] = []


class Worker:
    """A peer that has jobs of one queue, or may get some."""

    __slots__ = ("asked", "barred", "is_known", "is_searched", "jobs", "lease_over", "limit", "peer", "recipients")

    def __init__(self, peer: Peer, is_known: bool) -> None:
        self.peer = peer
        self.recipients = Recipients((peer,))
        self.jobs: set[int] = set()  # seqs
        self.is_known = is_known  # `jobs` is complete
        self.is_searched = False  # a search for its jobs runs
        self.limit = 0
        self.lease_over = False  # its connection ended too long ago
        self.barred: Link | None = None  # connection on which it gets no more jobs
        self.asked: list[Receipt] = []  # receipts of `reassign` that wait


class WorkQueue:
    """A producer's work queue on one channel: its workers, with the jobs of each."""

    __slots__ = (
        "changed",
        "channel",
        "declared",
        "lease",
        "not_before",
        "peer",
        "ready",
        "recipients",
        "subscription",
        "window",
        "workers",
    )

    def __init__(self, channel: str, lease: float, peer: Peer, window: Window) -> None:
        self.channel = channel
        self.lease = lease
        self.peer = peer  # owner of the jobs without a worker
        self.window = window  # reads the owner's jobs
        self.recipients = Recipients((peer,))
        self.subscription = Subscription(channel, "")
        self.declared = False  # the store has the queue, or gets it with the next commit
        self.workers: dict[Peer, Worker] = {}
        self.ready: list[Worker] = []  # workers that may get jobs
        self.changed = True  # `ready` is outdated
        self.not_before = 0.0  # end of the pause after a failure of the store

    def allot(self, count: int, most: int) -> list[Worker]:
        """Workers for up to `count` jobs, as far as they have room: each goes to the one with the smallest share of its
        limit.

        `most` is the limit of an outbox, which other messages use too.
        """
        heap = [
            (len(one.jobs) / one.limit, at, len(one.jobs))
            for at, one in enumerate(self.ready)
            if len(one.jobs) < one.limit and one.peer.outbox.pending < most
        ]
        heapify(heap)
        given: list[Worker] = []
        room = {at: most - self.ready[at].peer.outbox.pending for _, at, _ in heap}
        while heap and len(given) < count:
            _, at, jobs = heap[0]
            worker = self.ready[at]
            given.append(worker)
            jobs, room[at] = jobs + 1, room[at] - 1
            is_full = jobs >= worker.limit or room[at] <= 0
            heapreplace(heap, (2.0 if is_full else jobs / worker.limit, at, jobs))
            if heap[0][0] >= 1.0:
                break
        return given


def limit_of(channel: str, subscriptions: Iterable[Subscription], most: int) -> int:
    """Returns how many jobs a peer with these subscriptions may have at a time, and no more than `most`: the
    concurrency that they announce, or one, and the prefetch that they announce, or as many again (P-49).
    """
    keys = [one.key for one in subscriptions if one.channel == channel]
    concurrency = max(_numbers_behind(keys, CONCURRENCY), default=1)
    prefetch = max(_numbers_behind(keys, PREFETCH), default=concurrency)
    return min(concurrency + prefetch, most) if concurrency else 0


def _numbers_behind(keys: Iterable[str], prefix: str) -> list[int]:
    """The numbers behind this prefix."""
    said = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    return [int(digits) for digits in said if digits.isascii() and digits.isdigit() and len(digits) <= 6]


def grouped(workers: Sequence[Worker]) -> dict[Worker, int]:
    """Counts the jobs of each worker in the result of `allot`, which has a worker for each job."""
    counts: dict[Worker, int] = {}
    for one in workers:
        counts[one] = counts.get(one, 0) + 1
    return counts
