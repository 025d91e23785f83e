"""Blocking iterators over messages.

A mailbox's wakeup releases the machine's lock while a thread waits, so the machine goes on, and several threads may
share one iterator. Deliveries are settled under that lock, on any thread.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import deque
from typing import Protocol, TypeVar

from tolliver_proto import Delivery

from .._driver.pending import PendingCall
from .._messages.iterators import BaseIterator
from .._messages.mailbox import Core, Policy
from .._messages.run import Run, next_run
from .iteration import BlockingIterator
from .waits import end_of
from .wire import BorrowerWakeup, Wakeup

Item = TypeVar("Item", Delivery, Run)


class ThreadCore(Core, Protocol):
    """The part of an instance with threads that its iterators use."""

    def wakeup(self) -> Wakeup: ...

    def borrower_wakeup(self) -> BorrowerWakeup: ...

    def subscribe(self, channel: str, key: str) -> PendingCall[None]: ...

    def subscribe_and_wait(self, channel: str, key: str) -> None: ...


class ThreadIterator(BaseIterator, BlockingIterator[Item]):
    """A blocking iterator over a mailbox that several threads may share."""

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
        self._left: deque[Item] = deque()  # taken, but not handed out because of Ctrl-C
        self._wakeup = core.wakeup()
        super().__init__(core, channel, key, self._wakeup, policy or Policy())
        if subscribe:
            core.subscribe_and_wait(channel, key)

    @abstractmethod
    def _take_item(self) -> Item | None:
        """The next item, whose processing starts now; None if there is none."""

    def _take(self, timeout: float | None) -> Item | None:
        item = None
        try:
            with self._core.lock:
                end = end_of(timeout)
                while (item := self._left.popleft() if self._left else self._take_item()) is None:
                    if not self._wait(timeout, end):
                        return None
                return item
        except KeyboardInterrupt:
            if item is not None:
                self.put_back(item)
            raise

    def put_back(self, item: Item) -> None:
        """Keep an item that was taken, but not handed out because of Ctrl-C."""
        self._left.append(item)

    def _wait(self, timeout: float | None, end: float) -> bool:
        """Wait for a message. False if the iterator was closed, or the thread must stop waiting. Raises TimeoutError at
        the monotonic time `end`; `timeout`, in seconds, is for its text.
        """
        box = self._mailbox
        if box.closed:
            return False
        left = end - time.monotonic()
        if left <= 0:
            names = f"{box.channel!r:.100} {box.key!r:.100}"
            raise TimeoutError(f"after {timeout:g} s no message of {names} has come: go on")
        return self._wakeup.wait(left)

    def close(self) -> None:
        """Stop receiving. Unsettled messages are not acknowledged, so their senders resend them. The subscription
        stays."""
        with self._core.lock:
            self._left.clear()
            super().close()


class Messages(ThreadIterator[Delivery]):
    """A blocking iterator over matching messages, one delivery at a time. Leaving its block fails the unsettled ones.

    It ends when it or its instance is closed, and when `timeout` seconds pass without a message; after that it may be
    used again. Several threads may share one: each delivery goes to one of them.
    """

    def _take_item(self) -> Delivery | None:
        return self._mailbox.take_begun()


class Runs(ThreadIterator[Run]):
    """Like Messages, but yields runs of deliveries: `for run in instance.message_runs(...)`."""

    def _take_item(self) -> Run | None:
        return next_run(self._mailbox)
