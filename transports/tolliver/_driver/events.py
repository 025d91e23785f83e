"""Events of an endpoint, for any number of listeners.

Listeners read at different speeds, and a slow one must neither hold up the endpoint nor fill its memory. So each
listener has its own bounded queue, which keeps the newest events and counts the older ones that it dropped.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, Self, TypeVar
from weakref import WeakSet

from .adapter import AwaitableWakeup, Wakeup
from .ends import is_interrupt

E = TypeVar("E")
OnEvent = Callable[[Any], object]
"""A callback for events. On an event loop its result may be awaitable."""

KEPT = 1000
log = logging.getLogger("tolliver.events")


@dataclass(frozen=True, slots=True)
class EventsMissed:
    """Placeholder in a listener's events: it read too slowly, and `count` events at this place were dropped."""

    count: int


class EventQueue(Generic[E]):
    """Events for one listener, since the queue was created. Keeps the newest 1000."""

    def __init__(self, wakeup: Wakeup) -> None:
        self.wakeup = wakeup
        self.closed: bool = False
        self._events: deque[E] = deque(maxlen=KEPT)
        self._missed = 0

    def put(self, event: E) -> None:
        self._missed += len(self._events) == KEPT
        self._events.append(event)
        self.wakeup.set()

    def take(self) -> E | EventsMissed | None:
        """Remove and return the oldest event, or EventsMissed if events before it were dropped; None if the queue is
        empty."""
        if self._missed:
            missed, self._missed = EventsMissed(self._missed), 0
            return missed
        return self._events.popleft() if self._events else None

    def close(self) -> None:
        """Accept no more events. Those in the queue can still be taken."""
        self.closed = True
        self.wakeup.set()


class EventFeed(Generic[E]):
    """Distributes the events of one endpoint to its listeners. A queue without other references is dropped."""

    def __init__(self) -> None:
        self._queues: WeakSet[EventQueue[E]] = WeakSet()

    def listen(self, wakeup: Wakeup) -> EventQueue[E]:
        queue: EventQueue[E] = EventQueue(wakeup)
        self._queues.add(queue)
        return queue

    def tell(self, event: E) -> None:
        for queue in self._queues:
            queue.put(event)

    def leave(self, queue: EventQueue[E]) -> None:
        self._queues.discard(queue)
        queue.close()

    def close(self) -> None:
        """End all listeners, because the endpoint is closed."""
        for queue in [*self._queues]:
            self.leave(queue)


class AsyncCore(Protocol):
    """The core of an endpoint on an event loop, as event iterators need it."""

    def wakeup(self) -> AwaitableWakeup: ...

    def spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], object]: ...

    def is_outside(self, error: BaseException) -> bool: ...


class Events(Generic[E]):
    """Iterator over events: `async for event in endpoint.events()`. It ends with its endpoint, or by `close()`.

    It yields events that happen after its creation. Several tasks may share one: each event goes to one of them.
    """

    def __init__(self, core: AsyncCore, feed: EventFeed[E]) -> None:
        self._feed = feed
        self._wakeup = core.wakeup()
        self._queue = feed.listen(self._wakeup)

    async def __anext__(self) -> E | EventsMissed:
        while (event := self._queue.take()) is None:
            if self._queue.closed:
                raise StopAsyncIteration
            await self._wakeup.wait()
        return event

    def __aiter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iterator. Events that came before can still be taken."""
        self._feed.leave(self._queue)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{' (closed)' if self._queue.closed else ''}>"


def call_on_loop(core: AsyncCore, feed: EventFeed[E], function: OnEvent) -> None:
    """Call `function` for each event, one after the other, for as long as the endpoint is open."""
    core.spawn(partial(_call_each, core, Events(core, feed), function))


async def _call_each(core: AsyncCore, events: Events[E], function: OnEvent) -> None:
    async for event in events:
        ends_us = is_interrupt
        try:
            result = function(event)
            if isinstance(result, Awaitable):
                ends_us = core.is_outside
                await result
        except BaseException as error:
            if ends_us(error):
                raise
            log_failure(event, error)


def log_failure(event: object, error: BaseException) -> None:
    """Log that `on_event` raised `error` for this event. Later events are still delivered to it."""
    log.error("on_event raised for %.200r", event, exc_info=error)
