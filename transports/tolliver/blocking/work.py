"""Blocking iterator over jobs of a work queue."""

from __future__ import annotations

from tolliver_proto.node import Retry

from .._messages.queues import policy_of_work
from .iterators import Messages, ThreadCore


class Work(Messages):
    """Iterator over jobs of a work queue, at most `concurrency` at a time: call `job.ack()` when a job is done.

    Several threads may share one. Leaving its block fails unsettled jobs, and returns those not handed out to the
    queue.
    """

    def __init__(
        self,
        core: ThreadCore,
        channel: str,
        concurrency: int,
        lease: float,
        prefetch: int,
        retry: Retry | None,
        timeout: float | None,
    ) -> None:
        super().__init__(core, channel, "", False, timeout, policy_of_work(concurrency, lease, prefetch, retry))
