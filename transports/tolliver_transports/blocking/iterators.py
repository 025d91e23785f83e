"""Receiving messages in threads: blocking iterators, handlers on threads of their own.

A mailbox's wakeup is a condition on the machine's lock, so waiting for a delivery lets the machine go on, and several
threads may take from one iterator. Deliveries are settled under that lock, from whatever thread.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
from abc import abstractmethod
from collections import deque
from typing import Protocol, TypeVar

from tolliver_proto import Delivery, OutOfThreads

from .._driver.ends import is_interrupt
from .._driver.pending import PendingCall
from .._driver.threads import interrupt_program, start
from .._messages.inbox import Core, Handler, Mailbox, Run
from .._messages.iterators import BaseIterator, Receiver, name_of
from .iteration import BlockingIterator
from .loop import PAUSE
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

    def __init__(self, core: ThreadCore, channel: str, key: str, subscribe: bool, timeout: float | None) -> None:
        self._timeout = timeout
        self._current: Run | None = None
        self._left: deque[Item] = deque()  # when Ctrl-C came
        self._wakeup = core.wakeup()
        super().__init__(core, channel, key, self._wakeup)
        if subscribe:
            core.subscribe_and_wait(channel, key)

    @abstractmethod
    def _next_of(self, run: Run) -> Item | None:
        """The next that it hands out of this run; None where that is through."""

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

    def _take_item(self) -> Item | None:
        """The next that is there."""
        while self._current is None or (item := self._next_of(self._current)) is None:
            run = self._mailbox.take()
            if run is None:
                return None
            self._current = run
        return item

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
            self._current = None
            self._left.clear()
            super().close()


class Messages(ThreadIterator[Delivery]):
    """An iterator over what matches, one delivery at a time. Leaving it fails what it still holds.

    It ends when it or its instance is closed, and when its `timeout` passes without a message; after that it may be
    used again. Several threads may share one: each delivery goes to one of them.
    """

    def _next_of(self, run: Run) -> Delivery | None:
        return run.next_begun()


class Runs(ThreadIterator[Run]):
    """As Messages, a run at a time: `for run in instance.message_runs(...)`."""

    def _next_of(self, run: Run) -> Run | None:
        self._current = None
        run.begin_all()
        return run


class Registration(Receiver):
    """A handler at work, on threads of its own. `close()` ends it; what it holds is failed and sent again."""

    def close(self) -> None:
        """A call that is running goes on, and what it says counts no more. The subscription stays."""
        super().close()

    def _kind(self) -> str:
        return "Registration"


class OneByOne(Registration):
    """A handler that has one message at a time, on one thread."""

    def __init__(self, core: ThreadCore, channel: str, key: str, handler: Handler, pending: int | None = None) -> None:
        self._core = core
        self._handler = checked_plain(handler)
        self._run: Run | None = None
        self._well: list[Delivery] = []  # of its run: handled well, and not settled yet
        self._at: Delivery | None = None  # the handler is
        self._wakeup = core.borrower_wakeup()
        self._mailbox = Mailbox(core, channel, key, self._wakeup, name_of(handler), pending)
        self._mailbox.open()
        name = f"tolliver calls {getattr(handler, '__name__', handler)!s:.100}"
        try:
            start(threading.Thread(target=self._work, name=name, daemon=True))
        except OutOfThreads:
            self.close()
            raise

    def _work(self) -> None:
        took = 0.0
        while (delivery := self._next(took)) is not None:
            began = time.monotonic()
            self._call(delivery)
            took = time.monotonic() - began
            self._wakeup.lends = took < PAUSE

    def _next(self, took: float) -> Delivery | None:
        """The next one, once the last one is settled: that call has lasted for so long."""
        box = self._mailbox
        with self._core.lock:
            if self._run is not None:
                box.took(took, 1)
                self._end()
                self._run.settle(self._well, True)
                self._well = []
                self._wakeup.look()
            while not box.closed:
                if self._run is not None and (delivery := self._run.next_begun()) is not None:
                    self._at = delivery
                    return delivery
                if (run := box.take()) is not None:
                    self._run = run
                else:
                    self._run = None
                    self._wakeup.wait_for_it(lambda: box.waiting or box.closed)
        return None

    def _end(self) -> None:
        """The handler is at it no more (D-9)."""
        if self._at is not None:
            with self._core.lock:
                self._mailbox.end((self._at,))
            self._at = None

    def _call(self, delivery: Delivery) -> None:
        try:
            result = called(self._handler, delivery)
        except BaseException as error:
            self._end()
            if is_interrupt(error):
                self.close()
                interrupt_program()  # the thread that it would end is ours
                raise
            self._mailbox.raised(delivery, error)
        else:
            if result is not None and result is not True:
                self._end()
            if self._mailbox.is_well(delivery, result):
                self._well.append(delivery)


def checked_plain(handler: Handler) -> Handler:
    """The handler, which is no coroutine function. Raises TypeError."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        raise TypeError(f"{handler!r:.200} is async: give a plain function, it may wait")
    return handler


def called(handler: Handler, delivery: Delivery) -> object:
    """The result of the call. Raises what that raises, and TypeError for one that is to be awaited."""
    result = handler(delivery)
    if result is not None and result is not True and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("an awaitable, which nobody awaits here: give a plain function")
    return result
