"""Responders on threads.

Each has a pool as large as there are requests at work at once. A thread that waits reads the sockets, as a handler's
does. One that takes a request wakes or starts another where more wait, up to the responder's `concurrency`.
"""

from __future__ import annotations

import inspect
import threading
import time
from contextlib import suppress

from tolliver_proto import Delivery, OutOfThreads, Request

from .._driver.ends import is_interrupt
from .._driver.threads import interrupt_program, start
from .._messages.iterators import name_of
from .._messages.responding import RequestBox, RequestCalls, Responder, Responding, answer, refuse
from .iterators import ThreadCore
from .loop import PAUSE
from .wire import BorrowerWakeup

CONCURRENCY = 8
_Result = tuple[object, BaseException | None]


class _ThreadCalls(RequestCalls):
    """Calls of one responder's handler, and its threads."""

    def __init__(self, core: ThreadCore, channel: str, key: str, handler: Responding, concurrency: int) -> None:
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
            raise TypeError(f"{handler!r:.200} is async: give a plain function, it may wait")
        super().__init__(handler, concurrency)
        self._core = core
        self._concurrency = concurrency
        self._name = f"tolliver answers {getattr(handler, '__name__', handler)!s:.100}"
        self._idle: list[BorrowerWakeup] = []
        self._wakeups: list[BorrowerWakeup] = []
        self.mailbox = RequestBox(core, channel, key, self, name_of(handler))
        with core.lock:
            self.mailbox.open()
            try:
                if not self._wakeups:  # a request that waited may have started one
                    self._start()
            except OutOfThreads:
                self.mailbox.leave()
                raise

    def set(self) -> None:
        """Something has come, or nothing will any more. Under the lock."""
        if self.mailbox.closed:
            for wakeup in self._wakeups:
                wakeup.set()
        else:
            self._call_another()

    def _call_another(self) -> None:
        if self._idle:
            self._idle.pop().set()
        elif len(self._wakeups) < self._concurrency:
            with suppress(OutOfThreads):  # then those that are there do it
                self._start()

    def _start(self) -> None:
        wakeup = self._core.borrower_wakeup()
        start(threading.Thread(target=self._work, args=(wakeup,), name=self._name, daemon=True))
        self._wakeups.append(wakeup)

    def _work(self, wakeup: BorrowerWakeup) -> None:
        while (delivery := self._next(wakeup)) is not None:
            began = time.monotonic()
            result = self._call(delivery)
            wakeup.lends = time.monotonic() < began + PAUSE
            with self._core.lock:
                self._settle(delivery, *result)
                wakeup.look()

    def _next(self, wakeup: BorrowerWakeup) -> Delivery | None:
        """The next request; None when the responder is closed."""
        with self._core.lock:
            while not self.mailbox.closed:
                delivery = self.next()
                if delivery is not None:
                    self.begin(delivery)
                    if self.has_more:
                        self._call_another()
                    return delivery
                self._idle.append(wakeup)
                wakeup.wait_for_it(lambda: self.mailbox.waiting or self.mailbox.closed)
                if wakeup in self._idle:
                    self._idle.remove(wakeup)
        return None

    def _call(self, delivery: Delivery) -> _Result:
        try:
            result = self._handler(Request(delivery))
            if type(result) is not bytes and inspect.isawaitable(result):
                if inspect.iscoroutine(result):
                    result.close()
                raise TypeError("an awaitable, which nobody awaits here: give a plain function")
        except BaseException as error:
            if is_interrupt(error):
                self.mailbox.leave()
                interrupt_program()  # the thread that it would end is ours
                raise
            return None, error
        return result, None

    def _settle(self, delivery: Delivery, result: object, error: BaseException | None) -> None:
        self.end()
        if self.mailbox.closed:
            return
        if error is not None:
            refuse(self._core, delivery, error)
        else:
            answer(self._core, delivery, result)


class ThreadResponder(Responder):
    """A responder on threads of its own."""

    def __init__(self, core: ThreadCore, channel: str, key: str, handler: Responding, concurrency: int) -> None:
        self._mailbox = _ThreadCalls(core, channel, key, handler, concurrency).mailbox
