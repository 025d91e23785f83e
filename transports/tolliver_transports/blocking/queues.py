"""Work queue on threads.

A producer's calls block, and a worker has an iterator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from tolliver_proto import Delivery, Job, Receipt

from .._driver.adapter import Wakeup
from .._driver.pending import PendingCall
from .._messages.inbox import Core, Mailbox
from .._messages.queues import BaseQueue, JobBox, Named, NewJob, ProducerCore, encoded_jobs
from ..codecs._codec import AnyCodec, coding_of
from .iterators import Messages, ThreadCore

T = TypeVar("T")
V = TypeVar("V")


class QueueCore(ProducerCore, Protocol):
    """The core of an instance that a producer's end waits for."""

    def ask(self, call: Callable[[], PendingCall[T]], timeout: float | None) -> T: ...


class _ProducersEnd(BaseQueue):
    """Calls of a producer, whatever its bodies are."""

    def __init__(self, core: QueueCore, channel: str) -> None:
        super().__init__(core, channel)
        self._core = core

    def pending(self, count: int = 1000, *, timeout: float | None = None) -> list[Job]:
        """The first `count` jobs that are not done, in order, each with the UUID of its worker, None for nobody."""
        return self._core.ask(lambda: self._core.pending_jobs(self._channel, count), timeout)

    def reassign(self, worker: UUID, *, timeout: float | None = None) -> int:
        """Take all jobs from this worker and give them to others; returns how many.

        It gets nothing more until it connects again. A job that it is at goes on there, and may be done twice.
        """
        return self._core.ask(lambda: self._core.reassign(self._channel, worker), timeout)

    def cancel(self, jobs: Named, *, timeout: float | None = None) -> int:
        """Give up jobs: those of a receipt, or Jobs or their numbers; returns how many were not done.

        `wait_acked` raises Undelivered for them, with the reason `cancelled`. A worker that is at one goes on.
        """
        jobs = jobs if isinstance(jobs, Receipt) else list(jobs)
        return self._core.ask(lambda: self._core.cancel_jobs(self._channel, jobs), timeout)


class WorkQueue(_ProducersEnd):
    """A work queue: each job that is put is for one of the workers. Every call may come from any thread.

    `timeout` is in seconds; when it is over, TimeoutError is raised, and what was asked for goes on. Every call raises
    ConnectionClosing where the instance is not open, and StoreError.
    """

    def put(self, body: bytes, key: str = "", *, timeout: float | None = None) -> Receipt:
        """Store a job, with fsync, and return its receipt: `wait_acked(receipt)` returns when it is done.

        It waits on disk for as long as there is no worker. Raises OwnLimitExceeded, LocalProtocolError, and OutboxFull
        where too many jobs wait that nobody has.
        """
        return self._core.ask(lambda: self._core.put_jobs(self._channel, [(key, body)]), timeout)

    def put_many(self, jobs: Iterable[NewJob], *, timeout: float | None = None) -> Receipt:
        """Store jobs, each a body or (key, body), in one commit, all or none; raises as `put`."""
        jobs = list(jobs)  # a generator may take its time
        return self._core.ask(lambda: self._core.put_jobs(self._channel, jobs), timeout)


class TypedWorkQueue(_ProducersEnd, Generic[V]):
    """As WorkQueue, with values, which its codec encodes."""

    def __init__(self, core: QueueCore, channel: str, codec: AnyCodec[V]) -> None:
        coding_of(codec)  # which may refuse it
        super().__init__(core, channel)
        self._codec = codec

    def put(self, value: V, key: str = "", *, timeout: float | None = None) -> Receipt:
        """Store a job, as `WorkQueue.put`; raises BodyNotEncoded, too."""
        return self.put_many([(key, value)], timeout=timeout)

    def put_many(self, jobs: Iterable[tuple[str, V]], *, timeout: float | None = None) -> Receipt:
        """Store jobs, each (key, value), in one commit, all or none; raises as `put`, and TypeError for what is no
        pair."""
        bodies = encoded_jobs(self._codec, self._channel, jobs)
        return self._core.ask(lambda: self._core.put_jobs(self._channel, bodies), timeout)


class Work(Messages):
    """Jobs of a work queue, as many at a time as `concurrency` says: `job.ack()` when it is done.

    Several threads may share one. Leaving it fails what it still holds, and gives back what it has not handed out.
    """

    def __init__(self, core: ThreadCore, channel: str, concurrency: int, lease: float, timeout: float | None) -> None:
        self._concurrency, self._lease = concurrency, lease
        super().__init__(core, channel, "", subscribe=False, timeout=timeout)

    def _make_mailbox(self, core: Core, channel: str, key: str, wakeup: Wakeup) -> Mailbox:
        self._box = JobBox(core, channel, wakeup, self._concurrency, self._lease)
        return self._box

    def _take_item(self) -> Delivery | None:
        return super()._take_item() if self._box.has_room else None
