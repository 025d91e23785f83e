"""Events on Twisted: an async iterator, with Deferreds for single events."""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred

from .._driver import events
from .._driver.events import EventsMissed

E = TypeVar("E")


class Events(events.Events[E]):
    """Iterator over events: `async for`, or `next()` once for each. It ends with its endpoint, or by `close()`.

    It yields events that happen after its creation. Several tasks may share one: each event goes to one of them.
    """

    def next(self) -> Deferred[E | EventsMissed]:
        """Fires with the next event. Fails with StopAsyncIteration when the iterator was closed."""
        return Deferred.fromCoroutine(self.__anext__())
