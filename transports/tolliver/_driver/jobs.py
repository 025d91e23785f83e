"""Jobs of a store, on a thread of its own.

They run one after the other and in order. A commit waits for the disk, and a handful of them a millisecond would wait
for a pool's threads as well.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

from tolliver_proto import TolliverError

from .adapter import Done, Job


class Jobs:
    """The store's thread: one job after the other, and `after(result, error, done)` for each."""

    def __init__(self, after: Callable[[Any, TolliverError | None, Done], None]) -> None:
        self._after = after
        self._jobs: queue.SimpleQueue[tuple[Job, Done] | None] = queue.SimpleQueue()

    def put(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def stop(self) -> None:
        """`run` returns when all that was put before is done."""
        self._jobs.put(None)

    def run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, done = entry
            self._after(*perform(job), done)


def perform(job: Job) -> tuple[Any, TolliverError | None]:
    """Its result, or its error."""
    try:
        return job(), None
    except TolliverError as failure:
        return None, failure
