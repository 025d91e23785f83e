"""A worker's iterator over jobs on threads."""

from __future__ import annotations

from .._messages.queues import policy_of_work
from .iterators import Messages, ThreadCore


class Work(Messages):
    """Jobs of a work queue, as many at a time as `concurrency` says: `job.ack()` when it is done.

    Several threads may share one. Leaving it fails what it still holds, and gives back what it has not handed out.
    """

    def __init__(self, core: ThreadCore, channel: str, concurrency: int, lease: float, timeout: float | None) -> None:
        super().__init__(core, channel, "", False, timeout, policy_of_work(concurrency, lease))
