"""Work queue: its workers, and the jobs that each of them has.

A job is a message that is owed to one owner: a worker or, while none has it, the queue, which is a peer that nobody can
be. Workers are the peers that subscribe to the whole channel. Each has at most twice as many jobs as it says that it
works on at a time, and the next one goes to the worker that has the least of what it may have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from uuid import UUID

from .._common.records import frozen
from .._node.actions import Receipt
from .._node.link import Link, Peer, Recipients
from .._node.outboxes.outbox import Window
from .._wire.events import Subscription

CONCURRENCY = "tolliver.concurrency="
"""Key of a second subscription of a worker, before its number: so many jobs it works on at a time."""

MOST_CONCURRENT = 10_000
_AHEAD = 2  # times as many jobs are given to a worker, so that the next is there when one is done


@frozen
class Job:
    """A job that is not done: its `number` in the queue's order, its key, and who has it, None for nobody.

    `size` is in bytes of its frame, `age` in seconds since it was put. One that is `parked` was set aside, as its
    worker closes whenever it gets it (T-09) or as its row is damaged (V9).
    """

    number: int
    key: str
    worker: UUID | None
    size: int
    age: float
    parked: bool = False


@frozen
class QueueNumbers:
    """A work queue: jobs that nobody has, jobs that workers have, workers that may be given some, and its quota."""

    channel: str
    waiting: int
    running: int
    workers: int
    quota_used: float
    full: bool


class JobList(Receipt):
    """Token of a call that lists jobs: `jobs` has them once it is Stored."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        super().__init__(0, -1, [])
        self.jobs: list[Job] = []


class Worker:
    """A peer that has jobs of one queue, or may be given some."""

    __slots__ = ("asked", "barred", "is_known", "is_searched", "jobs", "lease_over", "limit", "peer", "recipients")

    def __init__(self, peer: Peer, is_known: bool) -> None:
        self.peer = peer
        self.recipients = Recipients((peer,))
        self.jobs: set[int] = set()  # seqs
        self.is_known = is_known  # that these are all
        self.is_searched = False  # the store is asked which they are
        self.limit = 0
        self.lease_over = False  # its connection ended too long ago
        self.barred: Link | None = None  # on this connection it is given nothing any more
        self.asked: list[Receipt] = []  # to be told when its jobs are another's


class WorkQueue:
    """Jobs of one channel."""

    __slots__ = (
        "changed",
        "channel",
        "declared",
        "lease",
        "not_before",
        "peer",
        "ready",
        "recipients",
        "returns",
        "subscription",
        "window",
        "workers",
    )

    def __init__(self, channel: str, lease: float, peer: Peer, window: Window) -> None:
        self.channel = channel
        self.lease = lease
        self.peer = peer  # owner of the jobs that nobody has
        self.window = window  # reads them
        self.recipients = Recipients((peer,))
        self.subscription = Subscription(channel, "")
        self.declared = False  # the store knows that there is such a queue, or will with the next commit
        self.workers: dict[Peer, Worker] = {}
        self.ready: list[Worker] = []  # those that may be given jobs
        self.changed = True  # these are to be looked at again
        self.not_before = 0.0  # after a failure of the store
        self.returns = 0  # times that jobs came back from workers

    def allot(self, count: int, most: int) -> list[Worker]:
        """Workers for so many jobs, as far as they have room: whoever has the least of its share is next.

        `most` is the bound of an outbox, for what else waits there.
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
    """Jobs that a peer with these subscriptions may have at a time: twice what it says, or twice one."""
    said = [_number(one.key) for one in subscriptions if one.channel == channel and one.key.startswith(CONCURRENCY)]
    known = [number for number in said if number is not None]
    return min(_AHEAD * (max(known) if known else 1), most)


def _number(key: str) -> int | None:
    digits = key[len(CONCURRENCY) :]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 6 else None


def grouped(workers: Sequence[Worker]) -> dict[Worker, int]:
    """The number of jobs for each."""
    counts: dict[Worker, int] = {}
    for one in workers:
        counts[one] = counts.get(one, 0) + 1
    return counts
