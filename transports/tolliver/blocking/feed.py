"""Outbound streams on threads, with a thread for each source.

A source may block for any time, and elements that it has yielded must not wait for it. So its thread only appends
elements to a list while it has credit, and the loop's thread sends them; it takes the machine's lock only when its
credit is used up. The list is shared without a lock, so it is never replaced: one thread appends at its end, the other
removes from its front, under the machine's lock.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import islice
from typing import Any, Protocol

from .._streams.publishing import OutboundCore, OutboundStream, Publication
from .interrupts import StepLock
from .waits import Work, working
from .wire import Wakeup


class ThreadOutboundCore(OutboundCore, Protocol):
    """The part of the streams' core that outbound streams on threads use."""

    @property
    def lock(self) -> StepLock: ...

    def wakeup(self) -> Wakeup: ...


class ThreadOutboundStream(OutboundStream):
    """A stream from a publication of ours to a subscriber. A thread runs its `run`, which reads the source; that
    returns soon after the stream's end, if the source does.
    """

    def __init__(
        self, core: ThreadOutboundCore, key: tuple[int, int], name: str, publication: Publication, grant: int
    ) -> None:
        self._waited = core.wakeup()
        super().__init__(core, key, name, publication, grant)
        self._core = core
        self._gathered: list[Any] = []
        self._flushing = False
        self._work = Work()

    def set(self) -> None:
        self._waited.set()

    def cancelled(self) -> None:
        super().cancelled()
        self._work.end()

    def run(self) -> None:
        with self._core.lock:  # the stream may have ended before its thread began
            if self.over:
                return
        try:
            with working(self._work):
                self._give()
        except BaseException as error:  # an error of application code ends only its own stream
            with self._core.lock:
                self.fail(error)
        else:
            with self._core.lock:
                self.complete()

    def flush(self) -> None:
        if self._flushing:  # nested: an element that cannot be sent is ending the stream
            return
        self._flushing = True
        self.listen()
        while gathered := self._gathered[:]:  # a loop, as appending to a list that is not empty requests no flush
            del self._gathered[: len(gathered)]
            self.pending = gathered
            super().flush()
        self._flushing = False

    def _give(self) -> None:
        source = self._open()
        elements = iter(source)
        try:
            with self._core.lock:
                self.begin(source)
            self._pull(elements)
        finally:
            close = getattr(elements, "close", None)
            if close is not None:
                close()

    def _open(self) -> Any:
        source = self._publication.open(self.name)
        if is_async(source):
            if inspect.iscoroutine(source):
                source.close()
            raise TypeError(f"the source of {self.name!r:.100} is async, which nobody awaits here")
        return source

    def _pull(self, elements: Iterator[Any]) -> None:
        encode, gathered = self._publication.encode, self._gathered
        while credit := self._wanted():
            for element in islice(elements, credit):
                encoded = element if encode is None else encode(element)
                gathered.append(encoded)
                if len(gathered) == 1:
                    self._core.flush_soon(self)
                if self.over:
                    return
                credit -= 1
                if self.is_enough(encoded):
                    break
            else:
                if credit:  # the source is at its end
                    return

    def _wanted(self) -> int:
        """Wait until elements may be pulled from the source; returns how many, 0 when the stream has ended."""
        with self._core.lock:
            self.look()
            self._core.run_actions()
            while not self.over:
                if wanted := self.look():
                    return wanted
                self._waited.wait()
            return 0


def is_async(source: Any) -> bool:
    """True for an async iterable, an awaitable, or a function that returns one: none can be used on threads."""
    if hasattr(source, "__iter__"):
        return False
    if hasattr(source, "__aiter__") or hasattr(source, "__await__"):
        return True
    functions = (source, type(source).__call__) if callable(source) else ()
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in functions)
