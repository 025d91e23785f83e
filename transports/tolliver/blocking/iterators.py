"""Blocking iterators: receiving messages in threads.

A mailbox's wakeup is a condition on the machine's lock, so waiting for a delivery lets the machine go on, and several
threads may take from one iterator. Deliveries are settled under that lock, from whatever thread.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections import deque
from typing import Protocol, TypeVar

from tolliver_proto import Delivery

from .._driver.pending import PendingCall
from .._messages.iterators import BaseIterator
from .._messages.mailbox import Core, Policy, Run
from .iteration import BlockingIterator
from .wire import BorrowerWakeup, Wakeup

Item = TypeVar("Item", Delivery, Run)


class ThreadCore(Core, Protocol):
    """The core of an instance on threads."""

    def wakeup(self) -> Wakeup: ...

    def borrower_wakeup(self) -> BorrowerWakeup: ...

    def subscribe(self, channel: str, key: str) -> PendingCall[None]: ...

    def subscribe_and_wait(self, channel: str, key: str) -> None: ...


class ThreadIterator(BaseIterator, BlockingIterator[Item]):
    """An iterator over a mailbox, for any number of threads."""

    _closed_text = "the iterator was closed, by close() or with its instance: nothing more comes"

    def __init__(
        self,
        core: ThreadCore,
        channel: str,
        key: str,
        subscribe: bool,
        timeout: float | None,
        policy: Policy | None = None,
    ) -> None:
        self._timeout = timeout
        self._left: deque[Item] = deque()  # when Ctrl-C came
        self._wakeup = core.wakeup()
        super().__init__(core, channel, key, self._wakeup, policy or Policy())
        if subscribe:
            core.subscribe_and_wait(channel, key)

    @abstractmethod
    def _take_item(self) -> Item | None:
        """The next that has come, which is being handled from now on; None where there is none."""

    def _take(self, timeout: float | None) -> Item | None:
        item = None
        try:
            with self._core.lock:
                end = math.inf if timeout is None else time.monotonic() + timeout
                while (item := self._left.popleft() if self._left else self._take_item()) is None:
                    if not self._wait(timeout, end):
                        return None
                return item
        except KeyboardInterrupt:
            if item is not None:
                self.put_back(item)
            raise

    def put_back(self, item: Item) -> None:
        """Ctrl-C has come before it was handed out."""
        self._left.append(item)

    def _wait(self, timeout: float | None, end: float) -> bool:
        """Until something may have come. False when it was closed, or who waits need not. Raises TimeoutError."""
        box = self._mailbox
        if box.closed:
            return False
        left = end - time.monotonic()
        if left <= 0:
            names = f"{box.channel!r:.100} {box.key!r:.100}"
            raise TimeoutError(f"after {timeout:g} s no message of {names} has come: go on")
        return self._wakeup.wait(left)

    def close(self) -> None:
        """Take no more; what was not settled is not acknowledged and is sent again. The subscription stays."""
        with self._core.lock:
            self._left.clear()
            super().close()


class Messages(ThreadIterator[Delivery]):
    """An iterator over what matches, one delivery at a time. Leaving it fails what it still holds.

    It ends when it or its instance is closed, and when its `timeout` passes without a message; after that it may be
    used again. Several threads may share one: each delivery goes to one of them.
    """

    def _take_item(self) -> Delivery | None:
        return self._mailbox.take_begun()


class Runs(ThreadIterator[Run]):
    """As Messages, a run at a time: `for run in instance.message_runs(...)`."""

    def _take_item(self) -> Run | None:
        return self._mailbox.take_run()
