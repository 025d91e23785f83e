"""Work queue on Twisted: a producer's end, whose calls answer with Deferreds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred

from tolliver_proto import Job, Receipt

from .._driver.pending import PendingCall
from .._messages.queues import BaseQueue, Named, NewJob, ProducerCore, encoded_jobs
from ..codecs._codec import AnyCodec, coding_of

T = TypeVar("T")
V = TypeVar("V")


class QueueCore(ProducerCore, Protocol):
    """The core of an instance that a producer's end waits for."""

    def answer(self, call: Callable[[], PendingCall[T]]) -> Deferred[T]: ...


class _ProducersEnd(BaseQueue):
    """Calls of a producer, whatever its bodies are."""

    def __init__(self, core: QueueCore, channel: str) -> None:
        super().__init__(core, channel)
        self._core = core

    def pending(self, count: int = 1000) -> Deferred[list[Job]]:
        """Fire with the first `count` jobs that are not done, in order, each with the UUID of its worker, None for
        nobody."""
        return self._core.answer(lambda: self._core.pending_jobs(self._channel, count))

    def reassign(self, worker: UUID) -> Deferred[int]:
        """Take all jobs from this worker and give them to others; fires with how many.

        It gets nothing more until it connects again. A job that it is at goes on there, and may be done twice.
        """
        return self._core.answer(lambda: self._core.reassign(self._channel, worker))

    def cancel(self, jobs: Named) -> Deferred[int]:
        """Give up jobs: those of a receipt, or Jobs or their numbers; fires with how many were not done.

        `wait_acked` fails with Undelivered for them, with the reason `cancelled`. A worker that is at one goes on.
        """
        return self._core.answer(lambda: self._core.cancel_jobs(self._channel, jobs))


class WorkQueue(_ProducersEnd):
    """A work queue: each job that is put is for one of the workers.

    Every call fails with ConnectionClosing where the instance is not open, and with StoreError.
    """

    def put(self, body: bytes, key: str = "") -> Deferred[Receipt]:
        """Store a job, with fsync, and fire with its receipt: `wait_acked(receipt)` fires when it is done.

        It waits on disk for as long as there is no worker. Fails with OwnLimitExceeded, LocalProtocolError, and
        OutboxFull where too many jobs wait that nobody has.
        """
        return self._core.answer(lambda: self._core.put_jobs(self._channel, [(key, body)]))

    def put_many(self, jobs: Iterable[NewJob]) -> Deferred[Receipt]:
        """Store jobs, each a body or (key, body), in one commit, all or none; fails as `put`."""
        return self._core.answer(lambda: self._core.put_jobs(self._channel, jobs))


class TypedWorkQueue(_ProducersEnd, Generic[V]):
    """As WorkQueue, with values, which its codec encodes."""

    def __init__(self, core: QueueCore, channel: str, codec: AnyCodec[V]) -> None:
        coding_of(codec)  # which may refuse it
        super().__init__(core, channel)
        self._codec = codec

    def put(self, value: V, key: str = "") -> Deferred[Receipt]:
        """Store a job, as `WorkQueue.put`; fails with BodyNotEncoded, too."""
        return self.put_many([(key, value)])

    def put_many(self, jobs: Iterable[tuple[str, V]]) -> Deferred[Receipt]:
        """Store jobs, each (key, value), in one commit, all or none; fails as `put`, and with TypeError for what is
        no pair."""
        encode = partial(encoded_jobs, self._codec, self._channel, jobs)
        return self._core.answer(lambda: self._core.put_jobs(self._channel, encode()))
