"""Work queue on asyncio and trio: the producer's end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from tolliver_proto import Job, Receipt

from .._driver.pending import PendingCall
from .._messages.queues import BaseQueue, Named, NewJob, ProducerCore, encoded_jobs
from ..codecs._codec import AnyCodec, coding_of

T = TypeVar("T")
V = TypeVar("V")


class QueueCore(ProducerCore, Protocol):
    """The core of an instance that a producer's end waits for."""

    async def wait(self, call: PendingCall[T]) -> T: ...


class _ProducersEnd(BaseQueue):
    """Calls of a producer, whatever its bodies are."""

    def __init__(self, core: QueueCore, channel: str) -> None:
        super().__init__(core, channel)
        self._core = core

    async def pending(self, count: int = 1000) -> list[Job]:
        """The first `count` jobs that are not done, in order, each with the UUID of its worker, None for nobody."""
        return await self._core.wait(self._core.pending_jobs(self._channel, count))

    async def reassign(self, worker: UUID) -> int:
        """Take all jobs from this worker and give them to others; returns how many.

        It gets nothing more until it connects again. A job that it is at goes on there, and may be done twice.
        """
        return await self._core.wait(self._core.reassign(self._channel, worker))

    async def cancel(self, jobs: Named) -> int:
        """Give up jobs: those of a receipt, or Jobs or their numbers; returns how many were not done.

        `wait_acked` raises Undelivered for them, with the reason `cancelled`. A worker that is at one goes on.
        """
        return await self._core.wait(self._core.cancel_jobs(self._channel, jobs))


class WorkQueue(_ProducersEnd):
    """A work queue: each job that is put is for one of the workers.

    Every call raises ConnectionClosing where the instance is not open, and StoreError.
    """

    async def put(self, body: bytes, key: str = "") -> Receipt:
        """Store a job, with fsync, and return its receipt: `wait_acked(receipt)` returns when it is done.

        It waits on disk for as long as there is no worker. Raises OwnLimitExceeded, LocalProtocolError, and OutboxFull
        where too many jobs wait that nobody has.
        """
        return await self._core.wait(self._core.put_jobs(self._channel, [(key, body)]))

    async def put_many(self, jobs: Iterable[NewJob]) -> Receipt:
        """Store jobs, each a body or (key, body), in one commit, all or none; raises as `put`."""
        return await self._core.wait(self._core.put_jobs(self._channel, jobs))


class TypedWorkQueue(_ProducersEnd, Generic[V]):
    """As WorkQueue, with values, which its codec encodes."""

    def __init__(self, core: QueueCore, channel: str, codec: AnyCodec[V]) -> None:
        coding_of(codec)  # which may refuse it
        super().__init__(core, channel)
        self._codec = codec

    async def put(self, value: V, key: str = "") -> Receipt:
        """Store a job, as `WorkQueue.put`; raises BodyNotEncoded, too."""
        return await self.put_many([(key, value)])

    async def put_many(self, jobs: Iterable[tuple[str, V]]) -> Receipt:
        """Store jobs, each (key, value), in one commit, all or none; raises as `put`, and TypeError for what is no
        pair."""
        bodies = encoded_jobs(self._codec, self._channel, jobs)
        return await self._core.wait(self._core.put_jobs(self._channel, bodies))
