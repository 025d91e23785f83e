"""Work queue on asyncio and trio: a producer's end, whose calls are coroutines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar
from uuid import UUID

from tolliver_proto import Job, Receipt

from .._driver.pending import PendingCall
from .._messages.queues import BaseQueue, Named, NewJob, ProducerCore

T = TypeVar("T")


class QueueCore(ProducerCore, Protocol):
    """The core of an instance that a producer's end waits for."""

    async def wait(self, call: PendingCall[T]) -> T: ...


class WorkQueue(BaseQueue):
    """A work queue: each job that is put is for one of the workers.

    Every call raises ConnectionClosing where the instance is not open, and StoreError.
    """

    def __init__(self, core: QueueCore, channel: str) -> None:
        super().__init__(core, channel)
        self._core = core

    async def put(self, body: bytes, key: str = "") -> Receipt:
        """Store a job, with fsync, and return its receipt: `wait_acked(receipt)` returns when it is done.

        It waits on disk for as long as there is no worker. Raises OwnLimitExceeded, LocalProtocolError, and OutboxFull
        where too many jobs wait that nobody has.
        """
        return await self._core.wait(self._core.put_jobs(self._channel, [(key, body)]))

    async def put_many(self, jobs: Iterable[NewJob]) -> Receipt:
        """Store jobs, each a body or (key, body), in one commit, all or none; raises as `put`."""
        return await self._core.wait(self._core.put_jobs(self._channel, jobs))

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
