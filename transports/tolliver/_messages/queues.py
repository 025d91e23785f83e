"""Work queues without an event loop.

A producer puts jobs, each for one worker. A worker takes as many jobs as it processes at a time, and gets the next one
when one of these is settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import UUID

from tolliver_proto import Node, Receipt
from tolliver_proto.errors import BodyNotDecoded, JobFailed
from tolliver_proto.node import (
    ForLater,
    Job,
    JobCalls,
    JobList,
    MessageKeys,
    Queues,
    QueueWork,
    Reply,
    Retry,
    check_type,
    listed,
)

from .._driver.pending import PendingCall, as_it_is
from .._options.times import Times
from ..codecs._bodies import Opener, encoded_items
from ..codecs._codec import BYTES, AnyCodec, coding_of
from .iterators import Messages
from .mailbox import Mailbox, Policy, Timed
from .side_by_side import AsyncCore, checked_retry

if TYPE_CHECKING:
    from .driver import NodeDriver

T = TypeVar("T")
R = TypeVar("R")
Named = Receipt | Iterable[Job | int]
"""Jobs given by a caller: the receipt of a put, or Jobs or their numbers."""


class QueueCalls:
    """The calls of a producer of jobs: the part of an instance's core for work queues."""

    node: Node
    _driver: NodeDriver

    def check_open(self) -> None: ...

    def work_queue(self, channel: str, lease: float) -> None:
        self.check_open()
        self.node.use(Queues).work_queue(channel, lease, monotonic())
        self._driver.run_actions()

    def declare_queue(self, channel: str, lease: float) -> None:
        """Declare a queue, unless this run has."""
        if not self.node.use(Queues).is_declared(channel):
            self.work_queue(channel, lease)

    def declare_known_queues(self, lease: float) -> None:
        """Declare the queues of earlier runs, whose jobs then go on."""
        queues = self.node.used(Queues)
        for channel in () if queues is None else queues.undeclared():
            self.work_queue(channel, lease)

    def put_jobs(
        self,
        channel: str,
        items: list[tuple[str, bytes]],
        message_key: str | None = None,
        after: float | None = None,
        not_before: datetime | None = None,
    ) -> PendingCall[Receipt]:
        """Put jobs; with a `message_key` there is one."""
        self.check_open()
        times, now = Times.of(after, not_before), monotonic()
        if message_key is not None:
            [job] = items
            receipt = self.node.use(MessageKeys).put(channel, *job, message_key, now, **times._asdict())
        elif times != Times():
            receipt = self.node.use(ForLater).put_later(channel, items, now, **times._asdict())
        else:
            receipt = self.node.use(Queues).put_many(channel, items, now)
        return self._driver.when_stored(receipt, as_it_is)

    def call_job(
        self, channel: str, job: tuple[str, bytes], timeout: float, message_key: str | None
    ) -> PendingCall[Reply]:
        """Put a job, (key, body), and wait for its answer."""
        self.check_open()
        calls = self.node.use(JobCalls)
        asked = calls.call(channel, *job, timeout, monotonic(), message_key=message_key)
        call = self._driver.when_answered(asked, _first, calls)
        self._driver.run_actions()
        return call

    def pending_jobs(self, channel: str, count: int) -> PendingCall[list[Job]]:
        self.check_open()
        token = self.node.use(Queues).pending_jobs(channel, count, monotonic())
        return self._driver.when_stored(token, _jobs_of)

    def cancel_jobs(self, channel: str, numbers: Iterable[int]) -> PendingCall[int]:
        self.check_open()
        receipt = self.node.use(Queues).cancel_jobs(channel, numbers, monotonic())
        return self._driver.when_stored(receipt, _total)

    def reassign(self, channel: str, worker: UUID) -> PendingCall[int]:
        self.check_open()
        return self._driver.when_stored(self.node.use(Queues).reassign(channel, worker, monotonic()), _total)


class BaseQueue(Generic[T, R]):
    """Base of the public object of a work queue: its calls that never wait."""

    def __init__(self, core: QueueCalls, channel: str, codec: AnyCodec[T], reply_codec: AnyCodec[R]) -> None:
        coding_of(codec)  # raises TypeError for an invalid codec
        self._core = core
        self._channel = channel
        self._codec = codec
        self._reply_codec = reply_codec

    @property
    def channel(self) -> str:
        """Channel that the queue's jobs are sent on."""
        return self._channel

    def _jobs(self, jobs: Iterable[T | tuple[str, T]]) -> list[tuple[str, bytes]]:
        """Encode jobs, each a body or (key, body), as (key, body) pairs. Raises BodyNotEncoded, and TypeError for an
        item that is no pair (P-47).
        """
        items = encoded_items(self._codec, [(self._channel, *self._pair(job)) for job in listed("jobs", jobs)])
        return [(key, body) for _, key, body in items]

    def _pair(self, job: Any) -> tuple[str, T]:
        if isinstance(job, tuple) and len(job) == 2:
            return job
        if self._codec is BYTES:
            return "", job
        raise TypeError(f"the job is {job!r:.100}: give a (key, value) pair, as a value may be a tuple itself")

    def _job(self, body: T, key: str) -> tuple[str, bytes]:
        [job] = self._jobs([(key, body)])
        return job

    def _value(self, key: str, reply: Reply) -> R:
        """Decode the answer to a call. Raises JobFailed if it does not decode."""
        try:
            return Opener(self._reply_codec).value(self._channel, key, reply.peer_id, reply.body)
        except BodyNotDecoded as error:
            raise JobFailed(reply.peer_id, f"the answer does not decode: {error}") from error

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._channel!r:.100}>"


def numbers_of(jobs: Named) -> Iterable[int]:
    """Numbers of the given jobs."""
    if isinstance(jobs, Receipt):
        return range(jobs.first_seq, jobs.last_seq + 1)
    each = listed("jobs", jobs)
    for one in each:
        check_type("jobs", one, Job | int, "a receipt, jobs, or their numbers")
    return [one if isinstance(one, int) else one.number for one in each]


def policy_of_work(concurrency: int, lease: float, prefetch: int, retry: Retry | None) -> Policy:
    """Policy of the mailbox of a worker with this concurrency, a lease in seconds, and jobs in advance. A job may take
    any time: its worker is never reported as stuck (D-9).
    """

    def register(box: Mailbox) -> None:
        box.core.node.use(QueueWork).work(box.channel, box, concurrency, lease, prefetch, monotonic())

    return Policy(
        "a worker",
        checked_retry(retry),
        places=concurrency,
        timed=Timed.NONE,
        lets_go=True,
        register=register,
        unregister=_unregister,
    )


def _unregister(box: Mailbox, _is_over: bool) -> None:
    box.core.node.use(QueueWork).stop_work(box.channel, monotonic())
    box.core.run_actions()


class Work(Messages):
    """Async iterator over jobs of a work queue, at most `concurrency` at a time: call `job.ack()` when a job is done.

    Several tasks may share one. Leaving its block fails unsettled jobs, and returns those not handed out to the queue.
    """

    def __init__(
        self, core: AsyncCore, channel: str, concurrency: int, lease: float, prefetch: int, retry: Retry | None
    ) -> None:
        policy = policy_of_work(concurrency, lease, prefetch, retry)
        super().__init__(core, channel, "", subscribe=False, policy=policy)


def _jobs_of(token: Receipt) -> list[Job]:
    assert isinstance(token, JobList)
    return token.jobs


def _first(replies: Sequence[Reply]) -> Reply:
    return replies[0]


def _total(receipt: Receipt) -> int:
    return sum(receipt.counts)
