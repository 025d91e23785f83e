"""A worker's iterator over jobs on threads."""

from __future__ import annotations

from tolliver_proto import Delivery

from .._driver.adapter import Wakeup
from .._messages.inbox import Core, Mailbox
from .._messages.queues import JobBox
from .iterators import Messages, ThreadCore


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
