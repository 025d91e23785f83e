"""Events for threads: a blocking iterator, or a callback on a thread."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Protocol, TypeVar

from .._driver.ends import is_interrupt
from .._driver.events import EventFeed, EventsMissed, OnEvent, log_failure
from .._driver.threads import interrupt_program, start
from .interrupts import StepLock
from .iteration import BlockingIterator
from .waits import end_of
from .wire import Wakeup

E = TypeVar("E")


class ThreadCore(Protocol):
    """The part of an endpoint on threads that event iterators use."""

    @property
    def lock(self) -> StepLock: ...

    def wakeup(self) -> Wakeup: ...


class Events(BlockingIterator[E | EventsMissed]):
    """Iterator over events: `for event in endpoint.events()`. It ends with its endpoint, or by `close()`.

    It yields events that happen after its creation. It also ends after `timeout` seconds without an event, and may then
    be used again. Several threads may share one: each event goes to one of them.
    """

    _closed_text = "the events came to their end, by close() or with their instance: nothing more comes"

    def __init__(self, core: ThreadCore, feed: EventFeed[E], timeout: float | None = None) -> None:
        self._core = core
        self._feed = feed
        self._timeout = timeout
        self._wakeup = core.wakeup()
        self._left: deque[E | EventsMissed] = deque()  # taken, but not handed out because of Ctrl-C
        with core.lock:
            self._queue = feed.listen(self._wakeup)

    def _take(self, timeout: float | None) -> E | EventsMissed | None:
        end = end_of(timeout)
        event = None
        try:
            with self._core.lock:
                while (event := self._next_event()) is None and not self._queue.closed:
                    left = end - time.monotonic()
                    if left <= 0:
                        raise TimeoutError(f"after {timeout:g} s nothing has happened: go on")
                    if not self._wakeup.wait(left):
                        break
            return event
        except KeyboardInterrupt:
            if event is not None:  # taken, but not handed out because of Ctrl-C
                self._left.append(event)
            raise

    def _next_event(self) -> E | EventsMissed | None:
        return self._left.popleft() if self._left else self._queue.take()

    def close(self) -> None:
        """End the iterator. Events that came before can still be taken."""
        with self._core.lock:
            self._feed.leave(self._queue)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' (closed)' if self._queue.closed else ''}>"


def call_on_thread(core: ThreadCore, feed: EventFeed[E], function: OnEvent) -> None:
    """Call `function` for each event on a thread, one after the other, for as long as the endpoint is open."""
    events = Events(core, feed)

    def work() -> None:
        for event in events:
            try:
                function(event)
            except BaseException as error:
                if is_interrupt(error):
                    interrupt_program()
                    raise
                log_failure(event, error)

    start(threading.Thread(target=work, name="tolliver tells of events", daemon=True))
