"""Calls of handlers and responders, on threads.

Each handler has a pool of threads, which grows to the number of its concurrent calls. A waiting thread serves the
sockets (see `loop`). A thread that takes a message wakes or starts another one if more messages wait, up to the
handler's `concurrency`.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from tolliver_proto import Delivery
from tolliver_proto.errors import OutOfThreads

from .._driver.ends import is_interrupt
from .._driver.threads import interrupt_program, start
from .._messages.iterators import Receiver, name_of
from .._messages.mailbox import Handler, Mailbox, Policy
from .._messages.side_by_side import SideBySide
from .iterators import ThreadCore
from .loop import PAUSE
from .wire import BorrowerWakeup

F = TypeVar("F", bound=Callable[..., object])
CONCURRENCY = 8


class _Done(NamedTuple):
    """A handler call that has ended: its result or exception, and its duration in seconds."""

    delivery: Delivery
    result: object
    error: BaseException | None
    took: float


class ThreadCalls:
    """The calls of one registered handler: its mailbox, and the threads that call the function."""

    def __init__(self, core: ThreadCore, channel: str, key: str, handler: Handler, policy: Policy) -> None:
        self._core = core
        self._handler = handler
        self._concurrency = policy.places or 1
        self._idle: list[BorrowerWakeup] = []
        self._wakeups: list[BorrowerWakeup] = []
        self.mailbox: Mailbox = Mailbox(core, channel, key, self, policy)
        with core.lock:
            self.mailbox.open()
            try:
                if not self._wakeups:  # `open` may have delivered a message, which starts a thread
                    self._start()
            except OutOfThreads:
                self.mailbox.close()
                raise

    def set(self) -> None:
        """Called under the lock when a message has arrived, or the mailbox has been closed: wakes a thread, or starts
        one.
        """
        if self.mailbox.closed:
            for wakeup in self._wakeups:
                wakeup.set()
        else:
            self._call_another()

    def _call_another(self) -> None:
        if self._idle:
            self._idle.pop().set()
        elif len(self._wakeups) < self._concurrency:
            with suppress(OutOfThreads):  # then the existing threads make the calls
                self._start()

    def _start(self) -> None:
        wakeup = self._core.borrower_wakeup()
        name = f"tolliver calls {self.mailbox.policy.taker} {len(self._wakeups)}"
        start(threading.Thread(target=self._work, args=(wakeup,), name=name, daemon=True))
        self._wakeups.append(wakeup)

    def _work(self, wakeup: BorrowerWakeup) -> None:
        done: _Done | None = None
        while (delivery := self._next(wakeup, done)) is not None:
            began = time.monotonic()
            result, error = self._call(delivery)
            done = _Done(delivery, result, error, time.monotonic() - began)
            wakeup.lends = done.took < PAUSE

    def _next(self, wakeup: BorrowerWakeup, done: _Done | None) -> Delivery | None:
        """Settle the call `done` (None at first), and wait for the next message. None when the mailbox is closed."""
        box = self.mailbox
        with self._core.lock:
            if done is not None:
                self._settle(done)
                wakeup.look()
            while not box.closed:
                if (delivery := box.take_begun()) is not None:
                    if box.waiting:
                        self._call_another()
                    return delivery
                self._idle.append(wakeup)
                wakeup.wait_for_it(lambda: box.waiting or box.closed)
                if wakeup in self._idle:
                    self._idle.remove(wakeup)
        return None

    def _call(self, delivery: Delivery) -> tuple[object, BaseException | None]:
        """Call the handler; returns its judged result and None, or None and the exception that it raised."""
        try:
            result = called(self._handler, delivery)
            return self.mailbox.policy.judge(self.mailbox, delivery, result), None
        except BaseException as error:
            if is_interrupt(error):
                self.mailbox.close()
                interrupt_program()  # raised on our thread, where it would not end the program
                raise
            return None, error

    def _settle(self, done: _Done) -> None:
        box = self.mailbox
        box.end((done.delivery,))
        box.took(done.took, 1)
        if done.error is not None:
            box.raised(done.delivery, done.error)
        else:
            box.policy.returned(box, done.delivery, done.result)


class Registration(Receiver):
    """A registered handler, with its own threads. After `close()` its unsettled messages are resent by their
    senders."""

    def __init__(self, core: ThreadCore, channel: str, key: str, handler: Handler, how: SideBySide) -> None:
        called, policy = how.function(checked_plain(handler)), how.policy(name_of(handler))
        self._mailbox = ThreadCalls(core, channel, key, called, policy).mailbox

    def close(self) -> None:
        """Stop calling the handler. Calls in progress go on, but their results are ignored. The subscription stays."""
        super().close()


def checked_plain(handler: F) -> F:
    """Returns the handler. Raises TypeError if it is a coroutine function."""
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
        raise TypeError(f"{handler!r:.200} is async: give a plain function, it may wait")
    return handler


def called(handler: Handler, delivery: Delivery) -> object:
    """Call the handler; returns its result. Raises what it raises, and TypeError if the result is awaitable."""
    result = handler(delivery)
    if result is None or result is True or type(result) is bytes or not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    raise TypeError("an awaitable, which nobody awaits here: give a plain function")
