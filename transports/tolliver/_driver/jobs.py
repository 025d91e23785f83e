"""Store jobs, on one dedicated thread.

Jobs run one after the other, in order. A thread pool would be shared with slow calls, and a commit, of which there may
be several in a millisecond, would wait for a free thread as well as for the disk.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from tolliver_proto import TolliverError

from .adapter import Done, Job
from .threads import start


class Jobs:
    """A queue of jobs for a thread, and the loop that runs them there, one after the other; calls `after(result, error,
    done)` for each job.
    """

    def __init__(self, after: Callable[[Any, TolliverError | None, Done], None]) -> None:
        self._after = after
        self._jobs: queue.SimpleQueue[tuple[Job, Done] | None] = queue.SimpleQueue()

    def put(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def stop(self) -> None:
        """Make `run` return once all jobs put before this call are done."""
        self._jobs.put(None)

    def run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, done = entry
            self._after(*perform(job), done)


class JobThread:
    """Jobs with their thread, from its creation to `close`. Raises OutOfThreads.

    `failed` is called in the thread with an unexpected error, which ends it.
    """

    def __init__(
        self, after: Callable[[Any, TolliverError | None, Done], None], failed: Callable[[BaseException], object]
    ) -> None:
        self.jobs: Jobs = Jobs(after)
        self._failed = failed
        self._thread = threading.Thread(target=self._run, name="tolliver store", daemon=True)
        start(self._thread)

    def close(self) -> None:
        """Wait until all jobs put before this call are done."""
        self.jobs.stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.jobs.run()
        except BaseException as error:
            self._failed(error)


def perform(job: Job) -> tuple[Any, TolliverError | None]:
    """Run the job. Returns its result and None, or None and the TolliverError that it raised."""
    try:
        return job(), None
    except TolliverError as failure:
        return None, failure
